// Package synth makes data sets that a small network can learn, in exactly the formats of the
// real ones. They are for a first run without a download, for tests, and for machines without a
// network. The same options give the same bytes on every machine. A marker file (package
// marker) in each folder says what it is, and every reader shows it.
package synth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/loader"
	"dev.gpustall/loader/synth/marker"
)

// Options say how much to make.
type Options struct {
	Samples  int // for training; 0: the kind's default
	Test     int // for evaluation; 0: a fifth of Samples
	Seed     int64
	Progress func(done, total int) // called from one goroutine at a time; may be nil
}

// Limits of Samples and Test: at least one sample of each class, and files that are not too
// large.
const (
	minSamples = 10
	maxSamples = 10_000_000
)

func (o Options) withDefaults(kind string, samples int) (Options, error) {
	if o.Samples == 0 {
		o.Samples = samples
	}
	if o.Test == 0 {
		o.Test = max(o.Samples/5, minSamples)
	}
	for _, n := range []int{o.Samples, o.Test} {
		if n < minSamples || n > maxSamples {
			return o, errs.New("make data", kind, fmt.Sprintf("%d samples are out of range", n), fmt.Sprintf("ask for %d to %d", minSamples, maxSamples))
		}
	}
	return o, nil
}

// Added to the seed of each image's generator, so that the splits differ.
const (
	splitTrain = iota
	splitTest
	splitLabels // added to the split: the order of labels
)

// label gives each block of ten samples the ten classes in a random order, so
// that classes are as balanced as CIFAR-10's.
func label(seed int64, split, index int) int {
	rng := loader.NewRNG(seed, split+splitLabels, index/Classes)
	var order [Classes]int
	for i := range order {
		j := rng.IntN(i + 1)
		order[i] = order[j]
		order[j] = i
	}
	return order[index%Classes]
}

// publish lets write fill a temporary folder beside dir, marks it and renames it to dir. So dir
// is complete or missing. An existing dir must be empty or already hold exactly this data.
func publish(dir string, m marker.Marker, write func(tmp string) error) (err error) {
	if entries, e := os.ReadDir(dir); e == nil && len(entries) > 0 {
		return errs.New("make data", dir, "the folder exists and is not empty", "remove it or choose another")
	} else if e != nil && !errors.Is(e, fs.ErrNotExist) {
		return errs.Wrap(e, "make data", dir, "choose another folder")
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return errs.Wrap(err, "make data", dir, "choose a folder that can be written to")
	}
	tmp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".tmp-*")
	if err != nil {
		return errs.Wrap(err, "make data", dir, "choose a folder that can be written to")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if err := os.Chmod(tmp, 0o755); err != nil {
		return errs.Wrap(err, "make data", dir, "free some space on its disk, or choose another folder")
	}
	if err := write(tmp); err != nil {
		return errs.Wrap(err, "make data", dir, "free some space on its disk, or choose another folder")
	}
	if err := marker.Write(tmp, m); err != nil {
		return errs.Wrap(err, "make data", dir, "free some space on its disk, or choose another folder")
	}
	if err := os.Rename(tmp, dir); err != nil {
		if got := marker.Read(dir); got != nil && got.Same(m) { // another process was faster
			return os.RemoveAll(tmp)
		}
		return errs.Wrap(err, "make data", dir, "choose another folder")
	}
	return nil
}

// progress counts samples over all goroutines.
type progress struct {
	mu          sync.Mutex
	done, total int
	fn          func(done, total int)
}

func (p *progress) add(n int) {
	if p.fn == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	p.fn(p.done, p.total)
}

// parallel calls fn for the blocks [from,to) of [0,n) on all cores, until
// one fails or ctx ends. It returns when all calls have.
func parallel(ctx context.Context, n, block int, fn func(from, to int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(host.Cores(), (n+block-1)/block) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer func() {
				if p := recover(); p != nil {
					cancel(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
				}
			}()
			for ctx.Err() == nil {
				from := int(next.Add(int64(block))) - block
				if from >= n {
					return
				}
				if err := fn(from, min(from+block, n)); err != nil {
					cancel(err)
				}
			}
		}()
	}
	wg.Wait()
	return context.Cause(ctx)
}
