package transform

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/loader"
)

// TestWords: two bytes in a word make what each makes by itself.
func TestWords(t *testing.T) {
	rng := loader.NewRNG(1, 2, 3)
	for range 300 {
		in, out := 1+rng.IntN(90), 1+rng.IntN(90)
		var z resizer
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
			s := &loader.Sample{W: size[0], H: size[1], C: 3, Pixels: bytes.Repeat([]byte{v}, 3*size[0]*size[1])}
			dst := make([]byte, 3*4)
			var z resizer
			z.resize(held(s), &job{c: rect{0, 0, s.W, s.H}, w: 2, h: 2, window: rect{0, 0, 2, 2}}, dst)
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

// TestNative: C makes, to the bit, what Go makes, of crops in any place, of any size,
// with windows and mirrored, normalised or not.
func TestNative(t *testing.T) {
	if !native {
		t.Skip("there is no C for this machine")
	}
	defer func() { native = true }()
	rng := loader.NewRNG(3, 2, 1)
	norm := NewNorm(imageNetMean, imageNetStd)
	if !norm.divides {
		t.Error("C does not normalise")
	}
	for range 400 {
		img := noise(1+rng.IntN(120), 1+rng.IntN(90))
		for i := range img.Pixels {
			if rng.IntN(2) == 0 {
				img.Pixels[i] = byte(255 * rng.IntN(2)) // sums at the limits
			}
		}
		j := job{w: 1 + rng.IntN(70), h: 1 + rng.IntN(70), mirrored: rng.IntN(2) == 0}
		j.c.x, j.c.y = rng.IntN(img.W), rng.IntN(img.H)
		j.c.w, j.c.h = 1+rng.IntN(img.W-j.c.x), 1+rng.IntN(img.H-j.c.y)
		j.window.x, j.window.y = rng.IntN(j.w), rng.IntN(j.h)
		j.window.w, j.window.h = 1+rng.IntN(j.w-j.window.x), 1+rng.IntN(j.h-j.window.y)
		n := j.window.w * j.window.h * 3
		var got [2]struct { // of C, of Go
			bytes  []byte
			floats []float32
		}
		var z resizer
		for i := range got {
			native = i == 0
			got[i].bytes, got[i].floats = make([]byte, n), make([]float32, n)
			z.resize(held(img), &j, got[i].bytes)
			z.normalised(held(img), &j, &norm, got[i].floats)
		}
		if !bytes.Equal(got[0].bytes, got[1].bytes) || !slices.Equal(got[0].floats, got[1].floats) {
			t.Fatalf("%d x %d, %+v: C makes something else", img.W, img.H, j)
		}
	}
}

// TestNeeds: of what a transform says it needs it makes what it makes of the whole.
func TestNeeds(t *testing.T) {
	img := noise(97, 61)
	for _, tr := range []*Pipeline{ImageNetTrain(24), eval(0, 24, ImageNet), eval(0, 90, ImageNet), Must("randomcrop(40,7)|rrc(30)", Input{}), Must("centercrop((20,99))", Input{})} {
		want, got := make([]float32, tr.h*tr.w*3), make([]float32, tr.h*tr.w*3)
		less := false
		for i := range 50 {
			rng := loader.NewRNG(1, 2, i)
			r := tr.Needs(img.W, img.H, rng)
			part := loader.Sample{W: img.W, H: img.H, C: 3, Part: r}
			for y := range r.H {
				at := ((r.Y+y)*img.W + r.X) * 3
				part.Pixels = append(part.Pixels, img.Pixels[at:at+3*r.W]...)
			}
			less = less || r.W*r.H < img.W*img.H*3/4
			again := rng
			tr.Host(img, &rng, want)
			tr.Host(&part, &again, got)
			if !slices.Equal(got, want) {
				t.Fatalf("%+v makes something else", r)
			}
		}
		if !less {
			t.Error("it always needs all")
		}
	}
}

// TestScratch: a result without room is a panic, not a write past its end, and scratch at
// rest holds nobody's pixels.
func TestScratch(t *testing.T) {
	tr, n := eval(0, 24, ImageNet), 24*24*3
	var rng loader.RNG
	for name, call := range map[string]func(room int){
		"host": func(room int) { tr.Host(noise(40, 30), &rng, make([]float32, n)[:room]) },
	} {
		panics := func(room int) (did bool) {
			defer func() { did = recover() != nil }()
			call(room)
			return false
		}
		if panics(n) || !panics(n-1) {
			t.Errorf("%s: one value too few is no panic, or the right number is one", name)
		}
	}
	if z := <-tr.free; z.pix != nil || z.in.pix != nil {
		t.Error("scratch holds pixels")
	}
}

// TestResizedTooLarge: a sample whose shape would take the machine's memory fails by itself.
func TestResizedTooLarge(t *testing.T) {
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "25600000x256") {
			t.Errorf("panic: %v", p)
		}
	}()
	var rng loader.RNG
	Must("resize(256)|hflip|centercrop(24)", Input{}).Host(noise(100_000, 1), &rng, make([]float32, 24*24*3))
}
