package main

import (
	"context"
	"errors"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
)

// rig is a model with its plan on a device, ready to train.
type rig struct {
	d             device.Device
	st            *nn.State
	input         device.Buffer
	plan          *nn.Plan
	program       device.Program
	compute, copy device.Stream
	copied, done  device.Event
	host, metrics []byte
	prepare       time.Duration // what Prepare took: compiling kernels
	notes         []string      // of the tuning
}

func (c curve) rig(d device.Device) (*rig, error) {
	r, err := c.planned(d)
	if err != nil {
		return nil, err
	}
	if err := r.ready(c); err != nil {
		return nil, err
	}
	return r, nil
}

// planned returns a rig up to the plan and the choice between kernels' variants.
func (c curve) planned(d device.Device) (_ *rig, err error) {
	r := &rig{d: d}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	m, err := nn.New(c.Model, nn.Shape{H: c.Side, W: c.Side, C: 3}, 10)
	if err != nil {
		return nil, err
	}
	if r.st, err = nn.NewState(d, m, 7); err != nil {
		return nil, err
	}
	if r.input, err = d.Alloc(c.inputBytes()); err != nil {
		return nil, err
	}
	if r.plan, err = m.Plan(d, r.st, nn.PlanConfig{Batch: c.Batch, Type: c.typ, Input: r.input, LabelsOff: c.labels()}); err != nil {
		return nil, err
	}
	if tuner, ok := d.(device.Tuner); ok && c.tune > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), c.tune)
		defer cancel()
		r.notes = tuner.Tune(ctx, r.plan.Train, nil)
	}
	return r, nil
}

// ready prepares the program and all that a step needs.
func (r *rig) ready(c curve) (err error) {
	d := r.d
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	begin := time.Now()
	if r.program, err = d.Prepare(r.plan.Train); err != nil {
		return err
	}
	r.prepare = time.Since(begin)
	if capturer, ok := d.(device.Capturer); ok && c.capture {
		if err = capturer.Capture(r.program, true); err != nil {
			return err
		}
	}
	var errs [6]error
	r.compute, errs[0] = d.NewStream("compute")
	r.copy, errs[1] = d.NewStream("copy")
	r.copied, errs[2] = d.NewEvent()
	r.done, errs[3] = d.NewEvent()
	r.host, errs[4] = d.AllocHost(c.inputBytes())
	r.metrics, errs[5] = d.AllocHost(8)
	return errors.Join(errs[:]...)
}

// step brings the batch in host, trains on it, waits, and returns its loss.
func (r *rig) step() (float64, error) {
	err := errors.Join(
		r.d.CopyIn(r.copy, r.input, r.host[:r.input.Size]),
		r.d.Record(r.copy, r.copied),
		r.d.Wait(r.compute, r.copied),
		r.d.Launch(r.compute, r.program),
		r.d.CopyOut(r.compute, r.metrics, r.plan.Metrics.Slice(0, 8)),
		r.d.Record(r.compute, r.done),
		r.d.Sync(r.done))
	return float64(kernels.Floats(r.metrics)[0]), err
}

// close gives back what rig took; the device must be idle.
func (r *rig) close() {
	if r.host != nil {
		r.d.FreeHost(r.host)
	}
	if r.metrics != nil {
		r.d.FreeHost(r.metrics)
	}
	for _, e := range []device.Event{r.copied, r.done} {
		if e != 0 {
			r.d.FreeEvent(e)
		}
	}
	if r.program != 0 {
		r.d.Release(r.program)
	}
	if r.plan != nil {
		r.plan.Free()
	}
	if r.input.Size > 0 {
		r.d.Free(r.input)
	}
	if r.st != nil {
		r.st.Free()
	}
}
