package tui

import (
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// The rates that + and - step through, in frames a second.
var rates = []int{1, 2, 5, 10, 15, 20, 30}

const maxFPS = 30

// pace is how often a frame is drawn.
type pace struct {
	fps   int
	ticks int // generation of the running tick; a change of the rate begins a new generation
}

// newPace makes a pace of fps frames a second, or of ten where fps is 0.
func newPace(fps int) pace {
	if fps <= 0 {
		fps = 10
	}
	return pace{fps: min(fps, maxFPS)}
}

type tickMsg struct {
	gen int
	now time.Time
}

// tick schedules the next frame. There is one tick at a time: a message of an older generation
// is ignored.
func (p *pace) tick() tea.Cmd {
	gen := p.ticks
	return tea.Tick(time.Second/time.Duration(p.fps), func(now time.Time) tea.Msg {
		return tickMsg{gen, now}
	})
}

// step moves by d among the rates, and returns the tick of the new rate.
func (p *pace) step(d int) tea.Cmd {
	i, exact := slices.BinarySearch(rates, p.fps)
	if d < 0 || exact {
		i += d
	}
	p.fps = rates[min(max(i, 0), len(rates)-1)]
	p.ticks++
	return p.tick()
}
