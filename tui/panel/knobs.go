package panel

import (
	"cmp"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// knobState is how far a change is. A knob shows the value that the trace confirms. A change is
// shown beside the value until the trace has it.
type knobState uint8

const (
	knobSteady    knobState = iota
	knobStaged              // chosen on the screen only
	knobRequested           // requested of the run, not yet in a segment
	knobConfirmed           // the newest segment has it
	knobFading              // the same, for some time now
)

// confirmedFor is how long a confirmation is marked, and confirmedAnew how long brightly.
const (
	confirmedFor  = int64(6 * time.Second)
	confirmedAnew = int64(2 * time.Second)
)

// Knobs is the panel that edits settings. Its rows are Meta.Specs in the order of their groups.
type Knobs struct {
	Card
	screen Screen
	canSet bool  // there is a run whose knobs can be changed
	looks  Looks // nil where nothing is looked at: else the last row

	specs     []knob.Spec
	told      []knob.Spec    // what specs were made of, in the trace's order
	now       []knob.Setting // in force
	sel       int            // index into specs
	table     canvas.Table[knobRow]
	rows      []knobRow
	staged    map[string]string
	requested map[string]string
	since     map[string]int64 // when a value was confirmed, ns
	typed     *Prompt          // the selected knob's value, while it is typed
	risk      Risk             // of what is staged
}

// NewKnobs makes the panel. canSet says that there is a run whose knobs can be changed. looks is nil where nothing is
// looked at any more.
func NewKnobs(s Screen, canSet bool, looks Looks) *Knobs {
	k := &Knobs{
		Card:   Card{Key: "2", Name: "knobs", Title: Pick(canSet, "Knobs", "Knobs (read-only)"), Small: true},
		screen: s, canSet: canSet, looks: looks,
		staged: map[string]string{}, requested: map[string]string{}, since: map[string]int64{},
		table: canvas.Table[knobRow]{Columns: slices.Clone(knobColumns), Marks: true, Pinned: -1},
	}
	k.Keys = []Binding{
		{Keys: upDownKeys, Also: pageKeys, Show: UpDown, Hint: "select", Help: "select", Do: func(key string) tea.Cmd {
			d, far := direction(key)
			k.move(d * Pick(far == stridePage, 8, 1))
			return nil
		}},
		{Keys: leftRightKeys, Show: LeftRight, Hint: "change", Help: "stage a step", Live: true, Do: k.stageStep},
		{Keys: "enter", Live: true, Hint: "apply", Help: "apply what is staged; with nothing staged, as i", Do: func(string) tea.Cmd {
			if len(k.staged) > 0 {
				return k.screen.Apply(k.Changes())
			}
			k.edit()
			return nil
		}},
		{Keys: "esc", Hint: "drop"},
		{Keys: "u", Hint: "undo"},
		{Keys: "i", Hint: "type", Help: "type the selected knob's value, or flip its switch", Live: true, Do: func(string) tea.Cmd { k.edit(); return nil }},
		{Keys: biggerKeys, Also: biggerAlso, Show: "H L", Hint: "far", Help: biggerHelp, Live: true, Do: k.stageStep},
	}
	return k
}

// Place asks for a column of its own beside the timeline, or beside the side panel on a compact
// screen.
func (*Knobs) Place(s Space) Place {
	if s.Class == SizeCompact {
		return Place{Band: lowerBand, Cols: knobsWidth(s), Rows: lowerRows(s)}
	}
	return Place{Band: mainBand, Cols: knobsWidth(s)}
}

// knobsWidth returns the width of the panel.
func knobsWidth(s Space) int {
	switch s.Class {
	case SizeCompact:
		return max(36, s.W*9/20)
	case SizeLarge:
		return max(56, s.W/3)
	}
	return max(50, s.W*2/5)
}

// compactKnobs is the least height of the knobs on a compact screen, however long the verdict is:
// their box, a heading and three of them.
const compactKnobs = 6

// lowerRows returns the height of the compact screen's last band. It leaves the timeline three
// lanes, or two if the knobs need the third. It is at least two fifths of the height.
func lowerRows(s Space) int {
	have := s.Rest() - gaugeRows(s)
	return max(LeastRows, min(8, have-5), min(compactKnobs, have-4), have*2/5)
}

var groupOrder = []string{knob.GroupLoader, knob.GroupEngine, knob.GroupInject}

// Requester remembers the values that were asked for last.
type Requester interface{ Requested() []knob.Setting }

// Update takes the specs and what the newest segment confirms. It forgets the changes that c
// does not ask for. The run refused them when it tried them, for example for lack of memory,
// and noted why. In a replay c is nil.
func (k *Knobs) Update(live *trace.Snapshot, c Requester) {
	if told := live.Meta.Specs; len(k.told) != len(told) || len(told) > 0 && &k.told[0] != &told[0] { // a change replaces the slice
		k.told, k.specs = told, slices.Clone(told)
		rank := func(s knob.Spec) int {
			if i := slices.Index(groupOrder, s.Group); i >= 0 {
				return i
			}
			return len(groupOrder)
		}
		slices.SortStableFunc(k.specs, func(a, b knob.Spec) int { return rank(a) - rank(b) })
		if k.looks != nil && len(k.specs) > 0 {
			k.specs = append(k.specs, knob.Spec{
				Name: looksName, Type: "enum", Values: k.looks.LookRates(), Applied: "at once, without enter", Group: "gpustall",
				Help: "how often lines of code are looked for: 20 times a second, 100 times (fast), or not at all",
			})
		}
		k.sel = min(k.sel, max(0, len(k.specs)-1))
	}
	if len(live.Segments) == 0 {
		return
	}
	k.now = live.Segments[len(live.Segments)-1].Knobs
	if live.Outcome.Ended != 0 { // the run will not apply them any more
		clear(k.requested)
		clear(k.staged)
	}
	if len(k.requested) == 0 || c == nil {
		return
	}
	wanted := c.Requested()
	for name, want := range k.requested {
		if sameValue(k.InForce(name), want) {
			delete(k.requested, name)
			k.since[name] = live.Now
		} else if !sameValue(knob.ValueOf(wanted, name), want) {
			delete(k.requested, name)
		}
	}
}

func (k *Knobs) state(name string, now int64) knobState {
	if _, ok := k.staged[name]; ok {
		return knobStaged
	}
	if _, ok := k.requested[name]; ok {
		return knobRequested
	}
	if t, ok := k.since[name]; ok && now-t < confirmedFor {
		return Pick(now-t < confirmedAnew, knobConfirmed, knobFading)
	}
	return knobSteady
}

// looksName is the name of the row that says how often lines are looked for. It is no knob of the training: it is in
// no segment.
const looksName = "lines"

// turnLooks changes how often lines are looked for, if the selected row is that one.
func (k *Knobs) turnLooks(by int) bool {
	if s := k.Selected(); k.looks == nil || s.Name != looksName {
		return false
	}
	turnLooks(k.looks, by)
	return true
}

// Selected returns the knob selected, nil where the trace names none.
func (k *Knobs) Selected() *knob.Spec {
	if k.sel < 0 || k.sel >= len(k.specs) {
		return nil
	}
	return &k.specs[k.sel]
}

// find returns the index of the knob of a name, -1 where the run has none.
func (k *Knobs) find(name string) int {
	return slices.IndexFunc(k.specs, func(s knob.Spec) bool { return s.Name == name })
}

func (k *Knobs) move(d int) { k.sel = min(max(k.sel+d, 0), max(0, len(k.specs)-1)) }

// Click selects the knob in a line of the panel.
func (k *Knobs) Click(line int) {
	if i := k.table.At(line); i >= 0 && k.rows[i].Spec != nil {
		k.sel = k.find(k.rows[i].Name)
	}
}

// target returns the value that a further step starts from: staged, requested or in force.
func (k *Knobs) target(name string) string {
	if v, ok := k.staged[name]; ok {
		return v
	}
	if v, ok := k.requested[name]; ok {
		return v
	}
	return k.InForce(name)
}

// stage records a value, or forgets it if nothing would change.
func (k *Knobs) stage(name, value string) {
	base := k.InForce(name)
	if v, ok := k.requested[name]; ok {
		base = v
	}
	if sameValue(value, base) {
		delete(k.staged, name)
		return
	}
	k.staged[name] = value
}

// step stages the value of a knob that is d steps further. size is 1, and more for the bigger
// steps of shift and ctrl. It reports false where there is no value further on.
func (k *Knobs) step(s *knob.Spec, d, size int) bool {
	from := k.target(s.Name)
	to := stepped(s, from, d, size)
	k.stage(s.Name, to)
	return !sameValue(from, to)
}

// Changes returns the staged values in the panel's order.
func (k *Knobs) Changes() []knob.Setting {
	var out []knob.Setting
	for i := range k.specs {
		if v, ok := k.staged[k.specs[i].Name]; ok {
			out = append(out, knob.Setting{Name: k.specs[i].Name, Value: v})
		}
	}
	return out
}

// Accepted moves changes from staged to requested, with their values as wanted writes them.
func (k *Knobs) Accepted(changes, wanted []knob.Setting) {
	for _, c := range changes {
		if k.staged[c.Name] == c.Value {
			delete(k.staged, c.Name)
		}
		k.requested[c.Name] = cmp.Or(knob.ValueOf(wanted, c.Name), c.Value)
		delete(k.since, c.Name)
	}
}

// Drop forgets what is staged, and returns how many values that were.
func (k *Knobs) Drop() int {
	n := len(k.staged)
	clear(k.staged)
	return n
}

// Unstage forgets the staged values of some knobs.
func (k *Knobs) Unstage(knobs []knob.Setting) {
	for _, s := range knobs {
		delete(k.staged, s.Name)
	}
}

// Has reports whether the run has a knob of that name.
func (k *Knobs) Has(name string) bool { return k.find(name) >= 0 }

// Specs returns the knobs in the panel's order.
func (k *Knobs) Specs() []knob.Spec { return k.specs }

// settable reports whether knobs can be changed, and tells the user if they cannot.
func (k *Knobs) settable() bool {
	if !k.canSet {
		k.screen.Say("info", "a replay's knobs are read-only")
	}
	return k.canSet
}

// stageStep stages another value of the selected knob.
func (k *Knobs) stageStep(key string) tea.Cmd {
	if !k.settable() {
		return nil
	}
	if s := k.Selected(); s != nil {
		d, far := direction(key)
		if k.turnLooks(d) {
			return nil
		}
		if !k.step(s, d, [...]int{strideOne: 1, strideShift: 4, strideCtrl: 16}[far]) {
			k.screen.Say("info", s.Name+" takes "+knob.Range(s)+", and nothing beyond")
		}
	}
	return nil
}

// stageAdvice stages what a finding suggests, and gives the panel the focus.
func (k *Knobs) stageAdvice(f advice.Finding) {
	if !k.settable() {
		return
	}
	if f.Value == "" {
		k.screen.Say("info", "nothing is advised now that a knob could do")
		return
	}
	if i := k.find(f.Knob); i >= 0 {
		k.sel = i
		k.stage(f.Knob, f.Value)
		k.screen.Focus(k.Name)
		k.screen.Say("info", f.Knob+" "+f.Value+" is staged: "+Pick(f.Tests(), "A tests it, enter applies it", "enter applies it"))
	}
}

// edit opens the selected knob: text for numbers and times, the other value for a switch.
func (k *Knobs) edit() {
	s := k.Selected()
	if s == nil || !k.settable() {
		return
	}
	if k.turnLooks(1) {
		return
	}
	cur := k.target(s.Name)
	switch {
	case s.Type == "bool":
		k.stage(s.Name, knob.Switch(!knob.On(cur)))
	case s.Type == "enum":
		next := stepped(s, cur, 1, 1)
		if next == cur && len(s.Values) > 0 {
			next = s.Values[0]
		}
		k.stage(s.Name, next)
	default:
		k.typed = &Prompt{Question: s.Name + ", " + knob.Range(s) + ": ", Most: 64, End: func(text string, ok bool) {
			k.typed = nil
			if !ok || text == "" {
				return
			}
			v, err := typed(s, text)
			if err != nil {
				k.screen.Say("error", err.Error())
				return
			}
			k.stage(s.Name, v)
		}}
		k.screen.Prompt(k.typed)
	}
}

// InForce returns the value of a knob in the newest segment.
func (k *Knobs) InForce(name string) string { return knob.ValueOf(k.now, name) }

// Before returns the values in force of the knobs that changes set.
func (k *Knobs) Before(changes []knob.Setting) []knob.Setting {
	out := make([]knob.Setting, len(changes))
	for i, c := range changes {
		out[i] = knob.Setting{Name: c.Name, Value: k.InForce(c.Name)}
	}
	return out
}

// Risk is what may go wrong if the staged values were applied.
type Risk struct {
	Of    []knob.Setting // the staged values that it is about
	Text  string         // empty where nothing is known to go wrong
	Grave bool
}

// NewlyStaged returns the staged values, or nothing if they are the same as at the last call.
// The caller then finds out their risk.
func (k *Knobs) NewlyStaged() []knob.Setting {
	staged := k.Changes()
	if slices.Equal(staged, k.risk.Of) {
		return nil
	}
	k.risk = Risk{Of: staged}
	return staged
}

// SetRisk takes what was found out about some values, unless other values are staged by now.
func (k *Knobs) SetRisk(r Risk) {
	if slices.Equal(r.Of, k.risk.Of) {
		k.risk = r
	}
}
