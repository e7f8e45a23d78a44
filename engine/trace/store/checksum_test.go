package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// oldSteps makes a file's steps those of a gpustall without checksums.
const oldSteps = "ALTER TABLE steps DROP COLUMN crc"

func alter(t *testing.T, path string, queries ...string) {
	t.Helper()
	db, err := openDB(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range queries {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// someSession stores steps, two segments with knobs and ops.
func someSession(t *testing.T, path string) {
	t.Helper()
	b := someBatch(0, 50)
	b.Segments = []trace.Segment{
		{Index: 0, Knobs: []knob.Setting{{Name: "num_workers", Value: "2"}, {Name: "pin_memory", Value: "off"}}, Reason: "start"},
		{Index: 1, Start: 25e6, FirstStep: 25, Knobs: []knob.Setting{{Name: "num_workers", Value: "4"}}, Reason: "num_workers 2 -> 4", Predicted: trace.Prediction{Base: 100, Rate: 120, Lo: 110, Hi: 130}},
	}
	b.Ops = []trace.OpTime{
		{Name: "conv_forward", Layer: "conv1", Phase: "forward", Variant: "128x128", Calls: 50, Total: 123456, Min: 7, Max: 9, FLOPs: 1e9, Bytes: 2e6},
		{ID: 1, Segment: 1, Name: "sgd", Layer: "optimizer", Calls: 50, Total: 999, FLOPs: 5, Bytes: 7},
	}
	for i := range b.Steps {
		b.Steps[i].Stall[trace.CauseDecode] = int64(1000 + i)
		if i >= 40 {
			b.Steps[i].Work.Batch = trace.Split{Core: 7000 + int64(i)}
		}
	}
	b.Experiments = []trace.Experiment{{Kind: trace.Paired, First: 1, Last: 1, Pairs: []trace.Pair{{A: trace.Block{Steps: 20}}}}}
	b.Baseline = &trace.Baseline{Segment: 1, T: 30e6}
	b.Notes = []trace.Note{{T: 5, Level: "warn", Text: "workers wait for a core"}}
	b.Gauges = []trace.GaugePoint{{Name: trace.GaugeCPUIdle, Point: trace.Point{T: 6, V: 0.5}}}
	s := trace.NewSession(trace.Meta{ID: "x", Emulated: true})
	s.Add(b)
	if err := Save(path, s); err != nil {
		t.Fatal(err)
	}
}

// TestFlippedNumbers: a row that is not as it was written is noticed, told, and left out where the
// rest does not need it.
func TestFlippedNumbers(t *testing.T) {
	const steps, segment, ops = " of 50 steps that are not what was written, the first of them step ", "of segment 1 is not what was written", "left out 1 of its device ops"
	for _, tt := range []struct {
		name, query, says string
		steps, ops        int
	}{
		{"nothing", "SELECT 1", "", 50, 2},
		{"a time", "UPDATE steps SET busy = busy + 64 WHERE idx = 3", "left out 1" + steps + "3:", 49, 2},
		{"a loss", "UPDATE steps SET loss = 0.25 WHERE idx = 0", "left out 1" + steps + "0:", 49, 2},
		{"no loss", "UPDATE steps SET loss = NULL WHERE idx = 0", "left out 1" + steps + "0:", 49, 2},
		{"a stall", "UPDATE steps SET stalls = replace(stalls, '1007', '9007')", "left out 1" + steps + "7:", 49, 2},
		{"a cause", "UPDATE steps SET stalls = replace(stalls, 'decode', 'pin') WHERE idx > 47", "left out 2" + steps + "48:", 48, 2},
		{"no number", "UPDATE steps SET busy = 'much' WHERE idx = 3", "left out 1" + steps + "3:", 49, 2},
		{"no stalls", "UPDATE steps SET stalls = 'decode' WHERE idx = 3", "left out 1" + steps + "3:", 49, 2},
		{"a part of the work", "UPDATE steps SET work = replace(work, '7045', '9045')", "left out 1" + steps + "45:", 49, 2},
		{"work of a negative length", "UPDATE steps SET work = 'batch -1 0 0' WHERE idx = 45", "left out 1" + steps + "45:", 49, 2},
		{"an index", "UPDATE steps SET idx = 1 << 40 WHERE idx = 3", "left out 1" + steps + "50:", 49, 2},
		{"the checksum", "UPDATE steps SET crc = crc + 1 WHERE idx = 3", "left out 1" + steps + "3:", 49, 2},
		{"a step that is gone", "DELETE FROM steps WHERE idx = 3", "of 50 steps that were written 1 can no longer be found", 49, 2},
		{"a knob", "UPDATE knobs SET value = '8' WHERE segment = 1", segment, 50, 2},
		{"a knob that is gone", "DELETE FROM knobs WHERE segment = 1", segment, 50, 2},
		{"a prediction", "UPDATE segments SET predicted = replace(predicted, '120', '220') WHERE idx = 1", segment, 50, 2},
		{"a prediction that is gone", "UPDATE segments SET predicted = '' WHERE idx = 1", segment, 50, 2},
		{"who chose the knobs", "UPDATE segments SET by_script = 1 WHERE idx = 1", segment, 50, 2},
		{"a start", "UPDATE segments SET start = 0 WHERE idx = 1", segment, 50, 2},
		{"a kernel's time", "UPDATE ops SET total = 5 WHERE pos = 0", ops, 50, 1},
		{"a note", "UPDATE notes SET text = 'all is well'", "left out 1 of its notes", 50, 2},
		{"a note's level", "UPDATE notes SET level = 'info'", "left out 1 of its notes", 50, 2},
		{"a gauge's value", "UPDATE gauges SET v = v + 1", "left out 1 of its gauge samples", 50, 2},
		{"a gauge's name", "UPDATE gauges SET name = 'other'", "left out 1 of its gauge samples", 50, 2},
		{"a cause's name", "UPDATE names SET name = 'pin' WHERE enum = 'cause' AND name = 'decode'", "left out 1 of its names", 50, 2},
		{"a kind's number", "UPDATE names SET id = 99 WHERE enum = 'kind' AND name = 'read'", "left out 1 of its names", 50, 2},
		{"a number that is none", "UPDATE names SET id = 999 WHERE enum = 'kind' AND name = 'read'", "left out 1 of its names", 50, 2},
		{"the device", `UPDATE doc SET value = replace(value, '"Emulated":true', '"Emulated":false')`, "its meta record is not what was written: do not trust", 50, 2},
		{"the end", `UPDATE doc SET value = replace(value, '"running"', '"finished"')`, "its outcome record is not what was written: do not trust", 50, 2},
		{"the drops", "UPDATE doc SET value = '{\"3\":7}' WHERE key = 'drops'", "its drops record is not what was written", 50, 2},
		{"the time", "UPDATE doc SET value = value + 1 WHERE key = 'now'", "its now record is not what was written", 50, 2},
		{"how many steps", "UPDATE doc SET value = value + 1 WHERE key = 'steps'", "its steps record is not what was written", 50, 2},
		{"the last write", "UPDATE doc SET value = value + 1 WHERE key = 'beat'", "its beat record is not what was written", 50, 2},
		{"the baseline", `UPDATE doc SET value = replace(value, '"Segment":1', '"Segment":0') WHERE key = 'baseline'`, "its baseline record is not what was written", 50, 2},
		{"an experiment", `UPDATE experiments SET value = replace(value, '"Last":1', '"Last":9')`, "left out 1 of its experiments", 50, 2},
		{"a kernel's name", "UPDATE ops SET name = 'adam' WHERE pos = 1", ops, 50, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x"+Ext)
			someSession(t, path)
			alter(t, path, tt.query)
			s, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			snap := snapshotOf(s)
			if len(snap.Recent) != tt.steps || len(snap.Ops) != tt.ops {
				t.Errorf("%d steps and %d ops, want %d and %d", len(snap.Recent), len(snap.Ops), tt.steps, tt.ops)
			}
			warned := slices.ContainsFunc(snap.Notes, func(n trace.Note) bool {
				return n.Level == "warn" && strings.Contains(n.Text, "the session file is damaged: ")
			})
			text := fmt.Sprint(snap.Notes)
			if warned != (tt.says != "") || warned != (len(snap.Damage) > 0) || !strings.Contains(text, tt.says) {
				t.Errorf("the notes do not say %q: %v", tt.says, text)
			}
			if !slices.IsSortedFunc(snap.Notes, func(a, b trace.Note) int { return int(a.T - b.T) }) {
				t.Errorf("the notes are out of order: %v", text)
			}
		})
	}
}

// TestNoWork: a file from before worker time was split is read as before, with its checksums.
func TestNoWork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	someSession(t, path)
	alter(t, path, "DELETE FROM steps WHERE idx >= 40", "DELETE FROM doc WHERE key = 'steps'", "ALTER TABLE steps DROP COLUMN work", "DROP TABLE digest")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if snap := snapshotOf(s); len(snap.Recent) != 40 || len(snap.Damage) > 0 || snap.Total.Work.Measured() {
		t.Errorf("%d steps, damage %q, work %v", len(snap.Recent), snap.Damage, snap.Total.Work)
	}
}

// TestNoExperiments: a file from before there were experiments is read as before.
func TestNoExperiments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	someSession(t, path)
	alter(t, path, "DROP TABLE experiments")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if snap := snapshotOf(s); len(snap.Experiments)+len(snap.Damage) > 0 || len(snap.Segments) != 2 {
		t.Errorf("%v, %v, %d segments", snap.Experiments, snap.Damage, len(snap.Segments))
	}
}

