package tui

import (
	"cmp"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// knobState is where a change stands. A knob shows the value that the trace
// confirms; a change is beside it until the trace has it too.
type knobState uint8

const (
	knobSteady    knobState = iota
	knobStaged              // chosen on the screen only
	knobRequested           // asked of the engine, not yet in a segment
	knobConfirmed           // the newest segment has it
	knobFading              // and has had it for a moment
)

// confirmedFor is how long a confirmation stays marked, brightly at first.
const (
	confirmedFor  = int64(6 * time.Second)
	confirmedAnew = int64(2 * time.Second)
)

// knobs is the panel that edits settings. Its rows are Meta.Specs in the order
// of their groups.
type knobs struct {
	specs     []knob.Spec
	told      []knob.Spec // those that specs were made of
	sel       int         // index into specs
	table     canvas.Table[knobRow]
	rows      []knobRow
	staged    map[string]string
	requested map[string]string
	since     map[string]int64 // ns of the confirmation
	undo      [][]knob.Setting // values before each requested change
	edit      *entry           // the selected knob's value is being typed
	risks     risks            // of what is staged
}

func (k *knobs) panel(canSet bool) panel {
	k.staged, k.requested, k.since = map[string]string{}, map[string]string{}, map[string]int64{}
	k.table = canvas.Table[knobRow]{Columns: slices.Clone(knobColumns), Marks: true, Pinned: -1}
	return panel{
		key: "2", name: "knobs", title: pick(canSet, "Knobs", "Knobs (read-only)"), small: true,
		place: func(s space) place {
			if s.class == sizeCompact {
				return place{band: lowerBand, cols: knobsWidth(s), rows: lowerRows(s)}
			}
			return place{band: mainBand, cols: knobsWidth(s)}
		},
		draw: k.draw,
		keys: []binding{
			{keys: upDownKeys, also: pageKeys, show: upDown, hint: "select", help: "select", do: func(_ *Model, key string) tea.Cmd {
				d, far := direction(key)
				k.move(d * pick(far == stridePage, 8, 1))
				return nil
			}},
			{keys: leftRightKeys, show: leftRight, hint: "change", help: "stage a step", live: true, do: (*Model).stageStep},
			{keys: "enter", live: true, hint: "apply", help: "apply what is staged; with nothing staged, as i", do: func(m *Model, _ string) tea.Cmd {
				if len(k.staged) > 0 {
					return m.apply(k.changes(), true)
				}
				m.edit()
				return nil
			}},
			{keys: "esc", hint: "drop"},
			{keys: "u", hint: "undo"},
			{keys: "i", hint: "type", help: "type the selected knob's value, or flip its switch", live: true, do: func(m *Model, _ string) tea.Cmd { m.edit(); return nil }},
			{keys: biggerKeys, also: biggerAlso, show: "H L", hint: "far", help: biggerHelp, live: true, do: (*Model).stageStep},
		},
	}
}

// knobsWidth is the width of the panel.
func knobsWidth(s space) int {
	switch s.class {
	case sizeCompact:
		return max(36, s.w*9/20)
	case sizeLarge:
		return max(56, s.w/3)
	}
	return max(50, s.w*2/5)
}

// compactKnobs is the height that the compact screen's knobs have at the least, however long
// the verdict is: their heading and three of them.
const compactKnobs = 6

// lowerRows is the height of the compact screen's last band: as much as leaves the
// timeline three lanes, or two where that would take knobs away, and not much less than half.
func lowerRows(s space) int {
	have := s.rest() - gaugeRows(s)
	return max(leastRows, min(8, have-5), min(compactKnobs, have-4), have*2/5)
}

var groupOrder = []string{knob.GroupLoader, knob.GroupEngine, knob.GroupInject}

// update takes over the specs and what the newest segment confirms, and forgets
// the changes that c, nil in a replay, no longer wants: those that were refused
// when they were tried, out of memory say. The note that says why is the engine's.
func (k *knobs) update(live *trace.Snapshot, c Control) {
	if told := live.Meta.Specs; len(k.told) != len(told) || len(told) > 0 && &k.told[0] != &told[0] { // replaced where they change
		k.told, k.specs = told, slices.Clone(told)
		rank := func(s knob.Spec) int {
			if i := slices.Index(groupOrder, s.Group); i >= 0 {
				return i
			}
			return len(groupOrder)
		}
		slices.SortStableFunc(k.specs, func(a, b knob.Spec) int { return rank(a) - rank(b) })
		k.sel = min(k.sel, max(0, len(k.specs)-1))
	}
	if len(live.Segments) == 0 {
		return
	}
	if live.Outcome.Ended != 0 { // what the run did not come to
		clear(k.requested)
		clear(k.staged)
	}
	if len(k.requested) == 0 || c == nil {
		return
	}
	last := &live.Segments[len(live.Segments)-1]
	wanted := c.Requested()
	for name, want := range k.requested {
		if sameValue(knob.ValueOf(last.Knobs, name), want) {
			delete(k.requested, name)
			k.since[name] = live.Now
		} else if !sameValue(knob.ValueOf(wanted, name), want) {
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
		return pick(now-t < confirmedAnew, knobConfirmed, knobFading)
	}
	return knobSteady
}

func (k *knobs) selected() *knob.Spec {
	if k.sel < 0 || k.sel >= len(k.specs) {
		return nil
	}
	return &k.specs[k.sel]
}

// find is the index of the knob of a name, -1 where the run has none.
func (k *knobs) find(name string) int {
	return slices.IndexFunc(k.specs, func(s knob.Spec) bool { return s.Name == name })
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

// step stages a knob d steps on, size is 1, or more for the bigger steps of shift and ctrl.
// It reports false where there is no value further on.
func (k *knobs) step(s *knob.Spec, d, size int, inForce string) bool {
	from := k.target(s.Name, inForce)
	to := stepped(s, from, d, size)
	k.stage(s.Name, to, inForce)
	return !sameValue(from, to)
}

// changes are the staged values in the panel's order.
func (k *knobs) changes() []knob.Setting {
	var out []knob.Setting
	for i := range k.specs {
		if v, ok := k.staged[k.specs[i].Name]; ok {
			out = append(out, knob.Setting{Name: k.specs[i].Name, Value: v})
		}
	}
	return out
}

// accepted moves changes from staged to requested, as the engine writes them.
func (k *knobs) accepted(changes, wanted []knob.Setting) {
	for _, c := range changes {
		if k.staged[c.Name] == c.Value {
			delete(k.staged, c.Name)
		}
		k.requested[c.Name] = cmp.Or(knob.ValueOf(wanted, c.Name), c.Value)
		delete(k.since, c.Name)
	}
}

// settable reports whether knobs can be turned, and says so where they cannot.
func (m *Model) settable() bool {
	if m.o.Control == nil {
		m.say("info", "a replay's knobs are read-only")
	}
	return m.o.Control != nil
}

// stageStep stages another value of the selected knob.
func (m *Model) stageStep(key string) tea.Cmd {
	if !m.settable() {
		return nil
	}
	if s := m.knobs.selected(); s != nil {
		d, far := direction(key)
		if !m.knobs.step(s, d, [...]int{strideOne: 1, strideShift: 4, strideCtrl: 16}[far], m.inForce(s.Name)) {
			m.say("info", s.Name+" takes "+knob.Range(s)+", and nothing beyond")
		}
	}
	return nil
}

// edit opens the selected knob: text for numbers and times, the other value for
// a switch.
func (m *Model) edit() {
	s := m.knobs.selected()
	if s == nil {
		return
	}
	if !m.settable() {
		return
	}
	cur := m.knobs.target(s.Name, m.inForce(s.Name))
	switch {
	case s.Type == "bool":
		m.knobs.stage(s.Name, knob.Switch(!knob.On(cur)), m.inForce(s.Name))
	case s.Type == "enum":
		next := stepped(s, cur, 1, 1)
		if next == cur && len(s.Values) > 0 {
			next = s.Values[0]
		}
		m.knobs.stage(s.Name, next, m.inForce(s.Name))
	default:
		m.entry = &entry{prompt: s.Name + ", " + knob.Range(s) + ": ", most: 64, end: func(text string, ok bool) {
			m.knobs.edit = nil
			if !ok || text == "" {
				return
			}
			v, err := typed(s, text)
			if err != nil {
				m.say("error", err.Error())
				return
			}
			m.knobs.stage(s.Name, v, m.inForce(s.Name))
		}}
		m.knobs.edit = m.entry
	}
}

// inForce is the value the newest segment of the live session has.
func (m *Model) inForce(name string) string {
	if m.live == nil || len(m.live.Segments) == 0 {
		return ""
	}
	return knob.ValueOf(m.live.Segments[len(m.live.Segments)-1].Knobs, name)
}

// before are the values in force of the knobs that changes set.
func (m *Model) before(changes []knob.Setting) []knob.Setting {
	out := make([]knob.Setting, len(changes))
	for i, c := range changes {
		out[i] = knob.Setting{Name: c.Name, Value: m.inForce(c.Name)}
	}
	return out
}
