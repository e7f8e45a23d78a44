// Package predict says what another setting of a knob would do, before it is tried.
//
// Fit measures a Model on some steps of a session. From each batch it takes how long loading used a
// core and how long it was blocked. From the steps it takes who shares the cores, and how long the
// step loop, the copies and the device took. Predict simulates the run with other knobs, event by
// event, and returns throughput and the share of time in which the device waits for data, with an
// interval. Predict is pure and has no randomness: it replays measured batches in their order. So
// the same session gives the same prediction, live, in a replay and in a report.
//
// docs/results/predict.md describes the model, where it is from, and how often it was right.
package predict

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Prediction is what some changes of knobs would do.
type Prediction struct {
	Changes []knob.Setting
	trace.Prediction
	Known *stats.Change // of the throughput, where the session measured these changes; it outranks the prediction
}

// Same reports whether no change is predicted: the whole interval is so close to 1 that no
// prediction could tell it from 1.
func Same(p trace.Prediction) bool {
	g := Gain(p)
	return 1-untold <= g.Lo && g.Lo < 1 && 1 < g.Hi && g.Hi <= 1+untold
}

// Gain returns the predicted throughput as a ratio to the measured one.
func Gain(p trace.Prediction) units.Estimate {
	return units.Estimate{Value: p.Rate / p.Base, Lo: p.Lo / p.Base, Hi: p.Hi / p.Base}
}

const (
	widest = 1    // width of an interval that still tells the size of a gain, as a ratio to the measured rate
	clear  = 0.05 // from this change on, a loss or a gain is clear
	untold = 0.07 // a smaller change cannot be told from none: modelError alone makes each interval 5 % wide on either side
)

// Vague reports whether a prediction is too wide to go by: wider than 100 points, or from a clear loss
// to a clear gain. Of its numbers only the least of a clear gain is shown.
func Vague(p trace.Prediction) bool {
	if Same(p) {
		return false
	}
	g := Gain(p)
	return g.Hi-g.Lo > widest || g.Lo < 1-clear && g.Hi > 1+clear
}

// Faster reports whether a prediction is of a clear gain, whatever its size.
func Faster(p trace.Prediction) bool { return Gain(p).Lo > 1+clear }

// Open reports whether a prediction tells neither that the change helps nor that it does not: only an A/B test does.
func Open(p trace.Prediction) bool { return p.Made() && Vague(p) && !Faster(p) }

// hardly is the share of the cores from which on others leave hardly any. What starting and switching cost there, no model
// tells.
const hardly = 0.97

// MayCost reports whether a prediction is vague, and the change may cost more than it likely gains, or half as much where
// others leave hardly any cores.
func MayCost(p trace.Prediction) bool {
	g := Gain(p)
	loss := 1 - g.Lo
	if p.Others >= hardly {
		loss *= 2
	}
	return Vague(p) && g.Lo < 1-clear && loss > g.Value-1
}

// Least says of a vague prediction what it tells: the least of a clear gain, or nothing.
func Least(p trace.Prediction) string {
	if Faster(p) {
		return fmt.Sprintf("at least +%.0f %%", 5*math.Floor(20*(Gain(p).Lo-1)))
	}
	return "not predictable"
}

// Untold says what Least does, and why it tells no more.
func Untold(p trace.Prediction) string {
	text := Least(p) + " now"
	if Faster(p) {
		text = Least(p) + ", how much is not predictable now"
	}
	if crowd := Crowd(p); crowd != "" {
		text += ", as " + crowd
	}
	return text
}

// Crowd says why a vague prediction tells no more, where that is known; else nothing.
func Crowd(p trace.Prediction) string {
	if p.Others == 0 || !Vague(p) {
		return ""
	}
	return fmt.Sprintf("others took %s of the cores", units.Prose.Percent(p.Others))
}

// Words returns a prediction's gain as a range: "+22 to +31 % predicted". Where the change may help
// or harm, it says so. Of a vague prediction it returns no range.
func Words(p trace.Prediction) string {
	switch words := units.Prose.GainRange(Gain(p)) + " predicted"; {
	case Vague(p) && Faster(p):
		return Least(p) + "; an A/B test tells how much"
	case Open(p):
		return Least(p) + " now; an A/B test tells"
	case Same(p):
		return "the same: " + words
	case EitherWay(p):
		return "may help or harm: " + words
	default:
		return words
	}
}

// EitherWay reports whether a change is expected to gain nothing or to cost something, and yet may
// gain.
func EitherWay(p trace.Prediction) bool {
	g := Gain(p)
	return g.Value < 1+stats.DefaultMargin && g.Lo < 1 && g.Hi > 1
}