// TestNoPrediction: a file from before there were predictions is read as before, with its
// checksums.
func TestNoPrediction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	someSession(t, path)
	alter(t, path, "DELETE FROM segments WHERE idx = 1", "DELETE FROM knobs WHERE segment = 1", "DELETE FROM steps WHERE segment = 1",
		"DELETE FROM doc WHERE key = 'steps'", "DELETE FROM ops WHERE segment = 1", "ALTER TABLE segments DROP COLUMN predicted", "DROP TABLE digest")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if snap := snapshotOf(s); len(snap.Segments) != 1 || len(snap.Damage) > 0 || snap.Segments[0].Predicted.Made() {
		t.Errorf("segments %+v, damage %q", snap.Segments, snap.Damage)
	}
}

// TestScriptByWords: an older file tells by the words of the reason which settings the script
// chose.
func TestScriptByWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	written := trace.NewSession(trace.Meta{ID: "x"})
	written.Add(&trace.Drained{Now: 2, Segments: []trace.Segment{{Reason: "start"}, {Index: 1, Start: 1, Reason: "num_workers 2 -> 4" + trace.ByScript}}})
	if err := Save(path, written); err != nil {
		t.Fatal(err)
	}
	alter(t, path, "ALTER TABLE segments DROP COLUMN by_script")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if snap := snapshotOf(s); len(snap.Segments) != 2 || len(snap.Damage) > 0 || snap.Segments[0].ByScript || !snap.Segments[1].ByScript {
		t.Errorf("segments %+v, damage %q", snap.Segments, snap.Damage)
	}
}

