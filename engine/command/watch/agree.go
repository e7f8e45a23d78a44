//go:build linux

package watch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/torch/bridge"
	"dev.gpustall/engine/trace"
)

// Ranks are those of a job on this machine. Their knobs change when those of all others do.
type Ranks interface {
	Together(agree func())                            // Pending is to be agreed on, of which agree tells; nil: it is asked of the training at once
	Pending() []knob.Setting                          // changes that were asked for here
	Withdraw()                                        // gives them up
	Try(changes []knob.Setting) error                 // finds out whether the ranks can make changes; the error is why none can
	Answers() []bridge.Answer                         // what each says
	ApplyAt(changes []knob.Setting, step int32) error // has them made from a step on
}

// How often it is looked whether a change is to be agreed on, how often while one is, and how long each stage may
// take: until all have answered, until workers were tried, and until the change is in force.
const (
	lookEvery   = 500 * time.Millisecond
	agreeEvery  = 50 * time.Millisecond
	answerLimit = 4 * time.Second
	trialLimit  = 60 * time.Second
	forceLimit  = 5 * time.Second

	// silentAfter is how long after its last row a gpustall counts as gone.
	silentAfter = 15 * time.Second

	// margin is how long after all have answered the change is made: each has read by then that it will be.
	margin = 250 * time.Millisecond
)

// change is what all ranks of a job are to change. It stands in the job's store, one at a time.
type change struct {
	Version int            `json:"v"`
	ID      string         `json:"id"`
	By      int            `json:"by"` // the rank whose gpustall asks
	Knobs   []knob.Setting `json:"knobs"`
	Stage   string         `json:"stage"`
	Step    int32          `json:"step"` // from which they hold, once that is agreed
}

// The stages of a change.
const (
	asked    = "asked"
	agreed   = "agreed"
	heldBack = "held back"
)

// reply is what the ranks of one gpustall say to a change.
type reply struct {
	ID      string          `json:"id"`
	Refused string          `json:"refused"` // why none of them can make it
	Ranks   []bridge.Answer `json:"ranks"`
}

// agreement is the change that is being agreed on.
type agreement struct {
	wake   chan struct{} // changes were asked for here
	read   []byte        // the change in the store, where ...
	fresh  bool          // ... that was read with the rows just now
	now    change        // as it was last read or written
	mine   bool          // it was asked for here, and is not over
	begun  time.Time     // when now came to its stage
	count  int           // changes that were asked for here so far
	told   []byte        // the last reply that was written
	reason string        // why the ranks here cannot make it
}

// every is how long to wait until the next look.
func (a *agreement) every() time.Duration {
	if a.mine || a.now.Stage == asked || a.now.Stage == agreed && time.Since(a.begun) < forceLimit {
		return agreeEvery
	}
	return lookEvery
}

func (f *fleet) changeKey() string        { return f.within() + "change" }
func (f *fleet) replyKey(rank int) string { return f.within() + "reply/" + strconv.Itoa(rank) }

// agree takes a change a step further.
func (f *fleet) agree() {
	if f.Ranks == nil {
		return
	}
	a := &f.agreeing
	if f.client == nil {
		if pending := f.Ranks.Pending(); len(pending) > 0 {
			f.alone(pending)
		}
		return
	}
	if err := f.readChange(); err != nil {
		f.lost(err)
		return
	}
	if pending := f.Ranks.Pending(); !a.mine && len(pending) > 0 && (a.now.Stage != asked || time.Since(a.begun) > trialLimit) {
		a.count++
		a.now = change{Version: rowVersion, ID: fmt.Sprintf("%d-%d-%d", f.Rank, time.Now().UnixNano(), a.count), By: f.Rank, Knobs: pending, Stage: asked}
		a.mine = true
		f.lost(f.write())
		f.consider()
	}
	if a.mine {
		f.lost(f.decide())
	}
	f.lost(f.answer())
}

// alone has changes made on this machine, where the ranks of others cannot be asked.
func (f *fleet) alone(pending []knob.Setting) {
	if len(f.others()) > 0 {
		f.Ranks.Withdraw()
		f.recorder.Note("warn", knob.Join(pending, ", ")+trace.HeldBack+": the training's store at "+f.Store+" does not answer, so ranks on other machines cannot be asked; ask again")
		return
	}
	if err := f.Ranks.ApplyAt(pending, 0); err != nil {
		f.Ranks.Withdraw()
		f.recorder.Note("warn", err.Error())
	}
}

