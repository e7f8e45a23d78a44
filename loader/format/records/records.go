// Package records serves records of one fixed size without meaning, like those of MLPerf
// Storage's workloads (https://mlcommons.org/benchmarks/storage). They come from a folder of
// files, one record each, or are made in memory. They are always synthetic. With
// Transform the loader really moves their bytes.
package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader"
	"dev.gpustall/loader/synth/marker"
)

// Format, as in loader.Info.
const Format = "synthetic-records"

// Ext is the extension of record files.
const Ext = ".rec"

// Options describe records made in memory.
type Options struct {
	Name        string // shown; "records" when empty
	Samples     int    // DefaultSamples when 0
	SampleBytes int
	Seed        int64
	// PerSample is how long each Read takes, by sleeping, so the emulated storage has a known
	// speed. 0 reads as fast as memory is copied. It is the time of one reader; readers do not
	// slow each other down. If the timer sleeps too long, later reads sleep less, so that the
	// mean is right.
	PerSample time.Duration
}

// DefaultSamples is the size of an epoch if Options do not say: 125 batches of the workload
// with the largest ones.
const DefaultSamples = 50_000

// Dataset is a set of records. It is safe for concurrent use.
type Dataset struct {
	info  loader.Info
	bytes int
	dir   string   // of the files; empty in memory
	names []string // of the files
	body  []byte   // in memory: what every record holds
	delay time.Duration
	debt  atomic.Int64 // ns overslept and not yet taken off
}

// maxBytes bounds a record. The largest samples of MLPerf Storage, those of UNet3D, have
// 147 MB on average.
const maxBytes = 1 << 30

// Generate makes records in memory. All share one body, which Read copies.
func Generate(o Options) (*Dataset, error) {
	if o.Samples == 0 {
		o.Samples = DefaultSamples
	}
	if o.Samples < 0 || o.SampleBytes <= 0 || int64(o.SampleBytes) > maxBytes || o.PerSample < 0 {
		return nil, errs.New("make data", "in memory", fmt.Sprintf("%d samples of %d bytes at %v each cannot be", o.Samples, o.SampleBytes, o.PerSample),
			fmt.Sprintf("give at least one sample of 1 to %d bytes and no negative time", int64(maxBytes)))
	}
	d := &Dataset{bytes: o.SampleBytes, body: make([]byte, o.SampleBytes), delay: o.PerSample}
	Fill(d.body, o.Seed, 0)
	name := o.Name
	if name == "" {
		name = "records"
	}
	d.info = info(name, "", o.Samples, o.SampleBytes)
	return d, nil
}

// Hints about damaged records, and about a path that holds something else.
const (
	hint     = "make the records again"
	hintPath = "give a folder of " + Ext + " files"
)

// ErrNotRecords is what Open's error wraps if the path holds no records.
var ErrNotRecords = errors.New("no records here")

// Open lists the record files of a folder, all of one size.
func Open(dir string) (*Dataset, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, errs.File(err, "open data", dir, hintPath)
	}
	d := &Dataset{dir: dir}
	for _, e := range entries { // sorted
		if !e.Type().IsRegular() || filepath.Ext(e.Name()) != Ext {
			continue
		}
		st, err := e.Info()
		if err != nil {
			return nil, errs.File(err, "open data", filepath.Join(dir, e.Name()), "start again if the folder has changed")
		}
		if st.Size() > maxBytes {
			return nil, errs.New("open data", filepath.Join(dir, e.Name()), fmt.Sprintf("%d bytes, more than the %d that a record may have", st.Size(), maxBytes), "remove it from the folder")
		}
		if d.bytes == 0 {
			d.bytes = int(st.Size())
		}
		if st.Size() != int64(d.bytes) || d.bytes == 0 {
			return nil, errs.New("open data", filepath.Join(dir, e.Name()), fmt.Sprintf("%d bytes where the first record has %d, so it looks truncated", st.Size(), d.bytes), hint)
		}
		d.names = append(d.names, e.Name())
	}
	if len(d.names) == 0 {
		return nil, errs.New("open data", dir, ErrNotRecords.Error(), hintPath).Because(ErrNotRecords)
	}
	name := filepath.Base(dir)
	if m := marker.Read(dir); m != nil {
		if m.Name != "" {
			name = m.Name
		}
		if m.Samples > 0 && m.Samples != len(d.names) {
			return nil, errs.New("open data", dir, fmt.Sprintf("%d records where %s promises %d", len(d.names), marker.File, m.Samples), hint)
		}
	}
	d.info = info(name, dir, len(d.names), d.bytes)
	return d, nil
}

// info gives a record as many float32 values as hold its bytes (see transform.Raw).
func info(name, path string, samples, bytes int) loader.Info {
	return loader.Info{
		Name: name, Format: Format, Path: path, Samples: samples, Classes: []string{"record"},
		H: 1, W: (bytes + 3) / 4, C: 1, Bytes: int64(samples) * int64(bytes), Synthetic: true,
	}
}

// Info describes the records.
func (d *Dataset) Info() loader.Info { return d.info }

// SampleBytes returns the size of each record.
func (d *Dataset) SampleBytes() int { return d.bytes }

// Read fetches record s.Index into s.Raw. Every label is 0.
func (d *Dataset) Read(ctx context.Context, s *loader.Sample) error {
	if s.Index < 0 || s.Index >= d.info.Samples {
		return fmt.Errorf("records: read record %d: there are records 0 to %d", s.Index, d.info.Samples-1)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	start := time.Now()
	if cap(s.Raw) < d.bytes {
		s.Raw = make([]byte, d.bytes)
	}
	s.Raw = s.Raw[:d.bytes]
	s.Label = 0
	if d.dir == "" {
		copy(s.Raw, d.body)
		return d.sleep(ctx, start)
	}
	path := filepath.Join(d.dir, d.names[s.Index])
	f, _, err := loader.Open(path)
	if err != nil {
		return errs.File(err, "read", path, "put it back, or start again if the folder has changed")
	}
	defer f.Close()
	if got, err := io.ReadFull(f, s.Raw); err != nil {
		return errs.New("read", path, fmt.Sprintf("%v after %d of %d bytes", err, got, d.bytes), errs.Hint(err, hint)).Because(err)
	}
	return nil
}

// sleep waits until start + delay, minus what earlier reads overslept.
func (d *Dataset) sleep(ctx context.Context, start time.Time) error {
	if d.delay == 0 {
		return nil
	}
	debt := min(time.Duration(d.debt.Swap(0)), d.delay)
	end := start.Add(d.delay - debt)
	if wait := time.Until(end); wait > 0 {
		if done := ctx.Done(); done == nil {
			time.Sleep(wait)
		} else {
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-done:
				t.Stop()
				return ctx.Err()
			}
		}
	}
	d.debt.Add(int64(min(time.Since(end), d.delay)))
	return nil
}

// Decode makes a record's bytes its pixels: s.Raw itself.
func (d *Dataset) Decode(s *loader.Sample) error {
	s.Pixels = s.Raw
	s.H, s.W, s.C = 1, d.info.W, 1
	return nil
}

// Close forgets the records.
func (d *Dataset) Close() error {
	d.body = nil
	return nil
}

// Fill writes the random bytes of a record.
func Fill(b []byte, seed int64, index int) {
	rng := loader.NewRNG(seed, 0, index)
	for i := 0; i < len(b); i += 8 {
		v := rng.Uint64()
		for k := i; k < min(i+8, len(b)); k++ {
			b[k] = byte(v)
			v >>= 8
		}
	}
}
