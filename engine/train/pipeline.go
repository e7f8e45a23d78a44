package train

import (
	"errors"
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/ops"
	"dev.gpustall/engine/train/prepared"
)

// Depth is how many steps may be enqueued and unresolved. The host runs that far ahead
// of the device, so only a late batch can starve the device.
const Depth = 3

// Hold is how many batches the engine keeps unreleased at most: those in flight and the
// one just taken.
const Hold = Depth + 1

// hintDevice is the hint of an error of a device that fails.
const hintDevice = "run it again; gpustall doctor says what this machine has"

// pipeline enqueues steps on the device's streams and follows them until they are
// finished. It belongs to the step loop.
type pipeline struct {
	dev      device.Device
	name     string // the device's
	onHost   bool   // the device's memory is the host's
	ops      *ops.Table
	timeline *timeline
	results  *results

	copyStream, computeStream device.Stream
	// readStream has the copies of the metrics to the host. So the next step need not wait
	// for them, and they do not hold up the next batch on the copy stream.
	readStream device.Stream

	ring       [Depth + 2]flight
	head, tail int // flights [tail, head) are in flight; indices grow for ever
	clock      anchor
}

// open creates the streams and events.
func (p *pipeline) open() (err error) {
	if p.copyStream, err = p.dev.NewStream("copy"); err != nil {
		return errs.Wrap(err, "create", "the copy stream on "+p.name, hintDevice)
	}
	if p.computeStream, err = p.dev.NewStream("compute"); err != nil {
		return errs.Wrap(err, "create", "the compute stream on "+p.name, hintDevice)
	}
	p.readStream = p.computeStream
	if !p.onHost { // otherwise the copy takes less than waking another thread
		if p.readStream, err = p.dev.NewStream("read"); err != nil {
			return errs.Wrap(err, "create", "the read stream on "+p.name, hintDevice)
		}
	}
	for i := range p.ring {
		if err = p.ring[i].open(p.dev); err != nil {
			return errs.Wrap(err, "create", "events on "+p.name, hintDevice)
		}
	}
	return nil
}

// close frees what open created.
func (p *pipeline) close() {
	for i := range p.ring {
		p.ring[i].close(p.dev)
	}
	p.clock.close(p.dev)
}

// start ties the device's clock to the host's.
func (p *pipeline) start() error {
	return p.clock.start(p.dev, p.computeStream, p.timeline.rec)
}

// next returns the flight of the step that is enqueued next.
func (p *pipeline) next() *flight { return &p.ring[p.head%len(p.ring)] }

// launched counts the step that was enqueued on the next flight.
func (p *pipeline) launched() { p.head++ }

// send makes the step's calls of the device, in their order. It stops at the first call
// that fails, because a later one could run on data that is not there. If the step
// changes the loss scale, state has the scale to read back; otherwise it is nil.
func (p *pipeline) send(f *flight, slot *prepared.Slot, state *nn.State) error {
	if err := p.copyIn(f, slot.Input); err != nil {
		return err
	}
	if err := p.compute(f); err != nil {
		return err
	}
	return p.read(f, slot, state)
}

// read enqueues the copies of what the step computed to the host, behind its program.
// Each input slot has metrics of its own, which the step after the next overwrites.
// There is one loss scale, which the next update changes. So it is read before that
// update begins.
func (p *pipeline) read(f *flight, slot *prepared.Slot, state *nn.State) error {
	s := p.readStream
	if f.scaled = state != nil; f.scaled {
		s = p.computeStream
		if err := state.ReadScale(s, f.metrics[nn.MetricsSize:]); err != nil {
			return err
		}
	}
	if err := p.dev.Wait(s, f.end); err != nil {
		return err
	}
	if err := slot.ReadMetrics(p.dev, s, f.metrics); err != nil {
		return err
	}
	return p.dev.Record(s, f.done)
}

// before returns the latest step with the same input slot, or nil.
func (p *pipeline) before() *flight {
	if p.head < prepared.Slots {
		return nil
	}
	return &p.ring[(p.head-prepared.Slots)%len(p.ring)]
}

// copyIn enqueues the copy of the batch to its input slot.
func (p *pipeline) copyIn(f *flight, input device.Buffer) error {
	if b := p.before(); b != nil { // it reads the slot
		if err := p.dev.Wait(p.copyStream, b.end); err != nil {
			return err
		}
	}
	if err := p.dev.Record(p.copyStream, f.copyStart); err != nil {
		return err
	}
	if err := p.dev.CopyIn(p.copyStream, input, f.batch.Host); err != nil {
		return err
	}
	return p.dev.Record(p.copyStream, f.copyEnd)
}

