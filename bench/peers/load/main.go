//go:build unix

// Command load reads a data set as a training does and prints the samples, the seconds and
// the seconds of CPU time as JSON. The scripts beside it compare that with other loaders.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/loader"
	"dev.gpustall/loader/format"
)

func main() {
	data := flag.String("data", "", "the data set")
	workers := flag.Int("workers", 0, "num_workers")
	batch := flag.Int("batch", 64, "batch_size")
	seconds := flag.Float64("seconds", 5, "how long to read, after two batches that do not count")
	batches := flag.Int("batches", 0, "read so many instead, from the first on")
	shuffle := flag.Bool("shuffle", true, "shuffle")
	flag.Parse()
	if err := load(*data, *workers, *batch, *seconds, *batches, *shuffle); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func load(data string, workers, batch int, seconds float64, batches int, shuffle bool) error {
	ds, tf, err := format.Open(context.Background(), data, format.Options{})
	if err != nil {
		return err
	}
	defer ds.Close()
	runtime.GOMAXPROCS(host.Processors(workers)) // as in gpustall
	k := loader.Knobs{NumWorkers: workers, BatchSize: batch, InOrder: true, Shuffle: shuffle, DropLast: true}
	if workers > 0 {
		k.PrefetchFactor = 2
	}
	l, err := loader.New(loader.Options{Dataset: ds, Transform: tf, Seed: 1, Knobs: k})
	if err != nil {
		return err
	}
	defer l.Close()
	next := func() (int, error) {
		b, err := l.Next(context.Background())
		if err != nil {
			return 0, err
		}
		defer b.Release()
		return b.N, nil
	}
	for range 2 {
		if batches > 0 {
			break
		}
		if _, err := next(); err != nil {
			return err
		}
	}
	samples, start, worked := 0, time.Now(), cpuTime()
	for got := 0; got < batches || batches == 0 && time.Since(start).Seconds() < seconds; got++ {
		n, err := next()
		if err != nil {
			return err
		}
		samples += n
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"samples": float64(samples), "seconds": time.Since(start).Seconds(), "cpu": (cpuTime() - worked).Seconds(),
	})
}

// cpuTime returns the CPU time of the process, in all threads.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
