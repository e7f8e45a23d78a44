package advice

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// torchRules are about what only a training in PyTorch has: Python processes for workers,
// and threads of its own. What the loader's rules say is said in its words (inTorch).
var torchRules = []Rule{
	{Name: "torch threads", Check: torchThreads},
	{Name: "threads of workers", Group: trace.GroupData, Check: workerThreads},
	{Name: "collating", Group: trace.GroupData, Check: collating},
	{Name: "worker memory", Check: workerMemory},
	{Name: "watched loop", Check: watchedLoop},
	{Name: "cheap batches", Group: trace.GroupData, Last: true, Check: cheapBatches},
	{Name: "shared lock", Group: trace.GroupData, Last: true, Check: sharedLock},
	{Name: "taking batches", Group: trace.GroupData, Check: takingBatches},
	{Name: "slowest rank", Check: slowestRank},
	{Name: "evaluation", Check: evaluation},
	{Name: "rest of the script", Check: restOfScript},
}

// pytorch reports whether the session is of a training in PyTorch that was watched.
func (s *situation) pytorch() bool { return s.snap.Meta.Watched() }

// scripted reports whether what is busy is a script with its batch in hand, whatever it does
// with it: on a CPU nothing tells a device's work from the rest.
func (s *situation) scripted() bool { return s.hostDevice && (s.pytorch() || s.imported) }

// untrained says how much of a step the script is in neither of the parts that are told apart;
// empty where none is. It goes on about its busy time.
func (s *situation) untrained() string {
	k, known := s.loop()
	if !known || !s.scripted() || k.Backward <= 0 {
		return ""
	}
	in := "neither backward passes nor the optimizer"
	if k.Optimizer == 0 { // nor does an old PyTorch tell of one
		in = "no backward pass"
	}
	each := func(ns int64) string { return units.Prose.Time(ns / max(1, k.Steps)) }
	return fmt.Sprintf(", %s of %s a step in %s", each(k.Body-k.Backward-k.Optimizer), each(k.Wait+k.Body), in)
}

// torchThreads is for a training on the CPU whose own threads, what workers compute and what other
// processes take are more than the cores, and whose threads wait for one. A core of which others
// leave a part is still worth a thread.
func torchThreads(s *situation) (f Finding, ok bool) {
	threads, err := strconv.Atoi(s.fact(trace.TorchThreads))
	used, left, while := s.workersUse(), s.cores.All, ""
	var takes []string
	if used >= 0.1 {
		takes = append(takes, "workers use ~"+units.Cores(used))
	}
	if s.cores.Crowded() {
		left, while = s.cores.Left(), " while other processes take the cores"
		takes = append(takes, "other processes use ~"+units.Cores(s.cores.Others))
	}
	of := ""
	if len(takes) > 0 {
		of = ", of which " + strings.Join(takes, " and ")
	}
	fewer := max(1, int(math.Ceil(left-used-0.1)))
	f = Finding{
		Remedy: fmt.Sprintf("call torch.set_num_threads(%d) in the script%s", fewer, while),
		Evidence: fmt.Sprintf("the training computes with %s on %s%s, and its threads wait for a core %s of the time",
			units.Counted(threads, "thread", "threads"), units.Counted(int(s.cores.All), "core", "cores"), of, units.Prose.Percent(s.starved)),
		Share: max(s.starved*s.b.Utilisation(), s.lostToHost()), // of "more cores" too, which so follows
	}
	if s.spun {
		f.Evidence += ", while those that have one spin on it until all are done"
	}
	return f, err == nil && s.pytorch() && s.hostDevice && threads > fewer && s.starved >= moderate && f.Share >= moderate
}

