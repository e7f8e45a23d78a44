package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// prober is a device whose kernels can be run one variant at a time.
type prober interface {
	Configs(op kernels.Op) (configs, experiments []string)
	Try(op kernels.Op, configs []string, reference bool, tell func(device.Tried) error) error
	Occupancy(op kernels.Op, config string) (blocks, planned int, err error)
}

var errNoProber = errors.New("this device has no variants of kernels")

// directions are the three products of a convolution, by the names of their operations.
var directions = []string{"conv_forward", "conv_backward_data", "conv_backward_weight"}

// convolution returns the product of that direction; nil for another name.
func convolution(direction string, g kernels.Conv, typ kernels.Type) kernels.Op {
	switch direction {
	case directions[0]:
		return kernels.ConvForward{Conv: g, Type: typ}
	case directions[1]:
		return kernels.ConvBackwardData{Conv: g, Type: typ}
	case directions[2]:
		return kernels.ConvBackwardWeight{Conv: g, Type: typ}
	}
	return nil
}

// probeSpec is a tile to probe: one variant of a tiny convolution.
type probeSpec struct {
	Direction string `json:"direction"`
	Type      string `json:"type"`
	Config    string `json:"variant"`
}

func (s probeSpec) op() kernels.Op {
	typ := kernels.BF16
	if s.Type == kernels.F16.String() {
		typ = kernels.F16
	}
	// Nine tiles of depth fill every stage of a pipeline twice.
	return convolution(s.Direction, kernels.Conv{N: 4, H: 8, W: 8, C: 64, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}, typ)
}

// probed is the result of a probe, compared with the reference on the host.
type probed struct {
	probeSpec
	Micro float64 `json:"us,omitempty"`
	Wrong string  `json:"wrong,omitempty"`
}

// probeList names each tensor-core tile once: those of the forward product, and the other ones of
// weight gradients. The wgmma tiles, which no GPU has run yet, come first.
func probeList(d device.Device) (any, error) {
	p, ok := d.(prober)
	if !ok {
		return nil, errNoProber
	}
	var first, rest []probeSpec
	seen := map[string]bool{}
	for _, direction := range []string{directions[0], directions[2]} {
		s := probeSpec{Direction: direction, Type: d.Info().Mixed}
		configs, _ := p.Configs(s.op())
		for _, c := range configs {
			tile, _, split := strings.Cut(c, "k")
			if s.Config = c; split || seen[tile] {
				continue
			}
			seen[tile] = true
			if strings.HasPrefix(c, "wgmma") {
				first = append(first, s)
			} else {
				rest = append(rest, s)
			}
		}
	}
	return append(first, rest...), nil
}

func probePiece(d device.Device, args []string) (any, error) {
	var s probeSpec
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &s) != nil || s.op() == nil {
		return nil, errors.New("probe: the argument is the tile as JSON")
	}
	p, ok := d.(prober)
	if !ok {
		return nil, errNoProber
	}
	out := probed{probeSpec: s}
	err := p.Try(s.op(), []string{s.Config}, true, func(t device.Tried) error {
		out.Micro, out.Wrong = micro(t.Time), t.Why
		return told(t)
	})
	return out, err
}

// told ends a measurement after a variant that left the device broken.
func told(t device.Tried) error {
	if t.Broken {
		return errTold
	}
	return nil
}

// probeTime is the most time for a tile. It includes a new context and, for the first tile of a
// module, compiling the module.
const probeTime = 15 * time.Second

// probe runs each tile in a process of its own and tells each result at once.
func (c *check) probe(ctx context.Context) (any, error) {
	var list []probeSpec
	if err := c.piece(ctx, &list, "probe-list"); err != nil {
		return nil, err
	}
	var out []probed
	var wrong []string
	for _, s := range list {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		r := probed{probeSpec: s}
		arg, err := json.Marshal(s)
		if err == nil {
			ctx, cancel := context.WithTimeout(ctx, c.patient(probeTime))
			err = c.piece(ctx, &r, "probe", string(arg))
			cancel()
		}
		if err != nil {
			r.Wrong = err.Error()
		}
		out = append(out, r)
		if r.Wrong != "" {
			wrong = append(wrong, s.Config+": "+r.Wrong)
		}
		fmt.Fprintln(c.out, "  "+r.line())
	}
	if len(wrong) > 0 {
		return out, fmt.Errorf("%s (%d of %d tiles)", wrong[0], len(wrong), len(out))
	}
	return out, nil
}

func (p probed) line() string {
	if p.Wrong != "" {
		return fmt.Sprintf("%-22s %s", p.Config, result{Why: p.Wrong}.short())
	}
	return fmt.Sprintf("%-22s right, %s", p.Config, units.Prose.Time(int64(1e3*p.Micro)))
}