// compute enqueues the step's program behind the copy of its batch. It also waits for
// the reading of the metrics that the program overwrites.
func (p *pipeline) compute(f *flight) (err error) {
	if b := p.before(); b != nil {
		if err = p.dev.Wait(p.computeStream, b.done); err != nil {
			return err
		}
	}
	if err = p.dev.Wait(p.computeStream, f.copyEnd); err != nil {
		return err
	}
	if err = p.dev.Record(p.computeStream, f.start); err != nil {
		return err
	}
	if f.timing, err = p.ops.Launch(p.computeStream, f.prog); err != nil {
		return err
	}
	return p.dev.Record(p.computeStream, f.end)
}

// abort gives up the next flight, whose step was enqueued in part. It waits until no
// stream has work of that step left. Then the batch and the device's memory may be
// freed.
func (p *pipeline) abort() {
	f := p.next()
	for _, s := range [...]device.Stream{p.copyStream, p.computeStream, p.readStream} {
		if p.dev.Record(s, f.done) == nil {
			_ = p.dev.Sync(f.done) // the caller reports the error that led here
		}
	}
	f.release()
}

// resolve records every step that the device has finished, without waiting, and
// waits for the oldest when the host is Depth steps ahead.
func (p *pipeline) resolve() error {
	for i := p.tail; i < p.head; i++ {
		f := &p.ring[i%len(p.ring)]
		if err := f.copied(p.dev); err != nil {
			return errs.Wrap(err, "query", fmt.Sprintf("the copy of step %d on %s", f.step, p.name), hintDevice)
		}
	}
	for p.tail < p.head {
		f := &p.ring[p.tail%len(p.ring)]
		ok, err := p.dev.Query(f.done)
		if err != nil {
			return errs.Wrap(err, "query", fmt.Sprintf("step %d on %s", f.step, p.name), hintDevice)
		}
		if !ok {
			if p.head-p.tail < Depth {
				return nil
			}
			if err := p.sync(f); err != nil {
				return err
			}
		}
		if err := p.record(f); err != nil {
			return err
		}
		p.tail++
	}
	return nil
}

// finish waits for the steps in flight and records them. It comes before a change that
// touches what they use, before a pause and at the end of a run.
func (p *pipeline) finish() error {
	var failed []error
	for p.tail < p.head {
		f := &p.ring[p.tail%len(p.ring)]
		err := p.sync(f)
		if err == nil {
			err = p.record(f)
		}
		if err != nil {
			failed = append(failed, err)
			f.release()
		}
		p.tail++
	}
	return errors.Join(failed...)
}

// sync waits for a step and records the wait, in which the step loop is idle.
func (p *pipeline) sync(f *flight) error {
	start := p.timeline.rec.Now()
	if err := p.dev.Sync(f.done); err != nil {
		return errs.Wrap(err, "wait for", fmt.Sprintf("step %d on %s", f.step, p.name), hintDevice)
	}
	done, err := p.clock.at(p.dev, f.done)
	if err != nil {
		return errs.Wrap(err, "read", fmt.Sprintf("the events of step %d", f.step), hintDevice)
	}
	// The wait belongs to the step that comes next.
	next := p.ring[(p.head-1)%len(p.ring)].step + 1
	p.timeline.woken(trace.Span{Start: start, Step: next, Batch: f.seq, Kind: trace.KindSync}, done)
	return nil
}

// record hands a finished step with its times to the results.
func (p *pipeline) record(f *flight) error {
	if err := f.copied(p.dev); err != nil {
		return err
	}
	now := p.timeline.rec.Now()
	var at [4]int64
	for i, ev := range [...]device.Event{f.copyStart, f.copyEnd, f.start, f.end} {
		var err error
		if at[i], err = p.clock.at(p.dev, ev); err != nil {
			return errs.Wrap(err, "read", fmt.Sprintf("the events of step %d", f.step), hintDevice)
		}
	}
	clampToHost(&at, f.enqueued, now)
	if err := p.results.record(f, at, now); err != nil {
		return err
	}
	p.clock.event, p.clock.t = f.end, at[3]
	return nil
}
