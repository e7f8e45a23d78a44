package prepared

import (
	"fmt"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/units"
)

// Limits holds what the system allows this process.
type Limits struct {
	Cores     int         // that it may use; 0 when unknown
	Memory    host.Memory // that it may hold
	Locked    host.Limit  // bytes that it may page-lock
	Files     host.Limit  // that it may have open
	FilesOpen int         // that it has open; -1 when unknown
}

// ReadLimits reads the limits.
func ReadLimits() Limits {
	l := Limits{Cores: host.Cores(), Memory: host.ReadMemory(), Locked: host.LockedMemory()}
	l.Files, l.FilesOpen = host.OpenFiles()
	return l
}

// Risk is what may go wrong with some knobs, in a few words.
type Risk struct {
	Grave bool // it ends in a refusal or ends the run; otherwise it costs speed
	Text  string
}

// tight is the share of a limit from which a need is a risk, because estimates are only
// that exact.
const tight = 0.9

// Risks says what may go wrong if the knobs to replace the knobs from. Needs are worked
// out as for a change, but without the kernels' scratch memory, which takes long. Any
// goroutine may call it.
func (s *Steps) Risks(from, to Knobs, l *Limits) (risks []Risk) {
	n, err := s.est.buffers(to)
	if err != nil {
		return []Risk{{true, err.Error()}}
	}
	size := units.Prose.Bytes
	if has := s.est.info.Memory; has > 0 && float64(n.Total()) >= tight*float64(has) {
		risks = append(risks, Risk{true, fmt.Sprintf("device memory: at least %s of %s", size(n.Total()), size(has))})
	}
	m := s.est.host(to, &n, s.host.process)
	if has := l.Memory.Allowed(); has > 0 && float64(m.Total()) >= tight*float64(has) {
		risks = append(risks, Risk{true, fmt.Sprintf("host memory: %s of %s", size(m.Total()), size(has))})
	}
	if k := l.Locked; m.Pinned > 0 && k.Known && !k.Unlimited && m.Pinned > k.Most {
		risks = append(risks, Risk{false, fmt.Sprintf("page-locks %s, over ulimit -l of %s (NVIDIA's driver is not bound by it)", size(m.Pinned), size(k.Most))})
	}
	return append(risks, workerRisks(from, to, l)...)
}

// HostNeed returns what knobs need of the host's memory in all, in bytes. It is 0 for
// knobs that cannot be. Any goroutine may call it.
func (s *Steps) HostNeed(k Knobs) int64 {
	n, err := s.est.buffers(k)
	if err != nil {
		return 0
	}
	return s.host.total(k, &n)
}

// filesOfWorker is how many files a worker has open: the sample that it reads and its
// thread's counters.
const filesOfWorker = 2

// workerRisks says what may go wrong with more workers.
func workerRisks(from, to Knobs, l *Limits) (risks []Risk) {
	n := to.Loader.NumWorkers
	if more := n - from.Loader.NumWorkers; more > 0 && l.Files.Known && !l.Files.Unlimited && l.FilesOpen >= 0 {
		if left := l.Files.Most - int64(l.FilesOpen); int64(filesOfWorker*more) > left {
			risks = append(risks, Risk{true, fmt.Sprintf("open files: %d more where ulimit -n leaves %d", filesOfWorker*more, max(0, left))})
		}
	}
	if l.Cores > 0 && n > l.Cores && n > from.Loader.NumWorkers {
		risks = append(risks, Risk{false, fmt.Sprintf("%d workers on %s: only those that wait for reads gain", n, units.Counted(l.Cores, "core", "cores"))})
	}
	return risks
}
