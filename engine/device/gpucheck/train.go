package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
	"unsafe"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
)

// trainSpec says what to train. It travels as JSON to the process that does it.
type trainSpec struct {
	Model   string `json:"model"`
	Side    int    `json:"side"` // of the pictures
	Type    string `json:"type"`
	Batch   int    `json:"batch"`
	Steps   int    `json:"steps"` // of the loss curve
	CPU     int    `json:"cpu_steps"`
	CPUSize int    `json:"cpu_batch"`
	// Contrast is the strength of a class's pattern in noise of variance 1. A small one
	// keeps the curve from falling within a few steps.
	Contrast float64 `json:"contrast"`
	Rates    []int   `json:"rates"`        // batch sizes whose speed is measured
	Seconds  float64 `json:"rate_seconds"` // for each of them
}

// training is the result of a trainSpec.
type training struct {
	Spec     trainSpec `json:"spec"`
	Losses   []float64 `json:"losses"`          // each step's, launched kernel by kernel
	Captured []float64 `json:"captured_losses"` // the same run, each step a replayed graph
	CPU      *compared `json:"cpu,omitempty"`
	Rates    []rate    `json:"rates"`
	Peak     int64     `json:"peak_memory_bytes"`
}

// compared has the losses of the first steps, and the cpu device's on the same weights and batches.
// Batch norm makes training chaotic. So the unit of the tolerance is how much the cpu's own losses
// change with a millionth of noise on the first batch.
type compared struct {
	Losses  []float64 `json:"losses"`
	CPU     []float64 `json:"cpu_losses"`
	Allowed []float64 `json:"allowed"`
}

// rate is the speed of training steps on a batch that lies on the GPU already.
type rate struct {
	Batch   int     `json:"batch"`
	Capture bool    `json:"capture"`
	Steps   int     `json:"steps"`
	StepMS  float64 `json:"step_ms"` // median over rounds of steps
	Samples float64 `json:"samples_per_s"`
	TFLOPs  float64 `json:"tflops"`    // of the model's own work
	Prepare float64 `json:"prepare_s"` // compiling the kernels, where it was not done before
	Error   string  `json:"error,omitempty"`
}

func trainPiece(d device.Device, args []string, emit func(any)) (any, error) {
	var s trainSpec
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &s) != nil {
		return nil, errors.New("train: the argument is the specification as JSON")
	}
	return train(d, s, func(t *training) { emit(t) })
}

// train emits what it has after each stage, the most important first.
func train(d device.Device, s trainSpec, emit func(*training)) (*training, error) {
	typ := kernels.Type(slices.Index(types, s.Type))
	if !slices.Contains(d.Info().Types, s.Type) {
		return nil, fmt.Errorf("train in %s: %w", s.Type, device.ErrUnsupported)
	}
	t := &training{Spec: s}
	c := curve{trainSpec: s, typ: typ, lr: defaultRate}
	var err error
	if s.Steps > 0 {
		if t.Losses, err = c.losses(d); err != nil {
			return t, err
		}
		emit(t)
	}
	if s.CPU > 0 {
		if t.CPU, err = compareCPU(d, s); err != nil {
			return t, err
		}
		emit(t)
	}
	for _, batch := range s.Rates {
		for _, capture := range []bool{false, true} {
			t.Rates = append(t.Rates, speed(d, s, typ, batch, capture))
			emit(t)
		}
	}
	if _, ok := d.(device.Capturer); ok && s.Steps > 0 {
		c.capture = true
		if t.Captured, err = c.losses(d); err != nil {
			return t, fmt.Errorf("captured: %w", err)
		}
	}
	t.Peak = d.MemoryPeak()
	return t, nil
}

// The loss check's learning rate: below the usual 0.1, so that no warm-up is
// needed and the runs of different types stay comparable.
const defaultRate = 0.02

// compareCPU trains a few steps in fp32 on d and on the cpu device.
func compareCPU(d device.Device, s trainSpec) (*compared, error) {
	host, err := cpu.Open(0)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	s.Batch, s.Steps = s.CPUSize, s.CPU
	c := curve{trainSpec: s, typ: kernels.F32, lr: 5e-4}
	out := &compared{}
	if out.Losses, err = c.losses(d); err != nil {
		return nil, err
	}
	if out.CPU, err = c.losses(host); err != nil {
		return nil, fmt.Errorf("cpu device: %w", err)
	}
	noise := make([]float64, s.Steps)
	for _, c.nudge = range []float64{1e-6, -1e-6} {
		nudged, err := c.losses(host)
		if err != nil {
			return nil, fmt.Errorf("cpu device: %w", err)
		}
		for i, v := range nudged {
			noise[i] = max(noise[i], math.Abs(v-out.CPU[i]))
		}
	}
	for i, v := range out.CPU {
		if i > 0 {
			noise[i] = max(noise[i], noise[i-1])
		}
		out.Allowed = append(out.Allowed, 1e-4*v+10*noise[i])
	}
	return out, nil
}

