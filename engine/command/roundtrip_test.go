package command

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/torch"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// TestRoundTrip: a recorded session, written as a Chrome trace and imported again, has the same
// steps, busy time, data wait and copies, to the nanosecond. Only causes that a trace cannot tell
// are lost: a pause becomes unknown.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	unpackSessions(t, dir)
	for _, name := range []string{"plain", "stragglers", "capture", "ceiling", "injected"} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(filepath.Join(dir, name+store.Ext))
			if err != nil {
				t.Fatal(err)
			}
			a := all(s)
			var out bytes.Buffer
			if err := report.Chrome(&out, a, report.Options{}); err != nil {
				t.Fatal(err)
			}
			b, err := torch.Import(context.Background(), &out, name+".json")
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Recent) == 0 || len(b.Recent) != len(a.Recent) {
				t.Fatalf("%d steps became %d", len(a.Recent), len(b.Recent))
			}
			zero := a.Recent[0].Start
			for i := range a.Recent {
				x, y := &a.Recent[i], &b.Recent[i]
				if x.Index != y.Index || x.Start-zero != y.Start || x.End-zero != y.End || x.Busy != y.Busy {
					t.Fatalf("step %d from %d to %d, busy %d ns, became step %d from %d to %d, busy %d ns",
						x.Index, x.Start-zero, x.End-zero, x.Busy, y.Index, y.Start, y.End, y.Busy)
				}
			}
			got := trace.Digested(b.Recent).Total
			if got.Busy != a.Total.Busy || got.Wall != a.Total.Wall {
				t.Errorf("%d ns busy of %d became %d of %d", a.Total.Busy, a.Total.Wall, got.Busy, got.Wall)
			}
			var wait int64 // including the wait for a batch that the run did not compute
			for _, sp := range a.Spans {
				if sp.Kind == trace.KindNext {
					wait += max(0, min(sp.End, a.Last.End)-max(sp.Start, zero))
				}
			}
			b.Digest = *trace.Digested(b.Recent)
			labels := append(advice.Keys(advice.Labels(a, nil)), "imported")
			if got := advice.Keys(advice.Labels(b, nil)); !slices.Equal(got, labels) {
				t.Errorf("the labels %v became %v", labels, got)
			}
			if got.Wait != wait || wait < a.Total.Wait || wait > a.Total.Wait*102/100 {
				t.Errorf("a wait for data of %d ns became %d ns; its spans are %d ns", a.Total.Wait, got.Wait, wait)
			}
		})
	}
}
