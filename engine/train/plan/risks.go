package plan

import (
	"fmt"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/units"
)

// Limits are what the system sets this process.
type Limits struct {
	Cores     int         // that it may use; 0 when that is not known
	Memory    host.Memory // that it may hold
	Locked    host.Limit  // bytes that it may page-lock
	Files     host.Limit  // that it may have open
	FilesOpen int         // that it has open; -1 when that is not known
}

// ReadLimits looks at them.
func ReadLimits() Limits {
	l := Limits{Cores: host.Cores(), Memory: host.ReadMemory(), Locked: host.LockedMemory()}
	l.Files, l.FilesOpen = host.OpenFiles()
	return l
}

// Risk is what may go wrong with some knobs, in a few words.
type Risk struct {
	Grave bool // it ends in a refusal or in the end of the run, not only in less speed
	Text  string
}

// A plan is tight from this share of what there is: its estimates are that good.
const tight = 0.9

// Risks says what may go wrong if knobs are put in force in the place of others: their
// needs are worked out as for a change, but without the kernels' scratch memory, which
// takes long. It uses nothing that changes while a run goes on, so that any goroutine may
// call it.
func (p *Plans) Risks(from, to Knobs, l *Limits) (risks []Risk) {
	d, err := p.demandOfBuffers(to)
	if err != nil {
		return []Risk{{true, err.Error()}}
	}
	size := units.Prose.Bytes
	if has := p.info.Memory; has > 0 && float64(d.Total()) >= tight*float64(has) {
		risks = append(risks, Risk{true, fmt.Sprintf("device memory: at least %s of %s", size(d.Total()), size(has))})
	}
	if !p.info.OnHost {
		d = demand{}
	}
	m := p.hostDemand(to, &d)
	if has := l.Memory.Allowed(); has > 0 && float64(m.Total()) >= tight*float64(has) {
		risks = append(risks, Risk{true, fmt.Sprintf("host memory: %s of %s", size(m.Total()), size(has))})
	}
	if k := l.Locked; m.Pinned > 0 && k.Known && !k.Unlimited && m.Pinned > k.Most {
		risks = append(risks, Risk{false, fmt.Sprintf("page-locks %s, over ulimit -l of %s (NVIDIA's driver is not bound by it)", size(m.Pinned), size(k.Most))})
	}
	return append(risks, workerRisks(from, to, l)...)
}

// HostNeed is what knobs need of the host's memory in all, in bytes; 0 where they cannot
// be. Like Risks it may be called by any goroutine.
func (p *Plans) HostNeed(k Knobs) int64 {
	d, err := p.demandOfBuffers(k)
	if err != nil {
		return 0
	}
	if !p.info.OnHost {
		d = demand{}
	}
	m := p.hostDemand(k, &d)
	return m.Total()
}

// filesOfWorker is how many files a worker has open: the sample that it reads and its
// thread's counters.
const filesOfWorker = 2

// workerRisks are those of more workers.
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
