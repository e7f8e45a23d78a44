package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dev.gpustall/engine/trace"
)

// TestFullDisk: what was recorded is in the file or counted as unsaved, step by
// step and span by span, whether there is room again before the end or not.
func TestFullDisk(t *testing.T) {
	for _, freed := range []bool{false, true} {
		t.Run(fmt.Sprintf("freed %v", freed), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x"+Ext)
			st, err := Create(path, trace.Meta{ID: "x"})
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
			r, s := trace.NewRecorder(clock, 0), trace.NewSession(trace.Meta{})
			c := trace.NewCollector(r, s, nil, st)
			c.Start()
			tr := r.Track(trace.TrackCompute)
			noise := rand.New(rand.NewPCG(1, 1))
			steps, spans := int64(0), int64(0)
			record := func() {
				for range 40 {
					at := noise.Int64N(1 << 40)
					tr.Record(trace.Span{Start: at, End: at + noise.Int64N(1<<40), Step: int32(steps), Arg: noise.Uint32(), Kind: trace.KindCompute})
					spans++
				}
				r.Step(trace.Step{Index: int32(steps), Start: steps * 1e6, End: (steps + 1) * 1e6})
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
			if err := c.Stop(trace.Outcome{Status: "finished", Ended: 1 << 41}); err == nil {
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

// TestRoom: the room that is set aside has no name in the folder, and has its size.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	st, err := Create(filepath.Join(dir, "x"+Ext), trace.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	st.KeepRoom()
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
