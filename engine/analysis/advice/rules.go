package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Rule looks for one thing to do. It promises no gain: its numbers were measured, or are estimates
// with a ~ before them. For each knob that a rule advises, the model predicts the gain, which is
// marked as predicted.
type Rule struct {
	Name  string
	Group trace.Group // the group of causes that it is about, if any; a finding must then be about a moderate share of the time
	Data  bool        // it is about data, although it has no group
	Last  bool        // it counts only where no rule of its group has a knob to turn
	Back  bool        // it goes back to settings that were measured
	Check func(*situation) (Finding, bool)
}

// Finding says what a rule found, and what to do about it.
type Finding struct {
	Rule     string
	Evidence string  // what was measured
	Remedy   string  // what to do, in a few words
	Knob     string  // to turn, and ...
	From     string  // ... its value in force, empty when that is not known, and ...
	Value    string  // ... the one to try; empty when no knob helps
	Share    float64 // of the active time, 0 to 1, that it is about
	Beside   bool    // Share is a part of all time, including time that no rate counts
	Script   bool    // it is about what the script does besides loading and training, which no knob changes
	Spun     bool    // the cost may be more than Share, because threads spin while they wait for one without a core
	Barred   bool    // the knob that would help cannot be turned here; Remedy says what would allow it
	Before   bool    // it must be put right first, because turning a knob earlier may harm

	Free   float64 // of the active time, 0 to 1: the most that would be saved if what the finding is about were free; 0 where not known
	Most   float64 // the largest possible ratio of throughput; 0 where that is not known
	Here   bool    // the host's work stays the same, so Most is what this host can feed
	Scales bool    // it is about the cost of a sample, and gains as that becomes less

	Measured  units.Estimate   // throughput with the value to try, as a ratio, where the session measured a gain; outranks Predicted
	Predicted trace.Prediction // of the value to try; none where the model cannot tell

	turns bool   // Remedy is to let the value take turns with the one in force
	line  bool   // it names a line of the script
	given bool   // the script may be unable to change it: its step waits, or others have the cores
	data  bool   // it is about the wait for data
	Cause string // what went on in the time of Share, where one cause stands out; else empty
}

// Gain says what there is to gain: the predicted gain of the value to try. Where that is not known,
// it says what the throughput would be without the lost time, and what bounds it. It is empty where
// nothing is known.
func (f *Finding) Gain() string {
	if f.Measured.Value > 0 {
		return units.Prose.Gain(f.Measured) + " measured"
	}
	if f.Predicted.Made() {
		return predict.Words(f.Predicted)
	}
	if f.Share <= 0 || f.Share >= 1 || f.Beside || f.Spun || f.Before {
		return ""
	}
	gain := func(ratio float64) string { return units.Prose.Gain(units.Rough(ratio)) }
	saved, most := 1/(1-f.Share), max(1, f.Most)
	switch {
	case f.Free >= 1:
		return ""
	case f.Free > 0:
		free := 1 / (1 - f.Free)
		if f.Most > 0 {
			free = min(free, most)
		}
		return "no more than " + strings.TrimPrefix(gain(free), "~") + " throughput, were it free"
	case f.Scales && f.Most > 0:
		return fmt.Sprintf("as many times the throughput as a sample becomes cheaper, up to %s", units.Prose.Ratio(units.Rough(most)))
	case f.Most > 0 && most <= near*saved && f.Here:
		return fmt.Sprintf("at most %s throughput, all that this host can feed", gain(most))
	case f.Most > 0 && most <= near*saved:
		return fmt.Sprintf("at most %s throughput, all that the device takes", gain(most))
	case f.Most > 0:
		return fmt.Sprintf("%s throughput if nothing but this time were saved, at most %s", gain(saved), gain(most))
	}
	return gain(saved) + " throughput if nothing but this time were saved"
}

// near says when only the bound is told: if it is at most so many times what saving the time
// would give.
const near = 1.05

// Tests reports whether the finding says that an A/B test tells whether its value helps. Then the value is to be tested
// rather than set.
func (f *Finding) Tests() bool {
	return f.Value != "" && f.Measured.Value == 0 && (f.turns || predict.Open(f.Predicted))
}

