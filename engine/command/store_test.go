package command

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dev.gpustall/loader/source"
	"dev.gpustall/loader/source/sourcetest"
	"dev.gpustall/loader/synth"
)

// TestStore packs a folder into a bucket and trains on it from there. It trains while the
// store fails for a second, with a condition, with two damaged samples left out, and from the
// cache.
func TestStore(t *testing.T) {
	server, dir := sourcetest.NewS3(t), t.TempDir()
	images, bucket := filepath.Join(dir, "images"), "s3://"+sourcetest.Bucket+"/set"
	if err := synth.ImageFolder(t.Context(), images, synth.Options{Samples: 40, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	run := func(code int, want []string, args ...string) {
		t.Helper()
		r := gpustall(t, args...)
		all := r.stdout + r.stderr
		for _, w := range append(want, "") {
			if r.code != code || !strings.Contains(all, w) || strings.Contains(all, sourcetest.Secret) {
				t.Fatalf("%s: exit %d without %q\n%s", strings.Join(args, " "), r.code, w, all)
			}
		}
	}
	train := func(more ...string) []string {
		return append([]string{"run", "--device", "emu:h100", "--data", bucket, "--batch-size", "8", "--num-workers", "2", "--cache-dir", filepath.Join(dir, "cache")}, more...)
	}
	run(0, []string{"40 samples in 3 shards", "written", "gpustall run --data " + bucket}, "data", "pack", images, bucket, "--shard-size", "512KiB")
	run(0, []string{"images in 3 shards", "waits for the first byte"}, "data", "inspect", bucket)
	run(0, []string{"8 samples in"}, "data", "inspect", bucket, "--where", "label in (0, 1)")

	var away sync.WaitGroup
	server.Inject(func(n int, r *http.Request) (sourcetest.Fault, time.Duration) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "shard-000000.tar") {
			return sourcetest.None, 0
		}
		away.Go(func() {
			server.Stop()
			time.Sleep(time.Second)
			server.Start(t)
		})
		server.Inject(nil)
		return sourcetest.Reset, 0
	})
	run(0, []string{`"store_retries":`, `"samples":40`}, train("--json")...)
	away.Wait()
	server.Inject(nil)
	run(0, []string{"5 steps, 40 samples"}, train()...)

	files := source.New(source.Options{})
	defer files.Close()
	for _, shard := range []string{"shard-000000.tar", "shard-000001.tar"} {
		path := bucket + "/train/" + shard
		b, err := files.ReadAll(t.Context(), path, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		b[600] ^= 1 // in its first sample
		if err := files.WriteAll(t.Context(), path, b); err != nil {
			t.Fatal(err)
		}
	}
	run(1, []string{bucket + "/train/shard-00000", "at byte 512: its ", "checksum", "on_error=skip"}, train()...)
	run(0, []string{"5 steps, 38 samples", "samples skipped", "shard-000001.tar: sample "}, train("--on-error", "skip")...)
}
