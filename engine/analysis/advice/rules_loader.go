package advice

import (
	"fmt"
	"math"
	"strconv"

	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// loaderRules are about the time in which the device waits for data. All but the first
// need to know the loader's settings, so it is of no group.
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
	{Name: "neighbours", Group: trace.GroupData, Last: true, Check: neighbours},
	{Name: "host", Group: trace.GroupData, Last: true, Check: hostLimit},
	{Name: "storage", Group: trace.GroupData, Last: true, Check: storage},
	{Name: "uneven batches", Group: trace.GroupData, Last: true, Check: unevenBatches},
}

// judged reports whether the loader was really measured, with settings that are
// known, and the device waits for it.
func (s *situation) judged() bool {
	_, known := s.number("num_workers")
	return known && s.flags&trace.FlagCeiling == 0 && s.b.DataShare() >= moderate
}

func unknownWorkers(s *situation) (f Finding, ok bool) {
	f = Finding{Knob: "num_workers", Remedy: "raise num_workers", Evidence: "its value in this session is not known", Share: s.b.DataShare()}
	if s.imported {
		f.Remedy, f.Evidence = "raise the DataLoader's num_workers", "the trace does not tell its value"
		if s.profile.NumWorkers() == "0" {
			f.Remedy, f.Evidence = "set the DataLoader's num_workers to the cores that are free", "it is 0: the trace has "+trace.InlineLoader+", which loads in the training loop itself"
		}
	}
	_, known := s.number("num_workers")
	return f, !known && !s.pytorch() && s.flags&trace.FlagCeiling == 0 && f.Share >= moderate
}

// persistentWorkers is about what each epoch's start costs: workers that start, and
// a queue that is empty until they have loaded.
func persistentWorkers(s *situation) (f Finding, ok bool) {
	f = s.turn("persistent_workers", "on", "workers then live on from epoch to epoch and load ahead across the boundary")
	f.Share = s.starts()
	if s.opening > 0 {
		f.Evidence = fmt.Sprintf("%s of the wait for data is in the first steps of epochs; %s", units.Prose.Percent(s.opening/s.b.DataShare()), f.Evidence)
	}
	f.Evidence = join(f.Evidence, s.startUp())
	// Where no core is free, loading ahead gains nothing, but workers that need not start do: by
	// more than is seen of it where they are processes, which the kernel makes and takes apart.
	off := f.From != "" && knob.Off(f.From)
	return f, s.workers > 0 && off && (!s.computing() || s.b.Share(trace.CauseStartup) >= moderate || s.atStarts())
}

// starts is the share of the time that the starts of epochs cost.
func (s *situation) starts() float64 { return max(s.b.Share(trace.CauseStartup), s.opening) }

// atStarts reports whether half of the wait for data is at the starts of epochs.
func (s *situation) atStarts() bool { return 2*s.starts() >= s.b.DataShare() }

// epochStarts is what is left to say when the workers persist already.
func epochStarts(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   "make epochs longer",
		Evidence: "the device waits at the start of an epoch until the workers have loaded its first batches",
		Share:    s.starts(), Here: true,
	}
	if spec := knob.SpecOf(s.specs, "persistent_workers"); spec != nil && spec.NoEffect != "" && spec.Hint != "" {
		f.Remedy, f.Evidence = spec.Hint, join(spec.NoEffect, f.Evidence)
	}
	return f, s.workers > 0 && !s.can("persistent_workers") && s.atStarts()
}

func morePrefetch(s *situation) (f Finding, ok bool) {
	n, ok := s.morePrefetch()
	f = s.turn("prefetch_factor", strconv.Itoa(n), "workers stood idle because they were not allowed to load further ahead")
	f.Share = s.b.Share(trace.CausePrefetch)
	return f, ok
}

// morePrefetch is the prefetch_factor to try; false where it is as large as can be, or
// not known.
func (s *situation) morePrefetch() (factor int, ok bool) {
	n, known := s.number("prefetch_factor")
	most := s.limit("prefetch_factor", 16)
	return min(max(2*n, 2), most), known && n < most
}

func pageLocking(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   "keep batch_size and the number of workers constant, so that slots are locked once, or turn pin_memory off",
		Evidence: "page-locking is slow here", Share: s.b.Share(trace.CausePin),
	}
	return f, true
}