// Text returns the finding in one sentence.
func (f *Finding) Text() string {
	if f.Remedy == "" || f.Evidence == "" {
		return f.Next()
	}
	return f.Next() + ": " + f.Evidence
}

// Next returns what to do, with the predicted gain.
func (f *Finding) Next() string {
	gain := f.Gain()
	if f.Remedy == "" || gain == "" || !f.Predicted.Made() && f.Measured.Value == 0 && f.Free == 0 {
		return f.Remedy
	}
	return f.Remedy + " (" + gain + ")"
}

// rules holds all rules. Of two findings about the same share of the time, the finding of the
// earlier rule leads.
var rules = slices.Concat(undoRules, callRules(), loaderRules, dataRules, deviceRules, hostRules, timeRules, torchRules, profileRules)

// findings returns what the rules find. Knobs to turn come first, in the order of the time that
// they are about. Then comes what no knob helps against, unless it is far larger; then it leads.
func (s *situation) findings() []Finding {
	var out []Finding
	var turned [trace.NumGroups]bool // groups that a knob may help
	o := others{data: s.time.DataShare()}
	for _, last := range []bool{false, true} {
		for i := range rules {
			r := &rules[i]
			if r.Last != last || last && turned[r.Group] {
				continue
			}
			f, ok := s.check(r)
			if !ok {
				continue
			}
			s.knobs.foresee(&f)
			if f.Predicted.Made() && !r.Back && (predict.Gain(f.Predicted).Hi < 1 || risky(&f, s.host.Grouped())) {
				continue // it would cost more than it is about, or may
			}
			if !strings.Contains(f.Evidence, s.host.String()) {
				f.Evidence = join(predict.Crowd(f.Predicted), f.Evidence)
			}
			f.Most = s.most(r, &f)
			turned[r.Group] = turned[r.Group] || f.Value != "" || f.Barred
			f.Rule, f.Cause, f.Spun, f.data = r.Name, s.time.cause(r.Group), s.host.spun, r.Group == trace.GroupData
			o.add(r, &f)
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.lead(&o), a.lead(&o)), cmp.Compare(b.weight(), a.weight()))
	})
	surer(out, &o)
	if len(out) > 0 && s.time.flags&trace.FlagInjected != 0 && s.time.DataShare() >= moderate {
		out[0].Evidence = join(out[0].Evidence, "part of this bottleneck is injected, so the other way is to stop injecting it")
	}
	return out
}

// risky reports whether a value is better not advised, as others take cores. That is so where a vague prediction may cost more
// than it likely gains. It is also so for another number of workers where a clear loss is possible and likely, and for fewer of
// them by a vague prediction: those get less of the cores, unless our group has its part alone. More workers get no less of that
// part, so that a likely gain of a tenth is enough. What takes the cores is told where a value is not advised.
func risky(f *Finding, alone bool) bool {
	p, g := &f.Predicted, predict.Gain(f.Predicted)
	from, _ := strconv.Atoi(f.From)
	to, _ := strconv.Atoi(f.Value)
	if p.Others == 0 {
		return false
	}
	if f.Knob != "num_workers" {
		return predict.MayCost(*p)
	}
	fewer := to < from && predict.Vague(*p)
	costs := predict.MayCost(*p) && (!alone || to < from || g.Value < 1+2*moderate)
	return fewer && !alone || g.Lo < 1-moderate && (g.Value < 1 || costs || fewer)
}

// check returns what a rule finds. It returns false where that is not worth saying.
func (s *situation) check(r *Rule) (f Finding, ok bool) {
	if (r.Group == trace.GroupData || r.Data) && s.lockedOut() || r.Group == trace.GroupData && (s.renewed() || !s.loader.judged()) {
		return f, false
	}
	if f, ok = r.Check(s); !ok || r.Group != trace.GroupNone && f.Share < moderate {
		return f, false
	}
	if f.Value == "" {
		return f, true
	}
	if !r.Back {
		s.tried.prefer(&f)
	}
	again := r.Back && f.Before // samples that were trained on twice, which is no gain
	if !again && s.tried.refused(f.Knob, f.Value) || s.outweighed(r, &f) || !r.Back && !s.tried.again(&f) {
		return f, false
	}
	f.Evidence = join(f.Evidence, s.tried.despite(&f))
	return s.knobs.unbar(f)
}

