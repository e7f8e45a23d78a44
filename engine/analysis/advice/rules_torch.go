package advice

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// torchRules are about what only a training in PyTorch has: Python processes as workers, and
// PyTorch's own threads.
var torchRules = []Rule{
	{Name: "whole data sets", Data: true, Check: wholeDatasets},
	{Name: "torch threads", Check: torchThreads},
	{Name: "threads of workers", Group: trace.GroupData, Check: workerThreads},
	{Name: "collating", Group: trace.GroupData, Check: collating},
	{Name: "launching", Check: launching},
	{Name: "worker memory", Check: workerMemory},
	{Name: "watched loop", Check: watchedLoop},
	{Name: "cheap batches", Group: trace.GroupData, Last: true, Check: cheapBatches},
	{Name: "shared lock", Group: trace.GroupData, Last: true, Check: sharedLock},
	{Name: "compiling again", Check: compilingAgain},
	{Name: "other threads", Check: otherThreads},
	{Name: "iterator a step", Data: true, Check: iteratorEachStep},
	{Name: "sampler", Group: trace.GroupData, Check: slowSampler},
	{Name: "taking batches", Group: trace.GroupData, Check: takingBatches},
	{Name: "slowest rank", Check: slowestRank},
	{Name: "evaluation", Check: evaluation},
	{Name: "rest of the script", Check: restOfScript},
}

// torchThreads is for a training on the CPU whose threads wait for cores. Its threads, its workers
// and other processes together want more cores than there are. A core that others use in part is
// still worth a thread.
func torchThreads(s *situation) (f Finding, ok bool) {
	threads, err := strconv.Atoi(s.session.fact(trace.TorchThreads))
	used, left, while := s.loader.workersUse(), s.host.All, ""
	var takes []string
	if used >= 0.1 {
		takes = append(takes, "workers use ~"+units.Cores(used))
	}
	if s.host.Crowded() {
		left, while = s.host.Left(), " while other processes take the cores"
		takes = append(takes, "other processes use ~"+units.Cores(s.host.Others))
	}
	of := ""
	if len(takes) > 0 {
		of = ", of which " + strings.Join(takes, " and ")
	}
	fewer := max(1, int(math.Ceil(left-used-0.1)))
	f = Finding{
		Remedy: fmt.Sprintf("call torch.set_num_threads(%d) in the script%s", fewer, while),
		Evidence: fmt.Sprintf("the training computes with %s on %s%s, and its threads wait for a core %s of the time in which it computes",
			units.Counted(threads, "thread", "threads"), s.host.Has(), of, units.Prose.Percent(s.host.starved)),
		Share: max(s.host.starved*s.time.Utilisation(), s.host.lostToHost()), // of "more cores" too, which so follows
	}
	if s.host.spun {
		f.Evidence += ", while those that have one spin on it until all are done"
	}
	return f, err == nil && s.session.pytorch() && s.host.device && threads > fewer && s.host.starved >= moderate && f.Share >= moderate
}

// workerThreads is for workers that each compute with several threads while no core is free. Such
// threads take turns, wait for each other, and spin meanwhile. What that costs is not measured. It
// may be little where the cores are shared anyway.
func workerThreads(s *situation) (f Finding, ok bool) {
	more, known := s.session.gauge(trace.GaugeWorkerThreads)
	f = Finding{
		Remedy: "one thread in each worker may help, set in worker_init_fn: cv2.setNumThreads(0) for OpenCV, torch.set_num_threads(1) for PyTorch, threadpoolctl.threadpool_limits(1) for NumPy and the like",
		Evidence: fmt.Sprintf("no core is free, and beside the threads that load and send batches, others that libraries began in the %s use ~%s of the %s",
			units.Counted(s.loader.workers, "worker", "workers"), units.Rate(more), s.host.Has()),
		Share: s.levers.loads(), Before: true,
	}
	if full := s.host.Whole(); s.loader.workers < full {
		f.Remedy += fmt.Sprintf("; and have %d workers", full)
	}
	if s.host.Crowded() {
		f.Evidence = join(f.Evidence, s.host.String()+", so that it may gain little here")
	}
	return f, known && s.loader.workers > 1 && s.loader.computing() && more >= s.host.All/10
}

