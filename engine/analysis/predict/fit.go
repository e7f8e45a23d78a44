package predict

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// Model is a run under the settings in force, as measured in some of its steps.
type Model struct {
	Capacity Capacity // of host and device; CPU and Device are 0 where it is not known
	known    bool     // Capacity is known
	loading  Work     // a batch, as measured

	now     settings
	plant   plant
	base    flow    // the simulation of the settings in force
	scale   float64 // ratio of a measured time to the simulated one
	rate    float64 // samples/s, measured
	noise   float64 // the standard error of log(rate)
	samples int64   // of the data set
	begins  beginning
	specs   []knob.Spec

	disk      [3]float64 // how many reads storage serves side by side (bad luck, likely, good luck); 0 where no read comes from storage
	stores    bool       // disk was measured
	reading   float64    // reads under way, on average
	Lock      Lock       // a lock that workers share
	injected  float64    // share of the blocked time that is injected: timers do not slow each other down
	past      []past     // earlier segments of the session
	uneven    [3]float64 // values of plant.uneven (bad luck, likely, good luck)
	grouped   bool       // the cores may be shared out between groups of processes; it is not known
	offload   float64    // share of the workers' computing that the device could do
	pinned    float64    // ns of a copy in an earlier segment with the other value of pin_memory; 0 where there is none
	fixed     [3]float64 // share of the compute time that does not grow with the batch: least, likely, most
	beside    company
	portion   float64 // cores that we used or that were idle; 0 where that is not known
	fitted    float64 // factor of the loads with which the simulation agrees with the measurement
	hostClock bool    // the host's share of a step is measured
	processes bool    // workers are PyTorch's processes, which hand each batch over to the loop ...
	imports   bool    // ... and are not forked
	handing   handover
}

// beginning is how often a script's loops start workers.
type beginning struct {
	left   int     // after so many batches they leave their loader; 0 where they take all
	starts float64 // ns that starting the workers takes
	each   float64 // ns that a worker takes of it
	core   float64 // the part of it that is on a core, at most
}

// company is what other processes on the cores do to the run.
type company struct {
	unsteady float64 // standard deviation of the number of cores that they use
	waiting  float64 // ns of a step in which the device waits for a thread of the host that has no core
	idle     float64 // share of the time in which the device does not compute, beside them
}

// least is how many steady steps a model needs.
const least = 10

// most is how many steps a model looks at one by one.
const most = 512

// little is a share of the time that is too small to matter.
const little = 0.05

// Fit measures the model on the steady steps of t, which are a segment's or a window of them. rows
// are attribution.Segments of the session: earlier settings tell what these steps cannot. Fit
// returns false where too little was measured.
func Fit(s *trace.Snapshot, t *trace.Tally, rows []attribution.SegmentStats) (*Model, bool) {
	b := &attribution.Breakdown{Totals: t.Steady}
	if b.Steps < least || b.Busy <= 0 || b.Load <= 0 || b.Active() <= 0 || t.SteadyFlags&trace.FlagCeiling != 0 {
		return nil, false
	}
	if _, _, renewed := attribution.Renewed(s, t); renewed { // what workers loaded ahead is thrown away
		return nil, false
	}
	var knobs []knob.Setting
	if g := s.Segment(t.Segment); g != nil {
		knobs = g.Knobs
	}
	m := &Model{specs: s.Meta.Specs, samples: s.Meta.Samples, rate: b.SamplesPerSecond(), scale: 1, fitted: 1}
	var ok bool
	if m.now, ok = settingsOf(knobs); !ok {
		return nil, false
	}
	if m.samples > 0 {
		m.now.batch = int(min(int64(m.now.batch), m.samples))
	}
	if m.begins.left = leftAfter(s); m.begins.left*10 >= m.now.epoch(m.samples)*9 && m.samples > 0 {
		m.begins.left = 0
	}
	cores := CoresOf(s, t.From, t.To)
	starved := 0.0
	if mean, _, n := s.GaugeOver(trace.GaugeStarved, t.From, t.To); n > 0 {
		starved = mean / 100
	}
	shared := s.Meta.DeviceKind == "cpu"
	l := LoadingOf(b, s.Spans, t.From, t.To, &cores)
	m.loading = l.Batch
	m.Capacity, m.known = CapacityOf(b, &l, cores, m.now.workers, starved, &s.Meta, attribution.Among(s, rows, t.Segment))
	m.processes = s.Meta.Watched()
	if !m.measure(s, t, &l, starved) {
		return nil, false
	}
	if m.processes {
		m.plant.inTurns = true
		how := knob.ValueOf(s.Meta.Host, trace.WorkerStart)
		m.imports = how != "" && how != "fork"
		m.handing = handoverOf(s.Meta.Host, b, &l, &cores, m.now.workers)
		m.plant.gap = m.handing.taking + m.handing.drawing
		m.plant.held = heldOf(s.Spans, stepsOf(s, t))
		if m.plant.serial = shared; shared {
			m.plant.host = m.handing.beside()
		}
	}
	threads, _ := strconv.ParseFloat(knob.ValueOf(s.Meta.Host, trace.TorchThreads), 64)
	m.share(b, &l, cores, starved, shared, threads, loopOf(s, t))
	m.beside.unsteady = spread(s, t, cores.All)
	if cores.Crowded() && !m.processes { // whose error includes that
		m.beside.idle, m.beside.waiting = 1-b.Utilisation()*(1-starved), float64(b.Stall[trace.CauseHost])/float64(b.Steps)
	}
	m.offload = l.Part(trace.KindTransform)
	m.injected = l.injected()
	m.noise = m.plant.precision(b.DataShare(), float64(b.Active()))
	m.remember(s, t)
	m.storage(s, t)
	if m.Lock = lockOf(s, t, m.loading, float64(b.Active())/float64(b.Steps)); m.stores { // how long they are blocked is measured
		m.Lock.share = [3]float64{}
	}
	steps := float64(b.Steps)
	m.calibrate(b.DataShare()-(m.handing.taking+m.handing.drawing)/max(1, float64(b.Active())/steps), float64(b.Busy)/steps)
	return m, true
}

