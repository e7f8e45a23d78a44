package trace

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestFullDisk: what was recorded is in the file or counted as unsaved, step by
// step and span by span, whether there is room again before the end or not.
func TestFullDisk(t *testing.T) {
	for _, freed := range []bool{false, true} {
		t.Run(fmt.Sprintf("freed %v", freed), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x"+Ext)
			st, err := CreateStore(path, Meta{ID: "x"})
			if err != nil {
				t.Fatal(err)
			}
			var pages int
			if err := st.db.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
				t.Fatal(err)
			}
			room := func(more int) {
				if _, err := st.db.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages+more)); err != nil {
					t.Fatal(err)
				}
			}
			room(8)
			clock := &manual{}
			r, s := NewRecorder(clock, 0), NewSession(Meta{})
			c := NewCollector(r, s, nil, st)
			c.Start()
			tr := r.Track(TrackCompute)
			noise := rand.New(rand.NewPCG(1, 1))
			steps, spans := int64(0), int64(0)
			record := func() {
				for range 40 {
					at := noise.Int64N(1 << 40)
					tr.Record(Span{Start: at, End: at + noise.Int64N(1<<40), Step: int32(steps), Arg: noise.Uint32(), Kind: KindCompute})
					spans++
				}
				r.Step(Step{Index: int32(steps), Start: steps * 1e6, End: (steps + 1) * 1e6})
				steps++
			}
			for c.Err() == nil {
				record()
				time.Sleep(time.Millisecond)
			}
			record()
			if live := s.Snapshot(0, 0).Outcome.Unsaved; live.Spans == 0 || live.To <= live.From {
				t.Errorf("while it runs, %+v is unsaved", live)
			}
			if freed {
				room(100_000)
			}
			if err := c.Stop(Outcome{Status: "finished", Ended: 1 << 41}); err == nil {
				t.Error("a full disk is no error")
			}
			live := s.Snapshot(minTime, maxTime)
			if int64(len(live.Recent)) != steps || int64(len(live.Spans)) != spans {
				t.Errorf("memory has %d steps and %d spans of %d and %d", len(live.Recent), len(live.Spans), steps, spans)
			}
			back, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			file := snapshotOf(back)
			u := live.Outcome.Unsaved
			if got := int64(len(file.Recent)) + u.Steps; got != steps {
				t.Errorf("%d steps in the file and %d unsaved, of %d", len(file.Recent), u.Steps, steps)
			}
			if got := int64(len(file.Spans)) + u.Spans; got != spans || u.Spans == 0 {
				t.Errorf("%d spans in the file and %d unsaved, of %d", len(file.Spans), u.Spans, spans)
			}
			if freed && (u.Steps > 0 || file.Outcome.Unsaved != u || file.Outcome.Status != "finished") {
				t.Errorf("the file says %+v, memory %+v", file.Outcome, u)
			}
			if len(file.Damage) > 0 {
				t.Errorf("the file is called damaged: %v", file.Damage)
			}
		})
	}
}

// TestWriteFailsBeforeTheEnd ends a run at each point at which a batch whose write
// failed can be: its steps are in the file or counted.
func TestWriteFailsBeforeTheEnd(t *testing.T) {
	const steps = 60
	const full = `CREATE TRIGGER full BEFORE INSERT ON steps BEGIN SELECT RAISE(ABORT, 'no room'); END`
	for _, at := range []struct {
		name  string
		until func(c *Collector) bool // the run ends; nil: there is no writer
	}{
		{"not handed over", nil},
		{"with the writer", func(c *Collector) bool { return c.Err() != nil }},
		{"handed back", func(c *Collector) bool { return c.Err() != nil && len(c.written) == 1 }},
	} {
		for _, mend := range []string{"room again", "still full", "panics"} {
			t.Run(at.name+", "+mend, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "x"+Ext)
				st, err := CreateStore(path, Meta{ID: "x"})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := st.db.Exec(full); err != nil {
					t.Fatal(err)
				}
				db := st.db
				r, s := NewRecorder(&manual{}, 0), NewSession(Meta{})
				c := NewCollector(r, s, nil, st)
				c.written <- new(batch) // as Start does; the drains are this test's
				record := func(from int32) {
					for i := range int32(steps / 2) {
						r.Step(Step{Index: from + i, Start: int64(from+i) * 1e6, End: int64(from+i+1) * 1e6})
					}
					c.drain()
				}
				record(0)
				c.offer()
				if at.until != nil {
					c.group.Go(c.writeLoop)
					for !at.until(c) {
						time.Sleep(time.Millisecond)
					}
				}
				record(steps / 2)
				switch mend {
				case "room again":
					if _, err := st.db.Exec(`DROP TRIGGER full`); err != nil {
						t.Fatal(err)
					}
				case "panics":
					t.Cleanup(func() { _ = db.Close() })
					st.db = nil
				}
				err = c.Stop(Outcome{Status: "finished", Ended: 1 << 41})
				if failed := mend != "room again" || at.until != nil; (err != nil) != failed {
					t.Errorf("the error is %v", err)
				}
				unsaved := s.Snapshot(0, 0).Outcome.Unsaved.Steps
				back, err := Open(path)
				if err != nil {
					t.Fatal(err)
				}
				stored := int64(len(snapshotOf(back).Recent))
				if stored+unsaved != steps {
					t.Errorf("%d steps in the file and %d unsaved, of %d", stored, unsaved, steps)
				}
				if mend == "room again" && unsaved > 0 {
					t.Errorf("%d steps are unsaved, though there is room", unsaved)
				}
			})
		}
	}
}

// The room set aside has no name in the folder, and its size.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	st, err := CreateStore(filepath.Join(dir, "x"+Ext), Meta{})
	if err != nil {
		t.Fatal(err)
	}
	st.keepRoom()
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files beside the session's", len(files)-1)
	}
	if st.room != nil {
		if info, err := st.room.Stat(); err != nil || info.Size() != reserve {
			t.Errorf("%v, %v", info, err)
		}
	}
	if err := st.Close(); err != nil || st.room != nil {
		t.Errorf("the room is kept after the end: %v", err)
	}
}
