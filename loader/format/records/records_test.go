package records_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dev.gpustall/loader"
	"dev.gpustall/loader/format/records"
	"dev.gpustall/loader/synth"
)

var (
	_ loader.Dataset   = (*records.Dataset)(nil)
	_ loader.Transform = records.Transform{}
)

// TestMoves: from Read to the batch's memory, exactly the record's bytes arrive.
func TestMoves(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	if err := synth.Records(context.Background(), dir, 1003, synth.Options{Samples: 3, Seed: 4}); err != nil {
		t.Fatal(err)
	}
	onDisk, err := records.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	inMemory, err := records.Generate(records.Options{Samples: 3, SampleBytes: 1003})
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*records.Dataset{"disk": onDisk, "memory": inMemory} {
		in := d.Info()
		if in.Samples != 3 || in.H != 1 || in.W != 251 || in.C != 1 || in.Bytes != 3009 || !in.Synthetic || in.Format != records.Format || d.SampleBytes() != 1003 {
			t.Errorf("%s: Info = %+v", name, in)
		}
		var s loader.Sample
		seen := map[string]bool{}
		for i := range 3 {
			s.Index = i
			if err := d.Read(context.Background(), &s); err != nil {
				t.Fatal(err)
			}
			raw := string(s.Raw)
			seen[raw] = true
			if err := d.Decode(&s); err != nil {
				t.Fatal(err)
			}
			dst := make([]float32, in.H*in.W*in.C)
			records.Transform{}.Host(&s, nil, dst)
			for k := range 1004 {
				want := byte(0)
				if k < len(raw) {
					want = raw[k]
				}
				if got := byte(math.Float32bits(dst[k/4]) >> (8 * (k % 4))); got != want {
					t.Fatalf("%s, record %d: byte %d is %d, want %d", name, i, k, got, want)
				}
			}
		}
		if name == "disk" && len(seen) != 3 {
			t.Errorf("%d different records on disk", len(seen))
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDeviceSide(t *testing.T) {
	s := &loader.Sample{Pixels: []byte{1, 2, 3}}
	px := []byte{7, 7, 7, 7}
	aug := [4]int32{1, 1, 1, 1}
	records.Transform{}.Device(s, nil, px, aug[:])
	if string(px) != "\x01\x02\x03\x00" || aug != [4]int32{} {
		t.Errorf("px = %v, aug = %v", px, aug)
	}
}

// TestKnownSpeed: all reads together never finish early, and a read stops when its context
// ends.
func TestKnownSpeed(t *testing.T) {
	const n, each = 20, 2 * time.Millisecond
	d, err := records.Generate(records.Options{Samples: n, SampleBytes: 10, PerSample: each})
	if err != nil {
		t.Fatal(err)
	}
	var s loader.Sample
	start := time.Now()
	for i := range n {
		s.Index = i
		if err := d.Read(context.Background(), &s); err != nil {
			t.Fatal(err)
		}
	}
	if got := time.Since(start); got < n*each {
		t.Errorf("%d reads took %v, less than %v", n, got, n*each)
	}

	slow, err := records.Generate(records.Options{Samples: 1, SampleBytes: 10, PerSample: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(5*time.Millisecond, cancel)
	s.Index = 0
	if err := slow.Read(ctx, &s); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := records.Open(dir); !errors.Is(err, records.ErrNotRecords) {
		t.Errorf("empty folder: %v", err)
	}
	if _, err := records.Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing folder: %v", err)
	}
	for i, size := range []int{10, 9} {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+records.Ext), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := records.Open(dir); err == nil || !strings.Contains(err.Error(), "b.rec: 9 bytes where the first record has 10") {
		t.Errorf("truncated record: %v", err)
	}
	giant := filepath.Join(dir, "c"+records.Ext)
	if err := errors.Join(os.WriteFile(giant, nil, 0o644), os.Truncate(giant, 1<<40)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(giant, filepath.Join(dir, "a"+records.Ext)); err != nil {
		t.Fatal(err)
	}
	if _, err := records.Open(dir); err == nil || !strings.Contains(err.Error(), "1099511627776 bytes, more than the 1073741824 that a record may have") {
		t.Errorf("sparse giant: %v", err)
	}
	for _, o := range []records.Options{{Samples: -1, SampleBytes: 1}, {}, {SampleBytes: -1}, {SampleBytes: 1, PerSample: -1}} {
		if _, err := records.Generate(o); err == nil {
			t.Errorf("Generate(%+v) succeeds", o)
		}
	}
	d, err := records.Generate(records.Options{SampleBytes: 8})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{-1, records.DefaultSamples} {
		if err := d.Read(context.Background(), &loader.Sample{Index: i}); err == nil {
			t.Errorf("Read(%d) succeeds", i)
		}
	}
}

func TestAllocs(t *testing.T) {
	d, err := records.Generate(records.Options{SampleBytes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]float32, 1<<14)
	s := &loader.Sample{}
	if n := testing.AllocsPerRun(100, func() {
		if d.Read(context.Background(), s) != nil || d.Decode(s) != nil {
			t.Fatal("failed")
		}
		records.Transform{}.Host(s, nil, dst)
	}); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}

// BenchmarkRecord moves one unet3d sample from memory into a batch.
func BenchmarkRecord(b *testing.B) {
	const size = 146_600_628
	d, err := records.Generate(records.Options{SampleBytes: size})
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]float32, d.Info().W)
	var s loader.Sample
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Read(context.Background(), &s); err != nil {
			b.Fatal(err)
		}
		_ = d.Decode(&s)
		records.Transform{}.Host(&s, nil, dst)
	}
}