// workerThreads is for workers that compute with several threads each on cores of which none is
// free: these take turns, wait for each other, and spin while they do. By how much they hold each
// other up is not measured, and where the cores are shared anyway it may be little.
func workerThreads(s *situation) (f Finding, ok bool) {
	more, _, n := s.snap.GaugeOver(trace.GaugeWorkerThreads, s.from, s.to)
	f = Finding{
		Remedy: "one thread in each worker may help, set in worker_init_fn: cv2.setNumThreads(0) for OpenCV, torch.set_num_threads(1) for PyTorch, threadpoolctl.threadpool_limits(1) for NumPy and the like",
		Evidence: fmt.Sprintf("no core is free, and beside the threads that load and send batches, others that libraries began in the %s use ~%s of the %s",
			units.Counted(s.workers, "worker", "workers"), units.Rate(more), units.Counted(int(s.cores.All), "core", "cores")),
		Share: s.loads(), Before: true,
	}
	if full := int(s.cores.All); s.workers < full {
		f.Remedy += fmt.Sprintf("; and have %d workers", full)
	}
	if s.cores.Crowded() {
		f.Evidence = join(f.Evidence, s.cores.String()+", so that it may gain little here")
	}
	return f, n > 0 && s.workers > 1 && s.computing() && more >= s.cores.All/10
}

// heavyWorker is the memory of a worker's own, in bytes, from which the data set is likely
// to be in it, or PyTorch.
const heavyWorker = 256 << 20

// workerMemory is for memory that is short because each worker has a copy of its own of what
// the data set holds, or of PyTorch.
func workerMemory(s *situation) (f Finding, ok bool) {
	each, _ := s.gauge(trace.GaugeWorkerBytes)
	_, top, n := s.snap.GaugeOver(trace.GaugeHostMemory, s.from, s.to)
	f = Finding{
		Remedy: "use fewer workers, or " + trace.LighterWorkers(s.fact(trace.WorkerStart)),
		Evidence: fmt.Sprintf("%s take ~%s of memory of their own, %s each, and %s of the memory that this process may have is taken", units.Counted(s.workers, "worker process", "worker processes"),
			units.Prose.Bytes(int64(each)*int64(s.workers)), units.Prose.Bytes(int64(each)), units.Prose.Percent(top/100)),
	}
	return f, s.workers > 0 && each >= heavyWorker && n > 0 && top/100 >= memoryShort
}

// watchedLoop is for a loop that takes its batches from something else than a DataLoader, of
// which there is nothing to change.
func watchedLoop(s *situation) (f Finding, ok bool) {
	_, known := s.number("num_workers")
	f = Finding{
		Remedy:   "make batches ahead of the loop, in workers of a DataLoader or in a thread with a queue",
		Evidence: "the loop takes its batches from an iterable that is no DataLoader, and the device waits for each",
		Share:    s.b.DataShare(),
	}
	return f, s.pytorch() && !known && f.Share >= moderate
}

// taking is the share of the time in which the loop took batches from workers that had them
// ready.
func (s *situation) taking() float64 {
	if !s.pytorch() || s.workers == 0 {
		return 0
	}
	return s.b.Share(trace.CauseDataLoader)
}

// takingBatches is for batches that are ready in time, and all the same take the loop long to
// take from a worker process: longer than to load them itself, where samples are cheap.
func takingBatches(s *situation) (f Finding, ok bool) {
	f = Finding{Remedy: "no knob helps here: give a batch fewer and smaller tensors, or more samples"}
	each := s.b.Stall[trace.CauseDataLoader] / max(1, s.b.Steps)
	load := s.b.Load / max(1, s.b.Steps)
	if load < each && load > 0 {
		f = s.turn("num_workers", "0", "")
	}
	f.Evidence = join(fmt.Sprintf("the loop takes ~%s to take a batch that is ready from its worker process, and the worker took %s to make it", units.Prose.Time(each), units.Prose.Time(load)), s.batch())
	f.Share = s.taking()
	return f, s.b.Steps > 0 && f.Share > s.loads()
}

