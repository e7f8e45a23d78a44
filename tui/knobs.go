package tui

import (
	"slices"
	"strconv"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/trace"
)

// knobState is where a change stands. A knob shows the value that the trace
// confirms; a change is beside it until the trace has it too.
type knobState uint8

const (
	knobSteady    knobState = iota
	knobStaged              // chosen on the screen only
	knobRequested           // asked of the engine, not yet in a segment
	knobConfirmed           // the newest segment has it
)

// confirmedFor is how long a confirmation stays marked.
const confirmedFor = int64(8 * time.Second)

// knobs is the panel that edits settings. Its rows are Meta.Specs in the order
// of their groups.
type knobs struct {
	specs     []trace.KnobSpec
	sel       int // index into specs
	scroll    int
	staged    map[string]string
	requested map[string]string
	since     map[string]int64 // ns of the confirmation
	undo      [][]trace.Knob   // values before each requested change
	editing   bool
	edit      string
}

func (k *knobs) panel(canSet bool) panel {
	k.staged, k.requested, k.since = map[string]string{}, map[string]string{}, map[string]int64{}
	return panel{
		key: "2", name: "knobs", title: pick(canSet, "Knobs", "Knobs (read-only)"), small: true,
		place: func(s space) place {
			switch {
			case s.class == sizeCompact:
				return place{band: lowerBand, cols: max(36, s.w*9/20), rows: max(8, (s.h-5)*2/5)}
			case s.w >= 160:
				return place{band: timelineBand, cols: max(56, s.w/3)}
			}
			return place{band: timelineBand, cols: max(50, s.w*2/5)}
		},
		draw: k.draw,
		keys: []binding{
			{keys: upDownKeys, also: pageKeys, show: upDown, hint: "select", help: "select", do: func(_ *Model, key string) tea.Cmd {
				d, far := direction(key)
				k.move(d * pick(far == stridePage, 8, 1))
				return nil
			}},
			{keys: leftRightKeys, show: leftRight, hint: "change", help: "stage a step", do: (*Model).stageStep},
			{keys: biggerKeys, also: biggerAlso, help: biggerHelp, do: (*Model).stageStep},
			{keys: "enter", hint: "apply", help: "apply what is staged; with nothing staged, as i", do: func(m *Model, _ string) tea.Cmd {
				if len(k.staged) > 0 {
					return m.apply(k.changes(), true)
				}
				m.edit()
				return nil
			}},
			{keys: "i", help: "type the selected knob's value, or flip its switch", do: func(m *Model, _ string) tea.Cmd { m.edit(); return nil }},
			{keys: "esc", hint: "drop"},
			{keys: "u", hint: "undo"},
		},
	}
}

var groupOrder = []string{"loader", "engine", "inject"}

// update takes over the specs and what the newest segment confirms, and forgets
// the changes that c, nil in a replay, no longer wants: those that were refused
// when they were tried, out of memory say. The note that says why is the engine's.
func (k *knobs) update(live *trace.Snapshot, c Control) {
	if len(k.specs) != len(live.Meta.Specs) {
		k.specs = slices.Clone(live.Meta.Specs)
		rank := func(s trace.KnobSpec) int {
			if i := slices.Index(groupOrder, s.Group); i >= 0 {
				return i
			}
			return len(groupOrder)
		}
		slices.SortStableFunc(k.specs, func(a, b trace.KnobSpec) int { return rank(a) - rank(b) })
		k.sel = min(k.sel, max(0, len(k.specs)-1))
	}
	if len(live.Segments) == 0 {
		return
	}
	if len(k.requested) == 0 || c == nil {
		return
	}
	last := &live.Segments[len(live.Segments)-1]
	wanted := c.Requested()
	for name, want := range k.requested {
		if sameValue(trace.KnobValue(last.Knobs, name), want) {
			delete(k.requested, name)
			k.since[name] = live.Now
		} else if !sameValue(trace.KnobValue(wanted, name), want) {
			delete(k.requested, name)
		}
	}
}

func (k *knobs) state(name string, now int64) knobState {
	if _, ok := k.staged[name]; ok {
		return knobStaged
	}
	if _, ok := k.requested[name]; ok {
		return knobRequested
	}
	if t, ok := k.since[name]; ok && now-t < confirmedFor {
		return knobConfirmed
	}
	return knobSteady
}

func (k *knobs) selected() *trace.KnobSpec {
	if k.sel < 0 || k.sel >= len(k.specs) {
		return nil
	}
	return &k.specs[k.sel]
}

func (k *knobs) move(d int) { k.sel = min(max(k.sel+d, 0), max(0, len(k.specs)-1)) }

