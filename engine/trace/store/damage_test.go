package store

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// childRun records steps until it is killed. Step i ends at the child's
// nanosecond i*10 ms and is announced then; the parent learns of it on stdout.
func childRun(path string) {
	r := trace.NewRecorder(trace.NewClock(), 0)
	s := trace.NewSession(trace.Meta{ID: "child"})
	st, err := Create(path, s.Meta())
	if err != nil {
		panic(err)
	}
	c := trace.NewCollector(r, s, nil, st)
	c.Start()
	r.Segment(trace.Segment{Index: 0, Knobs: []knob.Setting{{Name: "num_workers", Value: "3"}}})
	tr := r.Track(trace.TrackCompute)
	for i := int32(0); ; i++ {
		time.Sleep(10 * time.Millisecond)
		now := r.Now()
		tr.Record(trace.Span{Start: now - 1, End: now, Step: i, Kind: trace.KindCompute})
		r.Step(trace.Step{Index: i, Start: now - 1, End: now})
		if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
			return
		}
	}
}

func TestKilledRunLosesAtMostASecond(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x"+Ext)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2500 * time.Millisecond)
	running, err := Open(path) // while it is written by another process
	if err != nil {
		t.Error(err)
	} else if status := running.Snapshot(0, 0).Outcome.Status; status != "running" {
		t.Errorf("the status of a living run is %q", status)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	steps := out.Len()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	snap := s.Snapshot(minTime, maxTime)
	n := len(snap.Recent)
	if n == 0 || len(snap.Spans) != n || len(snap.Segments) != 1 {
		t.Fatalf("%d steps, %d spans, %d segments in the file; %d steps were run", n, len(snap.Spans), len(snap.Segments), steps)
	}
	if lost := steps - n; lost > 100 {
		t.Errorf("%d of %d steps of 10 ms are lost, more than a second", lost, steps)
	}
	t.Logf("%d of %d steps are in the file", n, steps)

	// Its last write grows old, and the run is known to be dead.
	st, err := openDB(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Exec(`UPDATE doc SET value = value - 60000, crc = NULL WHERE key = 'beat'`); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path); err != nil {
		t.Fatal(err)
	}
	if o := s.Snapshot(0, 0).Outcome; o.Status != "killed" || o.Ended < snap.Recent[n-1].End {
		t.Errorf("outcome of a killed run: %+v", o)
	}
}

// Every refusal is one sentence that names the file and the hint.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	data := someFile(t, dir)
	patch := func(at int, b ...byte) []byte {
		d := append([]byte(nil), data...)
		copy(d[at:], b)
		return d
	}
	for _, c := range []struct {
		name   string
		data   []byte
		sql    []string
		target error
		says   string
	}{
		{name: "empty", data: []byte{}, target: ErrNotSession, says: "an empty file"},
		{name: "text", data: []byte("epoch,loss\n1,2.3\n"), target: ErrNotSession, says: "pass a file that a run wrote"},
		{name: "short", data: data[:50], target: ErrDamaged, says: "restore a copy"},
		{name: "first page", data: data[:4096], target: ErrDamaged, says: "damaged"},
		{name: "half", data: data[:len(data)/2], target: ErrDamaged, says: ": the file is damaged or cut short; "},
		{name: "newer", data: patch(60, 0, 0, 0, 9), target: ErrNewer, says: "schema 9"},
		{name: "another program's", data: patch(68, 1, 2, 3, 4), target: ErrNotSession, says: "another program"},
		{name: "zeroed", data: patch(200, make([]byte, len(data)-200)...), target: ErrDamaged, says: "damaged"},
		{name: "no table", data: data, sql: []string{"DROP TABLE steps"}, target: ErrDamaged, says: "steps"},
		{name: "no meta", data: data, sql: []string{"DELETE FROM doc"}, target: ErrDamaged, says: "meta"},
		{name: "bad outcome", data: data, sql: []string{"UPDATE doc SET value='{' WHERE key='outcome'"}, target: ErrDamaged, says: "outcome"},
		{name: "bad number, no checksums", data: data, sql: []string{oldSteps, "UPDATE steps SET busy='much' WHERE idx=3"}, target: ErrDamaged, says: "busy"},
		{name: "bad stalls, no checksums", data: data, sql: []string{oldSteps, "UPDATE steps SET stalls='decode' WHERE idx=3"}, target: ErrDamaged, says: "step 3"},
		{name: "lost segment", data: data, sql: []string{"DELETE FROM segments"}, target: ErrDamaged, says: "segment 0"},
		{name: "huge index, no checksums", data: data, sql: []string{oldSteps, "UPDATE steps SET idx=1<<40 WHERE idx=3"}, target: ErrDamaged, says: "damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, c.name+Ext)
			if err := os.WriteFile(path, c.data, 0o644); err != nil {
				t.Fatal(err)
			}
			if c.sql != nil {
				alter(t, path, c.sql...)
			}
			_, err := Open(path)
			if !errors.Is(err, c.target) {
				t.Fatalf("got %v, want %v", err, c.target)
			}
			oneSentence(t, err, path)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
			t.Log(err)
		})
	}
	for name, path := range map[string]string{"missing": filepath.Join(dir, "no"), "folder": dir} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(path)
			oneSentence(t, err, path)
			if name == "missing" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v is not fs.ErrNotExist", err)
			}
			t.Log(err)
		})
	}
}

