package trace

import (
	"slices"
	"testing"
)

// TestOpsAreBounded: of endless segments the rows of the first and of the newest stay,
// each with its last value, and spans find theirs by its ID.
func TestOpsAreBounded(t *testing.T) {
	s := NewSession(Meta{})
	const segments, each = 3 * MaxRows, 3
	var held []OpTime // a reader's, of halfway
	for g := range int32(segments) {
		b := Drained{Segments: []Segment{{Index: g}}}
		for calls := range int64(2) {
			b.Ops = b.Ops[:0]
			for i := range uint32(each) {
				b.Ops = append(b.Ops, OpTime{ID: uint32(g)*each + i, Segment: g, Calls: 1 + calls})
			}
			s.Add(&b)
			b.Segments = nil
		}
		if g == segments/2 {
			held = s.Snapshot(0, 0).Ops
		}
	}
	copied := slices.Clone(held)
	snap := s.Snapshot(0, 0)
	if len(snap.Ops) != MaxRows*each || len(snap.Segments) != MaxRows {
		t.Fatalf("%d rows of %d segments", len(snap.Ops), len(snap.Segments))
	}
	if !slices.Equal(held, copied) {
		t.Error("what a reader held was changed")
	}
	for _, id := range []uint32{0, FirstRows*each - 1, segments*each - 1} {
		if o := snap.Op(id); o == nil || o.ID != id || o.Segment != int32(id/each) || o.Calls != 2 {
			t.Errorf("row %d is %+v", id, o)
		}
	}
	if o := snap.Op(FirstRows * each); o != nil {
		t.Errorf("%+v is not forgotten", o)
	}
}

// TestMergeOps: rows that wait for the file are there once each.
func TestMergeOps(t *testing.T) {
	var b Drained
	for calls := range int64(100) {
		b.append(&Drained{Ops: []OpTime{{ID: 2, Calls: calls}, {ID: 7, Calls: calls}}})
		b.append(&Drained{Ops: []OpTime{{ID: 4, Calls: calls}}})
	}
	if want := []OpTime{{ID: 2, Calls: 99}, {ID: 4, Calls: 99}, {ID: 7, Calls: 99}}; !slices.Equal(b.Ops, want) {
		t.Errorf("%+v", b.Ops)
	}
}
