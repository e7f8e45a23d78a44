package trace

import (
	"bytes"
	"testing"
)

// FuzzDigest: bytes are a digest that can be written again and used, or none.
func FuzzDigest(f *testing.F) {
	for _, n := range []int32{0, 1, 40} {
		d := new(Digest)
		for i := range n {
			d.Add(&Step{Index: i, Epoch: i / 20, Segment: i / 30, Samples: 8, Start: int64(i) * 1e6, End: int64(i+1) * 1e6, Busy: 6e5, Loss: 2})
		}
		var b bytes.Buffer
		if _, err := d.WriteTo(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Digest
		if d.UnmarshalBinary(b) != nil {
			return
		}
		var again bytes.Buffer
		if n, err := d.WriteTo(&again); err != nil || n != int64(len(b)) || again.Len() != len(b) || new(Digest).UnmarshalBinary(again.Bytes()) != nil {
			t.Fatalf("%d bytes are written as %d, which should be %d, %v", len(b), again.Len(), n, err)
		}
		for _, tally := range d.Tallies {
			_ = Quantile(0.5, &tally.Plain, &tally.Probed)
		}
		d.Add(&Step{Index: d.Last.Index, Segment: d.Last.Segment, Start: d.Last.End, End: d.Last.End + 1000})
		Restore(&Snapshot{Digest: d}).Snapshot(0, 0)
	})
}
