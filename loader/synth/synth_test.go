package synth

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"dev.gpustall/loader"
	"dev.gpustall/loader/format/cifar"
	"dev.gpustall/loader/format/imagefolder"
	"dev.gpustall/loader/synth/marker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCIFAR10: the formats are read back, agree with each other, and are balanced.
func TestCIFAR10(t *testing.T) {
	dir := t.TempDir()
	bin, py := filepath.Join(dir, "a", "bin"), filepath.Join(dir, "py")
	ctx := context.Background()
	calls, last := 0, 0
	o := Options{Samples: 103, Test: 20, Seed: 3, Progress: func(done, total int) {
		if total != 123 || done <= last {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		calls, last = calls+1, done
	}}
	if err := CIFAR10(ctx, bin, o); err != nil {
		t.Fatal(err)
	}
	if calls == 0 || last != 123 {
		t.Errorf("progress ended at %d after %d calls", last, calls)
	}
	o.Progress = nil
	if err := CIFAR10Python(ctx, py, o); err != nil {
		t.Fatal(err)
	}
	for _, open := range []func(string) (*cifar.Dataset, error){cifar.Open, cifar.OpenTest} {
		a, err := open(bin)
		if err != nil {
			t.Fatal(err)
		}
		b, err := open(py)
		if err != nil {
			t.Fatal(err)
		}
		if ai, bi := a.Info(), b.Info(); !ai.Synthetic || !bi.Synthetic || ai.Samples != bi.Samples || ai.Classes[3] != "disc" || bi.Classes[3] != "disc" {
			t.Errorf("infos %+v, %+v", ai, bi)
		}
		counts := map[int32]int{}
		var s, u loader.Sample
		for i := range a.Info().Samples {
			s.Index, u.Index = i, i
			if err := errors.Join(a.Read(ctx, &s), b.Read(ctx, &u)); err != nil {
				t.Fatal(err)
			}
			if s.Label != u.Label || !bytes.Equal(s.Raw, u.Raw) {
				t.Fatalf("sample %d differs between the versions", i)
			}
			counts[s.Label]++
		}
		if len(counts) != 10 || counts[0] < a.Info().Samples/10 {
			t.Errorf("labels %v", counts)
		}
	}
}

// TestDeterministic: the same options give the same bytes. Another seed gives others.
func TestDeterministic(t *testing.T) {
	dir := t.TempDir()
	read := func(name string, seed int64) string {
		d := filepath.Join(dir, name)
		if err := CIFAR10(context.Background(), d, Options{Samples: 150, Test: 10, Seed: seed}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(d, "data_batch_2.bin"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	a := read("a", 1)
	if read("b", 1) != a {
		t.Error("the same seed gives other bytes")
	}
	if read("c", 2) == a {
		t.Error("another seed gives the same bytes")
	}
}

func TestImageFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	ctx := context.Background()
	if err := ImageFolder(ctx, dir, Options{Samples: 20, Test: 10, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "train")} {
		d, err := imagefolder.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		in := d.Info()
		if in.Samples != 20 || !in.Synthetic || len(in.Classes) != 10 || in.Classes[0] != "checkerboard" {
			t.Errorf("Info = %+v", in)
		}
		pngs := 0
		for i := range in.Samples {
			s := loader.Sample{Index: i}
			if err := errors.Join(d.Read(ctx, &s), d.Decode(&s)); err != nil {
				t.Fatal(err)
			}
			if s.W < minSide || s.W > maxSide || s.H < minSide || s.H > maxSide || len(s.Pixels) != s.W*s.H*3 {
				t.Errorf("image %d is %d x %d", i, s.W, s.H)
			}
			if !strings.Contains(d.Path(i), ClassNames[s.Label]) {
				t.Errorf("%s has label %d", d.Path(i), s.Label)
			}
			if filepath.Ext(d.Path(i)) == ".png" {
				pngs++
			}
		}
		if pngs != 2 {
			t.Errorf("%d PNGs", pngs)
		}
	}
}

// TestCancel: a cancelled call leaves nothing behind.
func TestCancel(t *testing.T) {
	parent := t.TempDir()
	for name, make := range map[string]func(context.Context, string, Options) error{
		"cifar10": CIFAR10, "python": CIFAR10Python, "imagefolder": ImageFolder, "shards": Shards, "clips": Clips, "array": Array,
		"records": func(ctx context.Context, dir string, o Options) error { return Records(ctx, dir, 10, o) },
	} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		n := 0
		err := make(ctx, filepath.Join(parent, name), Options{Samples: 2000, Progress: func(int, int) {
			if n++; n == 2 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestErrors(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	small := Options{Samples: 10, Test: 10}
	for want, err := range map[string]error{
		"not empty":        CIFAR10(ctx, dir, small),
		"not a directory":  CIFAR10(ctx, filepath.Join(dir, "mine", "x"), small),
		"3 samples":        CIFAR10(ctx, filepath.Join(dir, "x"), Options{Samples: 3}),
		"-1 samples":       ImageFolder(ctx, filepath.Join(dir, "x"), Options{Test: -1}),
		"30000 samples":    CIFAR10Python(ctx, filepath.Join(dir, "x"), Options{Samples: 30000}),
		"0 records":        Records(ctx, filepath.Join(dir, "x"), 5, Options{}),
		"ask for 10 to 10": CIFAR10(ctx, filepath.Join(dir, "x"), Options{Samples: maxSamples + 1}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// TestRace: of two calls at once, the second finds the same data and succeeds.
func TestRace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	m := marker.Marker{Format: "x", Samples: 1}
	err := publish(dir, m, func(string) error {
		return publish(dir, m, func(tmp string) error { return os.WriteFile(filepath.Join(tmp, "a"), nil, 0o644) })
	})
	if err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPanicIsAnError(t *testing.T) {
	err := parallel(context.Background(), 10, 1, func(from, _ int) error {
		if from == 5 {
			panic("boom")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("err = %v", err)
	}
}

// TestNotTrivial: colour alone tells a little, and edges tell much. The test takes the
// nearest class mean of 1000 images, and judges it on 500 others. Chance is 10 %.
func TestNotTrivial(t *testing.T) {
	colour := accuracy(t, func(px []byte) []float64 {
		f := make([]float64, 6)
		for i, v := range px {
			f[i%3] += float64(v) / 1024
			f[3+i%3] += float64(v) * float64(v) / 1024 / 255
		}
		return f
	})
	edges := accuracy(t, orientations)
	t.Logf("colour %.3f, edges %.3f", colour, edges)
	if colour > 0.3 {
		t.Errorf("colour alone classifies %.0f %%", 100*colour)
	}
	if edges < 0.5 {
		t.Errorf("edge orientations classify only %.0f %%", 100*edges)
	}
}

// orientations returns a histogram of gradient directions, weighted by strength.
func orientations(px []byte) []float64 {
	f := make([]float64, 12)
	total := 0.0
	at := func(x, y int) float64 {
		i := (y*32 + x) * 3
		return float64(px[i]) + float64(px[i+1]) + float64(px[i+2])
	}
	for y := 1; y < 31; y++ {
		for x := 1; x < 31; x++ {
			dx, dy := at(x+1, y)-at(x-1, y), at(x, y+1)-at(x, y-1)
			m := dx*dx + dy*dy
			a := math.Mod(math.Atan2(dy, dx)+2*math.Pi, math.Pi) / math.Pi
			f[min(int(a*12), 11)] += m
			total += m
		}
	}
	for i := range f {
		f[i] = math.Sqrt(f[i] / total)
	}
	return f
}

func accuracy(t *testing.T, features func([]byte) []float64) float64 {
	t.Helper()
	image := func(split, i int) (int, []float64) {
		class := label(1, split, i)
		rng := loader.NewRNG(1, split, i)
		pic := newPicture(class, &rng)
		px := make([]byte, cifarPixels)
		pic.draw(px, 32, 32, &rng)
		return class, features(px)
	}
	var mean [Classes][]float64
	for i := range 1000 {
		c, f := image(splitTrain, i)
		if mean[c] == nil {
			mean[c] = make([]float64, len(f))
		}
		for k, v := range f {
			mean[c][k] += v / 100
		}
	}
	hits := 0
	for i := range 500 {
		c, f := image(splitTest, i)
		best, least := 0, math.Inf(1)
		for k := range mean {
			d := 0.0
			for j, v := range f {
				d += (v - mean[k][j]) * (v - mean[k][j])
			}
			if d < least {
				best, least = k, d
			}
		}
		if best == c {
			hits++
		}
	}
	return float64(hits) / 500
}

func BenchmarkPicture(b *testing.B) {
	px := make([]byte, cifarPixels)
	for i := range b.N {
		rng := loader.NewRNG(1, 0, i)
		pic := newPicture(i%Classes, &rng)
		pic.draw(px, 32, 32, &rng)
	}
}