// cheapBatches is for a loop that loads its batches itself faster than it could take them from a worker.
func cheapBatches(s *situation) (f Finding, ok bool) {
	if s.workers > 0 || !s.pytorch() || s.model == nil {
		return f, false
	}
	f = Finding{
		Remedy:   "no knob helps here: " + s.cheaper(),
		Evidence: join("the loop loads a batch itself in less time than it would take it to take one from a worker process; "+s.times(), s.batch()),
		Share:    s.loads(),
	}
	p, ok := s.model.Predict(knob.Setting{Name: "num_workers", Value: strconv.Itoa(max(1, s.moreWorkers()))})
	return f, ok && predict.Gain(p.Prediction).Hi < 1
}

// mostly is the part of what loading takes from which one phase is most of it.
const mostly = 0.5

// collating is for workers that spend most of their time on putting batches together and handing
// them over.
func collating(s *situation) (f Finding, ok bool) {
	part := s.loading.Part(trace.KindCollate)
	f = Finding{
		Remedy:   s.cheaper(),
		Evidence: join(fmt.Sprintf("~%s of the loading is for that, not for the samples", units.Prose.Percent(part)), s.batch()),
		Share:    s.b.Share(trace.CauseCollate),
	}
	return f, s.pytorch() && part >= mostly && !s.said(cheapBatches)
}

// batch says what a batch is made of; empty where that is not known.
func (s *situation) batch() string {
	if of := s.fact(trace.BatchOf); of != "" {
		return "a batch is " + of
	}
	return ""
}

// sharedLock is for workers that wait for each other, of which more load no faster.
func sharedLock(s *situation) (f Finding, ok bool) {
	if !s.serial() {
		return f, false
	}
	f = Finding{
		Remedy:   "no knob helps here: hold the lock for less of a sample's time, or give each worker a file or connection of its own (open it in worker_init_fn or at its first sample)",
		Evidence: s.queueing() + ": one loads while the others wait, and more would wait too",
		Share:    s.loads(), Here: true,
	}
	return f, true
}

// queueing says how many workers wait for a lock that they share; empty where it is hardly any.
func (s *situation) queueing() string {
	waiting, _ := s.lockWaiting()
	if s.workers < 2 || waiting < moderate*float64(s.workers) {
		return ""
	}
	return fmt.Sprintf("~%.1f of %s wait at any time for a lock that processes share (a multiprocessing.Lock, or one on a file)",
		waiting, units.Counted(s.workers, "worker", "workers"))
}

// serial reports whether workers wait for a lock that they share so much that twice as many are
// expected to load hardly faster.
func (s *situation) serial() bool {
	if s.model == nil {
		return s.locked()
	}
	if s.workers < 2 || s.model.Lock.Workers < moderate*float64(s.workers) {
		return false
	}
	p, ok := s.model.Predict(knob.Setting{Name: "num_workers", Value: strconv.Itoa(2 * s.workers)})
	return ok && predict.Gain(p.Prediction).Value < 1+moderate
}

// locked reports whether workers wait for a lock that they share as much as for anything else: all
// but one of them can.
func (s *situation) locked() bool {
	waiting, _ := s.lockWaiting()
	return s.workers > 1 && 2*waiting >= float64(s.workers-1)
}

// lockWaiting is how many workers waited for a lock that processes share, on average.
func (s *situation) lockWaiting() (workers float64, known bool) {
	mean, _, n := s.snap.GaugeOver(trace.GaugeLockWaiting, s.from, s.to)
	return mean, n > 0
}

// atOnce says under what condition more of what workers wait for can be waited for at once, where
// nothing in the session shows that it is so.
func (s *situation) atOnce() string {
	proven := slices.ContainsFunc(s.trials, func(t Trial) bool { return t.Knob == "num_workers" && t.Outcome == Gain && between(t.From, t.To) > 0 })
	_, seen := s.lockWaiting()
	switch {
	case !s.pytorch() || proven || s.queueing() != "":
		return ""
	case seen && s.workers > 1: // and they wait for none, or little
		return ", unless what they wait for serves no more at once"
	}
	return ", unless they wait for each other (a lock, or a server that serves one at a time)"
}