// fenced is the effect of leaving out the proxy fence, for one product.
type fenced struct {
	Direction string  `json:"direction"`
	Tried     []tried `json:"tried"`
}

// fencePiece tries the planner's guess, a wgmma tile, and the same tile without its fence. The last
// is tried several times, since a missing fence would show now and then only.
func fencePiece(d device.Device, args []string) (any, error) {
	p, ok := d.(prober)
	if !ok || len(args) == 0 {
		return nil, errNoProber
	}
	g := kernels.Conv{N: 1024, H: 16, W: 16, C: 128, K: 128, R: 3, S: 3, Stride: 1, Pad: 1}
	if quickArg(args) {
		g.N, g.C, g.K = 2, 64, 64
	}
	op := convolution(args[0], g, kernels.BF16)
	if op == nil {
		return nil, errors.New("fence: no such product")
	}
	out := fenced{Direction: args[0]}
	configs, experiments := p.Configs(op)
	if len(experiments) == 0 {
		return out, nil
	}
	try := []string{configs[0], strings.TrimSuffix(experiments[0], "u")}
	for range 5 {
		try = append(try, experiments[0])
	}
	var all []device.Tried
	err := p.Try(op, try, false, func(t device.Tried) error { all = append(all, t); return told(t) })
	out.Tried = triedOf(all)
	return out, err
}

// fence judges the kernels without the proxy fence. It never fails, since nothing trains with them.
func (c *check) fence(ctx context.Context) (any, error) {
	var out []fenced
	for _, direction := range directions {
		args := []string{direction}
		if c.quick {
			args = append(args, "quick")
		}
		var f fenced
		if err := c.piece(ctx, &f, "fence", args...); err != nil {
			return out, err
		}
		if len(f.Tried) == 0 {
			return nil, skip("no kernel of this GPU needs a proxy fence")
		}
		out = append(out, f)
	}
	return out, nil
}

// occupied is how many blocks of a kernel a multiprocessor holds.
type occupied struct {
	probeSpec
	Blocks  int `json:"blocks"`  // by the driver
	Planned int `json:"planned"` // by the table of tiles
}

func occupancy(d device.Device) (any, error) {
	p, ok := d.(prober)
	if !ok {
		return nil, errNoProber
	}
	var out []occupied
	for _, direction := range directions {
		s := probeSpec{Direction: direction, Type: d.Info().Mixed}
		configs, _ := p.Configs(s.op())
		for _, s.Config = range configs {
			blocks, planned, err := p.Occupancy(s.op(), s.Config)
			if err != nil {
				return out, fmt.Errorf("%s %s: %w", direction, s.Config, err)
			}
			out = append(out, occupied{s, blocks, planned})
		}
	}
	return out, nil
}

// probeRows writes which tiles are wrong, what the fence costs, and where driver and planner differ.
func (tab table) probeRows() {
	if all, ok := tab.value("probe").([]probed); ok {
		right := 0
		for _, p := range all {
			if p.Wrong == "" {
				right++
			}
		}
		tab.row("probe", "%d of %d tensor-core tiles compute a tiny convolution right", right, len(all))
		for _, p := range all {
			if p.Wrong != "" {
				tab.row("", "%s", p.line())
			}
		}
	}
	fences, _ := tab.value("fence").([]fenced)
	for _, f := range fences {
		tab.row("fence", "%s: %s", f.Direction, f.text())
	}
	if all, ok := tab.value("occupancy").([]occupied); ok {
		other := 0
		for _, o := range all {
			if o.Blocks != o.Planned {
				other++
			}
		}
		tab.row("occupancy", "%d of %d variants hold another number of blocks than planned", other, len(all))
	}
}

// text describes the results of a tile with and without its fence.
func (f fenced) text() string {
	var with, without probed
	right := 0
	for _, t := range f.Tried[min(2, len(f.Tried)):] {
		if t.Wrong == "" {
			right++
		}
		if without.Config == "" || t.Wrong != "" { // what is wrong once is wrong
			without = probed{probeSpec{Config: t.Variant}, t.Micro, t.Wrong}
		}
	}
	if len(f.Tried) < 3 {
		return "a kernel before it broke the GPU's context"
	}
	with = probed{probeSpec{Config: f.Tried[1].Variant}, f.Tried[1].Micro, f.Tried[1].Wrong}
	return fmt.Sprintf("%s; without its fence right in %d of %d tries: %s", with.words(), right, len(f.Tried)-2, without.words())
}

// words returns line without its columns.
func (p probed) words() string { return strings.Join(strings.Fields(p.line()), " ") }
