package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
)

// table writes the short table. It has only numbers that this run measured; what
// is from a datasheet says so.
func (c *check) table(w io.Writer) {
	r := &c.report
	switch { // every line says it, since lines are copied elsewhere
	case r.Emulated:
		w = &prefixed{w, "emulated | "}
	case r.Quick:
		w = &prefixed{w, "quick | "}
	}
	fmt.Fprintf(w, "gpustall %s, GPU check of %s\n", r.Version, r.Started.Format("2006-01-02 15:04 UTC"))
	if r.Emulated {
		fmt.Fprintln(w, noteEmulated)
	} else if r.Quick {
		fmt.Fprintln(w, "QUICK: sizes too small to mean anything; the check itself was tried")
	}
	row(w, "GPU", "%s", c.gpuText())
	count := map[string]int{}
	for _, p := range r.Parts {
		count[p.Status]++
	}
	row(w, "parts", "%d ok, %d failed, %d skipped, in %.0f s", count[statusOK], count[statusFailed], count[statusSkipped], r.Seconds)
	for _, p := range r.Parts {
		if p.Status != statusOK {
			row(w, "  "+p.Status, "%s: %s", p.Name, p.short())
		}
	}
	c.testRows(w)
	c.probeRows(func(name, format string, args ...any) { row(w, name, format, args...) })
	c.lossRows(w)
	c.speedRows(w)
	c.runRows(w)
	c.costRows(w)
	c.opRows(w)
}

// prefixed writes a prefix before each line; it is given whole lines.
type prefixed struct {
	w      io.Writer
	prefix string
}

func (p *prefixed) Write(b []byte) (int, error) {
	_, err := io.WriteString(p.w, p.prefix+string(b))
	return len(b), err
}

func row(w io.Writer, name, format string, args ...any) {
	fmt.Fprintf(w, "%-13s  %s\n", name, fmt.Sprintf(format, args...))
}

func (c *check) gpuText() string {
	s := fmt.Sprintf("%s, %s", c.facts.Name, units.Prose.Bytes(c.facts.Memory))
	if c.facts.Driver != "" {
		s += ", driver " + c.facts.Driver
	}
	if c.torch.Version != "" {
		s += ", PyTorch " + c.torch.Version
	}
	return s
}

func (c *check) testRows(w io.Writer) {
	for _, p := range c.report.Parts {
		if n, ok := p.Value.(testCounts); ok {
			row(w, "tests", "%-12s %4d passed, %d failed, %d skipped", p.Name, n.Passed, len(n.Failed), len(n.Skipped))
		}
	}
}

func (c *check) lossRows(w io.Writer) {
	for _, typ := range types {
		t := c.runs[typ]
		if t == nil || len(t.Losses) == 0 {
			continue
		}
		n := len(t.Losses)
		tenth := max(1, n/10)
		s := fmt.Sprintf("%s %s, %d steps: %.4f -> %.4f", typ, t.Spec.Model, n, t.Losses[0], mean(t.Losses[n-tenth:]))
		if m := len(t.Captured); m == n {
			s += fmt.Sprintf("; captured -> %.4f", mean(t.Captured[n-tenth:]))
		}
		if n < judged {
			s += " (too few steps to judge the fall)"
		}
		row(w, "loss", "%s", s)
		if t.CPU != nil {
			worst := 0.0
			for i, v := range t.CPU.Losses {
				worst = max(worst, abs(v-t.CPU.CPU[i]))
			}
			row(w, "", "first %d steps beside the cpu device's: at most %.1e off", len(t.CPU.Losses), worst)
		}
	}
}

// types are in the order of kernels.Type.
var types = []string{"fp32", "tf32", "fp16", "bf16"}

// speedRows are training steps on data that lies on the GPU, all in samples/s.
func (c *check) speedRows(w io.Writer) {
	var sizes []int
	add := func(n int) {
		if !slices.Contains(sizes, n) {
			sizes = append(sizes, n)
		}
	}
	type line struct {
		name string
		at   map[int]float64
	}
	var lines []*line
	put := func(name string, batch int, v float64) {
		if v <= 0 {
			return
		}
		add(batch)
		for _, l := range lines {
			if l.name == name {
				l.at[batch] = v
				return
			}
		}
		lines = append(lines, &line{name, map[int]float64{batch: v}})
	}
	for _, typ := range types {
		if t := c.runs[typ]; t != nil {
			for _, r := range t.Rates {
				put(fmt.Sprintf("gpustall %s %s, capture %s", t.Spec.Model, typ, knob.Switch(r.Capture)), r.Batch, r.Samples)
			}
		}
	}
	for _, r := range c.torchRows() {
		if slices.Contains(torchTrains, r.Case) {
			put("PyTorch resnet18 AMP bf16 channels_last, "+r.Case, r.Batch, r.Samples)
		}
	}
	if len(lines) == 0 {
		return
	}
	head := fmt.Sprintf("%-46s", "samples/s, batch already on the GPU")
	for _, n := range sizes {
		head += fmt.Sprintf("%14s", fmt.Sprintf("batch %d", n))
	}
	row(w, "training", "%s", head)
	cells := func(name string, v func(n int) string) {
		s := fmt.Sprintf("%-46s", name)
		for _, n := range sizes {
			s += fmt.Sprintf("%14s", v(n))
		}
		row(w, "", "%s", s)
	}
	var best *line
	peer := map[int]float64{} // PyTorch's best, by batch size
	for _, l := range lines {
		cells(l.name, func(n int) string { return number(l.at[n], "%.0f") })
		if l.name == "gpustall resnet18 bf16, capture on" {
			best = l
		}
		if strings.HasPrefix(l.name, "PyTorch") {
			for n, v := range l.at {
				peer[n] = max(peer[n], v)
			}
		}
	}
	if best != nil && len(peer) > 0 && !c.report.Emulated {
		cells("gpustall bf16, capture on / PyTorch's best", func(n int) string {
			if peer[n] == 0 || best.at[n] == 0 {
				return "-"
			}
			return fmt.Sprintf("%.2f", best.at[n]/peer[n])
		})
	}
	if t, ok := c.value("train-224").(training); ok {
		for _, r := range t.Rates {
			row(w, "", "gpustall %s at %dx%d, batch %d, capture %s: %.0f samples/s", t.Spec.Model, t.Spec.Side, t.Spec.Side, r.Batch, knob.Switch(r.Capture), r.Samples)
		}
	}
}