// most returns the largest ratio by which throughput can grow while the device has the same work.
// The rate of the device with the cores to itself limits it. If the host's work stays the same
// too, what the host can feed limits it as well. It is 0 where not known.
func (s *situation) most(r *Rule, f *Finding) float64 {
	c, known := s.loader.capacity()
	if !known || c.Spun || c.Device <= 0 || f.Script || f.Barred || r.Group == trace.GroupNone && !r.Data {
		return 0
	}
	least := c.Device
	if f.Here {
		least = c.Fastest(c.Cores.All)
	}
	return float64(s.time.Active()) / float64(s.time.Steps) / least
}

// outweighed reports whether a knob that is not the loader's is about little time compared with the
// wait for data. Then the loader sets the pace, and the time that the knob saves is spent waiting.
func (s *situation) outweighed(r *Rule, f *Finding) bool {
	switch r.Group {
	case trace.GroupCopy, trace.GroupLaunch, trace.GroupSync:
		return 2*f.Share < s.time.DataShare()
	}
	return false
}

// others holds what takes time and no knob helps against, as shares of the time.
type others struct {
	cores  float64 // taken by other processes, or by all processes together
	beside float64 // share of all time of loops that no rate counts
	script float64 // what else the script does
	most   float64 // the largest of anything else
	data   float64 // the wait for data
}

// bound reports whether the run is highly input-bound. What the script does in a step is then no reason to leave the loader
// alone.
func (o *others) bound() bool { return o.data >= high }

func (o *others) add(r *Rule, f *Finding) {
	switch {
	case f.Beside:
		o.beside = f.Share
	case f.Script:
		o.script = f.Share
	case r.Group == trace.GroupHost && f.Value == "":
		o.cores = f.Share
	case f.Value == "" && !f.Barred && r.Group != trace.GroupHost:
		o.most = max(o.most, f.Share)
	}
}

// dwarfed is how many times larger than a knob's share something without a knob must be to lead.
const dwarfed = 4

// muchBeside is the share of all time from which loops that do not train lead, if what can be acted on
// is less. From mostBeside on, what the script does in its steps is no matter.
const (
	muchBeside = high
	mostBeside = 1. / 3
)

// muchAside reports whether loops that do not train, with that part of all time, lead before something with a share of the
// active time.
func muchAside(beside, share float64) bool {
	return beside >= muchBeside && beside >= share*(1-beside)
}

// lead orders findings: 2 must be put right first, 1 is a knob that may gain something, -1 is what the script does in
// the steps of a run that is highly input-bound, unless it takes twice as long, or what is given where loops beside the
// training take much. 0 is anything else.
//
// A knob can gain at most its share. It gets 0 in these cases:
//   - The script takes far more than that share, in its steps or beside them, or a fifth of all time
//     beside them, which is more. In its steps counts only where the run is not highly input-bound.
//   - The share is not high and taken cores cost far more. Predictions on such a host are wide.
//   - The knob may help or harm, and something else takes more.
func (f *Finding) lead(o *others) int {
	switch {
	case f.Before:
		return 2
	case f.Script && !f.line && !f.data && o.bound() && f.Share < 2*o.data, f.given && o.beside >= muchBeside:
		return -1
	case f.Value == "" && !f.Barred || f.Share <= 0:
		return 0
	case o.script >= dwarfed*f.Share && !(o.bound() && f.data) || o.beside >= dwarfed*f.Share*(1-o.beside):
		return 0
	case muchAside(o.beside, f.Share):
		return 0
	case f.Share < high && o.cores >= dwarfed*f.Share:
		return 0
	case o.most > f.Share && f.Predicted.Made() && predict.EitherWay(f.Predicted):
		return 0
	}
	return 1
}

// weight orders findings of the same lead. A finding that names a line of the script counts double. A
// share of all time weighs as much as the same time as a share of the active time, and comes first
// where it is large.
func (f *Finding) weight() float64 {
	switch {
	case f.line:
		return 2 * f.Share
	case f.Beside && f.Share >= mostBeside:
		return 1 + f.Share
	case f.Beside:
		return f.Share / max(1-f.Share, 1e-9)
	}
	return f.Share
}

// alike is the part of another finding's share from which two findings are about equally much. In
// the next window either may be the larger one.
const alike = 0.8

