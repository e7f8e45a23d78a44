package predict

import (
	"math"
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// past is an earlier segment of the session. It differs from the segment in force only in knobs
// that the model knows.
type past struct {
	settings
	rate, data float64 // samples/s, and the share of the time in which the device waited for data
	others     float64 // cores that others used; -1 where that is not known
	reading    float64 // reads under way, on average; 0 where none came from storage, except that the waits of Python workers always count
	blocked    float64 // ns of a sample
}

// remember learns from earlier segments what these steps cannot tell. This is the rates of other
// settings, the copy time from the other kind of memory, and how computing grows with the batch.
func (m *Model) remember(s *trace.Snapshot, t *trace.Tally) {
	b := t.Steady
	batch, busy := float64(b.Samples)/float64(b.Steps), float64(b.Busy)/float64(b.Steps)
	m.fixed = m.assumed(s, t.Segment, busy)
	now := knobsOf(s, t.Segment)
	for _, g := range s.Segments {
		if g.Index >= t.Segment {
			break
		}
		tally := s.Tally(g.Index)
		o := &attribution.Breakdown{Totals: tally.Steady}
		k, ok := settingsOf(g.Knobs)
		if !ok || o.Steps < least || o.Samples == 0 || tally.SteadyFlags&trace.FlagCeiling != 0 {
			continue
		}
		if known(g.Knobs, now) && o.Active() > 0 {
			m.past = append(m.past, pastOf(s, tally, o, k))
		}
		if k.transforms != m.now.transforms {
			continue
		}
		n, took := float64(o.Samples)/float64(o.Steps), float64(o.Busy)/float64(o.Steps)
		if k.pinned != m.now.pinned && o.Copy > 0 && b.Bytes > 0 && o.Bytes > 0 {
			m.pinned = float64(o.Copy) / float64(o.Bytes) * float64(b.Bytes) / float64(b.Steps)
		}
		if ratio := n / batch; math.Abs(math.Log(ratio)) > 0.4 && sameEngine(s, g.Index, t.Segment) {
			// took = fixed + slope n. part is the share of busy that is fixed.
			part := min(1, max(0, (took/busy-ratio)/(1-ratio)))
			m.fixed = [3]float64{max(0, part-0.15), part, min(1, part+0.15)}
		}
	}
}

func pastOf(s *trace.Snapshot, t *trace.Tally, b *attribution.Breakdown, k settings) past {
	p := past{settings: k, rate: b.SamplesPerSecond(), data: b.DataShare(), others: -1}
	if c := CoresOf(s, t.From, t.To); c.Known {
		p.others = c.Others
	}
	if w := b.Work.Batch; w.Total() > 0 {
		blocked := float64(b.Load) * float64(w.Blocked) / float64(w.Total())
		p.blocked = blocked / float64(b.Samples)
		if readFor(s, t) > fewBytes || s.Meta.Watched() {
			p.reading = blocked / float64(b.Active())
		}
	}
	return p
}

func knobsOf(s *trace.Snapshot, segment int32) []knob.Setting {
	for i := range s.Segments {
		if s.Segments[i].Index == segment {
			return s.Segments[i].Knobs
		}
	}
	return nil
}

// known reports whether settings differ only in knobs that the model knows.
func known(a, b []knob.Setting) bool {
	for _, k := range a {
		other := knob.ValueOf(b, k.Name)
		if k.Value != other && !new(settings).set(k) && !(k.Name == prefetchFactor && new(settings).set(knob.Setting{Name: k.Name, Value: other})) {
			return false
		}
	}
	return true
}

// before returns the newest earlier segment with these settings in which other processes used the
// cores as they do now; nil where there is none.
func (m *Model) before(to *settings) *past {
	for i := len(m.past) - 1; i >= 0; i-- {
		p := &m.past[i]
		k := p.settings
		k.prefetch = k.ahead()
		want := *to
		want.mean = 0
		if want.prefetch = want.ahead(); want.workers == 0 { // without workers there is no queue
			k.prefetch, k.persistent, k.inOrder = want.prefetch, want.persistent, want.inOrder
		}
		if k != want {
			continue
		}
		if p.others >= 0 && m.Capacity.Cores.Known && math.Abs(p.others-m.Capacity.Cores.Others) > alike {
			continue
		}
		return p
	}
	return nil
}

// Beside reports whether other processes used about as many cores as in the steps of another model.
func (m *Model) Beside(o *Model) bool {
	return math.Abs(m.Capacity.Cores.Others-o.Capacity.Cores.Others) <= alike
}

// alike is by how many cores the use by others may differ for the host to count as the same.
const alike = 0.25

// fewBytes is how many bytes a second must be read from storage for reads to count as coming from
// there.
const fewBytes = 1 << 20

// readFor returns how many bytes a second were read from storage for this process.
func readFor(s *trace.Snapshot, t *trace.Tally) float64 {
	ours, _, n := s.GaugeOver(trace.GaugeDiskOurs, t.From, t.To)
	if n == 0 {
		return 0
	}
	return ours
}

// storageRates are the most that a disk is assumed to deliver, in bytes/s, until two numbers of
// workers were measured. They are those of a spinning disk or a small cloud volume, of a SATA SSD
// or a large volume, and of a PCIe SSD.
var storageRates = [3]float64{0.2e9, 2e9, 8e9}

// storage finds how many reads the disk serves side by side: as many as together reach the disk's
// rate. Where the session has measured both few reads at a time and many, their times tell it.
// Beyond that number, n times as many reads take n times as long. The same holds for whatever else
// a Python worker waits for, such as a lock or a server with a limit.
func (m *Model) storage(s *trace.Snapshot, t *trace.Tally) {
	rate := readFor(s, t)
	w := t.Steady.Work.Batch
	stored := rate > fewBytes
	if !stored && (!m.processes || w.Bound() != trace.BoundIO) || w.Total() == 0 || m.injected > 0.5 {
		return
	}
	blocked := m.loading.Blocked * float64(t.Steady.Steps)
	m.reading = blocked / float64(t.Steady.Active())
	one := rate / max(m.reading, 0.05)
	for i, most := range storageRates {
		m.disk[i] = max(1, most/max(one, 1))
	}
	apart := 1.3
	for _, p := range m.past {
		if p.reading <= 0 {
			continue
		}
		few, many, ratio := p.reading, m.reading, blocked/float64(t.Steady.Samples)/p.blocked
		if few > many {
			few, many, ratio = many, few, 1/ratio
		}
		if many/few < apart {
			continue
		}
		apart, m.stores = many/few, ratio >= 1.15
		switch side := max(1, many/ratio); {
		case ratio < 1.15: // many reads are as fast as few
			m.disk = [3]float64{max(1, many), 2 * many, 16 * many}
		default:
			m.disk = [3]float64{max(1, 0.85*side), side, 1.15 * side}
		}
	}
	if !stored && !m.stores { // nothing shows a limit
		m.reading, m.disk = 0, [3]float64{}
		return
	}
	m.plant.disk = m.disk[1]
	m.plant.load = slices.Clone(m.plant.load)
	for i := range m.plant.load {
		m.plant.load[i].blocked *= m.alone(likely)
	}
}

// alone returns the share of a read's measured time that the read would take by itself.
func (m *Model) alone(l luck) float64 { return min(1, l.of(onDisk, m.disk)/max(m.reading, 1e-9)) }