func oneSentence(t *testing.T, err error, path string) {
	t.Helper()
	switch {
	case err == nil:
		t.Fatal("no error")
	case strings.Contains(err.Error(), "\n"):
		t.Errorf("more than one line: %q", err)
	case strings.Count(err.Error(), path) != 1:
		t.Errorf("%q does not name the file once", err)
	case len(err.Error())-len(path) > 250:
		t.Errorf("long: %q", err)
	}
}

// TestDamagedChunkIsLeftOut: a damaged chunk costs its spans, and not the session.
func TestDamagedChunkIsLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	st, err := Create(path, trace.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := st.Write(someBatch(i*10, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := st.db.Exec(`UPDATE spans SET data = substr(data, 1, 20) || x'ffff' || substr(data, 23) WHERE id = 2`); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	snap := snapshotOf(s)
	if len(snap.Spans) != 160 || len(snap.Recent) != 30 {
		t.Errorf("%d spans and %d steps, want 160 and 30", len(snap.Spans), len(snap.Recent))
	}
	warned := false
	for _, n := range snap.Notes {
		warned = warned || n.Level == "warn" && strings.Contains(n.Text, "left out 1 of its span chunks")
	}
	if !warned {
		t.Errorf("nothing says so: %+v", snap.Notes)
	}
}

// A file keeps one step of each index.
func TestRepeatedStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	st, err := Create(path, trace.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		first, n int
		says     string
	}{{0, 10, ""}, {9, 2, "step 9 comes after step 9; number"}, {3, 1, "step 3 comes after step 9; number"}, {10, 10, ""}} {
		switch err := st.Write(someBatch(tt.first, tt.n)); {
		case tt.says == "" && err != nil:
			t.Error(err)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%v does not say %q", err, tt.says)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	// A file of another program's making may have some.
	alter(t, path, "CREATE TABLE twice AS SELECT * FROM steps", "INSERT INTO twice SELECT * FROM steps WHERE idx IN (3, 7)", "DROP TABLE steps", "ALTER TABLE twice RENAME TO steps")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	snap := snapshotOf(s)
	if snap.Total.Steps != 20 || len(snap.Damage) != 1 || !strings.Contains(snap.Damage[0], "left out 2 steps whose number an earlier step has") {
		t.Errorf("%d steps, and it says %q", snap.Total.Steps, snap.Damage)
	}
	n := 0
	for _, err := range (stepFile{path: path, mode: "mode=ro", told: true}).ReadSteps(0, 100) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 20 {
		t.Errorf("read %d steps, want 20", n)
	}
}

// A folder and a file that may only be read, as in an archive.
func TestOpenInAReadOnlyFolder(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write anywhere")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "x"+Ext)
	writeSome(t, path)
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	if _, err := Open(path); err != nil {
		t.Error(err)
	}
}

// Bits flip on disks: whatever they hit, Open answers. Whole files are no fuzz target,
// because SQLite takes milliseconds to read one; fuzz_test.go has what is read of them.
func TestOpenAfterBitFlips(t *testing.T) {
	dir := t.TempDir()
	data := someFile(t, dir)
	r := rand.New(rand.NewPCG(1, 2))
	opened, refused := 0, 0
	for range 400 {
		d := slices.Clone(data)
		for range 1 << r.IntN(8) {
			d[r.IntN(len(d))] ^= 1 << r.IntN(8)
		}
		path := filepath.Join(dir, "flipped"+Ext)
		if err := os.WriteFile(path, d, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err != nil {
			if strings.Contains(err.Error(), "panic") {
				t.Fatal(err)
			}
			oneSentence(t, err, path)
			refused++
		} else {
			opened++
		}
	}
	t.Logf("%d opened, %d refused", opened, refused)
	if refused == 0 {
		t.Error("no flip was noticed")
	}
}