// assumption is something that is assumed and not measured. Any two are independent of each other.
type assumption uint8

const (
	everything   assumption = iota
	onSpeed                 // how long computing takes
	onWaits                 // how long waiting for something else takes
	onCompany               // how much longer waiting takes among more workers
	onCrowding              // how much longer computing takes among more workers
	onMemory                // how much memory slows down what only moves bytes
	onCores                 // how many cores others leave
	onQueues                // how unevenly the kernel's queues use the cores
	onDisk                  // how many reads storage serves side by side
	onLock                  // how much workers wait for each other
	onHandover              // what handing a batch over costs
	onStart                 // what starting a worker costs
	onHost                  // how long the step loop takes
	onCopies                // how long copies take
	onBatch                 // what another batch size costs
	onTransforms            // what the device takes over
	onFit                   // whether loads keep the correction that made the simulation agree
	assumptions
)

// luck is how assumptions turn out: one of them, and the likely way for all others, or everything alike.
type luck struct {
	sign int // bad, likely or good
	with assumption
}

var likely, good = luck{}, luck{sign: 1}

// of returns what an assumption comes to, of the values for bad luck, the likely one, and good luck.
func (l luck) of(a assumption, v [3]float64) float64 { return v[l.on(a)+1] }

// on returns the luck with one assumption: -1, 0 or 1.
func (l luck) on(a assumption) int {
	if l.with != everything && l.with != a {
		return 0
	}
	return l.sign
}

// turned returns the opposite luck.
func (l luck) turned() luck { return luck{-l.sign, l.with} }

// These are assumed of what the measured steps cannot tell: for bad luck, likely, for
// good luck.
var (
	// Work on a core (computing) and waiting for something else (waiting) may take so many times
	// as long as in the window. The reason is that clocks, caches and other guests of the
	// hardware change.
	computing = [3]float64{1.04, 1, 0.96}
	waiting   = [3]float64{1.02, 1, 0.98}

	// Reads from a disk take so many times as long, because other guests use it too.
	storing = [3]float64{1.15, 1, 0.87}

	// The blocked time of a batch grows as this power of the number of workers.
	waitPower = [3]float64{0.2, 0.03, 0}

	// Computing takes longer by this share each time that the workers who crowd the cores grow by the number
	// of cores. Workers share caches, memory and sibling threads, if there are any.
	crowding = [3]float64{0.15, 0.03, 0}

	// Loading that only moves bytes takes longer by this share for each core more, beside the first ones,
	// that does so: memory serves all of them together.
	sharing = [3]float64{1, 0.3, 0}

	// The number of rivals for the cores changes by this ratio from one setting's
	// window to the next.
	rivalry = [3]float64{1.35, 1, 0.7}

	// The same where the device computes on the cores with several threads. They wait for each other, and for a
	// turn whenever they wake up. The less they idle, the less often they wake up.
	hostRivalry = [3]float64{2, 1, 0.4}

	// Our group's part of the cores changes by this ratio from one setting's window to
	// the next.
	entitled = [3]float64{0.9, 1, 1.15}

	// A copy of pageable memory takes so many times as long as one of page-locked memory.
	pinning = [3]float64{1.3, 4, 20}

	// The device takes over this share of what the transforms compute. Pixels are still cut out and moved by the host.
	offloading = [3]float64{0.15, 0.6, 1}

	// The step loop's part of a step takes so many times as long with another batch size, or while
	// others take the cores.
	hosting = [3]float64{1.2, 1, 0.8}
)

// handing is what a batch costs a worker in addition to its samples, in ns: taking its order,
// handing it over, and waking up.
var handing = [3]float64{0, 40e3, 200e3}

// narrowPixels is how many bytes are copied for each byte of a float32 pixel when the device
// transforms.
const narrowPixels = 0.25

