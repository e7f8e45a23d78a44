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

// What a tester is told and what it tells, in this order: a greeting, an answer to it
// without a variant; then questions, each with an answer for every variant.

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

// answer is what came of a variant, or, without one, of the greeting or the question
// as a whole.
type answer struct {
	Config string
	Time   time.Duration // of one launch
	Why    string        // what was wrong; empty when nothing was
	NoRoom bool
	Broken bool // nothing more can be tried in the process: it ends
}

// tester is a process that tries variants, one after the other for as long as it
// lives. What one of them breaks is the tester's GPU context and not this process's.
type tester struct {
	ask     *gob.Encoder
	answers <-chan answer // closed when it has ended, or cannot say more
	end     func() error  // has it end, and says how it did
	kill    func()
}

// errTester is wrapped when there is no process to try variants in, for a reason that
// is none of theirs.
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
	// Keys pressed for this process are not for that one; and it ends when this one does.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the death that Pdeathsig speaks of is this thread's
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
		_ = questions.Close() // an idle one then ends by itself
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

// listen hands on what a tester tells until it ends.
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

// newEncoder knows the operations that have variants.
func newEncoder(w io.Writer) *gob.Encoder {
	gob.Register(kernels.ConvForward{})
	gob.Register(kernels.ConvBackwardData{})
	gob.Register(kernels.ConvBackwardWeight{})
	return gob.NewEncoder(w)
}

// greet says which GPU it is about. Opening it takes seconds where others use it too.
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
	_ = t.end() // why it is not to be used is known
	return fmt.Errorf("%w: %w", errTester, why)
}

// hear waits for an answer. One that says that nothing more can be tried is also what
// a tester that crashed or keeps silent would have given.
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

// death is the answer of a tester that ended by itself. One that somebody ended says
// nothing of a variant.
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

// try asks for the variants of q and tells of each as its answer comes. The last may
// be one that ended the tester.
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