// straggler is about the waits for a batch whose turn it was while others were ready.
func straggler(s *situation) (f Finding, ok bool) {
	why := "the step loop waited for the batch next in order while others were ready"
	if s.headed {
		why += "; " + s.head.String()
	}
	f = s.turn("in_order", "off", why+"; the order of samples changes")
	f.Share = s.b.Share(trace.CauseOrder)
	return f, s.ordered()
}

// ordered reports whether in_order is what may be turned off: not where the cores are what
// the batches are late for, in whatever order.
func (s *situation) ordered() bool {
	return s.knob("in_order") == "on" && !s.refused("in_order", "off") && !s.computing()
}

// loads is the share of the time lost to loading itself: that which more or fewer
// workers change. What each epoch's start costs is none of it.
func (s *situation) loads() float64 {
	share := s.b.DataShare() - s.b.Share(trace.CauseStartup) - s.b.Share(trace.CausePin) - s.taking()
	if _, ok := s.morePrefetch(); ok {
		share -= s.b.Share(trace.CausePrefetch)
	}
	if s.ordered() {
		share -= s.b.Share(trace.CauseOrder)
	}
	if s.opensMost() {
		share = min(share, s.b.DataShare()-s.opening)
	}
	return share
}

// times are the two that the number of workers follows from.
func (s *situation) times() string {
	if s.b.Load <= 0 || s.b.Steps <= 0 {
		return ""
	}
	return fmt.Sprintf("a batch takes %s of worker time and %s on the device", units.Prose.Time(s.b.Load/s.b.Steps), units.Prose.Time(s.b.Busy/s.b.Steps))
}

// moreReads lets workers ask for more at a time where most of what they read is waiting for
// an object store to begin to send: that costs no thread, and no memory for a batch.
func moreReads(s *situation) (f Finding, ok bool) {
	first, rest := s.b.Share(trace.CauseFirstByte), s.b.Share(trace.CauseRead)
	now, known := s.number("reads_in_flight")
	value := min(4*max(1, now), s.limit("reads_in_flight", 64))
	f = s.turn("reads_in_flight", strconv.Itoa(value), fmt.Sprintf("%s of the waiting for reads is for the first byte of a store's answer: more requests at a time wait no longer than one",
		units.Prose.Percent(first/max(first+rest, 1e-9))))
	f.Share = s.loads()
	return f, known && value > now && first >= moderate && first >= rest && !s.computing() && !s.refused("reads_in_flight", strconv.Itoa(value))
}

// moreWorkers raises num_workers to what the measured times ask for, where that can
// gain anything: while cores are free, while the step loop loads by itself, or while
// other processes take turns on the cores. Each worker holds batches in memory, so a step
// up is at most fourfold, or to 8.
func moreWorkers(s *situation) (f Finding, ok bool) {
	value := s.moreWorkers()
	why := s.times()
	switch {
	case s.workers == 0:
		why = join(s.inline(), why)
	case s.loading.Reading():
		why = join("reads wait rather than compute, so more of them can wait at once"+s.atOnce(), why)
	}
	if s.computing() && s.cores.Crowded() {
		why = join(why, s.cores.String()+", and more workers get more turns")
	}
	if queueing := s.queueing(); queueing != "" {
		why = join(why, queueing+", and more of them would wait longer: hold it for less of a sample's time, or do without it")
	}
	why = join(why, s.others())
	f = s.turn("num_workers", strconv.Itoa(value), why)
	f.Share = min(s.loads(), s.winnable())
	_, repeated := repeats(s.snap)
	return f, s.workers < value && repeated == "" && !s.relieved() && !s.serial()
}

// relieved reports whether the device can take work off cores that others want too: that
// leaves less to be done, where more workers would get turns at the others' expense.
func (s *situation) relieved() bool {
	if s.workers == 0 || !s.cores.Crowded() {
		return false
	}
	_, ok := s.check(&onDevice)
	return ok
}

// onDevice is said in place of more workers where cores are crowded.
var onDevice = Rule{Name: "transforms on the device", Group: trace.GroupData, Check: deviceTransforms}