// apply sets what follows from the knobs alone.
func (m *Model) apply(p *plant, k *settings, l luck) {
	p.workers, p.prefetch, p.inOrder, p.persistent, p.epoch, p.start = k.workers, k.ahead(), k.inOrder, k.persistent, k.epoch(m.samples), m.begins.starts
	if m.begins.left == 0 {
		if m.processes && p.persistent { // PyTorch's workers get nothing to load before the next epoch begins
			p.persistent, p.start = false, 0
		}
		return
	}
	if p.epoch = m.begins.left; p.persistent { // what is loaded ahead when a loop leaves is thrown away, once it is loaded
		p.persistent, p.start = false, l.of(onStart, draining)*float64(p.prefetch)*m.loading.Alone()
	}
}

// draining is the part of the batches under way that workers have yet to load when a loop leaves its loader.
var draining = [3]float64{1, 0.5, 0}

// leftAfter returns after how many batches a script's loops leave their loader, by break or the like. It is 0 where one of the
// newest took all, or fewer than two have ended.
func leftAfter(s *trace.Snapshot) int {
	const newest = 8
	if !s.Meta.Watched() || len(s.Epochs) < 3 {
		return 0
	}
	ended := s.Epochs[:len(s.Epochs)-1]
	var steps []int64
	for _, e := range ended[max(0, len(ended)-newest):] {
		if e.Complete {
			return 0
		}
		steps = append(steps, e.Totals.Steps)
	}
	slices.Sort(steps)
	return int(steps[len(steps)/2])
}

