package report

import (
	"fmt"
	"strings"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// sessionName is what a session is called: as it is shown, or by its own name.
func sessionName(shown string, m *trace.Meta) string {
	return or(shown, or(m.ID, "unnamed session"))
}

// or is s, or what stands for it where it is empty.
func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// setup names the model and the device.
func setup(m *trace.Meta) string {
	model := or(m.Model, "a model of unknown name")
	if m.Model == "" && m.Emulated {
		model = "a modelled training step"
	}
	return model + " on " + or(m.Device, "an unknown device")
}

// status says how the run ended.
func (m *markdown) status() string {
	o := m.s.Outcome
	at := ""
	if o.Ended > 0 {
		at = " after " + units.Prose.Time(o.Ended)
	}
	switch o.Status {
	case "finished":
		if m.s.Meta.Imported != "" {
			return "the trace ends" + at + "; how the run ended is not in it."
		}
		return "the run finished" + at + "."
	case "stopped":
		return "the run was stopped by hand" + at + "."
	case "failed":
		return fmt.Sprintf("the run failed%s: %s.", at, strings.TrimSuffix(or(o.Error, "no reason was recorded"), "."))
	case "killed":
		return "the run was killed, or had no room left to write to: its file has no end, and what came after " + units.Prose.Time(m.s.Now) + " is missing."
	case "", "running":
		return "the run was still going on when this was written, " + units.Prose.Time(m.s.Now) + " after its start."
	}
	return "the run ended" + at + " with status " + o.Status + "."
}

func (m *markdown) environment() {
	m.heading(2, "Appendix A: environment")
	meta := &m.s.Meta
	add := func(name, value string) {
		if value != "" {
			m.line("- %s: %s", name, value)
		}
	}
	add("session", sessionName(m.o.Session, meta))
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
	add("form of the model", meta.Form)
	if meta.Params > 0 {
		add("trainable parameters", units.Count(meta.Params))
	}
	data := meta.Dataset
	if meta.Synthetic {
		data += " (synthetic: made by gpustall)"
	}
	add("data set", data)
	add("data format", meta.Format)
	add("data files", meta.Contents)
	if meta.Cached != nil {
		add("data in memory", advice.Cached(meta.Cached))
	}
	if meta.Samples > 0 {
		add("samples in an epoch", units.Count(meta.Samples))
	}
	if meta.Classes > 0 {
		add("classes", itoa(int64(meta.Classes)))
	}
	if meta.Imported != "" {
		add("imported from", meta.Imported)
	} else if meta.Learns() {
		add("seed", itoa(meta.Seed))
	}
	if meta.Imported != "" && len(meta.Host) == 0 {
		add("host, settings, workers", notRecorded)
	}
	for _, k := range meta.Host {
		add(k.Name, k.Value)
	}
	m.hostLoad(add)
	if p := m.s.Outcome.Planned; p.Total() > 0 {
		parts := p.List(units.Prose.Bytes)
		if p.Kernels == 0 {
			parts += "; without what this device's kernels take themselves"
		}
		add("planned device memory", units.Prose.Bytes(p.Total())+": "+parts)
	}
	if p := m.s.PeakBytes(); p > 0 {
		add("peak device memory", units.Prose.Bytes(p))
	}
	if p := m.s.Outcome.HostPlanned; p.Total() > 0 {
		parts := p.List(units.Prose.Bytes)
		if beside := p.Beside(units.Prose.Bytes); beside != "" {
			parts += "; " + beside
		}
		add("planned memory of the host", units.Prose.Bytes(p.Total())+": "+parts)
	}
	if p := m.s.Outcome.HostPeak; p > 0 {
		add("peak resident memory", units.Prose.Bytes(p))
	}
	add("gpustall", meta.Version)
	if len(meta.Command) > 0 {
		m.line("- command:")
		m.fenced(command(meta.Command))
		return
	}
	m.line("")
}

// hostLoad says what the host was doing while steps ran, as far as it was measured.
func (m *markdown) hostLoad(add func(name, value string)) {
	share := func(gauge string) string {
		mean, _, n := m.s.GaugeDuringSteps(gauge)
		if n == 0 {
			return ""
		}
		return units.Prose.Percent(mean / 100)
	}
	ours, others, idle := share(trace.GaugeCPUOurs), share(trace.GaugeCPUOthers), share(trace.GaugeCPUIdle)
	if ours != "" && others != "" && idle != "" {
		add("CPU load", fmt.Sprintf("%s by this process, %s by others, %s idle (of the usable cores)", ours, others, idle))
	}
	if v := share(trace.GaugeRunQueue); v != "" {
		add("waiting for a core", v+" of the time in which threads of this process were ready to run")
	}
	if v := share(trace.GaugeThrottled); v != "" {
		add("throttled", v+" of the periods of the cgroup's CPU quota, which ran out in them")
	}
}
