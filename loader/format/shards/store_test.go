package shards

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dev.gpustall/loader"
	"dev.gpustall/loader/source"
	"dev.gpustall/loader/source/sourcetest"
)

const prefix = "s3://" + sourcetest.Bucket + "/set"

var quick = source.Retry{Attempts: 6, First: time.Millisecond, Silence: 300 * time.Millisecond}

func reach(t *testing.T) *source.Files {
	f := source.New(source.Options{Retry: quick})
	t.Cleanup(f.Close)
	return f
}

// TestStore: packing into a store makes the same bytes as packing into a folder. It goes on
// where it was stopped, and shows no partial shard. Each sample comes exactly once an epoch,
// with its bytes and class, whatever fails in the store for a while, with or without indexes.
func TestStore(t *testing.T) {
	const n = 60
	server, files := sourcetest.NewS3(t), reach(t)
	src, dir := folder(t, n), filepath.Join(t.TempDir(), "new")
	o := PackOptions{ShardSize: 16 << 10, Seed: 1}
	if _, _, err := Pack(t.Context(), src, dir, o); err != nil {
		t.Fatal(err)
	}
	o.To = files
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(done, _ int) {
		if done == n/2 {
			cancel()
		}
	}
	if _, _, err := Pack(ctx, src, prefix, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), prefix, Options{Files: files}); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("a set that is not whole: %v", err)
	}
	server.Inject(every(3, sourcetest.Busy, sourcetest.Reset))
	o.Progress = nil
	packed, before, err := Pack(t.Context(), src, prefix, o)
	if err != nil || before == 0 || before == len(packed) {
		t.Fatalf("%d of %d were there: %v", before, len(packed), err)
	}
	server.Inject(nil)
	same(t, files, dir)
	server.Inject(nil)
	d, err := Open(t.Context(), prefix, Options{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	const few = 16 // to find and list it, and for the manifest
	if all, _ := server.Requests(); all > few+2*len(packed) {
		t.Errorf("opening %d shards took %d requests", len(packed), all)
	}
	local, err := openAt(t, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	once(t, server, d, local)
	for _, p := range packed { // as shards from elsewhere
		if err := files.Remove(t.Context(), source.Join(prefix, p.Name+extIndex)); err != nil {
			t.Fatal(err)
		}
	}
	walked, err := Open(t.Context(), prefix, Options{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.shards {
		a, b := d.shards[i].marshal(0, 0), walked.shards[i].marshal(0, 0)
		if !bytes.Equal(a, b) {
			t.Errorf("%s: the index that was packed is not what a walk finds", d.shards[i].name)
		}
	}
	if got := files.Counts(); got.Retries == 0 || got.Read == 0 || got.Written == 0 {
		t.Errorf("%+v", got)
	}
}

// every makes each n-th request fail, in one way after the other.
func every(n int, faults ...sourcetest.Fault) func(int, *http.Request) (sourcetest.Fault, time.Duration) {
	return func(i int, _ *http.Request) (sourcetest.Fault, time.Duration) {
		if i%n > 0 {
			return sourcetest.None, 0
		}
		return faults[i/n%len(faults)], 0
	}
}

// same compares what lies below the prefix with a folder.
func same(t *testing.T, files *source.Files, dir string) {
	t.Helper()
	want := contents(t, dir)
	list, err := files.List(t.Context(), prefix)
	if err != nil || len(list) != len(want) {
		t.Fatalf("%d objects, %d files, %v", len(list), len(want), err)
	}
	for _, e := range list {
		there, err := files.ReadAll(t.Context(), source.Join(prefix, e.Name), 1<<30)
		here, err2 := files.ReadAll(t.Context(), source.Join(dir, e.Name), 1<<30)
		if err := errors.Join(err, err2); err != nil || !bytes.Equal(there, here) {
			t.Errorf("%s differs, %v", e.Name, err)
		}
	}
}

// once loads two epochs while workers come and go and the store fails. It compares them
// with the epochs of a store that does not fail, and the bytes read with the samples of a
// folder.
func once(t *testing.T, server *sourcetest.Server, d, local *Dataset) {
	t.Helper()
	n := d.Info().Samples
	forwards := loader.FromStream(Stream{d})
	for i := range n {
		here, there := loader.Sample{Index: i}, loader.Sample{Index: i}
		if err := errors.Join(local.Read(t.Context(), &here), forwards.Read(t.Context(), &there)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(here.Raw, there.Raw) || here.Label != there.Label || d.Locate(i) != local.Locate(i) {
			t.Errorf("sample %d is another one", i)
		}
	}
	k := loader.DefaultKnobs()
	k.Shuffle, k.BatchSize, k.ShuffleBuffer = true, 4, 16
	open := func() loader.Dataset { return loader.FromStream(smallStream{Stream{d}, small{d}}) }
	want, _, _ := epochs(t, open(), k, 2, nil)
	server.Inject(every(3, sourcetest.Busy, sourcetest.Reset, sourcetest.Truncated, sourcetest.Silent))
	k.NumWorkers, k.ReadsInFlight = 3, 4
	got, _, seen := epochs(t, open(), k, 2, func(l *loader.Loader) {
		for i := range 20 {
			k := l.Knobs()
			k.NumWorkers = 1 + i%5
			if l.Set(k) != nil {
				return // it is over
			}
			time.Sleep(time.Millisecond)
		}
	})
	server.Inject(nil)
	if !maps.Equal(got, want) {
		t.Error("the batches are others than those of a store that does not fail")
	}
	for epoch, samples := range seen {
		for i := range int32(n) {
			if samples[i] != 1 {
				t.Errorf("sample %d came %d times in epoch %d", i, samples[i], epoch)
			}
		}
	}
}
