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

// table is the short table of what a check found. It has only numbers that this run measured;
// what is from a datasheet says so.
type table struct {
	*findings
	w io.Writer
}

// write writes the table of what was found.
func (f *findings) write(w io.Writer) {
	r := &f.report
	switch { // every line has the prefix, since people copy single lines
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
	tab := table{f, w}
	tab.row("GPU", "%s", f.gpuText())
	count := map[string]int{}
	for _, p := range r.Parts {
		count[p.Status]++
	}
	tab.row("parts", "%d ok, %d failed, %d skipped, in %.0f s", count[statusOK], count[statusFailed], count[statusSkipped], r.Seconds)
	for _, p := range r.Parts {
		if p.Status != statusOK {
			tab.row("  "+p.Status, "%s: %s", p.Name, p.short())
		}
	}
	tab.testRows()
	tab.probeRows()
	tab.lossRows()
	tab.speedRows()
	tab.runRows()
	tab.costRows()
	tab.opRows()
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

func (tab table) row(name, format string, args ...any) {
	fmt.Fprintf(tab.w, "%-13s  %s\n", name, fmt.Sprintf(format, args...))
}

func (f *findings) gpuText() string {
	s := fmt.Sprintf("%s, %s", f.facts.Name, units.Prose.Bytes(f.facts.Memory))
	if f.facts.Driver != "" {
		s += ", driver " + f.facts.Driver
	}
	if f.torch.Version != "" {
		s += ", PyTorch " + f.torch.Version
	}
	return s
}

func (tab table) testRows() {
	for _, p := range tab.report.Parts {
		if n, ok := p.Value.(testCounts); ok {
			tab.row("tests", "%-12s %4d passed, %d failed, %d skipped", p.Name, n.Passed, len(n.Failed), len(n.Skipped))
		}
	}
}

func (tab table) lossRows() {
	for _, typ := range types {
		t := tab.runs[typ]
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
		tab.row("loss", "%s", s)
		if t.CPU != nil {
			worst := 0.0
			for i, v := range t.CPU.Losses {
				worst = max(worst, abs(v-t.CPU.CPU[i]))
			}
			tab.row("", "first %d steps beside the cpu device's: at most %.1e off", len(t.CPU.Losses), worst)
		}
	}
}

// types are in the order of kernels.Type.
var types = []string{"fp32", "tf32", "fp16", "bf16"}

// speedRows writes the speed of training steps on data that lies on the GPU, in samples/s.
func (tab table) speedRows() {
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
		if t := tab.runs[typ]; t != nil {
			for _, r := range t.Rates {
				put(fmt.Sprintf("gpustall %s %s, capture %s", t.Spec.Model, typ, knob.Switch(r.Capture)), r.Batch, r.Samples)
			}
		}
	}
	for _, r := range tab.torchRows() {
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
	tab.row("training", "%s", head)
	cells := func(name string, v func(n int) string) {
		s := fmt.Sprintf("%-46s", name)
		for _, n := range sizes {
			s += fmt.Sprintf("%14s", v(n))
		}
		tab.row("", "%s", s)
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
	if best != nil && len(peer) > 0 && !tab.report.Emulated {
		cells("gpustall bf16, capture on / PyTorch's best", func(n int) string {
			if peer[n] == 0 || best.at[n] == 0 {
				return "-"
			}
			return fmt.Sprintf("%.2f", best.at[n]/peer[n])
		})
	}
	if t, ok := tab.value("train-224").(training); ok {
		for _, r := range t.Rates {
			tab.row("", "gpustall %s at %dx%d, batch %d, capture %s: %.0f samples/s", t.Spec.Model, t.Spec.Side, t.Spec.Side, r.Batch, knob.Switch(r.Capture), r.Samples)
		}
	}
}

func number(v float64, format string) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// value returns what a part found, or nil.
func (f *findings) value(name string) any {
	for _, p := range f.report.Parts {
		if p.Name == name {
			return p.Value
		}
	}
	return nil
}

func (tab table) runRows() {
	if s, ok := tab.value("end-to-end").(*runSummary); ok {
		tab.row("end to end", "gpustall, %s workers: %.0f samples/s, %s", tab.workers(), s.Samples, s.Verdict)
	}
	for _, r := range tab.torchRows() {
		if r.Case == "end-to-end" && r.Samples > 0 {
			tab.row("end to end", "PyTorch DataLoader, %d workers: %.0f samples/s", r.Workers, r.Samples)
		}
	}
	for _, name := range []string{"end-to-end", "starved"} {
		s, ok := tab.value(name).(*runSummary)
		if !ok {
			continue
		}
		nvml := "NVML gave none"
		if g, ok := s.Gauges["nvml_util"]; ok {
			nvml = fmt.Sprintf("NVML %s (%d samples)", units.Prose.Percent(g.Mean/100), g.Samples) // it is in per cent already
		}
		tab.row("utilisation", "%s: measured %s, %s", name, units.Prose.Percent(s.Utilisation), nvml)
	}
}

func (tab table) costRows() {
	if v, ok := tab.value("compile").(compiles); ok && len(v.First) > 0 {
		s := fmt.Sprintf("the driver took %.1f s for the kernels of", total(v.First))
		for _, t := range v.First {
			s += " " + t.Type
		}
		if len(v.Again) > 0 {
			s += fmt.Sprintf("; %.1f s with its cache", total(v.Again))
		}
		tab.row("compile", "%s", s)
	}
	if rates, ok := tab.value("copies").([]copyRate); ok {
		for _, r := range rates {
			kind := "pageable"
			if r.Pinned {
				kind = "pinned"
			}
			tab.row("copy", "%s %-8s %9s: %10s, alone %s", r.Direction, kind, units.Prose.Bytes(int64(r.Bytes)), units.Prose.Transfer(1e9*r.GBPerS), units.Prose.Time(int64(1e3*r.Alone)))
		}
	}
	tab.tuneRows()
	if costs, ok := tab.value("launches").([]launchCost); ok {
		for _, l := range costs {
			tab.row("launch", "%2d in a program, capture %-3s: host %.0f ns, device %.0f ns a launch", l.Launches, knob.Switch(l.Capture), l.Host, l.Device)
		}
	}
}

// opRows writes the costliest ops, with their share of the GPU's peak.
func (tab table) opRows() {
	runs, ok := tab.value("ops").(map[string]*runSummary)
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
		limit, source := tab.ceiling(typ)
		tab.row("ops", "batch %s, %s; copies to the GPU %s of the time; peak memory %s; ceiling %s", n, typ, units.Prose.Percent(s.CopyShare), units.Prose.Bytes(s.Peak), source)
		ops := slices.Clone(s.Ops)
		slices.SortStableFunc(ops, func(a, b opRow) int { return cmp.Compare(b.Total, a.Total) })
		for _, o := range ops[:min(12, len(ops))] {
			of := ""
			if limit > 0 && o.TFLOPs > 0 && strings.HasPrefix(o.Name, "conv") {
				of = "  " + units.Prose.Percent(o.TFLOPs/limit) + " of the ceiling"
			}
			tab.row("", "%-22s %-24s %7s  %9s  %7.2f TFLOP/s  %6.0f GB/s%s", o.Name, o.Layer, units.Prose.Percent(o.Share), units.Prose.Time(int64(1e9*o.Mean)), o.TFLOPs, o.GBPerS, of)
		}
	}
}

// ceiling returns the most TFLOP/s that a type reaches on this GPU and where that is from: PyTorch's
// large matrix product in this run, else the datasheet.
func (f *findings) ceiling(typ string) (float64, string) {
	if f.report.Emulated {
		return 0, "none on an emulated driver"
	}
	for _, r := range f.torchRows() {
		if r.Case == "matmul" && r.Type == typ && r.TFLOPs > 0 {
			return r.TFLOPs, fmt.Sprintf("%.0f TFLOP/s (%s, PyTorch's %dx%d matmul, measured in this run)", r.TFLOPs, typ, r.Size, r.Size)
		}
	}
	if p := device.DatasheetOf(f.facts.Name); p.FLOPs[typ] > 0 {
		tflops := p.FLOPs[typ] / 1e12
		return tflops, fmt.Sprintf("%.0f TFLOP/s (%s, %s, dense, not measured)", tflops, typ, p.From)
	}
	return 0, "unknown: no PyTorch to measure it, and no datasheet at hand"
}
