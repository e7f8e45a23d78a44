package advice

import (
	"fmt"
	"math"
	"strconv"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
)

// loaderRules are about the time in which the device waits for data.
var loaderRules = []Rule{
	{"unknown workers", unknownWorkers},
	{"persistent workers", persistentWorkers},
	{"epoch starts", epochStarts},
	{"prefetch", morePrefetch},
	{"page-locking", pageLocking},
	{"straggler", straggler},
	{"fewer workers", fewerWorkers},
	{"more workers", moreWorkers},
	{"transforms on the device", deviceTransforms},
	{"storage", storage},
	{"bursts", bursts},
	{"host", hostLimit},
	{"spare workers", spareWorkers},
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
	}
	_, known := s.number("num_workers")
	return f, !known && s.flags&trace.FlagCeiling == 0 && f.Share >= moderate
}

// persistentWorkers is about what each epoch's start costs: workers that start, and
// a queue that is empty until they have loaded.
func persistentWorkers(s *situation) (f Finding, ok bool) {
	f = s.turn("persistent_workers", "on", "workers then live on from epoch to epoch and load ahead across the boundary")
	f.Share = max(s.b.Share(trace.CauseStartup), s.opening)
	if s.opening > 0 {
		f.Evidence = fmt.Sprintf("%s of the wait for data is in the first steps of epochs; %s", figures.Prose.Percent(s.opening/s.b.DataShare()), f.Evidence)
	}
	return f, s.judged() && s.workers > 0 && f.Share >= moderate && s.can("persistent_workers")
}

// epochStarts is what is left to say when the workers persist already.
func epochStarts(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   "make epochs longer",
		Evidence: "the device waits at the start of an epoch until the workers have loaded its first batches",
		Share:    max(s.b.Share(trace.CauseStartup), s.opening),
	}
	return f, s.judged() && s.workers > 0 && f.Share >= moderate && 2*f.Share >= s.b.DataShare() && !s.can("persistent_workers")
}

func morePrefetch(s *situation) (f Finding, ok bool) {
	n, known := s.number("prefetch_factor")
	most := s.limit("prefetch_factor", 16)
	f = s.turn("prefetch_factor", strconv.Itoa(min(max(2*n, 2), most)), "workers stood idle because they were not allowed to load further ahead")
	f.Share = s.b.Share(trace.CausePrefetch)
	return f, s.judged() && known && n < most && f.Share >= moderate
}

func pageLocking(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   "keep batch_size and the number of workers constant, so that slots are locked once, or turn pin_memory off",
		Evidence: "page-locking is slow here", Share: s.b.Share(trace.CausePin),
	}
	return f, s.judged() && f.Share >= moderate
}

// straggler is about the waits for a batch whose turn it was while others were ready.
func straggler(s *situation) (f Finding, ok bool) {
	why := "the step loop waited for the batch next in order while others were ready"
	if s.headed {
		why += "; " + s.head.String()
	}
	f = s.turn("in_order", "off", why+"; the order of samples changes")
	f.Share = s.b.Share(trace.CauseOrder)
	return f, s.judged() && f.Share >= moderate && s.knob("in_order") == "on"
}

// loads is the share of the time lost to loading itself: that which more or fewer
// workers change. What each epoch's start costs is none of it.
func (s *situation) loads() float64 {
	share := s.b.DataShare() - s.b.Share(trace.CauseStartup) - s.b.Share(trace.CausePin)
	if n, known := s.number("prefetch_factor"); known && n < s.limit("prefetch_factor", 16) {
		share -= s.b.Share(trace.CausePrefetch)
	}
	if s.knob("in_order") == "on" && !s.refused("in_order", "off") {
		share -= s.b.Share(trace.CauseOrder)
	}
	if s.opensMost() {
		share = min(share, s.b.DataShare()-s.opening)
	}
	return share
}

// perBatch are the two times that the number of workers follows from.
func (s *situation) perBatch() string {
	if s.b.Load <= 0 || s.b.Steps <= 0 {
		return ""
	}
	return fmt.Sprintf("a batch takes %s of worker time and %s on the device", figures.Prose.Time(s.b.Load/s.b.Steps), figures.Prose.Time(s.b.Busy/s.b.Steps))
}

// moreWorkers raises num_workers to what the measured times ask for: worker time per
// batch over device time per batch, when batches are to be built as fast as the
// device uses them up. Work that computes needs a core for each worker; work that
// waits for reads does not. Each worker holds batches in memory, so the step is at
// most fourfold.
func moreWorkers(s *situation) (f Finding, ok bool) {
	most := s.mostWorkers()
	need := 0
	if s.b.Busy > 0 {
		need = int(min(math.Ceil(float64(s.b.Load)/float64(s.b.Busy)), trace.MaxWorkers))
	}
	why := s.perBatch()
	switch {
	case s.workers == 0:
		why = join(s.inline(), why)
	case s.reading():
		why = join("reads wait rather than compute, so more of them can wait at once", why)
	}
	value := max(need, s.workers+1)
	if s.reading() {
		value = max(value, 2*s.workers)
	}
	value = min(value, most, max(4, 4*s.workers))
	for value > s.workers && s.refused("num_workers", strconv.Itoa(value)) {
		value = (value + s.workers) / 2
	}
	f = s.turn("num_workers", strconv.Itoa(value), why)
	f.Share = s.loads()
	return f, s.judged() && f.Share >= moderate && s.workers < value
}

