package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/tui/canvas"
)

// ErrInterrupted is the error of Run when ctrl+c ended it. A terminal in raw mode makes
// ctrl+c a key instead of a signal.
var ErrInterrupted = errors.New("interrupted by ctrl+c")

// Run shows the screen until the user quits or ctx is done, and leaves the terminal as it was,
// whatever happens. It returns nil if the user quit, or else ctx's error, ErrInterrupted, or an
// error that wraps tea.ErrProgramPanic if drawing panicked. The only signal that it handles is
// TSTP. For signals that end the process, the caller ends ctx.
func Run(ctx context.Context, o Options) error {
	o.NoColor = o.NoColor || canvas.Plain()
	m := New(o)
	m.exit.shell = HasShell
	var p *tea.Program
	options, asks := input(func(light bool) { p.Send(backgroundMsg(light)) })
	m.frame.asks = m.frame.asks && asks
	p = tea.NewProgram(m, append(options, tea.WithAltScreen(), tea.WithMouseCellMotion(), tea.WithFPS(maxFPS), tea.WithoutSignalHandler())...)
	w := watch(ctx, p, awayFunc(o.Control))
	m.exit.suspend = w.request
	_, err := p.Run()
	err = cmp.Or(w.close(), err)
	switch {
	case err != nil:
		return fmt.Errorf("show the screen: %w", err)
	case m.exit.interrupted:
		return ErrInterrupted
	case m.exit.quit:
		return nil
	}
	return ctx.Err()
}

// watcher ends the program with ctx, and suspends it for TSTP and ctrl+z. Its goroutine
// lives until close.
type watcher struct {
	p    *tea.Program
	stop chan os.Signal
	ask  chan struct{} // a request to suspend; has room for one
	away func(bool)    // called before the process stops and after it goes on
	done chan struct{}
	wg   sync.WaitGroup
	err  error // of the goroutine; read it after close
}

func watch(ctx context.Context, p *tea.Program, away func(bool)) *watcher {
	w := &watcher{p: p, stop: make(chan os.Signal, 1), ask: make(chan struct{}, 1), done: make(chan struct{}), away: away}
	catchStop(w.stop)
	w.wg.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				w.err = fmt.Errorf("wait for ctrl+z: panic: %v\n%s", r, debug.Stack())
				p.Kill() // restores the terminal
			}
		}()
		w.loop(ctx)
	})
	return w
}

func (w *watcher) loop(ctx context.Context) {
	for {
		select {
		case <-w.done:
			return
		case <-ctx.Done():
			w.p.Quit()
			return
		case <-w.stop:
			w.p.Send(suspendMsg{})
		case <-w.ask:
			w.suspend()
		}
	}
}

// awayFunc returns a function that tells a Control that the process is suspended, so that the
// time is not charged to the training. Not every Control wants to know.
func awayFunc(c Control) func(bool) {
	if s, ok := c.(interface{ Suspend(on bool) }); ok {
		return s.Suspend
	}
	return func(bool) {}
}

// request asks for a suspend, unless one is under way.
func (w *watcher) request() {
	select {
	case w.ask <- struct{}{}:
	default:
	}
}

// suspendMsg asks the screen to suspend, as ctrl+z does.
type suspendMsg struct{}

// close ends the goroutine and returns its error.
func (w *watcher) close() error {
	signal.Stop(w.stop)
	close(w.done)
	w.wg.Wait()
	return w.err
}
