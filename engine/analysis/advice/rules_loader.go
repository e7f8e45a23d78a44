package advice

import (
	"fmt"
	"strconv"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// loaderRules are about the time in which the device waits for data. All but the first need to know
// the loader's settings, so the first has no group.
var loaderRules = []Rule{
	{Name: "unknown workers", Check: unknownWorkers},
	{Name: "persistent workers", Group: trace.GroupData, Check: persistentWorkers},
	{Name: "prefetch", Group: trace.GroupData, Check: morePrefetch},
	{Name: "straggler", Group: trace.GroupData, Check: straggler},
	{Name: "fewer workers", Group: trace.GroupData, Check: fewerWorkers},
	{Name: "bursts", Group: trace.GroupData, Check: bursts},
	{Name: "reads in flight", Group: trace.GroupData, Check: moreReads},
	{Name: "more workers", Group: trace.GroupData, Check: moreWorkers},
	onDevice,
	{Name: "epoch starts", Group: trace.GroupData, Last: true, Check: epochStarts},
	{Name: "page-locking", Group: trace.GroupData, Last: true, Check: pageLocking},
	{Name: "workers that stay", Group: trace.GroupData, Last: true, Check: workersThatStay},
	{Name: "neighbours", Group: trace.GroupData, Last: true, Check: neighbours},
	{Name: "host", Group: trace.GroupData, Last: true, Check: hostLimit},
	{Name: "storage", Group: trace.GroupData, Last: true, Check: storage},
	{Name: "uneven batches", Group: trace.GroupData, Last: true, Check: unevenBatches},
}

func unknownWorkers(s *situation) (f Finding, ok bool) {
	f = Finding{Knob: "num_workers", Remedy: "raise num_workers", Evidence: "its value in this session is not known", Share: s.time.DataShare()}
	if s.session.imported() {
		f.Remedy, f.Evidence = "raise the DataLoader's num_workers", "the trace does not tell its value"
		if s.profile.NumWorkers() == "0" {
			f.Remedy, f.Evidence = "set the DataLoader's num_workers to the cores that are free", "it is 0: the trace has "+trace.InlineLoader+", which loads in the training loop itself"
		}
	}
	_, known := s.knobs.number("num_workers")
	return f, !known && !s.session.pytorch() && !s.time.ceiling() && f.Share >= moderate
}

// persistentWorkers is for what the start of each epoch costs: workers start, and the queue
// is empty until they have loaded.
func persistentWorkers(s *situation) (f Finding, ok bool) {
	why := "workers then live on from epoch to epoch"
	if !s.session.pytorch() { // whose workers get nothing to load before the next epoch begins
		why += " and load ahead across the boundary"
	}
	f = s.knobs.turn("persistent_workers", "on", why)
	f.Share = s.loader.starts()
	if s.time.opening > 0 {
		f.Evidence = fmt.Sprintf("%s of the wait for data is in the first steps of epochs; %s", units.Prose.Percent(s.time.opening/s.time.DataShare()), f.Evidence)
	}
	f.Evidence = join(f.Evidence, s.loader.startUp())
	s.lasting(&f)
	// Where no core is free, loading ahead gains nothing. Persistent workers still gain something,
	// because they start only once. They gain most where workers are processes: the spans do not show
	// what the kernel takes to make and destroy these.
	off := f.From != "" && knob.Off(f.From)
	return f, s.loader.workers > 0 && off && (!s.loader.computing() || s.time.Share(trace.CauseStartup) >= moderate || s.loader.atStarts())
}

// epochStarts is for epochs' starts that cost time although the workers persist already.
func epochStarts(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   "make epochs longer",
		Evidence: "the device waits at the start of an epoch until the workers have loaded its first batches",
		Share:    s.loader.starts(), Here: true,
	}
	if spec := knob.SpecOf(s.knobs.specs, "persistent_workers"); spec != nil && spec.NoEffect != "" && spec.Hint != "" {
		f.Remedy, f.Evidence = spec.Hint, join(spec.NoEffect, f.Evidence)
	}
	s.lasting(&f)
	return f, s.loader.workers > 0 && !s.knobs.can("persistent_workers") && s.loader.atStarts()
}

// lasting qualifies a finding about the starts of epochs. It does so where the judged steps are a window
// with such a start, and all steps with these settings waited clearly less for data.
func (s *situation) lasting(f *Finding) {
	all := attribution.Breakdown{Totals: s.session.Tally(s.time.segment).Steady}
	if all.Steps < 2*s.time.Steps || 2*all.DataShare() > f.Share {
		return
	}
	f.Free = all.DataShare()
	f.Evidence = join(fmt.Sprintf("an epoch began in these steps; over all %s with these settings the device waits for data %s of the time",
		units.Counted(all.Steps, "step", "steps"), units.Prose.Percent(f.Free)), f.Evidence)
}

func morePrefetch(s *situation) (f Finding, ok bool) {
	n, ok := s.levers.morePrefetch()
	f = s.knobs.turn("prefetch_factor", strconv.Itoa(n), "workers stood idle because they were not allowed to load further ahead")
	f.Share = s.time.Share(trace.CausePrefetch)
	return f, ok
}

