package pixels

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"dev.gpustall/kernels"
)

// TestWords: two bytes in a word make what each makes by itself.
func TestWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		in, out := 1+rng.IntN(90), 1+rng.IntN(90)
		var z Resizer
		z.cols.set(in, out, 0, out)
		z.rows.set(in, out, 0, out)
		row := func(n int) []byte {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(rng.Uint64())
				if rng.IntN(4) > 0 {
					b[i] = byte(255 * rng.IntN(2)) // sums at the limits
				}
			}
			return b
		}
		a, b := row(3*in+1), row(3*in+1)
		got, got2, want, want2 := make([]byte, 3*out), make([]byte, 3*out), make([]byte, 3*out), make([]byte, 3*out)
		z.horizontal(got, got2, a, b)
		z.cols.plain(want, a)
		z.cols.plain(want2, b)
		if !bytes.Equal(got, want) || !bytes.Equal(got2, want2) {
			t.Fatalf("rows of %d to %d pixels: words make something else", in, out)
		}
		// Columns 0 to 7 go through words, 8 to 14, the same ones again, do not.
		const stride = 15
		z.mid, z.stride = make([]byte, in*stride), stride
		for y := range in {
			copy(z.mid[y*stride:], row(8))
			copy(z.mid[y*stride+8:(y+1)*stride], z.mid[y*stride:])
		}
		dst := make([]byte, stride)
		for i := range out {
			z.vertical(dst, i)
			if !bytes.Equal(dst[:7], dst[8:]) {
				t.Fatalf("columns of %d to %d pixels: words make %v, bytes %v", in, out, dst[:7], dst[8:])
			}
		}
	}
}

// TestManyTaps: a strip of so many pixels that rounding of the weights adds up:
// white stays white, and grey its shade.
func TestManyTaps(t *testing.T) {
	for _, v := range []byte{255, 100} {
		for _, size := range [][2]int{{50_000, 2}, {2, 50_000}} {
			all := Rect{W: size[0], H: size[1]}
			dst := make([]byte, 3*4)
			var z Resizer
			z.Image(all, bytes.Repeat([]byte{v}, 3*all.W*all.H), &Job{Part: all, W: 2, H: 2, Window: Rect{W: 2, H: 2}}, dst)
			if max(z.cols.size, z.rows.size) <= wide {
				t.Fatal("not so many taps")
			}
			for _, got := range dst {
				if d := int(got) - int(v); d < -1 || d > 1 {
					t.Errorf("%v: %v of %d", size, dst, v)
					break
				}
			}
		}
	}
}

// TestResampled: C and Go give the reference's result to the bit. The crops lie in any place
// and have any size, with windows and mirrored, of an image or of its needed part.
func TestResampled(t *testing.T) {
	defer func(was bool) { native = was }(native)
	rng := rand.New(rand.NewPCG(3, 2))
	ways := []bool{false}
	if native {
		ways = append(ways, true)
	}
	compared := 0
	for range 400 {
		w, h := 1+rng.IntN(120), 1+rng.IntN(90)
		img := make([]byte, 3*w*h)
		for i := range img {
			img[i] = byte(rng.Uint32())
			if rng.IntN(2) == 0 {
				img[i] = byte(255 * rng.IntN(2)) // sums at the limits
			}
		}
		j := Job{W: 1 + rng.IntN(70), H: 1 + rng.IntN(70), Mirrored: rng.IntN(2) == 0}
		j.Part.X, j.Part.Y = rng.IntN(w), rng.IntN(h)
		j.Part.W, j.Part.H = 1+rng.IntN(w-j.Part.X), 1+rng.IntN(h-j.Part.Y)
		j.Window.X, j.Window.Y = rng.IntN(j.W), rng.IntN(j.H)
		j.Window.W, j.Window.H = 1+rng.IntN(j.W-j.Window.X), 1+rng.IntN(j.H-j.Window.Y)
		n := j.Window.W * j.Window.H * 3
		var z Resizer
		var got [][]byte
		for _, native = range ways {
			b := make([]byte, n)
			z.Image(Rect{W: w, H: h}, img, &j, b)
			got = append(got, b)
		}
		if !bytes.Equal(got[0], got[len(got)-1]) {
			t.Fatalf("%d x %d, %+v: C makes something else", w, h, j)
		}
		if z.cols.size > kernels.MaxTaps || z.rows.size > kernels.MaxTaps {
			continue
		}
		compared++
		want, mirrored := make([]byte, n), int32(0)
		if j.Mirrored {
			mirrored = 1
		}
		record := []int32{kernels.PartX: int32(j.Part.X), kernels.PartY: int32(j.Part.Y), kernels.PartW: int32(j.Part.W), kernels.PartH: int32(j.Part.H),
			kernels.ResizedW: int32(j.W), kernels.ResizedH: int32(j.H), kernels.WindowX: int32(j.Window.X), kernels.WindowY: int32(j.Window.Y),
			kernels.WindowW: int32(j.Window.W), kernels.WindowH: int32(j.Window.H), kernels.Mirrored: mirrored,
			kernels.HeldX: int32(-j.Part.X), kernels.HeldY: int32(-j.Part.Y), kernels.HeldW: int32(w), kernels.HeldH: int32(h)}
		op := kernels.Resample{N: 1, OutH: j.Window.H, OutW: j.Window.W, In: len(img), Record: kernels.Record{Words: len(record)}}
		op.Image(0, img, record, want)
		if !bytes.Equal(got[0], want) {
			t.Fatalf("%d x %d, %+v: the reference makes something else", w, h, j)
		}
	}
	if compared < 100 {
		t.Error("few were compared with the reference:", compared)
	}
}