// launching is for a GPU that runs kernels in only a small part of a step's time, because the script
// enqueues them too slowly.
func launching(s *situation) (f Finding, ok bool) {
	kernels, _ := s.script.kernels()
	share, group := s.fewKernels()
	f = Finding{
		Remedy: enqueueLess,
		Evidence: fmt.Sprintf("the GPU ends a step as soon as the script has enqueued it, and runs kernels %s of the time, as NVML samples it",
			units.Prose.Percent(kernels)),
		Share: share,
	}
	return f, group == trace.GroupLaunch
}

// fewKernels returns the share of the time in which a GPU has a step and runs no kernel, and the
// reason. Either the script copies batches to the GPU itself, or it launches kernels too slowly. group
// is GroupNone where the share is small or not known.
func (s *situation) fewKernels() (share float64, group trace.Group) {
	kernels, known := s.script.kernels()
	share = s.time.Utilisation() - kernels
	if !known || share < launchBound {
		return 0, trace.GroupNone
	}
	copies := 0.0
	for i := range s.lines {
		if k := knownCall(&s.lines[i]); k != nil && k.name == copying {
			copies += s.lines[i].Part
		}
	}
	if 2*copies >= share {
		return share, trace.GroupCopy
	}
	return share, trace.GroupLaunch
}

// heavyWorker is the private memory of a worker, in bytes, from which it likely has its own
// copy of the data set, or of PyTorch.
const heavyWorker = 256 << 20

// workerMemory is for short memory, where each worker has its own copy of the data set's
// contents, or of PyTorch.
func workerMemory(s *situation) (f Finding, ok bool) {
	each, _ := s.session.gauge(trace.GaugeWorkerBytes)
	top, known := s.session.highest(trace.GaugeHostMemory)
	f = Finding{
		Remedy: "use fewer workers, or " + trace.LighterWorkers(s.session.fact(trace.WorkerStart)),
		Evidence: fmt.Sprintf("%s take ~%s of memory of their own, %s each, and %s of the memory that this process may have is taken", units.Counted(s.loader.workers, "worker process", "worker processes"),
			units.Prose.Bytes(int64(each)*int64(s.loader.workers)), units.Prose.Bytes(int64(each)), units.Prose.Percent(top/100)),
	}
	return f, s.loader.workers > 0 && each >= heavyWorker && known && top/100 >= memoryShort
}

// watchedLoop is for a loop that takes its batches from something other than a DataLoader, which
// has no settings to change.
func watchedLoop(s *situation) (f Finding, ok bool) {
	_, known := s.knobs.number("num_workers")
	f = Finding{
		Remedy:   "make batches ahead of the loop, in workers of a DataLoader or in a thread with a queue",
		Evidence: "the loop takes its batches from an iterable that is no DataLoader, and the device waits for each",
		Share:    s.time.DataShare(),
	}
	return f, s.session.pytorch() && !known && f.Share >= moderate
}

// takingBatches is for batches that are ready in time, but which the loop needs long to take from
// a worker process. If samples are cheap, loading them in the loop is faster.
func takingBatches(s *situation) (f Finding, ok bool) {
	f = Finding{Remedy: "loader settings won't help: give a batch fewer and smaller tensors, or more samples"}
	if s.loader.unseen() {
		return Finding{Remedy: "let it run into the next epoch", Evidence: "its workers are watched from then on: these were started before gpustall came", Share: s.loader.taking()}, true
	}
	each := s.time.Stall[trace.CauseDataLoader] / max(1, s.time.Steps)
	load := s.time.Load / max(1, s.time.Steps)
	if load < each && load > 0 {
		f = s.knobs.turn("num_workers", "0", "")
	} else if s.host.Crowded() {
		f.Remedy, f.given = elsewhere, true
	}
	f.Evidence = join(fmt.Sprintf("the loop takes ~%s to take a batch that is ready from its worker process, and the worker took %s to make it", units.Prose.Time(each), units.Prose.Time(load)), s.loader.batch())
	f.Share = s.loader.taking()
	return f, s.time.Steps > 0 && f.Share > max(s.levers.loads(), s.time.Share(trace.CauseSampler))
}

