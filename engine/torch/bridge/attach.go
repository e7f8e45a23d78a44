//go:build linux

package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/torch/inject"
)

// leaving is the value of the page's word for a pause that lets an attached training go.
const leaving = 2

// How long a training is given to leave at its next batch, before it is asked as it was to begin; and then.
const (
	leavesSoon = 1500 * time.Millisecond
	leavesLate = 20 * time.Second
)

// importsFor is how long a module may be imported that does not train: a training may run in an import of its own.
const importsFor = 20 * time.Second

// asked is what a training is asked for.
type asked struct{ ends, sure bool }

// truth returns a truth value as Python writes it.
func truth(b bool) string { return map[bool]string{false: "False", true: "True"}[b] }

// Guest is a bridge to a training that ran already.
type Guest struct {
	*Bridge
	of *inject.Target
}

// Attach begins to watch a training that runs. It returns once the training is watched. If it takes long, it calls waits.
// A process that asked for it itself has nothing injected: it is told on tell what to run.
func Attach(ctx context.Context, to *Bridge, t *inject.Target, waits func(), tell io.Writer) (*Guest, error) {
	g := &Guest{to, t}
	err := g.attach(ctx, waits, tell)
	if ctx.Err() != nil { // it was asked for, and may begin just now
		g.Control.close()
		if said, _ := g.said(context.Background(), leavesSoon/10); err == nil || said == "watching" {
			_, _ = g.asks(context.Background(), asked{ends: true, sure: true}, leavesLate, func() {})
		}
		g.left = true
		err = ctx.Err()
	}
	return g, err
}

func (g *Guest) attach(ctx context.Context, waits func(), tell io.Writer) error {
	t := g.of
	if tell != nil {
		line, _ := json.Marshal(map[string]string{"run": g.injected(), "folder": g.shared, "package": g.Path()}) // texts only
		if _, err := fmt.Fprintf(tell, "%s\n", line); err != nil {
			return errs.Wrap(err, "tell", t.String(), "run it as %load_ext gpustall does")
		}
		return g.began(g.said(ctx, 0))
	}
	for _, dir := range []string{g.dir, g.shared} {
		if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Chown(path, t.UID, t.GID))
		}); err != nil {
			return errs.Wrap(err, "prepare", dir, "run gpustall as the training's user")
		}
	}
	for begun := time.Now(); ; {
		said, err := g.asks(ctx, asked{sure: time.Since(begun) > importsFor}, 0, waits)
		if said != "importing" {
			return g.began(said, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(PollAlone):
		}
	}
}

// began returns why a training is not watched, by what it said.
func (g *Guest) began(said string, err error) error {
	if err != nil || said == "watching" {
		return err
	}
	g.left = true
	if said == "watched" {
		return errs.New("attach to", "the training", "it was started by gpustall, or is watched already", "look at it with gpustall view")
	}
	return errs.New("attach to", "the training", strings.TrimPrefix(said, "failed "), "start it by gpustall torch")
}

// injected is the file that an attached training runs.
func (g *Guest) injected() string { return filepath.Join(g.Path(), "gpustall", "injected.py") }

// Detach leaves an attached training as it was. The folders go with Close.
func (g *Guest) Detach() error {
	ctx := context.Background()
	atomic.StoreUint64(g.Control.word(wordPaused), leaving)
	said, err := g.said(ctx, leavesSoon)
	for begun := time.Now(); err == nil && (said == "" || said == "importing") && time.Since(begun) < leavesLate; {
		said, err = g.asks(ctx, asked{ends: true, sure: time.Since(begun) > importsFor/2}, leavesLate, func() {})
	}
	if err == nil && said != "let go" {
		err = errs.New("let go", g.of.String(), "it runs no Python just now", "it is let go when it does, or ends")
	}
	for begun := time.Now(); err != nil && time.Since(begun) < leavesSoon; time.Sleep(100 * time.Millisecond) {
		if !lives(g.of.PID) { // it was about to end
			err = nil
		}
	}
	g.left = said == "let go"
	return err
}

// Runs reports whether a process has not ended.
func Runs(pid int) bool { return lives(pid) }

// asks asks a training to begin or to end, and returns what it said; nothing if it said nothing in time. If it takes long, it calls
// waits.
func (g *Guest) asks(ctx context.Context, a asked, limit time.Duration, waits func()) (string, error) {
	_ = os.Remove(g.saidFile())
	q := strconv.QuoteToASCII
	run := fmt.Sprintf("with open(%s) as f: exec(compile(f.read(), f.name, 'exec'), {'FOLDER': %s, 'PACKAGE': %s, 'ENDS': %s, 'SURE': %s})",
		q(g.injected()), q(g.shared), q(g.Path()), truth(a.ends), truth(a.sure))
	code := "try:\n exec(" + q(run) + ", {})\nexcept KeyboardInterrupt:\n __import__('_thread').interrupt_main()\nexcept BaseException:\n pass\n"
	if err := g.of.Run(ctx, g.dir, code); err != nil {
		return "", err
	}
	slow := time.AfterFunc(leavesSoon, waits)
	defer slow.Stop()
	return g.said(ctx, limit)
}

// saidFile is the file in which an attached training says that it is watched, or no more.
func (g *Guest) saidFile() string { return filepath.Join(g.shared, "said") }

// said waits for what a training says; for ever with no limit.
func (g *Guest) said(ctx context.Context, limit time.Duration) (string, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); limit == 0 || time.Since(begun) < limit; {
		if text, err := os.ReadFile(g.saidFile()); err == nil {
			_ = os.Remove(g.saidFile())
			return string(text), nil
		}
		if !lives(g.of.PID) {
			return "", errs.New("attach to", g.of.String(), "it has ended", "attach to one that runs")
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
		}
	}
	return "", nil
}