// slowestRank is for a distributed training of which one rank holds the others up.
func slowestRank(s *situation) (f Finding, ok bool) {
	ranks := s.snap.Ranks(0, s.snap.Now)
	at, why := attribution.SlowestRank(ranks)
	if at < 0 {
		return f, false
	}
	of := strconv.Itoa(len(ranks))
	if other, _ := s.elsewhere(); other > 0 {
		of += " on this machine"
	}
	return Finding{
		Remedy:   fmt.Sprintf("fix rank %d, which the others wait for", ranks[at].Rank),
		Evidence: fmt.Sprintf("rank %d is the slowest of %s: %s", ranks[at].Rank, of, why),
	}, true
}

// elsewhere is how many ranks are on other machines, and how many there are; 0 where nobody said.
func (s *situation) elsewhere() (ranks, all int) {
	all, _ = strconv.Atoi(s.fact("ranks"))
	here, err := strconv.Atoi(s.fact("ranks here"))
	if err != nil {
		return 0, all
	}
	return max(0, all-here), all
}

// otherMachines is for ranks that this one exchanges gradients with, and of which nothing is known here.
func otherMachines(s *situation) (f Finding, ok bool) {
	ranks, all := s.elsewhere()
	return Finding{Evidence: fmt.Sprintf("%d of the %d ranks are on other machines and not in this session: steps wait for those too, and gpustall torch there tells what they wait for", ranks, all)}, ranks > 0
}

// wholeDatasets is for workers that yield the same samples, which many a script has without knowing.
func wholeDatasets(s *situation) (f Finding, ok bool) {
	return Finding{Evidence: fmt.Sprintf("nothing in %s asks which worker it is in (torch.utils.data.get_worker_info), so that each of %d workers yields all of its samples: if they are not random, an epoch has each %d times",
		s.snap.Meta.Dataset, s.workers, s.workers)}, s.fact(trace.WorkersYield) != "" && s.workers > 1
}

// loop is how the loop that the session is about did in the steps judged; false where that was
// not measured.
func (s *situation) loop() (k trace.Rank, known bool) {
	ranks := s.snap.Ranks(s.from, s.to)
	if !s.pytorch() || len(ranks) == 0 {
		return k, false
	}
	return ranks[0], true
}

// others says that the loop waits for other loaders than the one whose settings are shown; empty
// where it does not, or little.
func (s *situation) others() string {
	k, known := s.loop()
	if !known || 2*k.Other < k.Wait || k.Wait == 0 {
		return ""
	}
	return fmt.Sprintf("%s of the waiting is for another DataLoader, which the loop takes from in turn with this one (zip, for instance): what is set here goes for both, and in the script its own num_workers is what to raise",
		units.Prose.Percent(float64(k.Other)/float64(k.Wait)))
}

// evaluation is for loops that do not train and take much of the time, which is in no share.
func evaluation(s *situation) (f Finding, ok bool) {
	k, known := s.loop()
	all := k.Aside + k.Wait + k.Body
	if !known || k.Aside <= 0 {
		return f, false
	}
	part := float64(k.Aside) / float64(all)
	f = Finding{
		Share: part, Beside: true,
		Remedy: "evaluate less often, or on less data",
		Evidence: fmt.Sprintf("%s take %s of the time, which is in no other share; %s of that they wait for data",
			trace.AsideLoops, units.Prose.Percent(part), units.Prose.Percent(float64(k.AsideWait)/float64(k.Aside))),
	}
	if 2*k.AsideWait > k.Aside {
		f.Remedy = "raise num_workers of their DataLoader in the script (what is set here is for loops that train), or evaluate less often"
	}
	return f, part >= high
}