// measure takes the times of batches and steps one by one.
func (m *Model) measure(s *trace.Snapshot, t *trace.Tally, l *Loading, starved float64) bool {
	p := &m.plant
	steps := stepsOf(s, t)
	if len(steps) == 0 {
		return false
	}
	by := workersOf(s.Spans, t.From, t.To)
	w := l.Batch
	m.now.mean = sizeOf(steps)
	all := max(w.Core+w.Waiting+w.Blocked, 1)
	for i := range steps {
		st := &steps[i]
		load, d := float64(st.Load), demand{}
		core, blocked := w.Core/all, w.Blocked/all
		if one := st.Work.Batch; one.Total() > 0 {
			core, blocked = float64(one.Core)/float64(one.Total()), float64(one.Blocked)/float64(one.Total())
		}
		d.core, d.blocked = core*load, blocked*load
		p.took = append(p.took, load)
		p.load = append(p.load, d)
		p.compute = append(p.compute, float64(st.Busy)*(1-starved))
	}
	p.late = lateness(steps, by, p.load)
	m.begins.starts, m.begins.each, m.begins.core = l.Begin, l.Start, 1
	if c := &m.Capacity.Cores; c.Known && l.begins > 0 {
		m.begins.core = min(1, c.Runnable()*float64(l.b.Active())/l.begins)
	}
	m.apply(p, &m.now, likely)
	p.copy = float64(t.Steady.Copy) / float64(t.Steady.Steps)
	p.host, m.hostClock = stepLoop(s.Spans, t)
	g := &t.Steady.Stall
	late := float64(g[trace.CauseLaunch]+g[trace.CauseSync]+g[trace.CauseHost]+g[trace.CauseCopy]) / float64(t.Steady.Active())
	if m.hostClock && !m.now.pinned && s.Meta.DeviceKind != "cpu" {
		p.host = max(0, p.host-p.copy) // pageable memory is copied by the thread that enqueues
	}
	if step := float64(t.Steady.Active()) / float64(t.Steady.Steps); m.hostClock && late < little {
		// Enqueuing a copy of pageable memory waits for the device, as long as it takes.
		p.host = min(p.host, little*step)
	}
	if !m.hostClock {
		p.host = float64(g[trace.CauseLaunch]+g[trace.CauseHost]) / float64(t.Steady.Steps)
	}
	return true
}

// varied is from how many times as many steps as full ones on batches differ in size on purpose. With fewer, the smaller
// batches are the last of epochs.
const varied = 2

// stepsOf returns the newest full steps of t that are in memory, in the order of their batches. It
// leaves out the steps that no rate counts, such as a run's first step, which may compile for a
// minute.
func stepsOf(s *trace.Snapshot, t *trace.Tally) (out []trace.Step) {
	full := int32(0)
	for i := len(s.Recent) - 1; i >= 0 && s.Recent[i].Index >= t.First && len(out) < most; i-- {
		st := &s.Recent[i]
		if st.Index > t.Last || st.Segment != t.Segment || st.Start < t.From || st.Flags&(trace.FlagTransition|trace.FlagCeiling) != 0 {
			continue
		}
		full = max(full, st.Samples)
		out = append(out, *st)
	}
	partial := func(st trace.Step) bool { return st.Samples < full }
	if n := len(slices.DeleteFunc(slices.Clone(out), partial)); n*varied >= len(out) {
		out = slices.DeleteFunc(out, partial)
	}
	slices.SortFunc(out, func(a, b trace.Step) int { return cmp.Compare(a.Batch, b.Batch) })
	return out
}

// sizeOf returns how many samples these steps have on average; 0 where all have as many.
func sizeOf(steps []trace.Step) float64 {
	all, alike := 0., true
	for i := range steps {
		all += float64(steps[i].Samples)
		alike = alike && steps[i].Samples == steps[0].Samples
	}
	if alike {
		return 0
	}
	return all / float64(len(steps))
}

// workersOf returns which worker loaded each batch.
func workersOf(spans []trace.Span, from, to int64) map[int32]int {
	by := map[int32]int{}
	for i := range spans {
		s := &spans[i]
		if s.Kind.IsPhase() && s.Track >= trace.TrackWorker0 && int(s.Track) < trace.NumTracks && s.End > from && s.Start < to {
			by[s.Batch] = int(s.Track - trace.TrackWorker0)
		}
	}
	return by
}

// A worker counts as late if it meets these.
const (
	lateFrom    = 1.3 // its batches take so many times as long as the others', by the median
	lateBatches = 3   // it must have loaded so many batches at least
)