// readChange reads the change that stands in the store, and begins to answer one that is new.
func (f *fleet) readChange() error {
	a := &f.agreeing
	if !a.fresh {
		values, err := f.client.Get([]string{f.changeKey()})
		if err != nil {
			return err
		}
		a.read = values[0]
	}
	a.fresh = false
	var in change
	known := a.read != nil && json.Unmarshal(a.read, &in) == nil && in.Version == rowVersion
	if !known || in.ID == a.now.ID && in.Stage == a.now.Stage {
		return nil
	}
	isNew := in.ID != a.now.ID
	if a.mine && isNew { // two asked at the same time: the other one is first
		a.mine = false
	}
	first := a.now.ID == ""
	a.now, a.begun = in, time.Now()
	switch {
	case in.Stage == asked && isNew:
		f.consider()
	case in.Stage == agreed && in.By != f.Rank:
		if err := f.Ranks.ApplyAt(in.Knobs, in.Step); err != nil {
			f.recorder.Note("warn", err.Error())
		} else if !first {
			f.recorder.Note("info", fmt.Sprintf("%s on all ranks from step %d on, as rank %d's gpustall asks", knob.Join(in.Knobs, ", "), in.Step, in.By))
		}
	case in.Stage == heldBack:
		a.reason = ""
	}
	return nil
}

// consider finds out whether the ranks here can make the change.
func (f *fleet) consider() {
	a := &f.agreeing
	a.begun, a.reason, a.told = time.Now(), "", nil
	if err := f.Ranks.Try(a.now.Knobs); err != nil {
		a.reason = err.Error()
	}
}

// write writes the change with its new stage.
func (f *fleet) write() error {
	text, err := json.Marshal(&f.agreeing.now)
	if err != nil {
		return err
	}
	f.agreeing.begun = time.Now()
	return f.client.Set(f.changeKey(), text)
}

// answer writes what the ranks here say, where that is news.
func (f *fleet) answer() error {
	a := &f.agreeing
	if f.client == nil || a.mine || a.now.Stage != asked && (a.now.Stage != agreed || time.Since(a.begun) > forceLimit) {
		return nil
	}
	text, err := json.Marshal(&reply{ID: a.now.ID, Refused: a.reason, Ranks: f.Ranks.Answers()})
	if err != nil || slices.Equal(text, a.told) {
		return err
	}
	a.told = text
	return f.client.Set(f.replyKey(f.Rank), text)
}

// others are the ranks under which other gpustalls publish, and by which rank each is to be named.
func (f *fleet) others() (by []int) {
	for _, r := range f.known {
		if time.Since(r.heard) < silentAfter && !slices.Contains(by, r.by) {
			by = append(by, r.by)
		}
	}
	slices.Sort(by)
	return by
}

// replies returns what all ranks say to the change, and the ranks whose gpustalls have not answered.
func (f *fleet) replies() (all []reply, silent []int, err error) {
	a := &f.agreeing
	all = []reply{{ID: a.now.ID, Refused: a.reason, Ranks: f.Ranks.Answers()}}
	others := f.others()
	var keys []string
	for _, rank := range others {
		keys = append(keys, f.replyKey(rank))
	}
	if len(keys) == 0 {
		return all, nil, nil
	}
	values, err := f.client.Get(keys)
	if err != nil {
		return nil, nil, err
	}
	for i, v := range values {
		var in reply
		if v == nil || json.Unmarshal(v, &in) != nil || in.ID != a.now.ID {
			silent = append(silent, others[i])
			continue
		}
		all = append(all, in)
	}
	return all, silent, nil
}

