package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The test binary stands for this program and for those of the bundle, since the
// check runs them all as processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-piece" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	switch os.Getenv("GPUCHECK_TEST") {
	case "crash":
		fmt.Println(`{"seconds": 1}`)
		for range 100 {
			go func() { select {} }() // their stacks come after the reason
		}
		time.Sleep(50 * time.Millisecond)
		debug.SetTraceback("all")
		panic("out of luck")
	case "hang":
		fmt.Println(`{"seconds": 2}`)
		fmt.Print(`{"seco`) // cut off
		_ = os.WriteFile(os.Getenv("GPUCHECK_SAID"), nil, 0o600)
		_ = exec.Command("sleep", "3600").Run() // holds the pipe: whoever waits for it outlives the test
	case "answer":
		fmt.Println("a line for people")
		fmt.Println(`{"seconds": 3}`)
	case "garbage":
		fmt.Println("what?")
	default:
		os.Exit(m.Run())
	}
	os.Exit(0)
}

func newCheck(t *testing.T) (*check, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &check{out: &out, programs: programs{self: self, dir: t.TempDir(), tmp: t.TempDir()}, file: filepath.Join(t.TempDir(), "deep", "check.json")}, &out
}

// Whatever a part does, the others run and the file tells of all.
func TestPartialFailure(t *testing.T) {
	c, out := newCheck(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := c.all(ctx, []part{
		{"good", time.Second, func(context.Context, *check) (any, error) { return 5, nil }},
		{"bad", time.Second, func(context.Context, *check) (any, error) { return "half", errors.New("it broke") }},
		{"wild", time.Second, func(context.Context, *check) (any, error) { panic("boo") }},
		{"absent", time.Second, func(context.Context, *check) (any, error) { return nil, skip("not here") }},
		{"slow", 50 * time.Millisecond, func(ctx context.Context, _ *check) (any, error) { <-ctx.Done(); return nil, ctx.Err() }},
		{"late", time.Hour, func(context.Context, *check) (any, error) { return nil, nil }},
	})
	if err == nil || !strings.Contains(err.Error(), "3 of 6") {
		t.Errorf("error %v, want 3 of 6 parts", err)
	}
	b, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	want := []struct{ name, status, why string }{
		{"good", "ok", ""}, {"bad", "failed", "it broke"}, {"wild", "failed", "panic: boo"}, {"absent", "skipped", "not here"},
		{"slow", "failed", "deadline"}, {"late", "ok", ""},
	}
	if len(r.Parts) != len(want) || !r.Complete {
		t.Fatalf("%d parts, complete %v: %s", len(r.Parts), r.Complete, b)
	}
	for i, w := range want {
		if p := r.Parts[i]; p.Name != w.name || p.Status != w.status || !strings.Contains(p.Why, w.why) || (w.why == "") != (p.Why == "") {
			t.Errorf("%+v, want %+v", p, w)
		}
	}
	if r.Parts[1].Value != "half" {
		t.Errorf("what a failed part found is lost: %v", r.Parts[1].Value)
	}
	if !strings.Contains(out.String(), c.file) || !strings.Contains(out.String(), "2 ok, 3 failed, 1 skipped") {
		t.Errorf("the table:\n%s", out)
	}
}

// A part that failed leaves all that its processes said beside the JSON file.
func TestTranscript(t *testing.T) {
	c, _ := newCheck(t)
	t.Setenv("GPUCHECK_TEST", "crash")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	crash := func(ctx context.Context, c *check) (any, error) {
		var v struct{ Seconds float64 }
		return nil, c.object(ctx, &v, c.self)
	}
	if err := c.all(ctx, []part{{"crash", time.Minute, crash}}); err == nil {
		t.Error("no failure")
	}
	r := c.report.Parts[0]
	b, err := os.ReadFile(filepath.Join(filepath.Dir(c.file), r.Log))
	if err != nil || r.Log != "check-crash.log" {
		t.Fatalf("%q: %v", r.Log, err)
	}
	for _, want := range []string{`{"seconds": 1}`, "panic: out of luck", "goroutine 1 ["} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the log lacks %q:\n%s", want, b)
		}
	}
}

