package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda"
	"dev.gpustall/kernels"
)

// pieces are the measurements that run in a process of their own. Where one is cut off, what it
// emitted before counts.
var pieces = map[string]func(args []string, emit func(any)) (any, error){
	"device": func([]string, func(any)) (any, error) { return describe() },
	"compile": func(args []string, emit func(any)) (any, error) { // nothing is tuned
		return onGPU(nil, func(d device.Device) (any, error) { return compile(d, quickArg(args), emit) })
	},
	"tune": func(args []string, emit func(any)) (any, error) {
		return onGPU(tuned(), func(d device.Device) (any, error) { return tunePiece(d, args, emit) })
	},
	"copies": func(args []string, _ func(any)) (any, error) {
		return onGPU(nil, func(d device.Device) (any, error) { return copies(d, quickArg(args)) })
	},
	"launches": func(args []string, _ func(any)) (any, error) {
		return onGPU(nil, func(d device.Device) (any, error) { return launches(d, quickArg(args)) })
	},
	"probe-list": func([]string, func(any)) (any, error) { return onGPU(nil, probeList) },
	"probe": func(args []string, _ func(any)) (any, error) {
		return onGPU(nil, func(d device.Device) (any, error) { return probePiece(d, args) })
	},
	"fence": func(args []string, _ func(any)) (any, error) {
		return onGPU(nil, func(d device.Device) (any, error) { return fencePiece(d, args) })
	},
	"occupancy": func([]string, func(any)) (any, error) { return onGPU(nil, occupancy) },
	"try":       func([]string, func(any)) (any, error) { return nil, cuda.ServeTrials() },
	"train": func(args []string, emit func(any)) (any, error) {
		return onGPU(tuned(), func(d device.Device) (any, error) { return trainPiece(d, args, emit) })
	},
}

func quickArg(args []string) bool { return slices.Contains(args, "quick") }

// tuned returns the store of tuned kernels, in the file where gpustall keeps them too, so that a
// check tunes a shape once.
func tuned() *cuda.Store {
	dir := os.Getenv("XDG_CACHE_HOME")
	if dir == "" {
		return cuda.NewStore(nil, nil)
	}
	path := filepath.Join(dir, "gpustall", "autotune.json")
	text, _ := os.ReadFile(path) // what cannot be read is tuned again
	return cuda.NewStore(text, func(text []byte) error { return replace(path, text) })
}