// decide takes a change that was asked for here to its next stage, where all answers allow it.
func (f *fleet) decide() error {
	a := &f.agreeing
	all, silent, err := f.replies()
	if err != nil {
		a.mine = false
		f.Ranks.Withdraw()
		return err
	}
	took := time.Since(a.begun)
	if a.now.Stage == agreed {
		if waiting := f.waiting(all); len(waiting) == 0 || took > forceLimit {
			f.over(all, waiting)
		}
		return nil
	}
	why := refusal(all, a.now.Knobs)
	trying := unready(all)
	switch {
	case why != "":
	case len(silent) > 0 && took > answerLimit:
		why = fmt.Sprintf("%s did not answer within %s", advice.Names(silent), units.Prose.Time(answerLimit.Nanoseconds()))
	case len(trying) > 0 && took > trialLimit:
		why = fmt.Sprintf("on %s it was not found out within %s whether workers can begin", advice.Names(trying), units.Prose.Time(trialLimit.Nanoseconds()))
	case len(silent) > 0 || len(trying) > 0:
		return nil
	default:
		return f.commit(all)
	}
	f.recorder.Note("warn", knob.Join(a.now.Knobs, ", ")+trace.HeldBack+" on all ranks: "+why)
	a.mine, a.now.Stage = false, heldBack
	f.Ranks.Withdraw()
	return f.write()
}

// commit has all ranks make the change at one step, to which none has come.
func (f *fleet) commit(all []reply) error {
	a := &f.agreeing
	a.now.Stage = agreed
	for _, r := range all {
		for _, k := range r.Ranks {
			a.now.Step = max(a.now.Step, k.Step+2+int32(margin.Nanoseconds()/max(1e6, k.Every)))
		}
	}
	err := f.write()
	if err == nil {
		err = f.Ranks.ApplyAt(a.now.Knobs, a.now.Step)
	}
	if err != nil {
		a.mine = false
		f.Ranks.Withdraw()
	}
	return err
}

// waiting are the ranks on which the change is not in force.
func (f *fleet) waiting(all []reply) (ranks []int) {
	for _, r := range all {
		for _, k := range r.Ranks {
			for _, want := range f.agreeing.now.Knobs {
				if knob.ValueOf(k.Knobs, want.Name) != want.Value {
					ranks = append(ranks, k.Rank)
					break
				}
			}
		}
	}
	slices.Sort(ranks)
	return ranks
}

// over ends a change that was asked for here, and says on which ranks it is in force.
func (f *fleet) over(all []reply, waiting []int) {
	a := &f.agreeing
	a.mine = false
	n, step := 0, int32(0)
	for _, r := range all {
		n += len(r.Ranks)
		for _, k := range r.Ranks {
			step = max(step, k.Since)
		}
	}
	text := fmt.Sprintf("%s is in force on %s since step %d", knob.Join(a.now.Knobs, ", "), units.Counted(n-len(waiting), "rank", "ranks"), step)
	if len(waiting) > 0 {
		text = fmt.Sprintf("%s is agreed on for %s, and not in force yet on %s: it may come with the next epoch", knob.Join(a.now.Knobs, ", "),
			units.Counted(n, "rank", "ranks"), advice.Names(waiting))
	}
	if f.World > n {
		text += fmt.Sprintf("; no gpustall that answers watches %s", units.Counted(f.World-n, "other rank", "other ranks"))
	}
	f.recorder.Note("info", text)
}

// refusal says which rank cannot make changes, and why; empty where all can.
func refusal(all []reply, changes []knob.Setting) string {
	for _, r := range all {
		if r.Refused != "" {
			text := r.Refused
			if len(r.Ranks) > 0 {
				text = fmt.Sprintf("rank %d: %s", r.Ranks[0].Rank, text)
			}
			return text
		}
		for _, k := range r.Ranks {
			if k.Most >= 0 && workers(changes) > max(k.Most, workers(k.Knobs)) {
				most := "at most " + units.Counted(k.Most, "worker", "workers")
				if k.Most == 0 {
					most = "no worker"
				}
				return fmt.Sprintf("rank %d can have %s: %s", k.Rank, most, cmp.Or(k.Why, "no reason is known"))
			}
		}
	}
	return ""
}

// workers is num_workers of settings; 0 where they do not name it.
func workers(settings []knob.Setting) int {
	n, _ := strconv.Atoi(knob.ValueOf(settings, "num_workers"))
	return n
}

// unready are the ranks of which it is not known yet whether workers can begin.
func unready(all []reply) (ranks []int) {
	for _, r := range all {
		for _, k := range r.Ranks {
			if !k.Ready {
				ranks = append(ranks, k.Rank)
			}
		}
	}
	return ranks
}
