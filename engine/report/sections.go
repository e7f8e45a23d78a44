package report

import (
	"fmt"
	"strings"
	"time"

	"dev.gpustall/engine/advice"
	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

func (m *markdown) name() string {
	if m.o.Session != "" {
		return m.o.Session
	}
	if m.s.Meta.ID != "" {
		return m.s.Meta.ID
	}
	return "unnamed session"
}

// model, device and data in words, whatever is missing.
func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (m *markdown) modelName() string {
	if m.s.Meta.Model == "" && m.s.Meta.Emulated {
		return "a modelled training step"
	}
	return or(m.s.Meta.Model, "a model of unknown name")
}

func (m *markdown) title() {
	fmt.Fprintf(m.w, "# gpustall report: %s on %s\n\n", m.modelName(), or(m.s.Meta.Device, "an unknown device"))
	if words := advice.Words(m.advice.Labels); words != "" {
		m.para("**Note: %s.** See the caveats at the end.", words)
	}
	m.short()
}

// short is the whole story in a sentence, where there is one.
func (m *markdown) short() {
	if m.first == m.last {
		return
	}
	a, b := &m.rows[m.first], &m.rows[m.last]
	if a.Steps == 0 || b.Steps == 0 {
		return
	}
	c := &b.VsA.Throughput
	effect := "it is not known yet whether epochs became shorter (" + c.Missing.String() + ")"
	switch {
	case c.Answer == evidence.Same:
		effect = "an epoch took the same time (" + figures.Prose.GainRange(c.Estimate()) + " throughput)"
	case c.Answer == evidence.Different && c.Ratio < 1:
		effect = fmt.Sprintf("an epoch took %s more time", figures.Prose.PercentOf(increase(reduction(c))))
	case c.Answer == evidence.Different:
		effect = fmt.Sprintf("an epoch took %s less time", figures.Prose.PercentOf(reduction(c)))
	}
	m.para("In short: with %s instead of the baseline's settings %s; device utilisation went from %s to %s, the share of time lost to data from %s to %s.",
		m.difference(m.first, m.last), effect, figures.Prose.Percent(a.Utilisation), figures.Prose.Percent(b.Utilisation), figures.Prose.Percent(a.DataShare), figures.Prose.Percent(b.DataShare))
}

func (m *markdown) problem() {
	m.heading(2, "Problem and goal")
	data := or(m.s.Meta.Dataset, "a data set of unknown name")
	m.para("%s was trained on %s with data from %s. Whenever the device has nothing to compute, it waits for something: data, a copy, the host. This report says what it waited for, what was changed about it, and what that bought.",
		upper(m.modelName()), or(m.s.Meta.Device, "an unknown device"), data)
	if m.first < 0 || m.s.Total.Steps == 0 {
		m.para("No training step was finished, so there is nothing to account for: %s", m.status())
		return
	}
	a := m.rows[m.first]
	which, from := "the first settings", "it started from"
	if m.chosen() {
		which = fmt.Sprintf("segment #%d by its number", a.Segment.Index)
		from = fmt.Sprintf("of segment #%d", a.Segment.Index)
	}
	b := a.Breakdown
	if a.Steps == 0 {
		m.para("The baseline (segment A, %s) has no steady step to judge by.", which)
	} else {
		m.para("With the settings %s (segment A, the baseline) the device computed %s of the time and waited for data %s of it.",
			from, figures.Prose.Percent(a.Utilisation), figures.Prose.Percent(a.DataShare))
	}
	goal := "The goal is an epoch in less time, by having the next batch ready whenever the device can take it."
	if e := m.epochOf(m.first); e.best() > 0 && b.Active() > 0 {
		goal += fmt.Sprintf(" An epoch took %s. With no time lost to data, and everything else the same, it would take %s (projected: less the measured share of data).",
			e, figures.Prose.Time(int64(float64(e.best())*(1-b.DataShare()))))
	}
	m.para("%s", goal)
}

func upper(s string) string {
	if strings.HasPrefix(s, "a ") {
		return "A" + s[1:]
	}
	return s
}

// status says how the run ended.
func (m *markdown) status() string {
	o := m.s.Outcome
	at := ""
	if o.Ended > 0 {
		at = " after " + figures.Prose.Time(o.Ended)
	}
	switch o.Status {
	case "finished":
		return "the run finished" + at + "."
	case "stopped":
		return "the run was stopped by hand" + at + "."
	case "failed":
		return fmt.Sprintf("the run failed%s: %s.", at, strings.TrimSuffix(or(o.Error, "no reason was recorded"), "."))
	case "killed":
		return "the run was killed, or had no room left to write to: its file has no end, and what came after " + figures.Prose.Time(m.s.Now) + " is missing."
	case "", "running":
		return "the run was still going on when this was written, " + figures.Prose.Time(m.s.Now) + " after its start."
	}
	return "the run ended" + at + " with status " + o.Status + "."
}

func (m *markdown) environment() {
	m.heading(2, "Environment")
	meta := &m.s.Meta
	rows := [][]string{{"what", "value"}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("session", m.name())
	if !meta.Started.IsZero() {
		add("started", meta.Started.UTC().Format(time.RFC3339))
	}
	add("outcome", m.status())
	device := meta.Device
	if meta.Emulated {
		how := "its times are modelled, not measured"
		if meta.DeviceKind == "cuda" {
			how = "its times are the host's, not a GPU's"
		}
		device += " (emulated: " + how + ")"
	}
	add("device", device)
	add("device kind", meta.DeviceKind)
	add("model", meta.Model)
	if meta.Params > 0 {
		add("trainable parameters", figures.Count(meta.Params))
	}
	data := meta.Dataset
	if meta.Synthetic {
		data += " (synthetic: made by gpustall)"
	}
	add("data set", data)
	add("data format", meta.Format)
	if meta.Samples > 0 {
		add("samples in an epoch", figures.Count(meta.Samples))
	}
	if meta.Classes > 0 {
		add("classes", itoa(int64(meta.Classes)))
	}
	if meta.Imported != "" {
		add("imported from", meta.Imported)
	} else {
		add("seed", itoa(meta.Seed))
	}
	for _, k := range meta.Host {
		add(k.Name, k.Value)
	}
	if p := m.s.Outcome.Planned; p.Total() > 0 {
		parts := p.List(figures.Prose.Bytes)
		if p.Kernels == 0 {
			parts += "; without what this device's kernels take themselves"
		}
		add("planned device memory", figures.Prose.Bytes(p.Total())+": "+parts)
	}
	if p := m.s.PeakBytes(); p > 0 {
		add("peak device memory", figures.Prose.Bytes(p))
	}
	add("gpustall", meta.Version)
	if len(meta.Command) > 0 {
		add("command", code(command(meta.Command)))
	}
	m.table(rows)
}

func (m *markdown) baselineSection() {
	m.heading(2, "Baseline")
	if m.first < 0 {
		m.para("There is no baseline: no settings were recorded.")
		return
	}
	r := &m.rows[m.first]
	m.heading(3, "Configuration")
	if len(r.Segment.Knobs) == 0 {
		m.para("The settings are not known.")
	} else {
		rows := [][]string{{"knob", "value", ""}}
		for _, k := range r.Segment.Knobs {
			rows = append(rows, []string{k.Name, k.Value, m.noEffect(k.Name)})
		}
		m.table(rows)
	}
	if m.tally(m.first).All.Steps == 0 {
		m.para("No step was finished with these settings.")
		return
	}
	m.heading(3, "Measurements")
	m.measurements(m.first)
	m.heading(3, "Timeline")
	m.timeline(m.first)
	m.heading(3, "Where the time went")
	m.breakdown(r.Breakdown)
}

func (m *markdown) noEffect(knob string) string {
	for _, s := range m.s.Meta.Specs {
		if s.Name == knob && s.NoEffect != "" {
			return "no effect here: " + s.NoEffect
		}
	}
	return ""
}

// measurements of one row, each with what it means.
func (m *markdown) measurements(row int) {
	r := &m.rows[row]
	if r.Steps == 0 {
		m.para("All %s of these settings belong to a transition or a warm-up, so there is nothing steady to measure.",
			figures.Counted(m.tally(row).All.Steps, "step", "steps"))
		return
	}
	rows := [][]string{
		{"measurement", "value", "meaning"},
		{"mean epoch time", m.epochOf(row).String(), "wall time of one pass over the data"},
		{"device utilisation", figures.Prose.Percent(r.Utilisation), "time in which the device computed, of the time that was not paused; copies do not count"},
	}
	if v, n := m.gauge("nvml_util", r); n >= 2 {
		rows = append(rows, []string{"utilisation by NVML", fmt.Sprintf("%s (mean of %d samples)", figures.Prose.Percent(v/100), n),
			"what nvidia-smi shows: time in which at least one kernel ran, however small"})
	}
	rows = append(rows, [][]string{
		{"data share", figures.Prose.Percent(r.DataShare), "time in which the device was idle and the step loop waited for a batch"},
		{"throughput", figures.Rate(r.SamplesPerSecond) + " samples/s", "samples trained on, by wall time"},
		{"step time", figures.Prose.Time(int64(r.P50)) + " median, " + figures.Prose.Time(int64(r.P95)) + " 95th percentile", "from the end of one step's compute to the end of the next one's"},
		{"data loading time", figures.Prose.Time(r.Breakdown.Load/int64(r.Steps)) + " a step", "time that workers spent on a batch, in parallel to training"},
		{"data wait", figures.Prose.Time(r.Breakdown.Wait/int64(r.Steps)) + " a step", "time that the step loop was blocked for the next batch"},
	}...)
	m.table(rows)
	m.para("Over %s; %s left out as transition or warm-up.", figures.Counted(r.Steps, "step", "steps"), figures.Count(r.Excluded))
}

// gauge is the mean of a gauge's samples within a row.
func (m *markdown) gauge(name string, r *stall.SegmentStats) (mean float64, n int) {
	t := m.s.Tally(r.Segment.Index)
	for _, p := range m.s.Gauges[name] {
		if p.T >= t.Start && p.T <= t.End {
			mean += p.V
			n++
		}
	}
	return mean / float64(max(n, 1)), n
}

// breakdown is the account of time: computing and every cause of idleness.
func (m *markdown) breakdown(b stall.Breakdown) {
	if b.Wall <= 0 {
		m.para("There is no steady step to account for.")
		return
	}
	rows := [][]string{{"cause", ">time", ">share", "meaning"}, {"computing", figures.Prose.Time(b.Busy), figures.Prose.Percent(b.Utilisation()), "the device was busy"}}
	for c, ns := range b.Stall {
		if ns == 0 {
			continue
		}
		share := figures.Prose.Percent(b.Share(trace.Cause(c)))
		if trace.Cause(c) == trace.CausePaused {
			share = "-"
		}
		rows = append(rows, []string{trace.Cause(c).String(), figures.Prose.Time(ns), share, trace.Cause(c).Info().Means})
	}
	rows = append(rows, []string{"all", figures.Prose.Time(b.Wall), figures.Prose.Percent(1), "wall time of the steps: computing and all causes add up to it exactly"})
	m.table(rows)
}