// compiled returns how long, in ns, looks found the loop in torch.compile: in the first step, and since.
func (s *situation) compiled() (first, since int64) {
	for i := range s.session.Lines {
		switch l := &s.session.Lines[i]; {
		case l.At != trace.Compiles:
		case l.Segment == trace.FirstStep:
			first += l.Time
		default:
			since += l.Time
		}
	}
	return first, since
}

// compilingAgain is for a loop that is in torch.compile even after its first step, for example for each new
// shape.
func compilingAgain(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy: "have torch.compile compile less often: batches of one shape (padding, drop_last), torch.compile(dynamic=True) or torch._dynamo.mark_dynamic for what varies; TORCH_LOGS=recompiles tells why it does",
		Share:  s.at(trace.Compiles), Script: true,
	}
	_, again := s.compiled()
	if c, found := s.costliest(trace.Compiles); found {
		f.Evidence, f.line = fmt.Sprintf("at %s: ", c.Named()), true
	}
	f.Evidence += fmt.Sprintf("torch.compile takes %s of the loop's time, ~%s since the first step", units.Prose.Percent(f.Share), units.Prose.Time(again))
	return f, f.Share >= moderate && float64(again) >= moderate*float64(s.session.Total.Active())
}

// otherThreads is for a loop that waits for the GIL, which another thread of the process holds.
func otherThreads(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy: "let that thread work in a process of its own (multiprocessing), less often, or in code that lets go of the GIL; no setting of the loader helps",
		Share:  s.at(trace.Locked), Script: true, line: true,
	}
	f.Evidence = fmt.Sprintf("the loop waits for Python's lock (GIL) %s of its time, which %s holds", units.Prose.Percent(f.Share), s.otherThread())
	if c, found := lines.Most(s.lines, trace.Locked); found {
		f.Evidence += fmt.Sprintf(", %s of it at %s", units.Prose.Percent(c.Part/f.Share), c.Named())
	}
	return f, f.Share >= moderate
}

// otherThread names the thread that holds the GIL most, by the function that it runs.
func (s *situation) otherThread() string {
	c, _ := lines.Most(s.lines, trace.Locked)
	return otherThread(&c)
}

func otherThread(c *lines.Cost) string {
	if name := c.Thread(); name != "" {
		return "another thread (" + name + ")"
	}
	return "another thread"
}

// renewed reports whether nearly each step begins an iterator of its own. No setting of the loader helps then.
func (s *situation) renewed() bool {
	_, _, ok := attribution.Renewed(s.session.Snapshot, s.tally)
	return ok
}

// iteratorEachStep is for a script that calls next(iter(loader)) in each step.
func iteratorEachStep(s *situation) (f Finding, ok bool) {
	begin, steps, ok := attribution.Renewed(s.session.Snapshot, s.tally)
	f = Finding{
		Remedy:   "make the iterator once and keep it (it = iter(loader), then next(it) in each step), or loop over the loader",
		Evidence: fmt.Sprintf("%s of %s begin an iterator of their own and take one batch of it, as next(iter(loader)) does: each draws the order of all samples again, and its first batch is all that is used", units.Count(begin), units.Counted(steps, "step", "steps")),
		Share:    s.time.DataShare(), Before: true,
	}
	if s.loader.workers == 0 {
		f.Evidence += ", so that nothing can be loaded ahead"
	} else {
		f.Evidence = join(f.Evidence, fmt.Sprintf("it starts %s, or wakes them, and what they load ahead is thrown away", units.Counted(s.loader.workers, "worker", "workers")))
		if s.loader.Start >= 10e6 {
			f.Evidence = join(f.Evidence, fmt.Sprintf("a worker takes ~%s to start", units.Prose.Time(int64(s.loader.Start))))
		}
	}
	return f, ok && f.Share >= moderate
}