// moreWorkers is the number of workers to try; not more than there are when no more
// can help.
func (s *situation) moreWorkers() int {
	most := s.limit("num_workers", trace.MaxWorkers)
	now := s.workers
	if now == 0 && s.hidden() >= 0.1 {
		now = 1 // loading inline hides behind the device as one worker's would
	}
	value := max(1, 2*now)
	if n, known := s.enough(); known && n > now {
		value = n
	}
	if s.computing() {
		if !s.cores.Crowded() && s.workers > 0 {
			return s.workers
		}
		full := int(s.cores.All)
		if !s.hostDevice { // whose own threads would have to share with more workers
			w := s.loading.Batch
			runnable := (w.Core + w.Waiting) / (w.Core + w.Waiting + w.Blocked)
			full = max(full, min(2*now, int(2*s.cores.All/runnable)))
		}
		most = min(most, full)
		if s.cores.Crowded() { // cores are shared out by the thread: two get more turns than one
			value = max(value, 2)
		}
	} else if !s.cores.Known && s.cores.All > 0 && !s.loading.Reading() {
		most = min(most, int(s.cores.All))
	}
	value = min(value, most, max(8, 4*s.workers))
	for !s.computing() && value > s.workers && s.refused("num_workers", strconv.Itoa(value)) {
		value = (value + s.workers) / 2
	}
	return value
}

// enough is how many workers load as fast as the device or, if those are slower, the
// cores allow; false where that is not known.
func (s *situation) enough() (workers int, known bool) {
	c, known := s.capacity()
	if !known {
		return 0, false
	}
	return predict.WorkersFor(c.Fastest(s.cores.All), s.loading.Batch, s.cores.All), true
}

// winnable is the share of the time that a loader which is never late would win, as
// far as the cores allow; 1 where that is not known.
func (s *situation) winnable() float64 {
	c, known := s.capacity()
	if !known {
		return 1
	}
	return 1 - c.Fastest(s.cores.All)*float64(s.b.Steps)/float64(s.b.Active())
}

// hidden is the share of the loading inline that hides behind the device's work.
func (s *situation) hidden() float64 {
	return max(0, 1-float64(s.b.Data())/float64(max(1, s.b.Wait)))
}

// inline says how much of the loading hides behind the device's work where the step
// loop does it itself.
func (s *situation) inline() string {
	if s.b.Wait <= 0 {
		return "the step loop loads each batch itself"
	}
	if s.hidden() < 0.0005 {
		return "the step loop loads each batch itself, and the device waits meanwhile"
	}
	return fmt.Sprintf("the step loop loads each batch itself, and the device computes during %s of that", units.Prose.Percent(s.hidden()))
}

// fewerWorkers is for a device that computes on cores which more workers than there are
// cores keep busy. Where the device is another, so many of them only hold memory. Where
// other processes want the cores too, fewer workers would leave the turns to those.
func fewerWorkers(s *situation) (f Finding, ok bool) {
	full := int(math.Ceil(s.cores.All))
	f = s.turn("num_workers", strconv.Itoa(full), join(fmt.Sprintf("%d workers take turns with the training on %s", s.workers, units.Counted(full, "core", "cores")), s.times()))
	f.Share = s.loads()
	return f, s.hostDevice && full > 0 && s.workers > full && s.computing() && !s.cores.Crowded()
}

// computing reports whether loading is held up by computing: no core is free, and it is
// cores that the workers want. Where that is not known, it is not reads that take the
// time of as many workers as there are cores, and it is more than the device takes.
func (s *situation) computing() bool {
	if !s.cores.Known {
		c, known := s.capacity()
		return known && !s.loading.Reading() && s.workers >= int(s.cores.All) && c.Host(s.cores.All) > c.Device
	}
	w := s.loading.Batch
	return s.cores.Busy() && (!s.cores.Crowded() || w.Core+w.Waiting > w.Blocked)
}

// deviceTransforms takes work off cores that have none to spare.
func deviceTransforms(s *situation) (f Finding, ok bool) {
	part := s.loading.Part(trace.KindTransform) + s.loading.Part(trace.KindCollate)
	why := join(fmt.Sprintf("no core is free, and ~%s of the loading is transforms that the device can do", units.Prose.Percent(part)), s.times())
	if s.cores.Crowded() {
		why = join(why, s.cores.String())
	}
	f = s.turn("device_transforms", "on", why)
	f.Share = part * s.loads()
	return f, s.computing() && s.can("device_transforms") && !s.hostDevice
}

