//go:build cuda && cgo && linux

package cuda

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"dev.gpustall/kernels"
)

// The messages to and from a tester, in this order: a greeting and an answer to it without a variant,
// then questions, each with an answer for every variant.

type greeting struct {
	Ordinal  int           // of the GPU
	Patience time.Duration // with a launch
}

// question asks to try variants of an operation. The first is what the others'
// results are compared with.
type question struct {
	Op      kernels.Op
	Configs []string
}

// answer is the result of a variant. Without a variant it answers the greeting, or the question as a
// whole.
type answer struct {
	Config string
	Time   time.Duration // of one launch
	Why    string        // what was wrong; empty when nothing was
	NoRoom bool
	Broken bool // nothing more can be tried in the process, which ends
}

// tester is a process that tries variants, one after the other. A variant can break the tester's
// GPU context, but not this process's.
type tester struct {
	ask     *gob.Encoder
	answers <-chan answer // closed when the process has ended or its output has
	end     func() error  // ends the process and returns how it ended
	kill    func()
}

// errTester is wrapped where there is no process to try variants in, and no variant is to blame.
var errTester = errors.New("there is no process to try kernels in")

// idleEnd is how long an idle tester may take to close its device.
const idleEnd = 3 * time.Second

func startTester(cmd *exec.Cmd, g greeting) (*tester, error) {
	in, questions, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTester, err)
	}
	heard, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTester, errors.Join(err, in.Close(), questions.Close()))
	}
	said := &LastWords{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = in, said, said, []*os.File{out}
	// The tester does not get the keys pressed for this process, and ends when this one does.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // Pdeathsig is sent when this thread ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	err = <-started
	_, _ = in.Close(), out.Close() // the process has its own
	if err != nil {
		_, _ = questions.Close(), heard.Close()
		return nil, fmt.Errorf("%w: %w", errTester, err)
	}
	answers := make(chan answer)
	go listen(heard, answers)
	t := &tester{ask: newEncoder(questions), answers: answers, kill: func() { _ = cmd.Process.Kill() }}
	t.end = sync.OnceValue(func() error {
		_ = questions.Close() // an idle tester then ends by itself
		timer := time.AfterFunc(idleEnd, t.kill)
		defer timer.Stop()
		for range answers {
		}
		err := <-ended
		_ = heard.Close()
		if last := said.Last(); err != nil && last != "" {
			err = fmt.Errorf("%w: %s", err, last)
		}
		return err
	})
	return t, t.greet(g)
}

// listen hands on a tester's answers until it ends.
func listen(heard io.Reader, answers chan<- answer) {
	defer close(answers)
	dec := gob.NewDecoder(heard)
	for {
		var a answer
		if dec.Decode(&a) != nil {
			return
		}
		answers <- a
	}
}

// newEncoder returns an encoder that knows the operations that have variants.
func newEncoder(w io.Writer) *gob.Encoder {
	gob.Register(kernels.ConvForward{})
	gob.Register(kernels.ConvBackwardData{})
	gob.Register(kernels.ConvBackwardWeight{})
	return gob.NewEncoder(w)
}

// greet tells the tester which GPU to open. That takes seconds where others use the GPU too.
func (t *tester) greet(g greeting) error {
	const opening = 30 * time.Second
	why := t.ask.Encode(g)
	if why == nil {
		a, err := t.hear(context.Background(), opening)
		if a.Why == "" && err == nil {
			return nil
		}
		if why = err; err == nil {
			why = errors.New(a.Why)
		}
	}
	t.kill()
	_ = t.end() // the reason is known already
	return fmt.Errorf("%w: %w", errTester, why)
}

// hear waits for an answer. Where the tester crashed or keeps silent, hear makes an answer that says
// that nothing more can be tried.
func (t *tester) hear(ctx context.Context, limit time.Duration) (answer, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a, ok := <-t.answers:
		if ok {
			return a, nil
		}
		return t.death()
	case <-timer.C:
		t.kill()
		return answer{Why: fmt.Sprintf("hangs: no word for %v", limit), Broken: true}, nil
	case <-ctx.Done():
		t.kill()
		return answer{}, ctx.Err()
	}
}

// death returns the answer for a tester that ended by itself. A tester that somebody ended says
// nothing about a variant, so that is an error.
func (t *tester) death() (answer, error) {
	err := t.end()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		switch s, _ := exit.Sys().(syscall.WaitStatus); s.Signal() {
		case syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
			return answer{}, fmt.Errorf("%w: it was ended from outside (%w)", errTester, err)
		}
	}
	if err == nil {
		err = errors.New("exit status 0")
	}
	return answer{Why: fmt.Sprintf("ended its process: %v", err), Broken: true}, nil
}

// try asks for the variants of q and calls tell with each answer. The last variant may have ended
// the tester.
func (t *tester) try(ctx context.Context, q question, limit time.Duration, tell func(answer)) error {
	if err := t.ask.Encode(q); err != nil {
		return fmt.Errorf("%w: %w", errTester, err)
	}
	for i, config := range q.Configs {
		a, err := t.hear(ctx, limit)
		if err != nil {
			return err
		}
		switch {
		case a.NoRoom:
			return errNoRoom
		case a.Config == "" && !a.Broken:
			return fmt.Errorf("%w: %s", errTester, a.Why)
		}
		a.Config = config
		tell(a)
		if a.Broken || i == 0 && a.Why != "" { // there is nothing to compare the others with
			return nil
		}
	}
	return nil
}
