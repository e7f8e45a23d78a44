package advice

import (
	"fmt"
	"strconv"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
)

// torchRules are about what only a training in PyTorch has: Python processes for workers,
// and threads of its own. What the loader's rules say is said in its words (inTorch).
var torchRules = []Rule{
	{Name: "torch threads", Check: torchThreads},
	{Name: "fork after CUDA", Group: trace.GroupData, Check: forkAfterCUDA},
	{Name: "worker memory", Check: workerMemory},
}

// pytorch reports whether the session is of a training in PyTorch that was watched.
func (s *situation) pytorch() bool { return s.snap.Meta.Watched() }

// torchThreads is for a training on the CPU whose own threads and workers are more than
// the cores, and whose threads wait for one.
func torchThreads(s *situation) (f Finding, ok bool) {
	threads, err := strconv.Atoi(s.fact("torch threads"))
	fewer := max(1, int(s.cores.All)-s.workers)
	f = Finding{
		Remedy: fmt.Sprintf("call torch.set_num_threads(%d) in the script", fewer),
		Evidence: fmt.Sprintf("the training computes with %s beside %s on %s, and its threads wait for a core %s of the time",
			figures.Counted(threads, "thread", "threads"), figures.Counted(s.workers, "worker process", "worker processes"),
			figures.Counted(int(s.cores.All), "core", "cores"), figures.Prose.Percent(s.starved)),
		Share: s.starved * s.b.Utilisation(),
	}
	return f, err == nil && s.pytorch() && s.hostDevice && threads > fewer && s.starved >= moderate && f.Share >= moderate && !s.cores.Crowded()
}

// forkAfterCUDA is for a loop that loads by itself, on the GPU: workers that are forked from
// it could not.
func forkAfterCUDA(s *situation) (f Finding, ok bool) {
	f = Finding{
		Remedy:   "have the data set return tensors on the host and move the batch to the GPU in the loop, or pass multiprocessing_context='spawn': then num_workers can rise",
		Evidence: "the data set makes its batches on the GPU, in the training's own process, and a worker that is forked after CUDA began cannot use it",
		Share:    s.loads(),
	}
	return f, s.forkedAfterCUDA()
}

func (s *situation) forkedAfterCUDA() bool {
	return s.fact("torch batches") != "" && s.fact("torch workers") == "begin by fork" && s.workers == 0
}

// heavyWorker is the memory of a worker's own, in bytes, from which the data set is likely
// to be in it: PyTorch alone takes some 100 MB.
const heavyWorker = 256 << 20

// workerMemory is for memory that is short because each worker has a copy of its own of what
// the data set holds.
func workerMemory(s *situation) (f Finding, ok bool) {
	each, _ := s.gauge(trace.GaugeWorkerBytes)
	_, top, n := s.snap.GaugeOver(trace.GaugeHostMemory, s.from, s.to)
	f = Finding{
		Remedy: "use fewer workers, or keep what the data set holds in arrays (NumPy, tensors) in place of lists and dicts, which each worker copies as it reads them",
		Evidence: fmt.Sprintf("%s take ~%s of memory of their own, %s each, and %s of the memory that this process may have is taken", figures.Counted(s.workers, "worker process", "worker processes"),
			figures.Prose.Bytes(int64(each)*int64(s.workers)), figures.Prose.Bytes(int64(each)), figures.Prose.Percent(top/100)),
	}
	return f, s.workers > 0 && each >= heavyWorker && n > 0 && top/100 >= memoryShort
}

// startUp is what a worker of PyTorch costs to start, in words; empty where that is not
// known or little.
func (s *situation) startUp() string {
	if !s.pytorch() || s.loading.Start < 10e6 {
		return ""
	}
	return fmt.Sprintf("each worker is a process that takes ~%s to start, in every epoch", figures.Prose.Time(int64(s.loading.Start)))
}

// cheaper is how a sample is made cheaper to load.
func (s *situation) cheaper() string {
	if !s.pytorch() {
		return "make a sample cheaper (store it decoded or smaller)"
	}
	switch decode, transform := s.loading.Part(trace.KindDecode), s.loading.Part(trace.KindTransform); {
	case decode >= transform && decode >= 0.3:
		return "make a sample cheaper (store it smaller or decoded, or decode it with torchvision.io.decode_jpeg in place of PIL)"
	case transform >= 0.3:
		return "make a sample cheaper (torchvision.transforms.v2 on uint8 tensors in place of PIL images, a resize before anything else, or the transform on the GPU)"
	}
	return "make a sample cheaper (store it decoded or smaller, or give the data set __getitems__, which loads a batch at once)"
}
