package transform

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/kernels/pixels"
	"dev.gpustall/loader"
)

// TestNormalisedInC: C and Go make the same floats of resized images, to the bit.
func TestNormalisedInC(t *testing.T) {
	inC := NewNorm(imageNetMean, imageNetStd)
	if !native {
		t.Skip("there is no C for this machine")
	}
	if !inC.divides {
		t.Error("C does not normalise")
	}
	inGo := inC
	inGo.divides = false
	for _, size := range [][2]int{{1, 1}, {7, 1}, {9, 3}, {64, 70}, {2000, 2}, {224, 3}} {
		var z scratch
		z.work = pixels.Job{Part: pixels.Rect{W: 61, H: 43}, W: size[0], H: size[1], Window: pixels.Rect{W: size[0], H: size[1]}}
		got, want := make([]float32, 3*size[0]*size[1]), make([]float32, 3*size[0]*size[1])
		z.normalised(held(noise(61, 43)), &inC, got)
		z.normalised(held(noise(61, 43)), &inGo, want)
		if !slices.Equal(got, want) {
			t.Errorf("%v: C makes something else", size)
		}
	}
}

// TestNeeds: a transform gives the same result for the part that it says it needs as for
// the whole image.
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

// TestScratch: a result without room panics instead of writing past its end. Unused scratch
// refers to no sample's pixels.
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
	if z := <-tr.free; z.in.pix != nil || z.Busy() {
		t.Error("scratch holds pixels")
	}
}

// TestResizedTooLarge: a sample whose resized form would exhaust memory fails alone.
func TestResizedTooLarge(t *testing.T) {
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "25600000x256") {
			t.Errorf("panic: %v", p)
		}
	}()
	var rng loader.RNG
	Must("resize(256)|hflip|centercrop(24)", Input{}).Host(noise(100_000, 1), &rng, make([]float32, 24*24*3))
}