func number(v float64, format string) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// value is the result of a part that was ok.
func (c *check) value(name string) any {
	for _, p := range c.report.Parts {
		if p.Name == name {
			return p.Value
		}
	}
	return nil
}

func (c *check) runRows(w io.Writer) {
	if s, ok := c.value("end-to-end").(*runSummary); ok {
		row(w, "end to end", "gpustall, %s workers: %.0f samples/s, %s", c.workers(), s.Samples, s.Verdict)
	}
	for _, r := range c.torchRows() {
		if r.Case == "end-to-end" && r.Samples > 0 {
			row(w, "end to end", "PyTorch DataLoader, %d workers: %.0f samples/s", r.Workers, r.Samples)
		}
	}
	for _, name := range []string{"end-to-end", "starved"} {
		s, ok := c.value(name).(*runSummary)
		if !ok {
			continue
		}
		nvml := "NVML gave none"
		if g, ok := s.Gauges["nvml_util"]; ok {
			nvml = fmt.Sprintf("NVML %s (%d samples)", units.Prose.Percent(g.Mean/100), g.Samples) // it is in per cent already
		}
		row(w, "utilisation", "%s: measured %s, %s", name, units.Prose.Percent(s.Utilisation), nvml)
	}
}

func (c *check) costRows(w io.Writer) {
	if v, ok := c.value("compile").(compiles); ok && len(v.First) > 0 {
		s := fmt.Sprintf("the driver took %.1f s for the kernels of", total(v.First))
		for _, t := range v.First {
			s += " " + t.Type
		}
		if len(v.Again) > 0 {
			s += fmt.Sprintf("; %.1f s with its cache", total(v.Again))
		}
		row(w, "compile", "%s", s)
	}
	if rates, ok := c.value("copies").([]copyRate); ok {
		for _, r := range rates {
			kind := "pageable"
			if r.Pinned {
				kind = "pinned"
			}
			row(w, "copy", "%s %-8s %9s: %10s, alone %s", r.Direction, kind, units.Prose.Bytes(int64(r.Bytes)), units.Prose.Transfer(1e9*r.GBPerS), units.Prose.Time(int64(1e3*r.Alone)))
		}
	}
	c.tuneRows(func(name, format string, args ...any) { row(w, name, format, args...) })
	if costs, ok := c.value("launches").([]launchCost); ok {
		for _, l := range costs {
			row(w, "launch", "%2d in a program, capture %-3s: host %.0f ns, device %.0f ns a launch", l.Launches, knob.Switch(l.Capture), l.Host, l.Device)
		}
	}
}

// opRows are the costliest ops beside what the GPU can do at most.
func (c *check) opRows(w io.Writer) {
	runs, ok := c.value("ops").(map[string]*runSummary)
	if !ok {
		return
	}
	var sizes []string
	for n := range runs {
		sizes = append(sizes, n)
	}
	slices.SortFunc(sizes, func(a, b string) int { return len(a) - len(b) })
	for _, n := range sizes {
		s := runs[n]
		typ := s.Knobs["precision"]
		limit, source := c.ceiling(typ)
		row(w, "ops", "batch %s, %s; copies to the GPU %s of the time; peak memory %s; ceiling %s", n, typ, units.Prose.Percent(s.CopyShare), units.Prose.Bytes(s.Peak), source)
		ops := slices.Clone(s.Ops)
		slices.SortStableFunc(ops, func(a, b opRow) int { return cmp.Compare(b.Total, a.Total) })
		for _, o := range ops[:min(12, len(ops))] {
			of := ""
			if limit > 0 && o.TFLOPs > 0 && strings.HasPrefix(o.Name, "conv") {
				of = "  " + units.Prose.Percent(o.TFLOPs/limit) + " of the ceiling"
			}
			row(w, "", "%-22s %-24s %7s  %9s  %7.2f TFLOP/s  %6.0f GB/s%s", o.Name, o.Layer, units.Prose.Percent(o.Share), units.Prose.Time(int64(1e9*o.Mean)), o.TFLOPs, o.GBPerS, of)
		}
	}
}

// ceiling is the most TFLOP/s that a type reaches on this GPU: PyTorch's large
// matrix product in this run, else the datasheet's, and where it is from.
func (c *check) ceiling(typ string) (float64, string) {
	if c.report.Emulated {
		return 0, "none on an emulated driver"
	}
	for _, r := range c.torchRows() {
		if r.Case == "matmul" && r.Type == typ && r.TFLOPs > 0 {
			return r.TFLOPs, fmt.Sprintf("%.0f TFLOP/s (%s, PyTorch's %dx%d matmul, measured in this run)", r.TFLOPs, typ, r.Size, r.Size)
		}
	}
	if p := device.DatasheetOf(c.facts.Name); p.FLOPs[typ] > 0 {
		tflops := p.FLOPs[typ] / 1e12
		return tflops, fmt.Sprintf("%.0f TFLOP/s (%s, %s, dense, not measured)", tflops, typ, p.From)
	}
	return 0, "unknown: no PyTorch to measure it, and no datasheet at hand"
}