func TestNoTimeLeft(t *testing.T) {
	ran := false
	later := part{"later", time.Minute, func(context.Context, *check) (any, error) { ran = true; return nil, nil }}
	for _, interrupt := range []bool{false, true} {
		c, _ := newCheck(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if interrupt {
			cancel()
		}
		err := c.all(ctx, []part{later})
		cancel()
		if ran || c.report.Parts[0].Status != statusSkipped {
			t.Errorf("interrupt %v: ran %v, %+v", interrupt, ran, c.report.Parts)
		}
		if c.report.Complete == interrupt {
			t.Errorf("interrupt %v: complete %v", interrupt, c.report.Complete)
		}
		if (err != nil) != interrupt {
			t.Errorf("interrupt %v: error %v", interrupt, err)
		}
	}
}

// A part that the time for all cuts off has not failed.
func TestCutByBudget(t *testing.T) {
	c, _ := newCheck(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		r, err := c.one(ctx, part{"long", time.Second, func(ctx context.Context, _ *check) (any, error) { <-ctx.Done(); return 7, ctx.Err() }})
		if err != nil || r.Status != statusSkipped || r.Value != 7 || !strings.Contains(r.Why, "ran out") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestProcess(t *testing.T) {
	for _, c := range []struct {
		mode    string
		seconds float64 // what was said to the end counts
		want    string  // of the error
	}{
		{"answer", 3, ""}, {"crash", 1, "panic: out of luck"}, {"hang", 2, "deadline"}, {"garbage", 0, "decode"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			k, _ := newCheck(t)
			t.Setenv("GPUCHECK_TEST", c.mode)
			said := filepath.Join(t.TempDir(), "said")
			t.Setenv("GPUCHECK_SAID", said)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go func() { // its time is over when it has said all that it will say
				for ctx.Err() == nil {
					if exists(said) {
						cancel(context.DeadlineExceeded)
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
			var v struct{ Seconds float64 }
			err := k.object(ctx, &v, k.self)
			if v.Seconds != c.seconds {
				t.Errorf("got %v, want %v", v.Seconds, c.seconds)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestPacked(t *testing.T) {
	c, _ := newCheck(t)
	f, err := os.Create(filepath.Join(c.dir, "hello.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	fmt.Fprint(z, "#!/bin/sh\necho '{\"seconds\": 4}'\n")
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is unpacked already
		var v struct{ Seconds float64 }
		if err := c.object(context.Background(), &v, "hello"); err != nil || v.Seconds != 4 {
			t.Errorf("%v, %v", v, err)
		}
	}
	if err := os.WriteFile(filepath.Join(c.dir, "broken.gz"), []byte("no gzip"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.process(context.Background(), "broken"); err == nil || !strings.Contains(err.Error(), "unpack") {
		t.Errorf("a broken archive: %v", err)
	}
	var s skip
	if _, err := c.process(context.Background(), "missing"); !errors.As(err, &s) {
		t.Errorf("a program that is not there: %v, want a skip", err)
	}
}

// Without a driver, or without CUDA in the build, there is one sentence and
// status 3.
func TestNoDevice(t *testing.T) {
	t.Setenv("GPUSTALL_LIBCUDA", filepath.Join(t.TempDir(), "missing"))
	t.Setenv("OUT", t.TempDir())
	var out, log bytes.Buffer
	if code := run([]string{"-dir", t.TempDir()}, &out, &log); code != exitNoDevice {
		t.Errorf("exit %d, want %d", code, exitNoDevice)
	}
	said := func(s string) bool {
		return strings.Contains(s, "no NVIDIA driver") || strings.Contains(s, "built without CUDA")
	}
	if s := log.String(); !said(s) || strings.Count(s, "\n") != 1 || out.Len() > 0 {
		t.Errorf("said %q and %q", s, out.String())
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-only", "nothing"}, {"stray"}, {"-unknown"}, {"-piece", "none"}} {
		var out, log bytes.Buffer
		if code := run(args, &out, &log); code != exitUsage || log.Len() == 0 {
			t.Errorf("%q: exit %d, said %q", args, code, log.String())
		}
	}
}

// TestWants: a part that needs what another finds brings that one along.
func TestWants(t *testing.T) {
	c := &check{only: []string{"torch-eager", "ops"}}
	for part, want := range map[string]bool{"device": true, "torch": true, "torch-eager": true, "ops": true, "torch-compile": false, "probe": false} {
		if c.wants(part) != want {
			t.Errorf("-only torch-eager,ops wants %s: %v", part, !want)
		}
	}
}