func pageLocking(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   "keep batch_size and the number of workers constant, so that slots are locked once, or turn pin_memory off",
		Evidence: "page-locking is slow here", Share: s.time.Share(trace.CausePin),
	}
	return f, true
}

// straggler is for waits for the batch whose turn it is, while other batches are ready.
func straggler(s *situation) (f Finding, ok bool) {
	why := "the step loop waited for the batch next in order while others were ready"
	if s.loader.headed {
		why += "; " + s.loader.head.String()
	}
	f = s.knobs.turn("in_order", "off", why+"; the order of samples changes")
	f.Share = s.time.Share(trace.CauseOrder)
	return f, s.levers.ordered()
}

// moreReads lets workers ask for more at a time, where most of their reading is waiting for
// an object store's first byte. That costs no thread and no memory for a batch.
func moreReads(s *situation) (f Finding, ok bool) {
	first, rest := s.time.Share(trace.CauseFirstByte), s.time.Share(trace.CauseRead)
	now, known := s.knobs.number("reads_in_flight")
	value := min(4*max(1, now), s.knobs.limit("reads_in_flight", 64))
	f = s.knobs.turn("reads_in_flight", strconv.Itoa(value), fmt.Sprintf("%s of the waiting for reads is for the first byte of a store's answer: more requests at a time wait no longer than one",
		units.Prose.Percent(first/max(first+rest, 1e-9))))
	f.Share = s.levers.loads()
	return f, known && value > now && first >= moderate && first >= rest && !s.loader.computing() && !s.tried.refused("reads_in_flight", strconv.Itoa(value))
}

// moreWorkers raises num_workers to what the measured times call for. That can gain something in
// three cases: cores are free, the step loop loads by itself, or other processes take turns on the
// cores. Because each worker holds batches in memory, the advice is at most four times as many, or
// 8 if that is more.
func moreWorkers(s *situation) (f Finding, ok bool) {
	value := s.fewerIfBetter(s.levers.moreWorkers())
	why := s.loader.times()
	switch {
	case s.loader.workers == 0:
		why = join(s.loader.inline(), why)
	case s.loader.Reading():
		why = join("workers wait rather than compute, so more of them can wait at once"+s.loader.atOnce(), why)
	}
	if s.loader.computing() && s.host.Crowded() {
		why = join(why, s.host.String()+s.host.turns())
	}
	if queueing := s.loader.queueing(); queueing != "" {
		why = join(why, queueing+", and more of them would wait longer: hold it for less of a sample's time, or do without it")
	}
	why = join(why, s.script.others())
	f = s.knobs.turn("num_workers", strconv.Itoa(value), why)
	f.Share = min(s.levers.loads(), s.levers.winnable())
	_, repeated := repeats(s.session.Snapshot)
	return f, s.loader.workers < value && repeated == "" && !s.relieved() && !s.loader.serial()
}

// fewerIfBetter halves a number of workers while others take the cores, for as long as fewer are predicted to be faster, or
// so many may cost more than they likely gain: where they compute, or each epoch starts them anew.
func (s *situation) fewerIfBetter(workers int) int {
	predicted := func(n int) trace.Prediction {
		p, _ := s.knobs.predict(knob.Setting{Name: "num_workers", Value: strconv.Itoa(n)})
		return p
	}
	if !s.host.Crowded() {
		return workers
	}
	for p := predicted(workers); workers/2 > s.loader.workers; workers /= 2 {
		half := predicted(workers / 2)
		if half.Rate <= (1+moderate)*p.Rate && !predict.MayCost(p) {
			break
		}
		p = half
	}
	return workers
}

// workersThatStay is for a loop that loads by itself beside others. Workers that begin anew in each epoch may cost it more than
// they gain, and those that live on do not.
func workersThatStay(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   "set num_workers 2 and persistent_workers on, both at once",
		Evidence: join("starting workers in each epoch may cost more than they gain", s.host.String()), Share: s.levers.loads(),
	}
	f.Predicted, ok = s.knobs.predict(knob.Setting{Name: "num_workers", Value: "2"}, knob.Setting{Name: "persistent_workers", Value: "on"})
	return f, ok && s.loader.workers == 0 && s.host.Crowded() && predict.Gain(f.Predicted).Value >= 1+high && !predict.MayCost(f.Predicted)
}

// relieved reports whether the device can take work off cores that other processes want too. That
// leaves less work for the cores, while more workers would get turns at the expense of the
// others.
func (s *situation) relieved() bool {
	if s.loader.workers == 0 || !s.host.Crowded() {
		return false
	}
	_, ok := s.check(&onDevice)
	return ok
}

// onDevice replaces more workers where cores are crowded.
var onDevice = Rule{Name: "transforms on the device", Group: trace.GroupData, Check: deviceTransforms}