// TestNoChecksums: a file from before there were checksums is read as before, without complaint.
func TestNoChecksums(t *testing.T) {
	dir := t.TempDir()
	with, without := filepath.Join(dir, "with"+Ext), filepath.Join(dir, "without"+Ext)
	someSession(t, with)
	someSession(t, without)
	for _, table := range summedTables {
		alter(t, without, "ALTER TABLE "+table+" DROP COLUMN crc")
	}
	alter(t, without, "DELETE FROM doc WHERE key = 'steps'")
	var snaps [2]*trace.Snapshot
	for i, path := range []string{with, without} {
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		snaps[i] = snapshotOf(s)
	}
	if d := cmp.Diff(snaps[0], snaps[1], sameSnapshot); d != "" {
		t.Error(d)
	}
}

// Whatever single bit flips, steps, settings and ops are those that were written,
// or the session says that something is wrong, or does not open.
func TestNoFlipGoesUnnoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("it opens hundreds of damaged files, one after another: minutes under the race detector")
	}
	dir := t.TempDir()
	good := filepath.Join(dir, "good"+Ext)
	someSession(t, good)
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(good)
	if err != nil {
		t.Fatal(err)
	}
	want := snapshotOf(s)
	r := rand.New(rand.NewPCG(3, 4))
	noticed := 0
	for range 400 {
		at, bit := r.IntN(len(data)), byte(1)<<r.IntN(8)
		d := slices.Clone(data)
		d[at] ^= bit
		path := filepath.Join(dir, "flipped"+Ext)
		if err := os.WriteFile(path, d, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path)
		if err != nil {
			continue
		}
		got := snapshotOf(s)
		if len(got.Notes) > len(want.Notes) {
			noticed++
			continue
		}
		for _, part := range [][2]any{{want.Recent, got.Recent}, {want.Segments, got.Segments}, {want.Ops, got.Ops}} {
			if d := cmp.Diff(part[0], part[1], sameSnapshot); d != "" {
				t.Fatalf("bit %08b of byte %d: %s", bit, at, d)
			}
		}
	}
	t.Logf("%d flips were told", noticed)
	if noticed == 0 {
		t.Error("no flip was noticed")
	}
}
