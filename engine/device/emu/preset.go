package emu

import (
	"fmt"
	"strings"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// Preset is a modelled accelerator.
type Preset struct {
	Name     string // as in emu:NAME
	Card     Card
	Workload *Workload // a fixed compute time per batch; nil: every launch is modelled by the card's roofline
}

// Workload is a training job of MLPerf Storage: what a batch is and how long an
// accelerator computes on it. The benchmark's accelerators sleep that long too.
type Workload struct {
	Name        string
	BatchSize   int
	SampleBytes int64
	Compute     time.Duration // per batch
}

// Step returns the operation that computes on a batch. One of another size than BatchSize
// takes in proportion, or larger batches would seem to be free.
func (w *Workload) Step(samples int) device.Operation {
	return Fixed{Duration: time.Duration(int64(w.Compute) * int64(samples) / int64(w.BatchSize))}
}

// Card is what the roofline knows of a GPU. Rates are the peaks its datasheet
// gives, dense (no sparsity), with the boost clock; Efficiency and Bandwidth's
// share are what the model takes of them.
type Card struct {
	Name   string
	Memory int64 // bytes

	// Peak FLOP/s by compute type; 0 where the card has no such arithmetic.
	FP32, TF32, FP16, BF16 float64
	Bandwidth              float64 // device memory, bytes/s

	// Assumed, not from a datasheet: what well-written training kernels reach.
	Efficiency     float64       // of the peak FLOP/s
	BandwidthShare float64       // of the peak memory bandwidth
	LaunchOverhead time.Duration // device time a launch costs beside its work

	// Host-to-device copies, bytes/s. Pinned is assumed to reach 85 % of the
	// link's one-way rate; pageable is one host thread's copy into the driver's
	// staging buffer.
	Pinned, Pageable float64
	CopyLatency      time.Duration
}

const (
	tera = 1e12
	giga = 1e9
	gib  = 1 << 30
)

// One-way PCIe x16 rates after encoding (PCI-SIG base specifications 3.0 to 5.0).
const (
	pcie3 = 15.754 * giga
	pcie4 = 31.508 * giga
	pcie5 = 63.015 * giga
)

// card fills in the assumptions, which are the same for every card.
func card(c Card, link, pageable float64) Card {
	c.Efficiency, c.BandwidthShare = 0.6, 0.8
	c.LaunchOverhead = 2200 * time.Nanosecond
	c.Pinned, c.Pageable = 0.85*link, pageable
	c.CopyLatency = 8 * time.Microsecond
	return c
}

// The cards. A test derives the rates again from multiprocessors and clocks.
var (
	// NVIDIA H100 Tensor Core GPU datasheet, SXM column: 67 (FP32), 989 (TF32) and
	// 1,979 (FP16 and BF16) TFLOP/s, the last two with sparsity, hence halved; 80 GB;
	// 3.35 TB/s; PCIe Gen5. The decimals are the Hopper architecture whitepaper's
	// (494.7 and 989.4 dense).
	h100 = card(Card{Name: "H100 SXM 80GB", Memory: 80 * gib,
		FP32: 67 * tera, TF32: 494.7 * tera, FP16: 989.4 * tera, BF16: 989.4 * tera, Bandwidth: 3350 * giga}, pcie5, 10*giga)
	// NVIDIA A100 Tensor Core GPU datasheet (1758950-r4), 80GB SXM column: 19.5, 156
	// and 312 TFLOP/s without sparsity; 2,039 GB/s; PCIe Gen4.
	a100 = card(Card{Name: "A100 SXM 80GB", Memory: 80 * gib,
		FP32: 19.5 * tera, TF32: 156 * tera, FP16: 312 * tera, BF16: 312 * tera, Bandwidth: 2039 * giga}, pcie4, 8*giga)
	// NVIDIA Ada GPU Architecture whitepaper, appendix A: GeForce RTX 4090, dense and
	// with FP32 accumulation, which runs at half the rate of FP16 accumulation.
	rtx4090 = card(Card{Name: "RTX 4090", Memory: 24 * gib,
		FP32: 82.6 * tera, TF32: 82.6 * tera, FP16: 165.2 * tera, BF16: 165.2 * tera, Bandwidth: 1008 * giga}, pcie4, 10*giga)
	// GeForce RTX 4070 specifications: 5888 cores at 2.475 GHz boost, 504.2 GB/s;
	// the tensor rates scale from the same whitepaper by cores and clock.
	rtx4070 = card(Card{Name: "RTX 4070", Memory: 12 * gib,
		FP32: 29.15 * tera, TF32: 29.15 * tera, FP16: 58.3 * tera, BF16: 58.3 * tera, Bandwidth: 504.2 * giga}, pcie4, 10*giga)
	// NVIDIA T4 Tensor Core GPU datasheet: 8.1 TFLOP/s single precision, 65 mixed
	// (FP16 products, FP32 sums), 320 GB/s, PCIe Gen3. Turing has no TF32 and no BF16.
	t4 = card(Card{Name: "T4", Memory: 16 * gib,
		FP32: 8.1 * tera, FP16: 65 * tera, Bandwidth: 320 * giga}, pcie3, 6*giga)
)

// workload is one of MLPerf Storage v1.0, with its published batch size, mean
// sample size and computation time per accelerator (mlcommons/storage,
// storage-conf/workload/*.yaml: batch_size, record_length, computation_time).
type workload struct {
	name        string
	batch       int
	sampleBytes int64
	h100, a100  time.Duration
}

var workloads = []workload{
	{"unet3d", 7, 146_600_628, 323 * time.Millisecond, 636 * time.Millisecond},
	{"resnet50", 400, 114_660, 224 * time.Millisecond, 435 * time.Millisecond},
	{"cosmoflow", 1, 2_828_486, 3500 * time.Microsecond, 5510 * time.Microsecond},
}

// Presets lists every accelerator that Open knows, in the order of the help.
func Presets() []Preset {
	ps := []Preset{
		{Name: "h100", Card: h100}, {Name: "a100", Card: a100},
		{Name: "rtx4090", Card: rtx4090}, {Name: "rtx4070", Card: rtx4070}, {Name: "t4", Card: t4},
	}
	for _, w := range workloads {
		ps = append(ps,
			Preset{w.name + "-h100", h100, &Workload{w.name, w.batch, w.sampleBytes, w.h100}},
			Preset{w.name + "-a100", a100, &Workload{w.name, w.batch, w.sampleBytes, w.a100}})
	}
	return ps
}

// Names lists the presets' names.
func Names() []string {
	var names []string
	for _, p := range Presets() {
		names = append(names, p.Name)
	}
	return names
}

// Find returns the preset called name, with or without "emu:" before it. The
// error wraps device.ErrNoDevice and lists the names there are.
func Find(name string) (Preset, error) {
	short := strings.ToLower(strings.TrimPrefix(name, "emu:"))
	for _, p := range Presets() {
		if p.Name == short {
			return p, nil
		}
	}
	return Preset{}, errs.New("open device", name, "there is no emulated one of that name",
		"choose one of emu:"+strings.Join(Names(), ", emu:")).Because(device.ErrNoDevice)
}

// Types lists the compute types of the card.
func (c Card) Types() []string {
	types := []string{"fp32"}
	for _, t := range []struct {
		name string
		rate float64
	}{{"tf32", c.TF32}, {"fp16", c.FP16}, {"bf16", c.BF16}} {
		if t.rate > 0 {
			types = append(types, t.name)
		}
	}
	return types
}

// peaks returns the card's peak rates, by type.
func (c Card) peaks() device.Peaks {
	p := device.Peaks{FLOPs: map[string]float64{}, From: "datasheet of the " + c.Name}
	for _, t := range []kernels.Type{kernels.F32, kernels.TF32, kernels.F16, kernels.BF16} {
		if rate := c.rate(t); rate > 0 {
			p.FLOPs[t.String()] = rate
		}
	}
	return p
}

func (c Card) rate(t kernels.Type) float64 {
	switch t {
	case kernels.TF32:
		return c.TF32
	case kernels.F16:
		return c.FP16
	case kernels.BF16:
		return c.BF16
	}
	return c.FP32
}

// Time returns the modelled device time of one launch: the roofline (Williams,
// Waterman and Patterson, "Roofline: an insightful visual performance model",
// CACM 2009) of its work, plus the launch's overhead.
func (c Card) Time(op device.Operation) (time.Duration, error) {
	if f, ok := op.(Fixed); ok {
		return f.Duration, nil
	}
	rate := c.rate(computeType(op))
	if rate == 0 {
		return 0, errs.Reason(fmt.Sprintf("a %s has no %v arithmetic", c.Name, computeType(op)), "choose another precision").Because(device.ErrUnsupported)
	}
	compute := op.FLOPs() / (rate * c.Efficiency)
	memory := op.Bytes() / (c.Bandwidth * c.BandwidthShare)
	return c.LaunchOverhead + seconds(max(compute, memory)), nil
}

// computeType returns the type an operation multiplies in: that of its 16-bit or
// TF32 operands, if it has any.
func computeType(op device.Operation) kernels.Type {
	if o, ok := op.(kernels.Op); ok {
		for _, a := range o.Args() {
			switch a.Type {
			case kernels.TF32, kernels.F16, kernels.BF16:
				return a.Type
			}
		}
	}
	return kernels.F32
}

// copyTime returns the device time of a copy of n bytes.
func (c Card) copyTime(n int, pinned bool) time.Duration {
	rate := c.Pageable
	if pinned {
		rate = c.Pinned
	}
	return c.CopyLatency + seconds(float64(n)/rate)
}

func seconds(s float64) time.Duration { return time.Duration(s*1e9 + 0.5) }

// Fixed is an operation that takes a given device time and does nothing.
type Fixed struct{ Duration time.Duration }

func (Fixed) Name() string   { return "fixed" }
func (Fixed) FLOPs() float64 { return 0 }
func (Fixed) Bytes() float64 { return 0 }
