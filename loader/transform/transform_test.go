package transform

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
	"unsafe"

	"dev.gpustall/kernels/pixels"
	"dev.gpustall/loader"
)

var (
	_ loader.Transform = (*Crop)(nil)
	_ loader.Transform = (*Pipeline)(nil)
	_ loader.Cropper   = (*Pipeline)(nil)
	_ loader.Planar    = (*Pipeline)(nil)
)

// noise is the image of testdata/make.py.
func noise(w, h int) *loader.Sample {
	s := &loader.Sample{W: w, H: h, C: 3, Pixels: make([]byte, w*h*3)}
	state := uint32(1)
	for i := range s.Pixels {
		state = (state*1103515245 + 12345) & 0x7fffffff
		s.Pixels[i] = byte(state >> 16)
	}
	return s
}

// eval is the recipe without randomness, for images whose side is in (0: any).
func eval(in, side int, c Constants) *Pipeline {
	t, err := Must(fmt.Sprintf("rrc(%d)|hflip|normalize", side), Input{H: in, W: in, Constants: c}).Test()
	if err != nil {
		panic(err)
	}
	return t
}

// held is a whole image.
func held(s *loader.Sample) *image { return &image{s.W, s.H, s.Held(), s.Pixels} }

// augment does what the device does with Device's result (kernels.Augment). Output
// (i,j) of the unflipped image shows input (i+dy,j+dx), and zero outside. The flip
// mirrors that. Then every value, padding too, is normalised.
func augment(px []byte, h, w int, aug [4]int32, mean, std [4]float32) []float32 {
	out := make([]float32, h*w*3)
	for i := range h {
		for j := range w {
			from := j
			if aug[2] != 0 {
				from = w - 1 - j
			}
			y, x := i+int(aug[0]), from+int(aug[1])
			for c := range 3 {
				var v float32
				if y >= 0 && y < h && x >= 0 && x < w {
					v = float32(px[(y*w+x)*3+c])
				}
				out[(i*w+j)*3+c] = (v/255 - mean[c]) / std[c]
			}
		}
	}
	return out
}

// TestHostAgreesWithDevice: the same generator gives the same sample either way, if the device
// only shifts, flips and normalises. engine/train/prepared has the test of the other transforms.
func TestHostAgreesWithDevice(t *testing.T) {
	tests := []struct {
		name  string
		t     loader.Transform
		in    *loader.Sample
		h, w  int
		least int // different samples; 1: there is no randomness
	}{
		{"cifar train", CIFARTrain(), noise(32, 32), 32, 32, 100},
		{"cifar eval", eval(32, 32, CIFAR), noise(32, 32), 32, 32, 1},
		{"padding beyond the image", &Crop{Norm: NewNorm(cifarMean, cifarStd), Padding: 7, Flip: 0.5}, noise(5, 3), 3, 5, 30},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := make([]float32, tt.h*tt.w*3)
			px := make([]byte, tt.h*tt.w*3)
			mean, std := tt.t.Normalisation()
			aug := make([]int32, 4)
			flips, kinds := 0, map[[32]byte]bool{}
			const n = 200
			for i := range n {
				r1, r2 := loader.NewRNG(5, 1, i), loader.NewRNG(5, 1, i)
				tt.t.Host(tt.in, &r1, host)
				tt.t.Device(tt.in, &r2, px, aug)
				if r1 != r2 {
					t.Fatalf("sample %d: Host and Device drew differently", i)
				}
				flips += int(aug[2])
				want := augment(px, tt.h, tt.w, [4]int32(aug), mean, std)
				for k := range want {
					if host[k] != want[k] {
						t.Fatalf("sample %d, aug %v: value %d is %v on the host, %v on the device", i, aug, k, host[k], want[k])
					}
				}
				b, _ := json.Marshal(host)
				kinds[sha256.Sum256(b)] = true
			}
			if len(kinds) < tt.least || (tt.least == 1) != (len(kinds) == 1) {
				t.Errorf("%d different samples of %d, want at least %d", len(kinds), n, tt.least)
			}
			if tt.least > 1 && (flips < n/3 || flips > n*2/3) {
				t.Errorf("%d flips of %d", flips, n)
			}
		})
	}
}

// TestCropInC: C makes the same as Go for every crop and padding, and writes nothing after the
// image.
func TestCropInC(t *testing.T) {
	inC := Crop{Norm: NewNorm(cifarMean, cifarStd)}
	if !inC.divides {
		t.Skip("there is no C for this machine")
	}
	inGo := inC
	inGo.divides = false
	rng := loader.NewRNG(1, 2, 3)
	for range 2000 {
		w, h := 1+rng.IntN(40), 1+rng.IntN(5)
		dy, dx, flip := rng.IntN(2*h+3)-h-1, rng.IntN(2*w+3)-w-1, rng.IntN(2) == 1
		var got [2][]float32
		for i, c := range []*Crop{&inC, &inGo} {
			all := make([]float32, 3*w*h+50)
			c.write(noise(w, h).Pixels, w, h, dy, dx, flip, all[:3*w*h:3*w*h])
			got[i] = all
		}
		if !equal(got[0], got[1]) {
			t.Fatalf("%d x %d, dy %d, dx %d, flip %v: C makes something else", w, h, dy, dx, flip)
		}
	}
}

