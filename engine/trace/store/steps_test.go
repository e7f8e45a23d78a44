package store

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dev.gpustall/engine/trace"
)

// long writes a session of n steps, with a change every 10,000.
func long(tb testing.TB, path string, n int, end bool) {
	tb.Helper()
	st, err := Create(path, trace.Meta{ID: "long"})
	if err != nil {
		tb.Fatal(err)
	}
	for at := 0; at < n; {
		b := trace.Drained{Now: int64(at) * 1e6}
		for range min(1000, n-at) {
			s := trace.Step{Index: int32(at), Segment: int32(at / 10_000), Epoch: int32(at / 3000), Samples: 32, Start: int64(at) * 1e6, End: int64(at+1) * 1e6, Busy: 7e5}
			s.Stall[trace.CauseRead] = 3e5
			if at%10_000 == 0 {
				b.Segments = append(b.Segments, trace.Segment{Index: s.Segment, Start: s.Start, FirstStep: s.Index})
			}
			b.Steps = append(b.Steps, s)
			at++
		}
		if err := st.Write(&b); err != nil {
			tb.Fatal(err)
		}
	}
	if end {
		if err := st.Finish(trace.Outcome{Status: "finished", Ended: int64(n) * 1e6}); err != nil {
			tb.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		tb.Fatal(err)
	}
}

// TestLongSession opens a long session from its digest, which says what the steps do.
// It does so after a run that ended, after a run that was killed between two digests,
// and without the digest. The steps are still there, one by one.
func TestLongSession(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes and reads 65,500 steps five times, one after another: minutes under the race detector")
	}
	const n = 65_500
	for name, tt := range map[string]struct {
		end   bool
		query string // to alter the file
	}{
		"finished":           {end: true},
		"killed":             {},
		"no digest":          {query: "DROP TABLE digest"},
		"a damaged digest":   {query: "UPDATE digest SET crc = crc + 1"},
		"an earlier program": {query: "UPDATE digest SET data = x'00'"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x"+Ext)
			long(t, path, n, tt.end)
			if tt.query != "" {
				alter(t, path, tt.query)
			}
			s, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			snap := s.Snapshot(0, math.MaxInt64)
			var steps []trace.Step
			for st, err := range snap.Each(0, math.MaxInt32) {
				if err != nil {
					t.Fatal(err)
				}
				if int(st.Index) != len(steps) {
					t.Fatalf("step %d comes after %d", st.Index, len(steps)-1)
				}
				steps = append(steps, *st)
			}
			if len(steps) != n || len(snap.Recent) < trace.MaxRecent || len(snap.Recent) > 2*trace.MaxRecent {
				t.Fatalf("%d steps, %d of them in memory", len(steps), len(snap.Recent))
			}
			if d := cmp.Diff(*trace.Digested(steps), snap.Digest, sameSnapshot); d != "" {
				t.Error(d)
			}
			entries, err := Digests(filepath.Dir(path))
			if err != nil || len(entries) != 1 || entries[0].Err != nil {
				t.Fatalf("the list: %+v, %v", entries, err)
			}
			brief := entries[0].Session.Snapshot(0, 0)
			if d := cmp.Diff(snap.Digest, brief.Digest, sameSnapshot); d != "" || len(brief.Segments) != len(snap.Segments) {
				t.Errorf("%d segments of %d in the list; %s", len(brief.Segments), len(snap.Segments), d)
			}
			if len(snap.Damage) > 0 {
				t.Errorf("the file is called damaged: %v", snap.Damage)
			}
			if got, err := snap.FirstAfter(12_345e6); got != 12_345 || err != nil {
				t.Errorf("the first step that ends after 12,345 ms is %d, %v", got, err)
			}
			for _, at := range []int64{30_000e6, 65_000e6} {
				if last, err := snap.Before(at, 500); err != nil || len(last) != 500 || last[499].End != at {
					t.Errorf("%d steps before %d: %v", len(last), at, err)
				}
			}
			if part, err := snap.TallyUntil(3, 35_000e6); err != nil || part.All.Steps != 5000 {
				t.Errorf("%d steps of segment 3 until half of it, %v", part.All.Steps, err)
			}
		})
	}
}

// TestDamageFoundLate: a damaged step of a long session, which opening it does not
// read, is told when the steps are.
func TestDamageFoundLate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	long(t, path, 40_000, true)
	alter(t, path, "UPDATE steps SET busy = busy + 1 WHERE idx = 77")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range s.Snapshot(0, 0).Each(0, math.MaxInt32) {
		if err = e; e == nil {
			n++
		}
	}
	if n >= 40_000 || err == nil || !strings.Contains(err.Error(), "1 steps are not what was written") {
		t.Errorf("%d steps, and %v", n, err)
	}
}

// TestHostileSession: a session without an end is refused, and what is far too large is bounded.
func TestHostileSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	someSession(t, path)
	alter(t, path, `DROP TABLE notes; CREATE VIEW notes AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id+1 FROM n) SELECT id, id AS t, 'info' AS level, 'x' AS text FROM n`)
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "not a table") {
		t.Errorf("an endless view: %v", err)
	}
	alter(t, path, `DROP TABLE doc; CREATE VIEW doc AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id+1 FROM n) SELECT id AS key, 'x' AS value, NULL AS crc FROM n`)
	if entries, err := List(filepath.Dir(path)); err != nil || len(entries) != 1 || entries[0].Err == nil || !strings.Contains(entries[0].Err.Error(), "not a table") {
		t.Errorf("an endless view of documents: %v, %v", entries, err)
	}
	path = filepath.Join(t.TempDir(), "y"+Ext)
	someSession(t, path)
	alter(t, path, `WITH RECURSIVE n(id) AS (SELECT 10 UNION ALL SELECT id+1 FROM n WHERE id < 200000)
		INSERT INTO segments(idx, start, "end", first_step, reason, transition_steps, transition) SELECT id, id, 0, 0, 'x', 0, 0 FROM n`)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Snapshot(0, 0).Notes; len(n) != 1+1 || !strings.Contains(n[1].Text, "more than 1000 segments") {
		t.Errorf("it does not say that segments were forgotten: %v", n)
	}
	if g := s.Snapshot(0, 0).Segments; len(g) > trace.MaxRows || g[len(g)-1].Index != 200_000 || g[0].Index != 0 {
		t.Errorf("%d segments", len(g))
	}
}

// BenchmarkOpenLong opens a session of 200,000 steps.
func BenchmarkOpenLong(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x"+Ext)
	long(b, path, 200_000, true)
	for b.Loop() {
		if _, err := Open(path); err != nil {
			b.Fatal(err)
		}
	}
}