// Predict says what changes of knobs would do. It is false where the model does not know the knobs.
func (m *Model) Predict(changes ...knob.Setting) (Prediction, bool) {
	to := m.now
	for _, c := range changes {
		if !to.set(c) || m.barred(c) {
			return Prediction{}, false
		}
	}
	if m.samples > 0 {
		to.batch = int(min(int64(to.batch), m.samples))
	}
	p := Prediction{Changes: changes, Prediction: trace.Prediction{Base: m.rate}}
	if c := &m.Capacity.Cores; c.Crowded() {
		p.Others = min(1, c.Others/c.All)
	}
	var down, up float64 // of the logarithm of the rate
	p.Rate, p.Data = m.expect(&to, likely)
	p.DataLo, p.DataHi = p.Data, p.Data
	base := m.with(&to, likely)
	for a := everything + 1; a < assumptions; a++ {
		least, most := 0.0, 0.0
		for _, l := range [...]luck{{-1, a}, {1, a}} {
			if m.with(&to, l).same(base) {
				continue
			}
			rate, data := m.expect(&to, l)
			off := math.Log(rate / p.Rate)
			least, most = min(least, off), max(most, off) // either luck may be a loss
			p.DataLo, p.DataHi = min(p.DataLo, data), max(p.DataHi, data)
		}
		down, up = math.Hypot(down, least), math.Hypot(up, most)
	}
	fewer, more := m.with(&to, likely).chance(1e9 * to.size() / p.Rate)
	wasFewer, wasMore := m.plant.chance(m.base.step)
	down, up = math.Hypot(math.Hypot(down, more), wasFewer), math.Hypot(math.Hypot(up, fewer), wasMore)
	slack := m.slack()
	most := m.most(&to)
	if to.workers > m.now.workers && to.batch == m.now.batch && to.transforms == m.now.transforms {
		p.Rate = min(p.Rate, m.rate*m.Capacity.Cores.allow(m.with(&to, likely).cores))
		most = min(most, m.rate*m.Capacity.Cores.allow(m.with(&to, luck{1, onCores}).cores))
	}
	if was := m.before(&to); was != nil && to != m.now { // these settings were measured before
		p.Rate, p.Data = was.rate, was.data
		down, up = again, again
		p.DataLo, p.DataHi = was.data, was.data
		most = math.Inf(1)
	}
	half := m.half(p.Rate / m.rate)
	p.Lo, p.Hi = p.Rate*math.Exp(-math.Hypot(down, half)), p.Rate*math.Exp(math.Hypot(up, half))
	if p.Hi > most { // the times of device, copy and cores are known as exactly as their means
		p.Rate, p.Hi = min(p.Rate, most), max(most*math.Exp(z*min(max(m.noise, leastNoise), 0.1)), p.Rate)
		p.Lo = min(p.Lo, p.Rate)
	}
	p.DataLo, p.DataHi = max(0, p.DataLo-slack), min(1, p.DataHi+slack)
	return p, true
}

// most returns the largest rate that these settings can have, whatever the luck with what was not measured.
// The device, the link and the cores limit it. It is at least the rate measured with the settings in force.
func (m *Model) most(to *settings) float64 {
	l := likely
	if to.batch != m.now.batch || to.transforms != m.now.transforms || to.pinned != m.now.pinned {
		l = good // the cost of a batch was not measured then
	}
	p := m.with(to, l)
	work := 0.0 // on cores, for a batch
	for _, d := range p.load {
		work += d.core / float64(len(p.load))
	}
	work += p.threads * (1 - p.blocked) * mean(p.compute)
	least := max(mean(p.compute), p.copy)
	if cores := m.with(to, luck{1, onCores}).cores; cores > 0 { // a group's part may grow
		least = max(least, work/cores)
	}
	rate := 1e9 * to.size() / least
	if to.batch == m.now.batch {
		rate = max(rate, m.rate)
	}
	return rate
}

// barred reports whether a knob cannot have a value here, or has no effect.
func (m *Model) barred(to knob.Setting) bool {
	s := knob.SpecOf(m.specs, to.Name)
	return s != nil && s.Bars(to.Value) != ""
}

// expect simulates other settings with luck l. It returns samples a second, and the share of
// time in which the device waits for data.
func (m *Model) expect(to *settings, l luck) (rate, data float64) {
	p := m.with(to, l)
	f := p.flow()
	batch := to.size()
	rate = 1e9 * batch / (f.step * m.scale)
	if limit := 1e9 * batch / (mean(p.compute) + p.gap); m.scale < 1 {
		rate = min(rate, max(limit, m.rate)) // the factor must not lift the rate above the device's own
	}
	return rate, f.data
}