// TestInterleaveInC: C makes the pixels that Go makes.
func TestInterleaveInC(t *testing.T) {
	for _, pixels := range []int{0, 1, 31, 32, 64, 1024} {
		src, got, want := make([]byte, 3*pixels), make([]byte, 3*pixels), make([]byte, 3*pixels)
		for i := range src {
			src[i] = byte(i*7 + i>>8)
		}
		Interleave(got, src)
		interleave(want, src)
		if !bytes.Equal(got, want) {
			t.Errorf("%d pixels: other bytes than Go's", pixels)
		}
	}
}

// TestPlanesInC: C makes of planes what Go makes of pixels. It makes several images at once,
// with either instruction set, aligned or not.
func TestPlanesInC(t *testing.T) {
	inC := Crop{Norm: NewNorm(cifarMean, cifarStd), Flip: 0.5}
	if !inC.takesPlanes(planeWidth, 1) {
		t.Skip("there is no C for this machine")
	}
	defer func(was bool) { native512 = was }(native512)
	sets := []bool{false}
	if native512 {
		sets = append(sets, true)
	}
	rng := loader.NewRNG(1, 2, 3)
	for round := range 300 {
		rows, n := 1+rng.IntN(40), 1+rng.IntN(2*together)
		inC.Padding = rng.IntN(planeWidth)
		each := 3 * planeWidth * rows
		in, want := make([]loader.Sample, n), make([]float32, n*each)
		inGo := inC
		inGo.divides = false
		for i := range in {
			plane := planeWidth * rows
			s := noise(planeWidth, rows)
			s.Planes = make([]byte, 3*plane)
			for p := range s.Pixels {
				s.Pixels[p] = byte(rng.Uint64())
				s.Planes[p%3*plane+p/3] = s.Pixels[p]
			}
			s.Expect(nil, loader.NewRNG(1, round, i))
			if i%2 == 0 {
				s.Soon = s.Planes
			}
			draws := s.RNG()
			inGo.Host(s, &draws, want[i*each:(i+1)*each])
			in[i] = *s
		}
		for _, native512 = range sets {
			for _, from := range []int{0, 16 - round%16} {
				mem := make([]float32, n*each+80)
				at := -int(uintptr(unsafe.Pointer(&mem[0]))/4)&15 + from // from: a multiple of 64 bytes
				inC.hostPlanes(in, rows, mem[at:at+n*each:at+n*each])
				if !equal(mem[at:at+n*each], want) || !equal(mem[:at], make([]float32, at)) || !equal(mem[at+n*each:], make([]float32, 80-at)) {
					t.Fatalf("%d images of %d rows, padding %d, AVX-512 %v, %d off: C makes something else", n, rows, inC.Padding, native512, from)
				}
			}
		}
	}
	for _, size := range [][2]int{{31, 32}, {64, 32}} {
		if inC.takesPlanes(size[0], size[1]) {
			t.Errorf("it takes planes of %d x %d", size[0], size[1])
		}
	}
}

// TestCropOffsets: with padding 4 all 81 offsets come up.
func TestCropOffsets(t *testing.T) {
	tr, s := CIFARTrain(), noise(32, 32)
	seen := map[[2]int32]int{}
	px := make([]byte, 3072)
	for i := range 5000 {
		rng := loader.NewRNG(1, 0, i)
		var aug [4]int32
		tr.Device(s, &rng, px, aug[:])
		seen[[2]int32{aug[0], aug[1]}]++
	}
	if len(seen) != 81 {
		t.Errorf("%d offsets, want 81", len(seen))
	}
	for o := range seen {
		if o[0] < -4 || o[0] > 4 || o[1] < -4 || o[1] > 4 {
			t.Errorf("offset %v", o)
		}
	}
}

// TestNormValues against numbers worked out by hand: (v/255 - mean)/std.
func TestNormValues(t *testing.T) {
	s := &loader.Sample{H: 1, W: 1, C: 3, Pixels: []byte{0, 128, 255}}
	dst := make([]float32, 3)
	rng := loader.NewRNG(0, 0, 0)
	Must("normalize(cifar10)", Input{H: 1, W: 1}).Host(s, &rng, dst)
	for i, want := range []float64{-0.4914 / 0.2023, (128./255 - 0.4822) / 0.1994, (1 - 0.4465) / 0.2010} {
		if math.Abs(float64(dst[i])-want) > 1e-6 {
			t.Errorf("channel %d: %v, want %v", i, dst[i], want)
		}
	}
}