// restOfScript is for what a script does with a batch beside forward and backward passes and
// optimizers' steps. A forward pass takes about half as long as its backward pass, which
// computes two products for each of its own.
func restOfScript(s *situation) (f Finding, ok bool) {
	k, known := s.loop()
	all := k.Wait + k.Body
	if !known || !s.hostDevice || k.Backward <= 0 || all <= 0 {
		return f, false
	}
	own := k.Body - k.Backward - k.Optimizer
	rest := own - k.Backward/2
	each := func(ns int64) string { return units.Prose.Time(ns / max(1, k.Steps)) }
	f = Finding{
		Remedy:   "look at what the script does with a batch beside training on it: metrics, .item(), logging, checkpoints, or parts of the model that are not trained",
		Evidence: fmt.Sprintf("forward passes and all else take %s of a step, where backward passes take %s: of what is trained, a forward pass takes about half as long as its backward pass", each(own), each(k.Backward)),
		Share:    float64(rest) / float64(all), Script: true,
	}
	if k.Core+k.Waiting > 0 {
		blocked := float64(max(0, k.Body-k.Core-k.Waiting)) / float64(k.Body)
		f.Evidence = join(f.Evidence, fmt.Sprintf("with a batch in hand the loop's thread is on a core %s of the time, and blocked %s", units.Prose.Percent(float64(k.Core)/float64(k.Body)), units.Prose.Percent(blocked)))
	}
	if long := s.longSteps(); long != "" {
		f.Evidence = join(f.Evidence, long)
	}
	return f, f.Share >= high && own > 3*k.Backward
}

// longSteps says how much of the device's time some few steps take that are far longer than the
// others; empty where it is little.
func (s *situation) longSteps() string {
	usual := trace.Quantile(0.5, s.plain)
	var n, every, all, sum int64
	last := int32(-1)
	for st := range s.judgedSteps {
		all += st.Busy
		if st.Busy <= 2*usual {
			continue
		}
		if last >= 0 {
			every += int64(st.Index - last)
		}
		last = st.Index
		n, sum = n+1, sum+st.Busy
	}
	if n < 3 || sum < all/5 {
		return ""
	}
	return fmt.Sprintf("%s, every %s steps on average, take %s of the time with a batch in hand, %s each where %s are usual",
		units.Counted(n, "step", "steps"), units.Count((every+(n-1)/2)/(n-1)), units.Prose.Percent(float64(sum)/float64(all)), units.Prose.Time(sum/n), units.Prose.Time(usual))
}

// startUp is what a worker of PyTorch costs to start, in words; empty where that is not
// known or little.
func (s *situation) startUp() string {
	if !s.pytorch() || s.loading.Start < 10e6 {
		return ""
	}
	return fmt.Sprintf("each worker is a process that takes ~%s to start, in every epoch", units.Prose.Time(int64(s.loading.Start)))
}

// cheaper is how a sample is made cheaper to load.
func (s *situation) cheaper() string {
	if !s.pytorch() {
		return "make a sample cheaper (store it decoded or smaller)"
	}
	switch decode, transform := s.loading.Part(trace.KindDecode), s.loading.Part(trace.KindTransform); {
	case s.loading.Part(trace.KindCollate) >= mostly:
		return "make a batch cheaper to put together and hand over (a narrower type such as uint8, converted in the loop; smaller samples; fewer tensors; or a collate_fn that does less)"
	case decode >= transform && decode >= 0.3:
		return "make a sample cheaper (store it smaller or decoded, or decode it with torchvision.io.decode_jpeg in place of PIL)"
	case transform >= 0.3:
		return "make a sample cheaper (torchvision.transforms.v2 on uint8 tensors in place of PIL images, a resize before anything else, or the transform on the GPU)"
	}
	return "make a sample cheaper (store it decoded or smaller, or give the data set __getitems__, which loads a batch at once)"
}
