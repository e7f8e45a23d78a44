package cifar

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"dev.gpustall/loader"
	"dev.gpustall/loader/transform"
)

// BenchmarkLoader runs a whole loader on as many samples as CIFAR-10 has, of random bytes.
// It makes batches of 128 samples, cropped, flipped and normalised.
func BenchmarkLoader(b *testing.B) {
	dir, rng := b.TempDir(), rand.NewChaCha8([32]byte{1})
	for i := range Batches {
		records := make([]byte, 10_000*Record)
		_, _ = rng.Read(records) // it returns no error
		for at := 0; at < len(records); at += Record {
			records[at] %= Classes
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("data_batch_%d.bin", i+1)), records, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	d, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	for _, workers := range []int{0, 1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			l, err := loader.New(loader.Options{
				Dataset: d, Transform: transform.CIFARTrain(), Seed: 1,
				Knobs: loader.Knobs{NumWorkers: workers, BatchSize: 128, InOrder: true, Shuffle: true, DropLast: true},
			})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			b.ReportAllocs()
			for b.Loop() {
				batch, err := l.Next(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				batch.Release()
			}
			b.ReportMetric(float64(b.N)*128/b.Elapsed().Seconds(), "samples/s")
		})
	}
}
