package store

import (
	"path/filepath"
	"testing"
	"time"

	"dev.gpustall/engine/trace"
)

// TestFollow: a session that is being written is seen to grow and to end, at most a few seconds
// after it does, and one that has ended is read once.
func TestFollow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x"+Ext)
	st, err := Create(path, trace.Meta{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	write := func(step int32) {
		t.Helper()
		end := int64(step+1) * 1e6
		if err := st.Write(&trace.Drained{Now: end, Steps: []trace.Step{{Index: step, Samples: 1, Start: end - 1e6, End: end}}}); err != nil {
			t.Fatal(err)
		}
	}
	write(0)
	f, err := Follow(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !f.Running() || f.Snapshot(0, 0).Total.Steps != 1 {
		t.Fatalf("running %v with %d steps, want a running session with one", f.Running(), f.Snapshot(0, 0).Total.Steps)
	}
	eventually := func(what string, so func() bool) {
		t.Helper()
		for begun := time.Now(); !so(); time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("%s was not seen", what)
			}
		}
	}
	write(1)
	eventually("the second step", func() bool { return f.Snapshot(0, 0).Total.Steps == 2 && f.Snapshot(0, 0).Now == 2e6 })
	if err := st.Finish(trace.Outcome{Status: "finished", Ended: 3e6}); err != nil {
		t.Fatal(err)
	}
	eventually("the end", func() bool { return !f.Running() && f.Snapshot(0, 0).Outcome.Ended == 3e6 })
	<-f.done // nothing reads on
}

// TestFollowRefuses: what Open refuses is refused at once.
func TestFollowRefuses(t *testing.T) {
	t.Parallel()
	if f, err := Follow(filepath.Join(t.TempDir(), "none"+Ext)); err == nil {
		f.Close()
		t.Error("a file that is not there was opened")
	}
}