// slowSampler is for a loop that takes long to draw the indices of batches. The loop itself draws them,
// whatever the number of workers, before it goes on with a ready batch.
func slowSampler(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy: "draw indices ahead, many at once: those of an epoch with one call (torch.randperm, or torch.multinomial for weights), kept as a list; no setting of the loader helps",
		Evidence: fmt.Sprintf("the training loop itself draws the indices of each batch, and the sampler takes ~%s for that",
			units.Prose.Time(s.time.Stall[trace.CauseSampler]/max(1, s.time.Steps))),
		Share: s.time.Share(trace.CauseSampler), Script: true,
	}
	if c, ok := s.costliest(trace.Sampling); ok {
		f.Evidence, f.line = join(fmt.Sprintf("%s takes %s of the loop's time", c.Named(), units.Prose.Percent(c.Part)), f.Evidence), true
		if strings.HasPrefix(c.Where(), "RandomSampler.") {
			f.Remedy = "draw less at a time: RandomSampler draws the order of all samples before an epoch's first batch, and with replacement=True 32 at a time; or make epochs longer; no setting of the loader helps"
		}
	}
	if !s.host.device || !s.loader.computing() { // otherwise the training would also get more of the cores
		f.Free = f.Share
	}
	return f, f.Share >= moderate
}

// cheapBatches is for a loop that loads its batches itself faster than it could take them from a worker.
func cheapBatches(s *situation) (f Finding, ok bool) {
	if s.loader.workers > 0 || !s.session.pytorch() {
		return f, false
	}
	f = Finding{
		Remedy:   "loader settings won't help: " + s.loader.cheaper(),
		Evidence: join("the loop loads a batch itself in less time than it would take it to take one from a worker process; "+s.loader.times(), s.loader.batch()),
		Share:    s.levers.loads(),
	}
	p, ok := s.knobs.predict(knob.Setting{Name: "num_workers", Value: strconv.Itoa(max(1, s.levers.moreWorkers()))})
	return f, ok && predict.Gain(p).Hi < 1
}

// mostly is the share of loading from which one phase counts as most of it.
const mostly = 0.5

// collating is for workers that spend most of their time collating batches and handing them
// over.
func collating(s *situation) (f Finding, ok bool) {
	part := s.loader.Part(trace.KindCollate)
	f = Finding{
		Remedy:   s.loader.cheaper(),
		Evidence: join(fmt.Sprintf("~%s of the loading is for that, not for the samples", units.Prose.Percent(part)), s.loader.batch()),
		Share:    s.time.Share(trace.CauseCollate),
	}
	return f, s.session.pytorch() && part >= mostly && !s.said(cheapBatches)
}

// sharedLock is for workers that wait for each other, so that more of them load no faster.
func sharedLock(s *situation) (f Finding, ok bool) {
	if !s.loader.serial() {
		return f, false
	}
	f = Finding{
		Remedy:   "loader settings won't help: hold the lock for less of a sample's time, or give each worker a file or connection of its own (open it in worker_init_fn or at its first sample)",
		Evidence: s.loader.queueing() + ": one loads while the others wait, and more would wait too",
		Share:    s.levers.loads(), Here: true,
	}
	return f, true
}

// slowestRank is for a distributed training in which one rank holds up the others.
func slowestRank(s *situation) (f Finding, ok bool) {
	ranks := s.session.Ranks(0, s.session.Now)
	at, why := attribution.SlowestRank(ranks)
	if at < 0 {
		return f, false
	}
	of := strconv.Itoa(len(ranks))
	if other, all := s.script.elsewhere(); other > 0 && len(ranks) < all {
		of += " that are known here"
	}
	f = Finding{
		Remedy:   s.script.hasten(ranks[at].Rank),
		Evidence: fmt.Sprintf("rank %d is the slowest of %s: %s", ranks[at].Rank, of, why),
	}
	if h, waits, _ := s.script.waitsFor(); waits && h.rank == ranks[at].Rank {
		f.Share = h.share
		f.Before = h.share > s.time.DataShare() // no knob of this rank helps against that
	}
	return f, true
}

// otherMachines is for ranks on other machines, of which this session knows nothing.
func otherMachines(s *situation) (f Finding, ok bool) {
	other, all := s.script.elsewhere()
	unknown := min(other, all-len(s.session.Ranks(0, s.session.Now)))
	return Finding{Evidence: fmt.Sprintf("%d of the %d ranks are on other machines and not in this session: steps wait for those too, and gpustall torch there tells what they wait for", unknown, all)}, unknown > 0
}