// bursts is for a loader that is fast enough on average and late all the same, or is predicted to gain from
// a longer queue though it is not.
func bursts(s *situation) (f Finding, ok bool) {
	n, ok := s.morePrefetch()
	if !ok || s.workers == 0 || s.computing() {
		return f, false
	}
	longer := s.longerQueue()
	f = s.turn("prefetch_factor", strconv.Itoa(max(n, longer)), join(s.average(), "batches are late in bursts, which a longer queue evens out"))
	f.Share = s.loads()
	if more := s.moreWorkers(); longer > 0 && more > s.workers {
		queue, workers := knob.Setting{Name: f.Knob, Value: f.Value}, knob.Setting{Name: "num_workers", Value: strconv.Itoa(more)}
		alone, known := s.model.Predict(workers)
		if q, ok := s.model.Predict(queue); ok && known && predict.Gain(alone.Prediction).Value >= predict.Gain(q.Prediction).Value {
			return f, s.keepsUp() // it is the workers that are too few
		}
		if p, ok := s.model.Predict(queue, workers); ok {
			f.Evidence = join(f.Evidence, fmt.Sprintf("with num_workers %d as well, %s", more, predict.Words(p.Prediction)))
		}
	}
	return f, longer > 0 || s.keepsUp()
}

// longerQueue is the prefetch_factor beyond which a longer queue is predicted to gain little more; 0 where
// it gains little at all.
func (s *situation) longerQueue() (factor int) {
	now, _ := s.number("prefetch_factor")
	best := 1.
	for n := 2 * now; now > 0 && s.model != nil && n <= min(predict.LongQueue(s.workers), s.limit("prefetch_factor", 16)); n *= 2 {
		p, ok := s.model.Predict(knob.Setting{Name: "prefetch_factor", Value: strconv.Itoa(n)})
		if g := predict.Gain(p.Prediction).Value; ok && g >= (1+moderate)*best {
			factor, best = n, g
		}
	}
	return factor
}

// average compares loader and device over many batches.
func (s *situation) average() string {
	return fmt.Sprintf("on average %s a batch ready every %s, and the device takes %s for one",
		units.Counted(s.workers, "worker has", "workers have"), units.Prose.Time(s.b.Load/s.b.Steps/int64(max(1, s.workers))), units.Prose.Time(s.b.Busy/s.b.Steps))
}

// keepsUp reports whether the workers build batches as fast as the device takes them,
// on average.
func (s *situation) keepsUp() bool {
	n, known := s.enough()
	return known && s.workers >= n && !s.computing() && s.b.Load <= s.b.Busy*int64(s.workers)
}

// elsewhere is what there is to do about other processes that take the cores.
const elsewhere = "no knob helps here: stop the other processes, or move them or this training to another host"

// neighbours is for cores that other processes take.
func neighbours(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   elsewhere,
		Evidence: s.cores.String(), Share: s.loads(), Here: true,
	}
	if c, known := s.capacity(); known {
		f.Evidence = join(f.Evidence, c.String())
	}
	return f, s.computing() && s.cores.Crowded() && !s.cores.Throttled
}

// hostLimit is for a host that loads as fast as it can, and not fast enough.
func hostLimit(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy: "no knob helps here: " + s.cheaper() + ", or use a host with more cores",
		Share:  s.loads(), Scales: true,
	}
	c, known := s.capacity()
	if known {
		f.Evidence = c.String()
	}
	if full := int(math.Ceil(s.cores.All)); s.workers > full && s.computing() {
		f.Evidence = join(f.Evidence, fmt.Sprintf("%s would load as fast as %d", units.Counted(full, "worker", "workers"), s.workers))
	}
	return f, s.computing() && !s.cores.Crowded() && !s.cores.Throttled
}

// storage is for reads that are late with as many of them under way as can be had.
func storage(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy: "no knob helps here: put the data on faster storage or into larger files",
		Evidence: join(fmt.Sprintf("reads are late with %s, which bring ~%s samples/s; more are not to be had or bought nothing",
			units.Counted(s.workers, "worker", "workers"), units.Rate(s.b.SamplesPerSecond())), s.times()),
		Share: s.loads(), Here: true,
	}
	return f, s.loading.Reading() && !s.computing() && !s.said(thrashing, smallFiles, sharedLock)
}

// unevenBatches is what is left to say when the loader should keep up and does not.
func unevenBatches(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   "no knob that is left helps: make samples alike in cost, or shuffle them so that slow ones do not follow each other",
		Evidence: s.times(), Share: s.loads(), Here: true,
	}
	return f, !s.computing() && !s.loading.Reading() && !s.said(slowWorker, cheapBatches)
}

// said reports whether another rule says it better.
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
