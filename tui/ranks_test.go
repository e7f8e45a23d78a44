package tui

import (
	"errors"
	"os/exec"
	"testing"

	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
	"dev.gpustall/tui/panel"
)

// TestRanks: each rank has a row, and the panel names the rank that the others wait
// for.
func TestRanks(t *testing.T) {
	run := demo.Session()
	var opened trace.Peer
	look := func(p trace.Peer) *exec.Cmd { opened = p; return exec.Command("true") }
	s := newScreen(t, run, Options{Control: run, Ranks: true, Rank: look}, 120, 36)
	s.press("9")
	s.mustShow("Ranks", "no rank ended a step")
	s.panels.ranks.Set(&panel.Findings{
		Ranks: []trace.Rank{{Rank: 0, Steps: 40, Wait: 4e8, Time: 8e9}, {Rank: 1, Steps: 41, Wait: 4e9, Time: 8e9}},
		Peers: []trace.Peer{{Rank: 1, Node: "node7", Waits: "transforming", Line: "aug.py:42 blur(img)"}},
		Node:  "node6",
		Still: map[int]int64{2: 42e9, 3: 43.5e9, 4: 0, 5: 12e9},
	})
	s.frame.dirty = true
	s.mustShow("5.0%", "50.0% !!", "200ms", "rank 1: transforming at aug.py:42 blur(img); it waits for data 50.0 %", "node6", "node7", "no step for 43 s: ranks 2-3; no step for 12 s: rank 5; nothing is known of rank 4", "all else is rank 0's")
	s.press("down")
	s.press("enter")
	s.mustShow("this is the screen of rank 0")
	s.press("up")
	s.press("enter")
	s.mustShow("rank 1 has no session of its own")
	of := trace.Peer{Rank: 1, Node: "node7", Session: "/s/rank1.gpustall"}
	s.panels.ranks.Set(&panel.Findings{Ranks: []trace.Rank{{Rank: 0, Steps: 40, Time: 8e9}, {Rank: 1, Steps: 41, Time: 8e9}}, Peers: []trace.Peer{of}})
	if s.press("enter"); opened != of {
		t.Errorf("enter opens %+v, want %+v", opened, of)
	}
	alone := newScreen(t, demo.Session(), Options{Control: run}, 120, 36)
	alone.mustHide("ranks")
	alone.send(analysedMsg{Findings: panel.Findings{Analysis: alone.session.analysis.Analysis, World: 2}}) // after an elastic restart
	alone.press("9")
	alone.mustShow("no rank ended a step")
}

// TestCapture: o asks for a capture, and says why it could not begin.
func TestCapture(t *testing.T) {
	run := demo.Session()
	asked := 0
	s := newScreen(t, run, Options{Control: run, Capture: func() error {
		if asked++; asked > 1 {
			return errors.New("a capture is under way")
		}
		return nil
	}}, 120, 36)
	s.press("o")
	s.mustShow("capturing a few steps")
	s.press("o")
	s.mustShow("a capture is under way")
	if asked != 2 {
		t.Errorf("it was asked for %d times", asked)
	}
}