// lateness finds workers whose median batch takes longer than the other workers'. It takes the
// extra time out of the loads and returns it by worker.
func lateness(steps []trace.Step, by map[int32]int, load []demand) []float64 {
	var own [trace.MaxWorkers][]float64
	most := -1
	for i := range steps {
		if w, ok := by[steps[i].Batch]; ok && w < len(own) {
			own[w] = append(own[w], load[i].core+load[i].blocked)
			most = max(most, w)
		}
	}
	if most < 1 {
		return nil
	}
	middle := make([]float64, most+1)
	var usual []float64
	for w := range middle {
		if len(own[w]) >= lateBatches {
			slices.Sort(own[w])
			middle[w] = own[w][len(own[w])/2]
			usual = append(usual, middle[w])
		}
	}
	if len(usual) < 2 {
		return nil
	}
	slices.Sort(usual)
	other := usual[(len(usual)-1)/2]
	late := make([]float64, most+1)
	found := false
	for w := range late {
		// Only single workers can be late. Where half of the workers are slow, the workers
		// merely differ.
		if middle[w] > lateFrom*other && own[w][0] > 1.1*other {
			late[w], found = middle[w]-other, true
		}
	}
	if !found {
		return nil
	}
	for i := range steps {
		w, ok := by[steps[i].Batch]
		if !ok || w >= len(late) {
			// The batch's worker is not known. A batch that took as long as a late worker's counts as that
			// worker's.
			w = slices.Index(late, slices.Max(late))
			if load[i].core+load[i].blocked < other+late[w]/2 {
				continue
			}
		}
		rest := max(0, load[i].blocked-late[w])
		load[i].core = max(0, load[i].core-max(0, late[w]-load[i].blocked))
		load[i].blocked = rest
	}
	return late
}

// stepLoop returns how long the step loop takes for a step, without its waits for batches and
// for the device. It is false where the spans are gone.
func stepLoop(spans []trace.Span, t *trace.Tally) (ns float64, ok bool) {
	var from, to, waits int64
	n, pending, synced, next := int64(-1), int64(0), int64(-1), int64(-1)
	for i := range spans {
		s := &spans[i]
		if s.Track != trace.TrackStep || s.Start < t.From || s.Start >= t.To {
			continue
		}
		switch s.Kind {
		case trace.KindNext:
			if s.Start == next { // the same wait goes on
				pending, next = pending+s.End-s.Start, s.End
				continue
			}
			next = s.End
			if n < 0 {
				from = s.Start
				pending = 0
			}
			waits += pending
			n, to, pending = n+1, s.Start, s.End-s.Start
		case trace.KindSync:
			pending, synced = pending+s.End-s.Start, s.End
		case trace.KindPause, trace.KindRebuild:
			pending += s.End - s.Start
		case trace.KindStarved:
			if s.Start == synced { // the same wait for the device goes on
				pending += s.End - s.Start
			}
		}
	}
	if n < least || n < t.Steady.Steps/4 {
		return 0, false
	}
	return max(0, float64(to-from-waits)/float64(n)), true
}

// loopOf returns what the step loop of a PyTorch training did in these steps. It is nil where
// the loop's time with a batch in hand was not split.
func loopOf(s *trace.Snapshot, t *trace.Tally) *trace.Rank {
	own, known := s.Own(t.From, t.To)
	if !s.Meta.Watched() || !known || own.Core <= 0 || own.Body <= own.Waiting {
		return nil
	}
	return &own
}

// share finds out who uses the cores: the workers, the device's threads, the rest of this process,
// and other processes. shared says that the device computes on the host's cores. threads is on how
// many, and 0 where that is not known. The loop's own split tells how much of a step is blocked.
// Without a split, the core time of this process has to tell it, although workers also take time
// outside of their batches.
func (m *Model) share(b *attribution.Breakdown, l *Loading, c Cores, starved float64, shared bool, threads float64, loop *trace.Rank) {
	p := &m.plant
	p.cores = c.All
	steps, active := float64(b.Steps), float64(b.Active())
	if c.All == 0 {
		return
	}
	free := 1 - min(c.Waiting, 0.9)
	loading := l.Batch.Core * steps / active // cores
	rest := 0.0                              // cores that we use for other work
	switch {
	case !c.Known:
	case c.Grouped():
		p.cores, m.portion = c.Portion(), c.Portion()
		rest = max(0, c.Ours-loading)
	default:
		m.portion = max(0.05, c.Left())
		p.cores = max(0.05, c.All-c.Outside())
		p.rivals = (c.Others - c.Outside()) / free
		rest = max(0, c.Ours-loading)
	}
	if !shared {
		p.rivals += rest / free
		return
	}
	busy := float64(b.Busy) / active * (1 - starved)
	p.threads = max(1, c.All)
	if threads > 0 {
		p.threads = min(p.threads, threads)
	}
	if c.Known && busy > 0 { // a step that blocks leaves its core to others meanwhile
		used := rest / busy
		computing := min(1, used)
		if loop != nil {
			computing = min(1, float64(loop.Core)/float64(loop.Body-loop.Waiting))
		}
		p.threads, p.blocked = min(p.threads, max(1, used/max(computing, 1e-3))), 1-computing
	}
	if c.Grouped() && !m.processes { // what the device's threads get while they compute
		m.portion = max(m.portion, p.threads*(1-starved))
		p.cores = m.portion
	}
}