// wholeDatasets is for workers that each yield the same samples, which the user may not know. It comes
// before all findings about speed.
func wholeDatasets(s *situation) (f Finding, ok bool) {
	f = s.knobs.turn("num_workers", "1", fmt.Sprintf("nothing in %s asks which worker it is in (torch.utils.data.get_worker_info), so that each of %d workers yields all of its samples: if they are not random, an epoch has each %d times",
		s.session.Meta.Dataset, s.loader.workers, s.loader.workers))
	f.Share, f.Before = 1, true
	return f, s.session.fact(trace.WorkersYield) != "" && s.loader.workers > 1
}

// evaluation is for loops that do not train and take much of the time. No share counts their
// time. They come and go, so all steps with these settings tell it.
func evaluation(s *situation) (f Finding, ok bool) {
	from := s.session.from
	if g := s.session.Segment(s.tally.Segment); g != nil {
		from = min(from, g.Start)
	}
	k, known := s.script.since(from)
	if !known || k.Aside <= 0 {
		return f, false
	}
	part := k.Beside()
	f = Finding{
		Share: part, Beside: true,
		Remedy: "evaluate less often, or on less data",
		Evidence: fmt.Sprintf("loops that do not train take %s of all time, which is in no other share, and wait for data %s of that",
			units.Prose.Percent(part), units.Prose.Percent(float64(k.AsideWait)/float64(k.Aside))),
	}
	if 2*k.AsideWait > k.Aside {
		f.Remedy = "raise num_workers of the evaluation's DataLoader in the script, or evaluate less often"
	}
	return f, part >= high
}

// restOfScript is for what a script does with a batch besides forward and backward passes and the
// optimizer's steps. A forward pass takes about half as long as its backward pass, which computes
// two products for each of its own.
func restOfScript(s *situation) (f Finding, ok bool) {
	k, known := s.script.loop()
	all := max(k.Wait+k.Body, k.Time-k.Aside) // waiting between epochs included
	if !known || !s.host.device || k.Backward <= 0 || all <= 0 {
		return f, false
	}
	own := k.Body - k.Backward - k.Optimizer
	rest := own - k.Backward/2
	each := func(ns int64) string { return units.Prose.Time(ns / max(1, k.Steps)) }
	f = Finding{
		Remedy:   "look at what the script does with a batch beside training on it: metrics, .item(), logging, checkpoints, or parts of the model that are not trained",
		Evidence: fmt.Sprintf("forward + script code take %s of a step, and backward passes %s: a forward pass alone takes about half as long as its backward pass", each(own), each(k.Backward)),
		Share:    float64(rest) / float64(all), Script: true,
	}
	blocked := s.script.blocked()
	if k.Core+k.Waiting > 0 {
		f.Evidence = join(f.Evidence, fmt.Sprintf("with a batch in hand the loop's thread is on a core %s of the time, and blocked %s", units.Prose.Percent(float64(k.Core)/float64(k.Body)), units.Prose.Percent(blocked)))
	}
	c, ok := s.costliest(trace.InStep)
	if ok {
		f.Remedy = fmt.Sprintf("look at %s, which takes %s of the loop's time", c.Named(), units.Prose.Percent(c.Part))
	}
	if f.given = blocked >= mostly; f.given {
		s.waiting(&f, c, ok, blocked)
	}
	if long := s.time.longSteps(); long != "" {
		f.Evidence = join(f.Evidence, long)
	}
	return f, f.Share >= high && own > 3*k.Backward && !s.calls(trace.InStep)
}

// waiting rewrites a finding about a step that is blocked most of the time, at a line where that is known:
// it says that the step waits, for what it may, and whether the loader could gain anything.
func (s *situation) waiting(f *Finding, at lines.Cost, known bool, blocked float64) {
	const what = "a sleep, a lock, a file, the network or a device"
	f.Remedy = "look at what a step waits for: " + what
	if known {
		f.Remedy = fmt.Sprintf("look at %s, which takes %s of the loop's time: each step waits there for %s", at.Named(), units.Prose.Percent(at.Part), what)
	}
	f.Evidence = fmt.Sprintf("with a batch in hand the loop's thread is blocked %s of the time", units.Prose.Percent(blocked))
	if s.time.DataShare() < moderate && !s.script.alone() { // of a loop without a loader nothing tells what it waits for
		f.Evidence = "the loader keeps up, so no setting of it gains anything; " + f.Evidence
	}
}