// surer moves a knob that is predicted to gain in any case before one that is about equally much
// and may harm. Otherwise the two would swap places as shares fluctuate.
func surer(out []Finding, o *others) {
	gains := func(f *Finding) bool { return predict.Gain(f.Predicted).Lo >= 1 }
	if len(out) == 0 || out[0].lead(o) != 1 || !out[0].Predicted.Made() || gains(&out[0]) {
		return
	}
	i := slices.IndexFunc(out, func(f Finding) bool {
		return f.lead(o) == 1 && f.Predicted.Made() && gains(&f) && f.Share >= alike*out[0].Share
	})
	if i > 0 {
		f := out[i]
		copy(out[1:], out[:i])
		out[0] = f
	}
}

// enqueueLess says what helps a PyTorch training that enqueues kernels too slowly.
const enqueueLess = "enqueue less: torch.compile fuses kernels and mode=\"reduce-overhead\" captures them as a graph, or take larger batches"

// deviceRules are about what is not the loader's: copies, launches, waits for results, and gaps
// without a recorded cause.
var deviceRules = []Rule{
	{Name: "ceiling", Check: func(s *situation) (f Finding, ok bool) {
		f = Finding{
			Remedy:   "turn ceiling off to see how near the loader comes",
			Evidence: "this is the ceiling, with cached batches that bypass the loader", Share: 1,
		}
		if s.time.interlude {
			f.Remedy = "wait: it goes on as before in a moment"
		}
		return f, s.time.ceiling()
	}},
	{Name: "fewer threads", Group: trace.GroupHost, Check: fewerThreads},
	{Name: "pin memory for copies", Group: trace.GroupCopy, Check: func(s *situation) (f Finding, ok bool) {
		f = s.knobs.turn("pin_memory", "on", "page-locked memory is copied at full speed and while the host goes on")
		f.Share = s.time.share(trace.GroupCopy)
		return f, s.knobs.can("pin_memory")
	}},
	{Name: "copy bytes", Group: trace.GroupCopy, Check: func(s *situation) (f Finding, ok bool) {
		f = s.knobs.turn("device_transforms", "on", "uint8 pixels are a quarter of the bytes of float32")
		f.Share = s.time.share(trace.GroupCopy)
		return f, s.knobs.can("device_transforms") && !s.time.smallCopies()
	}},
	{Name: "copy less", Group: trace.GroupCopy, Last: true, Check: func(s *situation) (f Finding, ok bool) {
		f = Finding{
			Remedy:   "loader settings won't help: copy less, with smaller samples or a narrower type, or use a faster link",
			Evidence: s.time.copies(), Share: s.time.share(trace.GroupCopy),
		}
		if s.session.imported() {
			f.Remedy = "copy less, with smaller samples or a narrower type (uint8, converted on the GPU), or while the GPU computes"
		}
		return f, true
	}},
	{Name: "capture", Group: trace.GroupLaunch, Check: func(s *situation) (f Finding, ok bool) {
		f = s.knobs.turn("capture", "on", "a captured graph is one call where the step now makes many")
		f.Share = s.time.share(trace.GroupLaunch)
		return f, s.knobs.can("capture")
	}},
	{Name: "larger batches", Group: trace.GroupLaunch, Check: largerBatches},
	{Name: "short operations", Check: shortOperations},
	{Name: "launch less", Group: trace.GroupLaunch, Last: true, Check: func(s *situation) (f Finding, ok bool) {
		f = Finding{
			Remedy:   "loader settings won't help: enqueue less, in fewer, fused launches",
			Evidence: "the host does not enqueue as fast as the device computes", Share: s.time.share(trace.GroupLaunch),
		}
		if s.session.imported() {
			f.Remedy = enqueueLess
		}
		own, loads := ownLoading(s)
		return f, !loads || 2*own.Share < f.Share // otherwise the loop's own loading takes the time
	}},
	{Name: "sync less", Group: trace.GroupSync, Last: true, Check: func(s *situation) (f Finding, ok bool) {
		f = Finding{
			Remedy:   "loader settings won't help: look at results less often",
			Evidence: "the host waits for the device and then has nothing enqueued", Share: s.time.share(trace.GroupSync),
		}
		if s.session.imported() {
			f.Remedy = "look at results less often: .item(), .cpu(), .nonzero() and printing a tensor have the host wait for all that was enqueued, so keep losses and metrics on the GPU for some steps"
		}
		if s.profile.known() { // which have a rule of their own
			f.Share -= s.profile.ShareOf(s.profile.Sends)
		}
		return f, !s.calls(trace.InStep)
	}},
	{Name: "more cores", Group: trace.GroupHost, Last: true, Check: moreCores},
	{Name: "unexplained", Group: trace.GroupUnknown, Check: func(s *situation) (f Finding, ok bool) {
		f = Finding{
			Remedy:   "look at the timeline",
			Evidence: "the host was neither loading, copying, enqueuing nor waiting in these gaps",
			Share:    s.time.share(trace.GroupUnknown) + s.time.share(trace.GroupTransition),
		}
		if s.session.imported() {
			s.profile.notInTrace(&f)
		}
		if s.learns() {
			f.Remedy = fasterScript
			f.Evidence = fmt.Sprintf("forward passes take %s of the time, backward passes and optimizers %s",
				units.Prose.Percent(s.forward()), units.Prose.Percent(s.time.Utilisation()))
			return f, true
		}
		if s.script.alone() {
			f.Evidence = "nothing tells what a loop without a DataLoader waits for; 'with gpustall.data():' around what makes a batch does"
			switch c, ok := s.costliest(trace.InStep); {
			case ok:
				f.Remedy = fmt.Sprintf("look at %s, which takes %s of the loop's time", c.Named(), units.Prose.Percent(c.Part))
			case len(s.lines) > 0:
				f.Remedy = "look at the lines of code"
			default:
				f.Remedy = "let it run for longer, until it is known which lines of code it is"
			}
			return f, !s.calls(trace.InStep)
		}
		if s.renewed() { // the ends of iterators are among these gaps
			return f, false
		}
		if s.session.pytorch() && 2*s.time.between >= f.Share { // only what it does in its loops is recorded
			f.Remedy = "have the script do less between epochs, or do it less often"
			f.Evidence = fmt.Sprintf("%s of the time goes by there, outside of loops over data (saving a checkpoint, for instance)", units.Prose.Percent(s.time.between))
		}
		return f, true
	}},
}