// spread returns the standard deviation of the number of cores that other processes use.
func spread(s *trace.Snapshot, t *trace.Tally, cores float64) float64 {
	mean, _, n := s.GaugeOver(trace.GaugeCPUOthers, t.From, t.To)
	if n < 2 {
		return 0
	}
	sum := 0.0
	for _, p := range s.Gauges[trace.GaugeCPUOthers] {
		if p.T >= t.From && p.T <= t.To {
			sum += (p.V - mean) * (p.V - mean)
		}
	}
	return math.Sqrt(sum/float64(n-1)) / 100 * cores
}

// parts is into how many pieces the window is divided to tell how precisely it knows a mean.
const parts = 8

// precision returns the relative standard error of what limits the rate. Where the device waits for
// data, that is the loads; elsewhere it is the device's own time. Batches also arrive in bursts,
// but the simulation has these too, so they do not count.
//
// What counts is how many bursts fall into the window. Workers that began together finish together,
// so the window may cut a burst off. The error is less than one burst and is uniformly distributed.
func (p *plant) precision(data, active float64) float64 {
	v, burst := p.compute, 0.0
	if data >= little {
		v = p.took
		burst = mean(v) / active / math.Sqrt(12)
	}
	n := min(parts, len(v)/2)
	if n < 2 {
		return burst
	}
	all, squares := mean(v), 0.0
	for i := range n {
		off := mean(v[i*len(v)/n:(i+1)*len(v)/n])/all - 1
		squares += off * off
	}
	return math.Hypot(burst, math.Sqrt(squares/float64(n*(n-1))))
}

// sameEngine reports whether two segments have the same knobs of the engine, which change the
// device's work.
func sameEngine(s *trace.Snapshot, a, b int32) bool {
	var of [2][]knob.Setting
	for i := range s.Segments {
		switch s.Segments[i].Index {
		case a:
			of[0] = s.Segments[i].Knobs
		case b:
			of[1] = s.Segments[i].Knobs
		}
	}
	for _, spec := range s.Meta.Specs {
		if spec.Group == knob.GroupEngine && knob.ValueOf(of[0], spec.Name) != knob.ValueOf(of[1], spec.Name) {
			return false
		}
	}
	return true
}

// These are assumed of a GPU that trains a model: the number of launches a step, and the
// least time in ns that a launch takes.
const (
	fewLaunches, someLaunches, manyLaunches = 10, 30, 80
	startUp                                 = 2500
)

// assumed returns the share of the compute time busy that is assumed not to grow with the batch
// (least, likely, most). It counts until two batch sizes were measured.
func (m *Model) assumed(s *trace.Snapshot, segment int32, busy float64) [3]float64 {
	switch {
	case s.Meta.Params == 0: // a modelled step, which is proportional to its samples
		return [3]float64{0, 0, 0}
	case s.Meta.DeviceKind == "cpu":
		return [3]float64{0, 0.05, 0.25}
	}
	if of, ok := fixedOf(s, segment); ok {
		return [3]float64{0.85 * of, of, of + 0.35*(1-of)}
	}
	of := func(n float64) float64 { return min(0.95, n*startUp/max(busy, 1)) }
	return [3]float64{of(fewLaunches), of(someLaunches), of(manyLaunches)}
}

// fixedOf returns the share of the device's time that does not grow with the batch, from the
// launches that were timed. It counts the optimizer's launches in full, and of each other
// launch the time of the shortest one. The true share is larger where launches are too small to
// fill the device.
func fixedOf(s *trace.Snapshot, segment int32) (share float64, ok bool) {
	const optimizer = "optimizer"
	all, fixed, launches, shortest := 0.0, 0.0, 0.0, math.Inf(1)
	for i := range s.Ops {
		o := &s.Ops[i]
		if o.Segment != segment || o.Calls == 0 || o.Total <= 0 {
			continue
		}
		ns := float64(o.Total) / float64(o.Calls)
		all += ns
		if o.Phase == optimizer {
			fixed += ns
			continue
		}
		launches++
		shortest = min(shortest, ns)
	}
	if launches == 0 {
		return 0, false
	}
	return min(0.95, (fixed+launches*shortest)/all), true
}
