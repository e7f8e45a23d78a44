package remote

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type run struct {
	asked   []knob.Setting
	err     error
	stopped int
	paused  bool
}

func (r *run) Begin(kind trace.ExperimentKind, knobs []knob.Setting) error {
	if kind != trace.Paired {
		return errors.New("no A/B test")
	}
	r.asked = knobs
	return r.err
}

func (r *run) Stop() { r.stopped++ }

func (r *run) Set(changes []knob.Setting) error {
	if r.err == nil {
		r.asked = changes
	}
	return r.err
}
func (r *run) Requested() []knob.Setting { return r.asked }
func (r *run) Pause(on bool)             { r.paused = on }
func (r *run) Paused() bool              { return r.paused }

func TestRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.gpustall")
	if err := os.WriteFile(file+ext, nil, 0o644); err != nil { // of a run that was killed
		t.Fatal(err)
	}
	r := &run{}
	s, err := Serve(file, r, r)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file + ext); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	c, err := Dial(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []knob.Setting{{Name: "num_workers", Value: "8"}}
	if err := c.Begin(trace.Paired, want); err != nil || cmp.Diff(want, r.asked) != "" {
		t.Errorf("%v, asked for %v", err, r.asked)
	}
	r.asked = nil
	if err := c.Set(want); err != nil || cmp.Diff(want, r.asked) != "" || cmp.Diff(want, c.Requested()) != "" {
		t.Errorf("%v, set to %v, told %v", err, r.asked, c.Requested())
	}
	c.Pause(true)
	for begun := time.Now(); !c.Paused(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the pause is not told")
		}
	}
	r.err = errors.New("another one is under way")
	if err := c.Begin(trace.Paired, want); err == nil || err.Error() != r.err.Error() {
		t.Errorf("%v, want %v", err, r.err)
	}
	if err := c.Set(want); err == nil || err.Error() != r.err.Error() {
		t.Errorf("%v, want %v", err, r.err)
	}
	if c.Stop(); r.stopped != 1 {
		t.Errorf("stopped %d times", r.stopped)
	}
	s.Close() // with a client that stays
	if err := c.Begin(trace.Paired, want); err == nil || !strings.Contains(err.Error(), "look whether the run has ended") {
		t.Errorf("after the end: %v", err)
	}
	c.Close()
	if _, err := os.Stat(file + ext); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
	if _, err := Dial(file); err == nil {
		t.Error("a run that has ended is reached")
	}
}

// TestLongNames: sessions of jobs have long names, in folders with long names, which may be named in other ways.
func TestLongNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", longest))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"s.gpustall", strings.Repeat("s", longest) + ".gpustall"} {
		r := &run{}
		s, err := Serve(filepath.Join(dir, name), r, r)
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir(dir)
		c, err := Dial(name)
		if err != nil {
			t.Fatal(err)
		}
		if c.Stop(); r.stopped != 1 {
			t.Errorf("%s: stopped %d times", name, r.stopped)
		}
		c.Close()
		s.Close()
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