// shortStep is the length of a step's compute, in ns, below which one late wake-up of a thread can
// hold it up.
const shortStep = 1e6

// largerBatches is for what the host does once a step, however many samples the step has. These
// are launches, waits for results and small copies from page-locked memory. For other copies the
// host waits.
func largerBatches(s *situation) (f Finding, ok bool) {
	f, ok = s.twiceTheBatch("the same launches, copies and waits then serve twice the samples")
	f.Share = s.time.share(trace.GroupLaunch) + s.time.share(trace.GroupSync)
	if s.time.smallCopies() && !s.knobs.can("pin_memory") {
		f.Share += s.time.share(trace.GroupCopy)
	}
	if s.time.Busy < s.time.Steps*shortStep {
		f.Share += s.time.share(trace.GroupHost)
	}
	return f, ok
}

// startUp is what starting a kernel costs a GPU, in ns. It takes about 2 to 3 us.
const startUp = 2500

// shortOperations is for a GPU whose operations take hardly longer than starting them. So its busy
// time hardly grows with the batch.
func shortOperations(s *situation) (f Finding, ok bool) {
	f, ok = s.twiceTheBatch(fmt.Sprintf("the device's operations take %s on average, hardly more than starting one", units.Prose.Time(int64(s.time.op))))
	if s.time.op > 0 {
		f.Share = min(1, startUp/s.time.op) * s.time.Utilisation()
	}
	return f, ok && f.Share >= 0.5 && !s.host.device
}

// twiceTheBatch returns the finding that twice the batch size is worth trying. It returns false
// where the size is not known, or cannot be doubled.
func (s *situation) twiceTheBatch(why string) (f Finding, ok bool) {
	batch, known := s.knobs.number("batch_size")
	f = s.knobs.turn("batch_size", strconv.Itoa(2*batch), why+"; the training changes with it")
	return f, known && 2*batch <= s.knobs.limit("batch_size", 1<<20) && (s.session.Meta.Samples == 0 || int64(2*batch) <= s.session.Meta.Samples)
}