// with returns the plant with other settings, given this luck.
func (m *Model) with(to *settings, l luck) *plant {
	p := m.plant
	m.apply(&p, to, l)
	now := &m.now
	f := m.resized(to.batch, l)
	m.restaff(&p, &f, max(1, to.workers), l)
	if to.transforms != now.transforms {
		f.offload(to.transforms, l.of(onTransforms, offloading)*m.offload)
	}
	if to.pinned != now.pinned {
		f.copied = m.repinned(f.copied, p.copy, to.pinned, l)
	}
	if to.ceiling {
		f.core, f.blocked = 0, 0
		p.late = nil
	}
	if to.queue() != now.queue() { // the reason for the correction is not known, so that it may go, or double
		fit := math.Pow(m.fitted, -float64(l.on(onFit)))
		f.core, f.blocked = f.core*fit, f.blocked*fit
	}
	f.core *= l.of(onSpeed, computing)
	if m.reading > 0 {
		f.blocked *= l.of(onWaits, storing)
	} else {
		f.blocked *= l.of(onWaits, waiting)
	}
	if p.threads > 0 {
		f.device *= p.blocked + (1-p.blocked)*l.of(onSpeed, computing)
	}
	if m.reading > 0 {
		p.disk = l.of(onDisk, m.disk)
		f.blocked *= m.alone(l) / m.alone(likely)
	}
	p.uneven = l.of(onQueues, m.uneven)
	switch {
	case to.workers != now.workers: // in other processes it is not known
		p.held = 0
	case *to != *now:
		p.held *= l.of(onHandover, holding)
	}
	if to.batch != now.batch || m.Capacity.Cores.Crowded() {
		p.host *= l.of(onHost, hosting)
	}
	f.scale(&p)
	p.gap = max(0, p.gap+m.beside.waiting*(l.of(onCores, hostRivalry)-1))
	m.compete(&p, l, to.workers-now.workers)
	if m.processes && (to.workers > 0) != (now.workers > 0) {
		m.handOver(&p, l)
	} else if m.processes && to.workers > 0 && *to != *now {
		m.takeReady(&p, to, l)
	}
	if m.processes && to.workers != now.workers && !to.persistent {
		m.begin(&p, to.workers, l)
	}
	return &p
}

// factors say how many times as long the parts of a batch take with other settings.
type factors struct {
	core, blocked float64 // of loading
	device        float64
	copied        float64
}

// scale applies the factors to what a plant takes.
func (f *factors) scale(p *plant) {
	p.copy *= f.copied
	p.load = scaled(p.load, f.core, f.blocked)
	if f.device != 1 {
		p.compute = slices.Clone(p.compute)
		for i := range p.compute {
			p.compute[i] *= f.device
		}
	}
}

// resized returns the factors of another batch size. Part of a batch's cost does not depend on
// its size.
func (m *Model) resized(batch int, l luck) factors {
	size := float64(batch) / float64(m.now.batch)
	f := factors{core: size, blocked: size, device: size, copied: size}
	if batch == m.now.batch {
		return f
	}
	fixed, hand := m.fixed, l.of(onBatch, handing)
	if size < 1 { // a fixed part is bad luck then
		fixed[0], fixed[2] = fixed[2], fixed[0]
		hand = l.turned().of(onBatch, handing)
	}
	part := l.of(onBatch, fixed)
	f.device = part + (1-part)*size
	hand = min(0.9, hand/max(m.loading.Alone(), 1))
	f.core, f.blocked = hand+(1-hand)*size, hand+(1-hand)*size
	return f
}

// restaff changes the number of workers that load. It is 1 where the loop loads by
// itself.
func (m *Model) restaff(p *plant, f *factors, workers int, l luck) {
	a, b := max(1, m.now.workers), workers
	if a == b {
		return
	}
	p.wake *= min(1, float64(b)/float64(a)) // they wait for each other
	if b < a {                              // fewer workers gain by what is bad luck for more
		l = l.turned()
	}
	waits := m.Lock.longer(a, b, l)
	if company := math.Pow(float64(b)/float64(a), l.of(onCompany, waitPower)*(1-m.injected)); m.reading == 0 && math.Abs(company-1) > math.Abs(waits-1) {
		waits = company // which a lock explains
	}
	f.blocked *= waits
	if p.cores > 0 {
		f.core *= math.Pow(1+l.of(onCrowding, crowding), (m.crowd(b, p.cores)-m.crowd(a, p.cores))/p.cores)
		first := min(float64(a), p.cores)
		f.core *= 1 + l.of(onMemory, sharing)*m.handing.streams*(min(float64(b), p.cores)-first)/first
	}
}

// crowd returns how many of n workers crowd the cores. Workers that compute and are more than the cores crowd them
// too where they are processes, between which the kernel switches.
func (m *Model) crowd(n int, cores float64) float64 {
	on, beyond := min(float64(n), cores), max(float64(n)-cores, 0)
	if !m.processes {
		beyond = 0
	}
	return on + beyond*m.loading.Core/max(m.loading.Alone(), 1)
}

