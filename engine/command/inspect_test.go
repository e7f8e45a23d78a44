package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"dev.gpustall/loader"
	"dev.gpustall/loader/format"
	"dev.gpustall/loader/format/npy"
	"dev.gpustall/loader/synth"
)

// TestInspect: samples of either format are really loaded, their rates printed, and
// one that is broken is named.
func TestInspect(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	if err := synth.ImageFolder(t.Context(), dir, synth.Options{Samples: 40, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, tiny(t)} {
		r := gpustall(t, "data", "inspect", path)
		for _, line := range []string{`tried, spread over the set, on one thread; they decode to \d+x\d+`, `read +[\d,.]+ samples/s +[\d.]+ .B/s +(as the page cache stands|(cold|warm|partly warm): [\d.]+ % of the data was)`, `read again +[\d,.]+ samples/s`, `decode +[\d,.]+ samples/s +[\d.]+ .B/s`, `transform +[\d,.]+ samples/s`, `all +[\d,.]+ samples/s`} {
			if !regexp.MustCompile(`(?m)` + line).MatchString(r.stdout) {
				t.Errorf("no line like %q in\n%s%s", line, r.stdout, r.stderr)
			}
		}
	}
	images, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	if more, _ := filepath.Glob(filepath.Join(dir, "*", "*.*")); len(images) == 0 {
		images = more
	}
	if err != nil || len(images) == 0 {
		t.Fatal("no images: ", err)
	}
	broken := images[len(images)/2]
	if err := os.WriteFile(broken, []byte("no image"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := gpustall(t, "data", "inspect", dir)
	if r.code != 1 || !strings.Contains(r.stderr, filepath.Base(broken)) || !strings.Contains(r.stdout, "tried") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// TestChannelsLast: arrays whose channels seem to be last are told of by data inspect, by a model
// that refuses so many channels and by a run with a modelled step, whose report says what it took
// them for.
func TestChannelsLast(t *testing.T) {
	dir := t.TempDir()
	for i := range 8 {
		b := append(npy.AppendHeader(nil, npy.Uint8, npy.Shape{9, 7, 3}), make([]byte, 9*7*3)...)
		path := filepath.Join(dir, "ab"[i%2:i%2+1], strconv.Itoa(i)+".npy")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	const doubt = "if they are (H,W,C), put the channels first: save numpy.moveaxis(a, -1, 0)"
	r := gpustall(t, "data", "inspect", dir)
	if !strings.Contains(r.stdout, "uint8 (9,7,3) arrays, read as (C,H,W)") || !strings.Contains(r.stdout, doubt) {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if !strings.Contains(r.stdout, "2.48 KiB stored in all") { // 8 files of 128 and 189 bytes
		t.Errorf("no size: %s", r.stdout)
	}
	file := filepath.Join(t.TempDir(), "s.gpustall")
	if r = gpustall(t, "run", "--device", "cpu", "--data", dir); r.code != 2 || !strings.Contains(r.stderr, "not 9; ") || !strings.Contains(r.stderr, doubt) {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if r = gpustall(t, "run", "--device", "emu:unet3d-h100", "--data", dir, "--steps", "2", "--batch-size", "2", "--session", file); r.code != 0 || !strings.Contains(r.stderr, doubt) {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if r = gpustall(t, "report", file); !strings.Contains(r.stdout, "data files: uint8 (9,7,3) arrays, read as (C,H,W)") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
}

// TestSpread: all samples come up once, and the first few lie all over the set.
func TestSpread(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 999, 1000, 50_000} {
		seen, parts := make([]bool, n), map[int]bool{}
		for i := range n {
			at := spread(i, n)
			if seen[at] {
				t.Fatalf("%d of %d comes up twice", at, n)
			}
			if seen[at] = true; i < 20 {
				parts[at*10/n] = true
			}
		}
		if len(parts) != min(n, 10) {
			t.Errorf("the first 20 of %d lie in %d tenths", n, len(parts))
		}
	}
}

// TestInspectIsBounded: in samples, in time, and by the user.
func TestInspectIsBounded(t *testing.T) {
	ds, tf, err := format.Open(t.Context(), tiny(t), format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	if got, err := try(t.Context(), ds, tf, 7, time.Hour); err != nil || got.samples != 7 || got.read.bytes == 0 || got.decode.bytes != 7*3072 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := try(t.Context(), slow{ds}, tf, 1000, 50*time.Millisecond); err != nil || got.samples == 0 || got.samples > 10 {
		t.Errorf("%d samples of 10 ms in 50 ms, %v", got.samples, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := try(over, ds, tf, 7, time.Hour); err != nil && !errors.Is(err, context.Canceled) || got.samples != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestInspectPanics: a decoder that panics ends the trial with the sample's number.
func TestInspectPanics(t *testing.T) {
	ds, tf, err := format.Open(t.Context(), tiny(t), format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	got, err := try(t.Context(), panicking{ds}, tf, 10, time.Hour)
	if want := "decode sample "; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "panic: an index") || got.samples != 1 {
		t.Errorf("%d samples, %v", got.samples, err)
	}
}

// panicking is a data set whose decoder panics in its second half, in which the second sample
// that is tried lies.
type panicking struct{ loader.Dataset }

func (d panicking) Decode(s *loader.Sample) error {
	if s.Index >= d.Info().Samples/2 {
		panic("an index out of range")
	}
	return d.Dataset.Decode(s)
}

// slow is a data set whose reads take 10 ms.
type slow struct{ loader.Dataset }

func (d slow) Read(ctx context.Context, s *loader.Sample) error {
	time.Sleep(10 * time.Millisecond)
	return d.Dataset.Read(ctx, s)
}

// TestTransformFlags: what cannot be done to any image is refused before anything is opened.
func TestTransformFlags(t *testing.T) {
	for _, tt := range []struct {
		f    imageFlags
		want string
	}{
		{imageFlags{transform: "rrc(224)|hflip|normalize"}, ""},
		{imageFlags{size: 224}, ""},
		{imageFlags{size: 5000}, "choose 1 to 4096"},
		{imageFlags{transform: "rrc(8)", size: 8}, "leave one out"},
		{imageFlags{transform: "rrc(8)|hflap"}, "at character 8"},
	} {
		err := tt.f.check()
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || exitCode(err) != exitUsage) {
			t.Errorf("%+v: %v, want %q", tt.f, err, tt.want)
		}
		if tt.f.transform == "rrc(8)|hflap" && pointed(err) != "  rrc(8)|hflap\n         ^\n" {
			t.Errorf("it points so:\n%s", pointed(err))
		}
	}
}
