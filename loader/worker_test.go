package loader

import "testing"

// lumpy is a data set whose samples are far larger than it says, like photographs.
// Sample i has size(i) bytes when decoded.
type lumpy struct {
	numbers
	size      func(i int) int
	out, most int // bytes decoded and not yet transformed
}

func (d *lumpy) Decode(s *Sample) error {
	n := d.size(s.Index)
	if cap(s.Pixels) < n {
		s.Pixels = make([]byte, n)
	}
	s.Pixels = s.Pixels[:n]
	s.H, s.W, s.C = fakeH, fakeW, fakeC
	copy(s.Pixels, s.Raw[:fakeH*fakeW*fakeC])
	d.out += n
	d.most = max(d.most, d.out)
	return nil
}

// TestScratchIsBounded: however large the samples are, a worker has about 4 MiB of them at a
// time, or one sample. It does not keep the memory of a huge one.
func TestScratchIsBounded(t *testing.T) {
	const mib = 1 << 20
	tests := []struct {
		name  string
		batch int
		size  func(i int) int
		most  int // decoded at once
		kept  int // between batches
		chunk int // samples that went through a phase together, in the end
	}{
		{"small", 256, func(int) int { return 1000 }, 16000, 20000, 16},
		{"photographs", 256, func(int) int { return mib }, 4 * mib, 20 * mib, 4},
		{"a large one at times", 256, func(i int) int { return mib/4 + i%100/99*40*mib }, 44 * mib, 64 * mib, 0},
		{"large", 16, func(int) int { return 40 * mib }, 40 * mib, 64 * mib, 1},
		{"huge", 16, func(int) int { return 100 * mib }, 100 * mib, 1000, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &lumpy{numbers: numbers{samples: 2 * tt.batch}, size: tt.size}
			done := 0
			tr := mix{onHost: func(i int) { d.out -= tt.size(i); done++ }}
			l := open(t, Options{Dataset: d, Transform: tr, Knobs: Knobs{BatchSize: tt.batch, InOrder: true}})
			for range 2 {
				b, err := l.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := checkContent(b, 0); err != nil {
					t.Error(err)
				}
				b.Release()
			}
			if done != 2*tt.batch {
				t.Errorf("%d samples were transformed, want %d", done, 2*tt.batch)
			}
			if d.most > tt.most+tt.most/8 {
				t.Errorf("%d bytes were decoded at once, want about %d", d.most, tt.most)
			}
			kept := 0
			for _, s := range l.pool.inline.scratch {
				kept += cap(s.Raw) + cap(s.Pixels)
			}
			if kept > tt.kept {
				t.Errorf("%d bytes are kept, want at most %d", kept, tt.kept)
			}
			if got := l.pool.inline.chunk(tt.batch, 1); tt.chunk > 0 && (got > tt.chunk || got < tt.chunk/2) {
				t.Errorf("chunks of %d, want about %d", got, tt.chunk)
			}
			if got := d.reads.Load(); got > int64(done+done/8) {
				t.Errorf("%d reads of %d samples", got, done)
			}
		})
	}
}
