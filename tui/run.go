package tui

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/tui/canvas"
)

// Interrupted is the error of Run when a signal, or ctrl+c, ended it.
type Interrupted struct{ Signal os.Signal }

func (i Interrupted) Error() string { return "interrupted: " + i.Signal.String() }

// ExitCode is 128 plus the signal's number, as shells have it.
func (i Interrupted) ExitCode() int {
	if s, ok := i.Signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return 1
}

// Run shows the screen until the user quits, ctx is done or a signal ends it,
// and leaves the terminal as it was, whatever happens. It returns nil when the
// user quit, ctx's error, Interrupted for INT, TERM and HUP, and an error that
// wraps tea.ErrProgramPanic when drawing panicked.
func Run(ctx context.Context, o Options) error {
	o.NoColor = o.NoColor || canvas.Plain()
	m := New(o)
	m.shell = hasShell
	p := tea.NewProgram(m, tea.WithAltScreen(), tea.WithFPS(maxFPS), tea.WithoutSignalHandler())
	s := watch(ctx, p, awayFunc(o.Control))
	m.suspend = s.request
	_, err := p.Run()
	s.close()
	if o.Quit != nil && m.quit {
		o.Quit()
	}
	switch {
	case s.failure() != nil:
		return fmt.Errorf("show the screen: %w", s.failure())
	case err != nil:
		return fmt.Errorf("show the screen: %w", err)
	case s.caught() != nil:
		return Interrupted{s.caught()}
	case m.interrupted:
		return Interrupted{syscall.SIGINT}
	case m.quit:
		return nil
	}
	return ctx.Err()
}

// signals ends the program for ctx and for signals, and suspends it for TSTP and
// ctrl+z. Its goroutine lives until close.
type signals struct {
	p    *tea.Program
	sig  chan os.Signal
	stop chan os.Signal
	ask  chan struct{} // to suspend; has room for one
	away func(bool)    // told before the process stops and after it goes on
	done chan struct{}
	wg   sync.WaitGroup

	mu  sync.Mutex
	end os.Signal
	err error // of the goroutine itself
}

func watch(ctx context.Context, p *tea.Program, away func(bool)) *signals {
	s := &signals{
		p: p, sig: make(chan os.Signal, 4), stop: make(chan os.Signal, 1),
		ask: make(chan struct{}, 1), done: make(chan struct{}), away: away,
	}
	signal.Notify(s.sig, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	catchStop(s.stop)
	s.wg.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				s.fail(fmt.Errorf("wait for signals: panic: %v\n%s", r, debug.Stack()))
				p.Kill() // restores the terminal
			}
		}()
		s.loop(ctx)
	})
	return s
}

func (s *signals) loop(ctx context.Context) {
	for {
		select {
		case <-s.done:
			return
		case <-ctx.Done():
			s.p.Quit()
			return
		case sig := <-s.sig:
			s.mu.Lock()
			s.end = sig
			s.mu.Unlock()
			s.p.Quit()
			return
		case <-s.stop:
			s.p.Send(suspendMsg{})
		case <-s.ask:
			s.suspend()
		}
	}
}

// awayFunc tells a Control that wants to know when the process is suspended, so
// that it does not blame the training for the time.
func awayFunc(c Control) func(bool) {
	if s, ok := c.(interface{ Suspend(on bool) }); ok {
		return s.Suspend
	}
	return func(bool) {}
}

// request asks for a suspend, unless one is under way.
func (s *signals) request() {
	select {
	case s.ask <- struct{}{}:
	default:
	}
}

// suspendMsg asks the screen to suspend, as ctrl+z does.
type suspendMsg struct{}

func (s *signals) caught() os.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

func (s *signals) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *signals) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *signals) close() {
	signal.Stop(s.sig)
	signal.Stop(s.stop)
	close(s.done)
	s.wg.Wait()
}
