package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// script stands for this program or for a tool.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// A tile that breaks its process costs itself alone and is said at once.
func TestProbe(t *testing.T) {
	c, out := newCheck(t)
	c.self = script(t, c.dir, "self", `
case "$2 $3" in
probe-list*) echo '[{"direction": "conv_forward", "variant": "wgmma1"}, {"direction": "conv_forward", "variant": "wgmma2"}, {"direction": "conv_forward", "variant": "mma1"}]' ;;
*wgmma1*) echo "CUDA_ERROR_ILLEGAL_ADDRESS" >&2; exit 1 ;;
*wgmma2*) echo '{"variant": "wgmma2", "wrong": "it computes y as NaN"}' ;;
*) echo '{"variant": "mma1", "us": 12}' ;;
esac
`)
	v, err := c.probe(t.Context())
	if err == nil || !strings.Contains(err.Error(), "wgmma1: self: exit 1: CUDA_ERROR_ILLEGAL_ADDRESS (2 of 3 tiles)") {
		t.Error(err)
	}
	got := v.([]probed)
	if len(got) != 3 || got[0].Wrong == "" || got[1].Wrong == "" || got[2].Wrong != "" || got[2].Micro != 12 {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{"wgmma2                 it computes y as NaN\n", "mma1                   right, 12.0 µs\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", out.String(), want)
		}
	}
}

// What is wrong in one try of several is wrong, and what broke before that says so.
func TestFenceText(t *testing.T) {
	ok, wrong := tried{Variant: "u", Micro: 4}, tried{Variant: "u", Wrong: "it computes y as NaN"}
	first, with := tried{Variant: "mma", Micro: 9}, tried{Variant: "w", Micro: 5}
	for want, f := range map[string]fenced{
		"w right, 5.00 µs; without its fence right in 2 of 2 tries: u right, 4.00 µs":       {Tried: []tried{first, with, ok, ok}},
		"w right, 5.00 µs; without its fence right in 1 of 2 tries: u it computes y as NaN": {Tried: []tried{first, with, wrong, ok}},
		"a kernel before it broke the GPU's context":                                        {Tried: []tried{first, with}},
	} {
		if got := f.text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// NVIDIA's tools are taken where they are, and skipped with a sentence where they are
// not, or may not do what they are for.
func TestTools(t *testing.T) {
	c, _ := newCheck(t)
	script(t, c.dir, "cuda.test", "exit 0\n")
	bin := t.TempDir()
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	ncu := func() (any, error) { return c.ncu(context.Background()) }
	sanitizer := func() (any, error) { return c.sanitizer(context.Background()) }
	for _, k := range []struct {
		name, program, text string
		run                 func() (any, error)
		skips               bool
		says                string
	}{
		{"a profile", "ncu", "echo '\"ID\",\"Kernel Name\"'", ncu, false, ""},
		{"no counters", "ncu", "echo '==ERROR== ERR_NVGPUCTRPERM'; exit 1", ncu, true, "nobody but root"},
		{"another failure", "ncu", "echo boo >&2; exit 1", ncu, false, "boo"},
		{"clean", "compute-sanitizer", "echo '--- PASS: TestCaptureFresh (0.10s)'", sanitizer, false, ""},
		{"not run", "compute-sanitizer", "echo PASS", sanitizer, true, "TestCaptureFresh did not run"},
		{"not clean", "compute-sanitizer", "exit 86", sanitizer, false, "memcheck found errors"},
	} {
		script(t, bin, k.program, k.text+"\n")
		_, err := k.run()
		var s skip
		if errors.As(err, &s) != k.skips || (err == nil) != (k.says == "") || err != nil && !strings.Contains(err.Error(), k.says) {
			t.Errorf("%s: %v", k.name, err)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("PATH", missing)
	if _, err := tool("no-such-tool", missing+"/*/tool"); !errors.As(err, new(skip)) {
		t.Errorf("a tool that is not there: %v", err)
	}
}