// TestResizeIsPILs compares with PIL's results, made by testdata/make.py.
func TestResizeIsPILs(t *testing.T) {
	b, err := os.ReadFile("testdata/resize.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Crop   [4]int
		W, H   int
		SHA256 string
	}
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	img := noise(61, 43)
	var z scratch
	for _, c := range cases {
		out := make([]byte, c.W*c.H*3)
		z.work = pixels.Job{Part: pixels.Rect{X: c.Crop[0], Y: c.Crop[1], W: c.Crop[2], H: c.Crop[3]}, W: c.W, H: c.H, Window: pixels.Rect{W: c.W, H: c.H}}
		z.resize(held(img), out)
		if sum := sha256.Sum256(out); hex.EncodeToString(sum[:]) != c.SHA256 {
			t.Errorf("crop %v to %dx%d differs from PIL's", c.Crop, c.W, c.H)
		}
	}
}

// TestResizeWindow: a window of the result equals the same part of the whole result.
func TestResizeWindow(t *testing.T) {
	img := noise(61, 43)
	var z scratch
	whole := make([]byte, 50*40*3)
	z.work = pixels.Job{Part: pixels.Rect{X: 2, Y: 3, W: 55, H: 39}, W: 50, H: 40, Window: pixels.Rect{W: 50, H: 40}}
	z.resize(held(img), whole)
	part := make([]byte, 20*10*3)
	z.work.Window = pixels.Rect{X: 13, Y: 17, W: 20, H: 10}
	z.resize(held(img), part)
	for y := range 10 {
		for x := range 60 {
			if part[y*60+x] != whole[((y+17)*50+13)*3+x] {
				t.Fatalf("row %d, byte %d differs", y, x)
			}
		}
	}
}

// TestCropBounds: crops lie inside the image, and their areas and shapes are in range.
func TestCropBounds(t *testing.T) {
	tr := &randomPart{[2]float64{0.08, 1}, [2]float64{3. / 4, 4. / 3}}
	for _, size := range [][2]int{{500, 375}, {1, 1}, {3000, 2}, {2, 3000}, {224, 224}} {
		w, h := size[0], size[1]
		for i := range 500 {
			rng := loader.NewRNG(9, 0, i)
			c := tr.draw(w, h, &rng)
			if c.X < 0 || c.Y < 0 || c.W < 1 || c.H < 1 || c.X+c.W > w || c.Y+c.H > h {
				t.Fatalf("%dx%d: crop %+v", w, h, c)
			}
			if w == 500 {
				area, ratio := float64(c.W*c.H)/float64(w*h), float64(c.W)/float64(c.H)
				if area < 0.075 || area > 1 || ratio < 0.73 || ratio > 1.36 {
					t.Fatalf("crop %+v: area %.3f, ratio %.3f", c, area, ratio)
				}
			}
		}
	}
}

func TestAllocs(t *testing.T) {
	for name, tt := range map[string]struct {
		t  *Pipeline
		in *loader.Sample
		n  int
	}{
		"cifar":    {CIFARTrain(), noise(32, 32), 3072},
		"imagenet": {ImageNetTrain(64), noise(100, 80), 64 * 64 * 3},
	} {
		at := loader.NewLayout(tt.t.Shape(loader.Info{}), 1, true)
		dst, px, aug := make([]float32, tt.n), make([]byte, at.Sample), make([]int32, at.Record)
		rng := loader.NewRNG(1, 2, 3)
		work := func() { tt.t.Host(tt.in, &rng, dst); tt.t.Device(tt.in, &rng, px, aug) }
		for range 200 { // until the scratch has its largest size
			work()
		}
		if n := testing.AllocsPerRun(100, work); n >= 1 {
			t.Errorf("%s: %v allocations a sample", name, n)
		}
	}
}

func benchmark(b *testing.B, t *Pipeline, in *loader.Sample, n int) {
	at := loader.NewLayout(t.Shape(loader.Info{}), 1, true)
	dst, px, aug := make([]float32, n), make([]byte, at.Sample), make([]int32, at.Record)
	var rng loader.RNG
	b.Run("host", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			rng = loader.NewRNG(1, 0, i)
			t.Host(in, &rng, dst)
		}
	})
	b.Run("device", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			rng = loader.NewRNG(1, 0, i)
			t.Device(in, &rng, px, aug)
		}
	})
}

func BenchmarkCIFARTrain(b *testing.B) { benchmark(b, CIFARTrain(), noise(32, 32), 3072) }
func BenchmarkImageNetTrain(b *testing.B) {
	benchmark(b, ImageNetTrain(224), noise(500, 375), 224*224*3)
}