// fewerWorkers lowers num_workers to the number of cores. It is for a device that computes on the
// cores of the host, when more workers than cores keep these busy. It does not apply in two cases.
// If the device has cores of its own, too many workers cost only memory. If other processes want
// the cores too, fewer workers would get fewer turns.
func fewerWorkers(s *situation) (f Finding, ok bool) {
	full := s.host.Whole()
	f = s.knobs.turn("num_workers", strconv.Itoa(full), join(fmt.Sprintf("%d workers take turns with the training on %s", s.loader.workers, s.host.Has()), s.loader.times()))
	f.Share = s.levers.loads()
	return f, s.host.device && full > 0 && s.loader.workers > full && s.loader.computing() && !s.host.Crowded()
}

// deviceTransforms moves work to the device when all cores are busy.
func deviceTransforms(s *situation) (f Finding, ok bool) {
	part := s.loader.Part(trace.KindTransform) + s.loader.Part(trace.KindCollate)
	why := join(fmt.Sprintf("no core is free, and ~%s of the loading is transforms that the device can do", units.Prose.Percent(part)), s.loader.times())
	if s.host.Crowded() {
		why = join(why, s.host.String())
	}
	f = s.knobs.turn("device_transforms", "on", why)
	f.Share = part * s.levers.loads()
	return f, s.loader.computing() && s.knobs.can("device_transforms") && !s.host.device
}

// bursts is for a loader that is fast enough on average and still late, or one that is predicted to
// gain from a longer queue.
func bursts(s *situation) (f Finding, ok bool) {
	n, ok := s.levers.morePrefetch()
	if !ok || s.loader.workers == 0 || s.loader.computing() {
		return f, false
	}
	longer := s.levers.longerQueue()
	f = s.knobs.turn("prefetch_factor", strconv.Itoa(max(n, longer)), join(s.loader.average(), "batches are late in bursts, which a longer queue evens out"))
	f.Share = s.levers.loads()
	if more := s.levers.moreWorkers(); longer > 0 && more > s.loader.workers {
		queue, workers := knob.Setting{Name: f.Knob, Value: f.Value}, knob.Setting{Name: "num_workers", Value: strconv.Itoa(more)}
		alone, known := s.knobs.predict(workers)
		if q, ok := s.knobs.predict(queue); ok && known && predict.Gain(alone).Value >= predict.Gain(q).Value {
			return f, s.levers.keepsUp() // otherwise too few workers are the reason
		}
		if p, ok := s.knobs.predict(queue, workers); ok {
			f.Evidence = join(f.Evidence, fmt.Sprintf("with num_workers %d as well, %s", more, predict.Words(p)))
		}
	}
	return f, longer > 0 || s.levers.keepsUp()
}

// elsewhere is the remedy against other processes that take the cores.
const elsewhere = "loader settings won't help; free CPU cores: stop the other processes, or move them or this training to another host"

// neighbours is for cores that other processes take.
func neighbours(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   elsewhere,
		Evidence: join(s.host.String(), s.host.Share()), Share: s.levers.loads(), Here: true,
	}
	if c, known := s.loader.capacity(); known {
		f.Evidence = join(f.Evidence, c.String())
	}
	return f, (s.loader.computing() || s.loader.starved()) && s.host.Crowded() && !s.host.Throttled && !s.said(workersThatStay)
}

// hostLimit is for a host that loads as fast as it can, which is not fast enough.
func hostLimit(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy: "loader settings won't help: " + s.loader.cheaper() + ", or use a host with more cores",
		Share:  s.levers.loads(), Scales: true,
	}
	c, known := s.loader.capacity()
	if known {
		f.Evidence = c.String()
	}
	if full := s.host.Whole(); s.loader.workers > full && s.loader.computing() {
		f.Evidence = join(f.Evidence, fmt.Sprintf("%s would load as fast as %d", units.Counted(full, "worker", "workers"), s.loader.workers))
	}
	return f, s.loader.computing() && !s.host.Crowded() && !s.host.Throttled
}

// storage is for reads that are late although as many as possible are under way.
func storage(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy: "loader settings won't help: put the data on faster storage or into larger files",
		Evidence: join(fmt.Sprintf("reads are late with %s, which bring ~%s samples/s; more are not to be had or bought nothing",
			units.Counted(s.loader.workers, "worker", "workers"), units.Rate(s.time.SamplesPerSecond())), s.loader.times()),
		Share: s.levers.loads(), Here: true,
	}
	return f, s.loader.workers > 0 && s.loader.Reading() && !s.loader.computing() && !s.said(thrashing, smallFiles, sharedLock, neighbours)
}

// unevenBatches is for a loader that should keep up and does not.
func unevenBatches(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   "no knob that is left helps: make samples alike in cost, or shuffle them so that slow ones do not follow each other",
		Evidence: s.loader.times(), Share: s.levers.loads(), Here: true,
	}
	return f, !s.loader.computing() && !s.loader.Reading() && !s.said(slowWorker, cheapBatches, neighbours)
}

// said reports whether one of the other rules applies, which says it better.
func (s *situation) said(others ...func(*situation) (Finding, bool)) bool {
	for _, check := range others {
		if _, ok := check(s); ok {
			return true
		}
	}
	return false
}

func join(a, b string) string {
	switch {
	case b == "":
		return a
	case a == "":
		return b
	}
	return a + "; " + b
}
