package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/mask"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// environment is the appendix about what ran where: the session, the device, the model
// and the data, the host and its load, and the memory.
type environment struct {
	session string // the file or name that is shown; empty for the session's own
	s       *trace.Snapshot
}

func (e *environment) write(d *markup.Document) {
	d.Heading(2, "Appendix A: environment")
	meta := &e.s.Meta
	d.Fact("session", sessionName(e.session, meta))
	if !meta.Started.IsZero() {
		d.Fact("started", meta.Started.UTC().Format(time.RFC3339))
	}
	d.Fact("outcome", status(e.s))
	e.device(d)
	e.data(d)
	if meta.Imported != "" && len(meta.Host) == 0 {
		d.Fact("host, settings, workers", notRecorded)
	}
	for _, k := range meta.Host {
		d.Fact(k.Name, k.Value)
	}
	e.load(d)
	e.memory(d)
	d.Fact("gpustall", meta.Version)
	if len(meta.Command) > 0 {
		d.Line("- command:")
		d.Fenced(command(mask.Args(meta.Command)))
		return
	}
	d.Line("")
}

// device writes what computed, and which model.
func (e *environment) device(d *markup.Document) {
	meta := &e.s.Meta
	device := meta.Device
	if meta.Emulated {
		how := "its times are modelled, not measured"
		if meta.DeviceKind == "cuda" {
			how = "its times are the host's, not a GPU's"
		}
		device += " (emulated: " + how + ")"
	}
	d.Fact("device", device)
	d.Fact("device kind", meta.DeviceKind)
	d.Fact("model", meta.Model)
	d.Fact("form of the model", meta.Form)
	if meta.Params > 0 {
		d.Fact("trainable parameters", units.Count(meta.Params))
	}
}

// data writes which samples the run trained on, and in which order.
func (e *environment) data(d *markup.Document) {
	meta := &e.s.Meta
	data := meta.Dataset
	if meta.Synthetic {
		data += " (synthetic: made by gpustall)"
	}
	d.Fact("data set", data)
	d.Fact("data format", meta.Format)
	d.Fact("data files", meta.Contents)
	if meta.Cached != nil {
		d.Fact("data in memory", advice.Cached(meta.Cached))
	}
	if n := e.s.EpochSamples(); n > 0 {
		d.Fact(epochSamples, units.Count(n))
	}
	if meta.Classes > 0 {
		d.Fact("classes", itoa(int64(meta.Classes)))
	}
	if meta.Imported != "" {
		d.Fact("imported from", meta.Imported)
	} else if meta.Learns() {
		d.Fact("seed", itoa(meta.Seed))
	}
}

// load writes what the host's cores did while steps ran, as far as it was measured.
func (e *environment) load(d *markup.Document) {
	share := func(gauge string) string {
		mean, _, n := e.s.GaugeDuringSteps(gauge)
		if n == 0 {
			return ""
		}
		return units.Prose.Percent(mean / 100)
	}
	ours, others, idle := share(trace.GaugeCPUOurs), share(trace.GaugeCPUOthers), share(trace.GaugeCPUIdle)
	if ours != "" && others != "" && idle != "" {
		d.Fact("CPU load", fmt.Sprintf("%s by this process, %s by others, %s idle (of the usable cores)", ours, others, idle))
	}
	if v := share(trace.GaugeRunQueue); v != "" {
		d.Fact("waiting for a core", v+" of the time in which threads of this process were ready to run")
	}
	if v := share(trace.GaugeThrottled); v != "" {
		d.Fact("throttled", v+" of the periods of the cgroup's CPU quota, which ran out in them")
	}
}

// memory writes what the run planned to take of the device's and the host's memory, and
// what it took.
func (e *environment) memory(d *markup.Document) {
	o := &e.s.Outcome
	if p := o.Planned; p.Total() > 0 {
		parts := p.List(units.Prose.Bytes)
		if p.Kernels == 0 {
			parts += "; without what this device's kernels take themselves"
		}
		d.Fact("planned device memory", units.Prose.Bytes(p.Total())+": "+parts)
	}
	if p := e.s.PeakBytes(); p > 0 {
		d.Fact("peak device memory", units.Prose.Bytes(p))
	}
	if p := o.HostPlanned; p.Total() > 0 {
		parts := p.List(units.Prose.Bytes)
		if beside := p.Beside(units.Prose.Bytes); beside != "" {
			parts += "; " + beside
		}
		d.Fact("planned memory of the host", units.Prose.Bytes(p.Total())+": "+parts)
	}
	if p := o.HostPeak; p > 0 {
		d.Fact("peak resident memory", units.Prose.Bytes(p))
	}
}

// sessionName returns the name that is shown for a session, or else its own.
func sessionName(shown string, m *trace.Meta) string {
	return cmp.Or(shown, m.ID, "unnamed session")
}

// setup names the model and the device.
func setup(m *trace.Meta) string {
	model := cmp.Or(m.Model, "a model of unknown name")
	if m.Model == "" && m.Emulated {
		model = "a modelled training step"
	}
	return model + " on " + cmp.Or(m.Device, "an unknown device")
}

// status says how a run ended.
func status(s *trace.Snapshot) string {
	o := &s.Outcome
	at := ""
	if o.Ended > 0 {
		at = " after " + units.Prose.Time(o.Ended)
	}
	switch o.Status {
	case "finished":
		if s.Meta.Imported != "" {
			return "the trace ends" + at + "; how the run ended is not in it."
		}
		return "the run finished" + at + "."
	case "stopped":
		return "the run was stopped by hand" + at + "."
	case "failed":
		return fmt.Sprintf("the run failed%s: %s.", at, strings.TrimSuffix(cmp.Or(o.Error, "no reason was recorded"), "."))
	case "killed":
		return "the run was killed, or had no room left to write to: its file has no end, and what came after " + units.Prose.Time(s.Now) + " is missing."
	case "", "running":
		return "the run was still going on when this was written, " + units.Prose.Time(s.Now) + " after its start."
	}
	return "the run ended" + at + " with status " + o.Status + "."
}