// offload moves transforms, a share of the loading's computing, to the device or back.
func (f *factors) offload(toDevice bool, share float64) {
	bytes := narrowPixels
	if toDevice {
		f.core *= 1 - share
	} else {
		f.core /= max(0.05, 1-share)
		bytes = 1 / bytes
	}
	f.copied *= bytes
}

// repinned changes a copy's factor when memory becomes page-locked or pageable. Where such
// a copy was measured, it uses that time.
func (m *Model) repinned(factor, copy float64, pinned bool, l luck) float64 {
	switch {
	case m.pinned > 0 && copy > 0:
		return factor * (m.pinned / copy)
	case pinned:
		return factor / l.of(onCopies, pinning)
	}
	return factor * l.turned().of(onCopies, pinning)
}

// compete sets how other processes compete for the cores. The kernel shares cores by the thread
// within a group of processes, and by the group between groups (Cores.Grown). Where it is not known how
// the kernel shares, the luck decides.
func (m *Model) compete(p *plant, l luck, workers int) {
	more := workers > 0
	if c := &m.Capacity.Cores; c.Grouped() {
		if m.now.workers == 0 && more { // the first takes the loading from the loop
			workers--
		}
		w := &m.loading
		threads := c.Runnable() + float64(workers)*(w.Core+w.Waiting)/max(w.Core+w.Waiting+w.Blocked, 1)
		grown := c.Grown(threads) // at best
		p.cores = min(c.All, m.portion*l.of(onCores, entitled)*l.of(onCores, [3]float64{min(1, grown), math.Sqrt(grown), max(1, grown)}))
		return
	}
	if m.grouped && (l.on(onCores) < 0 && more || l.on(onCores) > 0 && !more) {
		p.cores, p.rivals = m.portion, 0
		return
	}
	rivals := rivalry
	if p.threads > 1 {
		rivals = hostRivalry
	}
	p.rivals = max(0, p.rivals*l.of(onCores, rivals)-float64(l.on(onCores))*m.beside.unsteady)
	if m.Capacity.Cores.Outside() > 0 {
		p.cores = min(m.Capacity.Cores.All, p.cores*l.of(onCores, entitled))
	}
}

// scaled returns loads that take so many times as long.
func scaled(loads []demand, core, blocked float64) []demand {
	if core == 1 && blocked == 1 {
		return loads
	}
	out := make([]demand, len(loads))
	for i, d := range loads {
		out[i] = demand{d.core * core, d.blocked * blocked}
	}
	return out
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// Neighbours predicts one step up and one step down for each knob that the model knows.
func (m *Model) Neighbours() []Prediction {
	var out []Prediction
	for i := range m.specs {
		for _, value := range m.neighbours(&m.specs[i]) {
			if p, ok := m.Predict(knob.Setting{Name: m.specs[i].Name, Value: value}); ok {
				out = append(out, p)
			}
		}
	}
	return out
}

// neighbours returns the values next to a knob's own; none where the model does not know the knob.
func (m *Model) neighbours(s *knob.Spec) []string {
	if s.NoEffect != "" {
		return nil
	}
	flip := func(on bool) []string {
		if on {
			return []string{"off"}
		}
		return []string{"on"}
	}
	switch s.Name {
	case numWorkers:
		return m.workers(s)
	case prefetchFactor:
		if m.now.workers == 0 {
			return nil
		}
		return beside(s, m.now.ahead())
	case batchSize:
		return beside(s, m.now.batch)
	case pinMemory:
		return flip(m.now.pinned)
	case persistent:
		if m.now.workers == 0 {
			return nil
		}
		return flip(m.now.persistent)
	case inOrder:
		return flip(m.now.inOrder)
	case deviceTransforms:
		return flip(m.now.transforms)
	case ceiling:
		return flip(m.now.ceiling)
	}
	return nil
}

// workers returns half and twice the number of workers.
func (m *Model) workers(s *knob.Spec) (out []string) {
	n := m.now.workers
	if n > 1 {
		out = append(out, strconv.Itoa(n/2))
	}
	if up := max(1, 2*n); s.Max == 0 || up <= s.Max {
		out = append(out, strconv.Itoa(up))
	}
	return out
}

// beside returns the values that a key press steps to.
func beside(s *knob.Spec, now int) (out []string) {
	below, above := "", ""
	for _, v := range s.Values {
		n, err := strconv.Atoi(v)
		switch {
		case err != nil:
		case n < now:
			below = v
		case n > now && above == "":
			above = v
		}
	}
	for _, v := range []string{below, above} {
		if v != "" {
			out = append(out, v)
		}
	}
	return out
}
