package command

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"dev.gpustall/loader/format/npy"
	"dev.gpustall/loader/synth"
)

// TestInspect: samples of each format are loaded, the rates are printed, and a broken sample is
// named.
func TestInspect(t *testing.T) {
	t.Parallel()
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

// TestChannelsLast: arrays whose channels seem to be last are pointed out by data inspect and by
// a model that refuses so many channels. A run with a modelled step points them out too, and its
// report says how they were read.
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
	if !strings.Contains(r.stdout, "2.48 KiB stored in all") { // 8 files of 128 + 189 bytes
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