// curve is a training run whose batches follow from a seed.
type curve struct {
	trainSpec
	typ     kernels.Type
	capture bool
	tune    time.Duration // for trying variants of kernels; 0: what is known is taken
	lr      float64
	nudge   float64 // relative noise on the first batch's pixels
}

// distinct is how many batches a curve repeats.
const distinct = 16

// batches makes them: noise with a pattern for each class on it.
func (c curve) batches() [][]byte {
	rng := rand.New(rand.NewPCG(5, 6))
	n := c.Side * c.Side * 3
	out := make([][]byte, min(distinct, c.Steps))
	for k := range out {
		floats := make([]float32, (c.inputBytes()+3)/4)
		out[k] = unsafe.Slice((*byte)(unsafe.Pointer(&floats[0])), 4*len(floats))
		labels := kernels.Ints(out[k][c.labels() : c.labels()+4*c.Batch])
		for i := range c.Batch {
			label := rng.IntN(10)
			labels[i] = int32(label)
			px := floats[i*n : (i+1)*n]
			for j := range px {
				v := rng.NormFloat64() + c.Contrast*math.Sin(float64(label+1)*float64(j))
				if k == 0 {
					v *= 1 + c.nudge*math.Sin(float64(j*j))
				}
				px[j] = float32(v)
			}
		}
	}
	return out
}

// labels returns where the labels begin in the input, as loader.Batch lays it out.
func (s trainSpec) labels() int     { return (4*s.Batch*s.Side*s.Side*3 + 63) &^ 63 }
func (s trainSpec) inputBytes() int { return s.labels() + 4*s.Batch }

// losses trains and returns each step's loss.
func (c curve) losses(d device.Device) (out []float64, err error) {
	r, err := c.rig(d)
	if err != nil {
		return nil, err
	}
	defer r.close()
	batches := c.batches()
	if err := r.st.SetHyper(r.compute, nn.Hyper{LR: c.lr, Momentum: 0.9, WeightDecay: 5e-4}); err != nil {
		return nil, err
	}
	for step := range c.Steps {
		copy(r.host, batches[step%len(batches)])
		loss, err := r.step()
		if err != nil {
			return out, fmt.Errorf("step %d: %w", step, err)
		}
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return out, fmt.Errorf("step %d: the loss is %v", step, loss)
		}
		out = append(out, loss)
	}
	return out, nil
}

// speed times training steps without copies or waits between them.
func speed(d device.Device, s trainSpec, typ kernels.Type, batch int, capture bool) (out rate) {
	out = rate{Batch: batch, Capture: capture}
	fail := func(err error) rate { out.Error = err.Error(); return out }
	s.Batch, s.Steps = batch, 1
	c := curve{trainSpec: s, typ: typ, capture: capture, lr: defaultRate}
	r, err := c.rig(d)
	if err != nil {
		return fail(err)
	}
	defer r.close()
	out.Prepare = r.prepare.Seconds()
	copy(r.host, c.batches()[0])
	if err := r.st.SetHyper(r.compute, nn.Hyper{LR: 1e-4, Momentum: 0.9, WeightDecay: 5e-4}); err != nil {
		return fail(err)
	}
	for range 3 { // the first also brings the batch
		if _, err := r.step(); err != nil {
			return fail(err)
		}
	}
	const round = 10
	var steps []float64
	for begin := time.Now(); len(steps) < 3 || time.Since(begin).Seconds() < s.Seconds && len(steps) < 100; {
		at := time.Now()
		for range round {
			if err := d.Launch(r.compute, r.program); err != nil {
				return fail(err)
			}
		}
		if err := errors.Join(d.Record(r.compute, r.done), d.Sync(r.done)); err != nil {
			return fail(err)
		}
		steps = append(steps, time.Since(at).Seconds()/round)
		out.Steps += round
		if s.Seconds <= 0 {
			break
		}
	}
	m := median(steps)
	out.StepMS, out.Samples, out.TFLOPs = 1e3*m, float64(batch)/m, r.plan.FLOPs/m/1e12
	return out
}