// replace writes a file completely or not at all. The process may end while a variant is tried,
// and the next process must find which one it was.
func replace(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".part", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// onGPU opens the first GPU, with the kernels tuned for it when there is a store,
// and calls f.
func onGPU(store *cuda.Store, f func(device.Device) (any, error)) (any, error) {
	if err := cuda.Available(); err != nil {
		return nil, err
	}
	var c cuda.Config
	if store != nil {
		c.Choices, c.Trials = store, func() *exec.Cmd { return exec.Command("/proc/self/exe", "-piece", "try") }
		c.TuneEmulated = os.Getenv("GPUSTALL_EMU_TUNE") != "" // this program's own tests
	}
	d, err := cuda.Open(c)
	if err != nil {
		return nil, err
	}
	// Closing a device that failed would return the same error, or never return.
	switch v, err := f(d); {
	case errors.Is(err, errTold):
		return v, nil
	case err != nil:
		return v, err
	default:
		return v, d.Close()
	}
}

// errTold ends a measurement that left the device broken. Its result says so already.
var errTold = errors.New("the device is broken")

// compiled is how long the kernels for training in one type took to prepare. Kernels that types share
// count for the first type.
type compiled struct {
	Type    string  `json:"type"`
	Seconds float64 `json:"seconds"`
}

// compile prepares training in each type: the driver compiles the kernels.
func compile(d device.Device, quick bool, emit func(any)) ([]compiled, error) {
	s := trainSpec{Model: "resnet18", Side: 32, Batch: 128, Steps: 1}
	if quick {
		s = trainSpec{Model: "cnn", Side: 8, Batch: 4, Steps: 1}
	}
	var out []compiled
	for i, name := range types {
		if !slices.Contains(d.Info().Types, name) {
			continue
		}
		r, err := curve{trainSpec: s, typ: kernels.Type(i)}.rig(d)
		if err != nil {
			return out, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, compiled{name, r.prepare.Seconds()})
		r.close()
		emit(out)
	}
	return out, nil
}

// copyRate is one direction, kind of host memory and size of a copy.
type copyRate struct {
	Direction string  `json:"direction"` // "h2d", "d2h"
	Pinned    bool    `json:"pinned"`
	Bytes     int     `json:"bytes"`
	GBPerS    float64 `json:"gb_per_s"`      // copies back to back, by the device's events
	Alone     float64 `json:"alone_us"`      // one copy and the wait for it, on the host's clock, median
	Enqueue   float64 `json:"host_block_us"` // how long the call itself keeps the host, median
}

// copies measures bandwidth. The sizes are a float32 CIFAR batch of 128, one of
// 1024, and one that hides all fixed costs.
func copies(d device.Device, quick bool) ([]copyRate, error) {
	sizes, rounds := []int{128 * 3072 * 4, 1024 * 3072 * 4, 64 << 20}, 20
	if quick {
		sizes, rounds = []int{4096}, 3
	}
	s, err := d.NewStream("copy")
	if err != nil {
		return nil, err
	}
	t, err := newTimer(d)
	if err != nil {
		return nil, err
	}
	defer t.close()
	var out []copyRate
	for _, n := range sizes {
		buf, err := d.Alloc(n)
		if err != nil {
			return out, err
		}
		for _, pinned := range []bool{true, false} {
			host := make([]byte, n)
			if pinned {
				if host, err = d.AllocHost(n); err != nil {
					return out, err
				}
			}
			for i := range host {
				host[i] = byte(i) // every page is there before the clock runs
			}
			for _, dir := range []string{"h2d", "d2h"} {
				move := func() error { return d.CopyIn(s, buf, host) }
				if dir == "d2h" {
					move = func() error { return d.CopyOut(s, host, buf) }
				}
				r := copyRate{Direction: dir, Pinned: pinned, Bytes: n}
				if err := measureCopy(t, s, move, rounds, &r); err != nil {
					return out, fmt.Errorf("%s of %d bytes, pinned %v: %w", dir, n, pinned, err)
				}
				out = append(out, r)
			}
			if pinned {
				d.FreeHost(host)
			}
		}
		d.Free(buf)
	}
	return out, nil
}

func measureCopy(t *timer, s device.Stream, move func() error, rounds int, r *copyRate) error {
	var alone, enqueue []float64
	for range rounds {
		begin := time.Now()
		if err := move(); err != nil {
			return err
		}
		enqueue = append(enqueue, micro(time.Since(begin)))
		if err := t.finish(s); err != nil {
			return err
		}
		alone = append(alone, micro(time.Since(begin)))
	}
	r.Alone, r.Enqueue = median(alone), median(enqueue)
	d, err := t.between(s, func() error {
		for range rounds {
			if err := move(); err != nil {
				return err
			}
		}
		return nil
	})
	if d > 0 {
		r.GBPerS = float64(r.Bytes) * float64(rounds) / d.Seconds() / 1e9
	}
	return err
}

// launchCost is the cost of a launch.
type launchCost struct {
	Launches int     `json:"launches"` // in one program
	Capture  bool    `json:"capture"`
	Host     float64 `json:"host_ns"`   // per launch, the call that enqueues them, median
	Device   float64 `json:"device_ns"` // per launch, back to back on the device: the kernel adds one number
}

// launches measures the cost of enqueueing from Go. Each round starts with an idle device, so that it
// never waits for a full queue.
func launches(d device.Device, quick bool) ([]launchCost, error) {
	rounds := 300
	if quick {
		rounds = 3
	}
	s, err := d.NewStream("launch")
	if err != nil {
		return nil, err
	}
	t, err := newTimer(d)
	if err != nil {
		return nil, err
	}
	defer t.close()
	b, err := d.Alloc(4)
	if err != nil {
		return nil, err
	}
	var out []launchCost
	for _, n := range []int{1, 64} {
		op := device.Launch{Op: kernels.Add{N: 1}, Bufs: []device.Buffer{b, b, b}}
		p, err := d.Prepare(slices.Repeat([]device.Launch{op}, n))
		if err != nil {
			return out, err
		}
		for _, capture := range []bool{false, true} {
			if c, ok := d.(device.Capturer); ok {
				if err := c.Capture(p, capture); err != nil {
					return out, fmt.Errorf("capture %v: %w", capture, err)
				}
			} else if capture {
				continue
			}
			var host []float64
			var last time.Duration
			for range rounds {
				var spent time.Duration
				last, err = t.between(s, func() error {
					begin := time.Now()
					err := d.Launch(s, p)
					spent = time.Since(begin)
					return err
				})
				if err != nil {
					return out, err
				}
				host = append(host, float64(spent.Nanoseconds())/float64(n))
			}
			out = append(out, launchCost{n, capture, median(host), float64(last.Nanoseconds()) / float64(n)})
		}
		d.Release(p)
	}
	return out, nil
}

// timer is a pair of events.
type timer struct {
	d        device.Device
	from, to device.Event
}

func newTimer(d device.Device) (*timer, error) {
	from, err := d.NewEvent()
	if err != nil {
		return nil, err
	}
	to, err := d.NewEvent()
	return &timer{d, from, to}, err
}

func (t *timer) close() {
	t.d.FreeEvent(t.from)
	t.d.FreeEvent(t.to)
}

// finish waits for all work on s.
func (t *timer) finish(s device.Stream) error {
	if err := t.d.Record(s, t.to); err != nil {
		return err
	}
	return t.d.Sync(t.to)
}

// between returns the device's time for what f enqueues on s.
func (t *timer) between(s device.Stream, f func() error) (time.Duration, error) {
	if err := t.d.Record(s, t.from); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	if err := t.finish(s); err != nil {
		return 0, err
	}
	return t.d.Elapsed(t.from, t.to)
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// median sorts v and returns its median, 0 if v is empty.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}