// target is the value a further step starts from: staged, requested or in force.
func (k *knobs) target(name, inForce string) string {
	if v, ok := k.staged[name]; ok {
		return v
	}
	if v, ok := k.requested[name]; ok {
		return v
	}
	return inForce
}

// stage records a value, or forgets it when nothing would change.
func (k *knobs) stage(name, value, inForce string) {
	base := inForce
	if v, ok := k.requested[name]; ok {
		base = v
	}
	if sameValue(value, base) {
		delete(k.staged, name)
		return
	}
	k.staged[name] = value
}

// step stages the selected knob d steps on; size is 1, or more for the bigger
// steps of shift and ctrl.
func (k *knobs) step(d, size int, inForce string) {
	s := k.selected()
	if s == nil {
		return
	}
	k.stage(s.Name, stepped(s, k.target(s.Name, inForce), d, size), inForce)
}

// stepped is the value d steps of a size away from cur.
func stepped(s *trace.KnobSpec, cur string, d, size int) string {
	switch s.Type {
	case "bool":
		return boolLike(cur, d > 0)
	case "int":
		v, _ := strconv.Atoi(cur)
		if len(s.Values) == 0 {
			return strconv.Itoa(clamp(v+d*size, s))
		}
		for range size {
			v = neighbour(s.Values, v, d)
		}
		return strconv.Itoa(clamp(v, s))
	case "duration":
		v, _ := time.ParseDuration(cur)
		return duration(max(0, v+time.Duration(d*size)*time.Millisecond))
	}
	if len(s.Values) == 0 {
		return cur
	}
	i := slices.Index(s.Values, cur)
	return s.Values[min(max(i+d, 0), len(s.Values)-1)]
}

func clamp(v int, s *trace.KnobSpec) int {
	if s.Max > s.Min {
		return min(max(v, s.Min), s.Max)
	}
	return v
}

// neighbour is the nearest of values above (d > 0) or below v.
func neighbour(values []string, v, d int) int {
	best, found := v, false
	for _, s := range values {
		n, err := strconv.Atoi(s)
		if err != nil || (d > 0 && n <= v) || (d < 0 && n >= v) {
			continue
		}
		if !found || (d > 0 && n < best) || (d < 0 && n > best) {
			best, found = n, true
		}
	}
	return best
}

// boolLike writes b in the words that like uses.
func boolLike(like string, b bool) string {
	switch like {
	case "on", "off":
		if b {
			return "on"
		}
		return "off"
	}
	return strconv.FormatBool(b)
}

// duration writes none as off, as the knobs do.
func duration(d time.Duration) string {
	if d == 0 {
		return "off"
	}
	return d.String()
}

// sameValue compares values as people would: on and true, 5ms and 0.005s, off
// and 0s.
func sameValue(a, b string) bool {
	if a == b || isZero(a) && isZero(b) {
		return true
	}
	if da, err := time.ParseDuration(a); err == nil {
		if db, err := time.ParseDuration(b); err == nil {
			return da == db
		}
	}
	return isBool(a) && isBool(b) && isOn(a) == isOn(b)
}

func isBool(v string) bool {
	switch v {
	case "true", "false", "on", "off":
		return true
	}
	return false
}

// valid checks typed text before it is staged; the engine has the last word.
func valid(s *trace.KnobSpec, text string) (string, string) {
	text = strings.TrimSpace(text)
	switch s.Type {
	case "int":
		v, err := strconv.Atoi(text)
		if err != nil {
			return "", s.Name + ": " + strconv.Quote(text) + " is not a whole number"
		}
		if s.Max > s.Min && (v < s.Min || v > s.Max) {
			return "", s.Name + " goes from " + strconv.Itoa(s.Min) + " to " + strconv.Itoa(s.Max) + ", not " + text
		}
		return strconv.Itoa(v), ""
	case "duration":
		if text == "off" {
			return text, ""
		}
		if _, err := strconv.Atoi(text); err == nil {
			text += "ms"
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return "", s.Name + ": write a time like 5ms, not " + strconv.Quote(text)
		}
		return duration(d), ""
	}
	return text, ""
}

// changes are the staged values in the panel's order.
func (k *knobs) changes() []trace.Knob {
	var out []trace.Knob
	for i := range k.specs {
		if v, ok := k.staged[k.specs[i].Name]; ok {
			out = append(out, trace.Knob{Name: k.specs[i].Name, Value: v})
		}
	}
	return out
}

// accepted moves changes from staged to requested.
func (k *knobs) accepted(changes []trace.Knob) {
	for _, c := range changes {
		if k.staged[c.Name] == c.Value {
			delete(k.staged, c.Name)
		}
		k.requested[c.Name] = c.Value
		delete(k.since, c.Name)
	}
}
