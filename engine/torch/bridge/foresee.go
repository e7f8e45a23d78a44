//go:build linux

package bridge

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Foresee says what may go wrong if changes were made; empty where nothing may, and before the first
// batch. grave reports whether it would end the training.
func (b *Bridge) Foresee(changes []knob.Setting) (text string, grave bool) {
	about, each, known := b.view.facts()
	if !known {
		return "", false
	}
	k := b.Control.requested()
	now := k.Workers
	for _, c := range changes {
		_ = KnobTable.Set(&k, c.Name, c.Value) // Set refuses it with a reason
	}
	size, loader := about.batch, about.loader
	memory := host.ReadMemory()
	cuda := afterCUDA(&loader, &size, k.Workers)
	if cuda != "" {
		cuda += ": " + hostTensors
	}
	own := weight{bytes: each, weighed: each > 0, start: loader.Context}
	if !own.weighed && k.Workers > now && own.start != "fork" {
		own.bytes = host.PrivateMemory(about.pid)
	}
	short := copies(k.Workers-now, own, memory.Allowed()-memory.Held)
	for _, text := range []string{cuda, short, shared(&k, freeOf(memoryFiles), size.Bytes), descriptors(&k, &size)} {
		if text != "" {
			return text, own.weighed || text != short
		}
	}
	return "", false
}

// afterCUDA warns of workers that would be forked from a process that uses CUDA while loading uses CUDA
// too: CUDA does not allow that.
func afterCUDA(l *Loader, size *Batch, workers int) string {
	if l.Knobs["num_workers"] > 0 || workers == 0 || l.Context != "fork" || size.OnGPU == 0 {
		return ""
	}
	return "the data set makes its batches on the GPU, and a worker that is forked after CUDA began cannot (\"Cannot re-initialize CUDA in forked subprocess\")"
}

// hostTensors is the hint for the warning of afterCUDA.
const hostTensors = "have the data set return tensors on the host and move the batch to the GPU in the loop, or call multiprocessing.set_start_method('spawn') first"

// weight says how much memory a worker does not share with others.
type weight struct {
	bytes   int64  // 0 while that is not known
	weighed bool   // bytes was measured on workers; if not, it is the memory of the script's process, an upper bound
	start   string // how workers begin: fork, spawn, forkserver
}

// copies warns of workers for which there is no memory. A forked worker copies the pages of the data set
// that it writes to; Python writes to objects even when it only reads them. Other workers get a copy.
func copies(more int, each weight, free int64) string {
	need := int64(more) * each.bytes
	if more <= 0 || each.bytes == 0 || need < free {
		return ""
	}
	has, upTo, would := "has", "", "would"
	if !each.weighed {
		has, upTo, would = "that begins by "+each.start+" may have", "up to ", "may"
	}
	return fmt.Sprintf("a worker %s %s%s of memory of its own, so %d more need %s%s, and %s is left: the kernel %s end one of the processes; %s, or add fewer",
		has, upTo, units.Prose.Bytes(each.bytes), more, upTo, units.Prose.Bytes(need), units.Prose.Bytes(max(0, free)), would, trace.LighterWorkers(each.start))
}

// weighEvery is how often the memory of workers is measured. weighShare is the largest share of the
// time that this may take, because the kernel walks through all their pages.
const (
	weighEvery = 10 * time.Second
	weighShare = 1.0 / 4000
)

// weighed is the number of workers that are measured.
const weighed = 4

// weigh measures the memory that each of the main process's workers does not share.
func (b *Bridge) weigh() {
	begin := time.Now()
	if begin.Before(b.crew.weighed) {
		return
	}
	var sum, n int64
	for pid := range b.workers() {
		if n == weighed {
			break
		}
		if own := host.PrivateMemory(pid); own > 0 {
			sum, n = sum+own, n+1
		}
	}
	b.crew.weighed = begin.Add(max(weighEvery, time.Duration(float64(time.Since(begin))/weighShare)))
	if n == 0 {
		return
	}
	b.view.weigh(sum / n)
	b.recorder.Gauge(trace.GaugeWorkerBytes, float64(sum/n))
}

// shared warns that batches under way would fill /dev/shm. A worker that finds /dev/shm full dies of
// SIGBUS ("bus error").
func shared(k *Knobs, free, batch int64) string {
	need := int64(k.queueLimit()) * batch
	if k.Workers == 0 || batch == 0 || free < 0 || need < free {
		return ""
	}
	return fmt.Sprintf("%d batches of %s are under way in /dev/shm, which has %s left: a worker that finds it full dies of a bus error; enlarge it (docker run --shm-size), or load fewer ahead",
		k.queueLimit(), units.Prose.Bytes(batch), units.Prose.Bytes(free))
}

// descriptors warns of the limit of open files. Each tensor under way is an open file where tensors are
// shared by descriptor.
func descriptors(k *Knobs, size *Batch) string {
	need := int64(k.queueLimit())*size.Tensors + 128 // 128 for other files that a Python process has open
	if k.Workers == 0 || size.Sharing != "file_descriptor" || size.Files <= 0 || need < size.Files {
		return ""
	}
	return fmt.Sprintf("~%d files are open with %d batches of %d tensors under way, and the limit is %d (\"too many open files\"): raise it (ulimit -n), load fewer ahead, or call torch.multiprocessing.set_sharing_strategy('file_system')",
		need, k.queueLimit(), size.Tensors, size.Files)
}

// freeOf returns the free space of a folder, in bytes; -1 where it is not known.
func freeOf(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return -1
	}
	return int64(s.Bavail) * s.Bsize
}