// mostWorkers is how many workers can be of use: as many as may be set, or, where
// they compute, as there are threads.
func (s *situation) mostWorkers() int {
	most := s.limit("num_workers", trace.MaxWorkers)
	if !s.reading() && s.threads > 0 {
		most = min(most, s.threads)
	}
	return most
}

// inline says how much of the loading hides behind the device's work where the step
// loop does it itself.
func (s *situation) inline() string {
	if s.b.Wait <= 0 {
		return "the step loop loads each batch itself"
	}
	hidden := max(0, 1-float64(s.b.Data())/float64(s.b.Wait))
	return fmt.Sprintf("the step loop loads each batch itself, and the device computes during %s of that", figures.Prose.Percent(hidden))
}

// fewerWorkers is for more workers than threads, all of which compute. Where the
// device computes on the same threads they are in its way; elsewhere fewer of them
// only save memory, which is worth less than anything else.
func fewerWorkers(s *situation) (f Finding, ok bool) {
	f = s.turn("num_workers", strconv.Itoa(s.threads), join(fmt.Sprintf("%d workers compute on %d threads and take turns", s.workers, s.threads), s.perBatch()))
	if s.hostDevice {
		f.Share = s.loads()
	}
	return f, s.judged() && s.loads() >= moderate && s.threads > 0 && s.workers > s.threads && !s.reading()
}

// spareWorkers takes back what bought nothing.
func spareWorkers(s *situation) (f Finding, ok bool) {
	fewer, ok := s.measuredSame("num_workers")
	if !ok || fewer >= s.workers {
		return f, false
	}
	f = s.turn("num_workers", strconv.Itoa(fewer), "it measured the same, and each worker holds memory")
	return f, true
}

func deviceTransforms(s *situation) (f Finding, ok bool) {
	f = s.turn("device_transforms", "on", join(fmt.Sprintf("all %d threads have a worker; this moves work off the host", s.threads), s.perBatch()))
	f.Share = s.b.Share(trace.CauseTransform) + s.b.Share(trace.CauseCollate) + s.b.Share(trace.CauseWorkers)
	return f, s.judged() && s.full() && !s.reading() && f.Share >= moderate && s.can("device_transforms") && !s.hostDevice
}

func storage(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   "put the data on faster storage or into larger files",
		Evidence: join(fmt.Sprintf("reads are late with %d workers, and more are not to be had or bought nothing", s.workers), s.perBatch()), Share: s.loads(),
	}
	return f, s.judged() && f.Share >= moderate && s.reading() && s.full()
}

// full reports whether as many workers load as can be of use, or more were tried in
// vain.
func (s *situation) full() bool {
	return s.workers > 0 && (s.workers >= s.mostWorkers() || s.exhausted("num_workers"))
}

// capacity is what this host and the device take for a sample at their best, in ns,
// and how many cores are missing; an estimate. The host's follows from the worker
// time of a sample: with as many workers as threads each has one, and more of them
// take turns, so that each takes longer. On the cpu device the training needs the
// same threads.
func (s *situation) capacity() (host, device, missing float64, known bool) {
	if s.threads == 0 || s.b.Load <= 0 || s.b.Busy <= 0 || s.b.Samples == 0 {
		return 0, 0, 0, false
	}
	threads := float64(s.threads)
	worker := float64(s.b.Load) / float64(s.b.Samples)
	device = float64(s.b.Busy) / float64(s.b.Samples)
	if s.workers > s.threads {
		worker *= threads / float64(s.workers)
	}
	host, missing = worker/threads, worker/device-threads
	if s.hostDevice {
		host, missing = host+device, worker/device
	}
	return host, device, missing, true
}

// bursts is for a loader that is fast enough on average and late all the same.
func bursts(s *situation) (f Finding, ok bool) {
	host, device, _, known := s.capacity()
	n, set := s.number("prefetch_factor")
	most := s.limit("prefetch_factor", 16)
	f = s.turn("prefetch_factor", strconv.Itoa(min(2*n, most)), fmt.Sprintf(
		"by its worker time this host could feed ~%s samples/s on average, the device takes %s/s, so that batches are late in bursts, which a longer queue evens out",
		figures.Rate(1e9/host), figures.Rate(1e9/device)))
	f.Share = s.loads()
	return f, s.judged() && f.Share >= moderate && s.full() && !s.reading() && known && host <= device && set && n < most
}

// hostLimit is for a host that loads as fast as it can, and not fast enough.
func hostLimit(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   "no knob helps here: make a sample cheaper (store it decoded or smaller), or use a host with more cores",
		Evidence: fmt.Sprintf("%s load on %s", figures.Counted(s.workers, "worker", "workers"), figures.Counted(s.threads, "thread", "threads")),
		Share:    s.loads(),
	}
	host, device, missing, known := s.capacity()
	if known {
		same := ""
		if s.hostDevice {
			same = " on the same threads"
		}
		f.Evidence = fmt.Sprintf("%s, which can feed at most ~%s samples/s; the device takes %s/s%s, ~%s are missing",
			f.Evidence, figures.Rate(1e9/host), figures.Rate(1e9/device), same, figures.Counted(int(math.Ceil(missing)), "core", "cores"))
	}
	return f, s.judged() && f.Share >= moderate && s.full() && !s.reading() && !(known && host <= device)
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}
