package predict

import (
	"math"
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// handover is what it costs to hand over a batch from a PyTorch worker process to the step loop, in
// ns.
type handover struct {
	taking  float64 // the loop's time, as measured; 0 where there are no workers
	drawing float64 // the loop's time for the indices of a batch, as measured; no knob changes it
	waking  float64 // time without a core when the loop wakes up for a batch, as measured
	take    float64 // the assumed time of taking where there are no workers, for a batch of this content
	send    float64 // core time in the worker's process, always assumed
	collate float64 // the largest share of the measured loading that sending can have
	streams float64 // how much of loading is moving bytes rather than computing, 0 to 1
	lack    float64 // how long our threads wait for a core for each ns that they have one, because of others in our group
}

// These are the costs of handing over a batch in ns, assumed until they are measured. They are
// for the batch, for each of its tensors and for each of its bytes. take is the step loop's
// time, and send is the worker's core time. The loop asks the worker for the file descriptor of
// each tensor. The bytes lie in memory that is new to both processes. docs/results/predict.md
// says where the numbers come from.
const (
	takeBatch, takeTensor, takeByte = 100e3, 300e3, 0.15
	sendBatch, sendTensor, sendByte = 100e3, 230e3, 0.7
)

var (
	// handingOver multiplies the times above: for bad luck, likely, and for good luck. The range
	// is wide, because taking a batch also waits for the worker's process.
	handingOver = [3]float64{2.5, 1, 0.5}

	// rousing is the share of the loop's waits for a core that is saved when no batch is handed
	// over.
	rousing = [3]float64{0.3, 0.8, 1}

	// keeping is how much of the loop's wait for a core, while it takes a batch, is left when no batch is handed over: the
	// loop then waits elsewhere.
	keeping = [3]float64{1, 0.5, 0}
)

// forking is what starting a worker takes the loop, and what ending it does, in ns of a core, until that is measured. A
// worker that is not forked imports the script and PyTorch anew, which takes importing times as long.
var forking = [3]float64{50e6, 16e6, 10e6}

const importing = 50

// settling is what a forked worker takes of a core by itself at its start and at its end, in ns, until that is measured.
var settling = [3]float64{60e6, 15e6, 8e6}

// starting is how many times as long as in the window it takes to start a worker, as far as that computes.
var starting = [3]float64{2, 1.2, 0.8}

// cooling is how much longer a step computes after a hand-over, in ns, because its data is no
// longer in the core's caches. It is at most the share mostCooling of the step.
var cooling = [3]float64{0, 50e3, 200e3}

const mostCooling = 0.4

// streaming is how many bytes of a batch a core makes in a ns where it does little but move them: to make
// a batch it moves each byte several times. Images of which a core decodes 300 a second are a twentieth of that.
const streaming = 0.5

// fewTensors is assumed of a batch whose tensors are not known: an input and a label.
const fewTensors = 2

func handoverOf(host []knob.Setting, b *attribution.Breakdown, l *Loading, c *Cores, workers int) (h handover) {
	if c.Crowded() && c.Rivals > 0 {
		w := min(c.Waiting, 0.9)
		h.lack = w / (1 - w) * min(1, c.Rivals/c.Others)
	}
	tensors, bytes := trace.BatchIn(host)
	if tensors == 0 {
		tensors = fewTensors
	}
	h.take = takeBatch + takeTensor*tensors + takeByte*bytes
	h.send = sendBatch + sendTensor*tensors + sendByte*bytes
	h.drawing = float64(b.Stall[trace.CauseSampler]) / float64(b.Steps)
	if l.Batch.Core > 0 {
		h.streams = min(1, bytes/l.Batch.Core/streaming)
	}
	if workers > 0 {
		h.taking = float64(b.Stall[trace.CauseDataLoader]) / float64(b.Steps)
		h.waking = float64(b.Stall[trace.CauseHost]) / float64(b.Steps)
		h.collate = l.Part(trace.KindCollate)
	}
	return h
}

// takeReady makes the loop take as long for a batch as it takes where one is ready. Where the loop waits for most
// batches, that time is a part of the wait, and was not measured. Of a longer queue, many batches are taken while the loop
// waits for another. Where workers end with an epoch, what was measured includes that.
func (m *Model) takeReady(p *plant, to *settings, l luck) {
	h := &m.handing
	taking, lack := h.taking, l.of(onHandover, lacking)*h.lack
	switch waits := m.base.data >= little; {
	case to.persistent && !m.now.persistent && to.workers == m.now.workers:
		taking = min(taking, l.of(onHandover, lasting)*h.take*(1+lack))
	case !waits:
	case to.ahead() > m.now.ahead() && to.workers == m.now.workers:
		taking *= l.of(onHandover, together)
	default:
		taking = max(taking, l.of(onHandover, handingOver)*h.take)
		p.host += max(0, h.take*(1+lack)-taking)
	}
	p.gap = max(0, p.gap+taking-h.taking)
}

var (
	// lacking is the part of the usual wait for a core with which a batch is handed over: both sides wake up for it, and who
	// has slept gets a core sooner.
	lacking = [3]float64{1, 0.6, 0.2}

	// together is the part of the measured time of taking a batch that still holds up the loop with a longer queue.
	together = [3]float64{1, 0.4, 0.1}

	// lasting is how long it takes to hand over a batch from workers that are kept, as a multiple of handover.take.
	lasting = [3]float64{2.5, 1.5, 1}
)

// wakingForCore is the part of the measured wake-ups in which the loop waits for a core. In the rest it waits for a late batch.
const wakingForCore = 0.8

// beside returns how long the loop waits for a core when it wakes up for a batch, because others in our group have the cores.
func (h *handover) beside() float64 {
	if h.lack == 0 {
		return 0
	}
	return wakingForCore * h.waking
}

// wakings is how often handing a batch over makes worker and loop wait for a core, where there were no workers to measure it.
const wakings = 4

// holding is how many times as long as in the window a worker that computes holds up the taking of its batches.
var holding = [3]float64{1.3, 1, 0.7}

// At least so many of the batches, and such a share of them, must have been taken while their worker was at another, and as
// many while it idled, to tell how long the one takes more than the other.
const fewHeld, shareHeld = 5, 0.1

// heldOf returns how much longer the loop takes for a batch that lies ready while the batch's worker is at another, than
// while it idles. The loop asks the worker's process for the batch, and what computes in Python there does not let
// go of the interpreter at once.
func heldOf(spans []trace.Span, steps []trace.Step) float64 {
	type interval struct {
		from, to int64
		track    trace.TrackID
	}
	join := func(of map[int32]interval, n int32, s *trace.Span) {
		w, seen := of[n]
		if !seen {
			w = interval{s.Start, s.End, s.Track}
		}
		of[n] = interval{min(w.from, s.Start), max(w.to, s.End), s.Track}
	}
	made, waits := map[int32]interval{}, map[int32]interval{} // by batch, and by step
	for i := range spans {
		switch s := &spans[i]; {
		case s.Kind.IsPhase() && s.Track >= trace.TrackWorker0 && int(s.Track) < trace.NumTracks:
			join(made, s.Batch, s)
		case s.Kind == trace.KindNext && s.Track == trace.TrackStep:
			join(waits, s.Step, s)
		}
	}
	var took, n [2]float64 // by whether the worker was at another batch
	for i := range steps {
		w, ready := made[steps[i].Batch]
		wait, waited := waits[steps[i].Index]
		if !ready || !waited || w.to >= wait.from {
			continue
		}
		busy := int64(0)
		for b := steps[i].Batch + 1; b <= steps[i].Batch+most; b++ {
			o, known := made[b]
			if !known || o.from >= wait.to {
				break
			}
			if o.track == w.track {
				busy += max(0, min(o.to, wait.to)-max(o.from, wait.from))
			}
		}
		at := 0
		if 2*busy > wait.to-wait.from {
			at = 1
		}
		took[at], n[at] = took[at]+float64(wait.to-wait.from), n[at]+1
	}
	if min(n[0], n[1]) < max(fewHeld, shareHeld*(n[0]+n[1])) {
		return 0
	}
	return max(0, took[1]/n[1]-took[0]/n[0])
}

// longer returns how many times longer b workers take to start than a workers. The loop starts one after another. Then all
// begin at the same time: they take as long as one of them, or longer where they compute and share the cores.
func (s *beginning) longer(a, b int, luck luck) float64 {
	turns := float64(b) / float64(a)
	if s.starts <= 0 || s.each <= 0 {
		return turns
	}
	forks := forking[1]
	if a > 1 {
		forks = max(0, s.starts-s.each) / float64(a-1)
	}
	beside := min(1, s.each/s.starts) + float64(b-1)*forks/s.starts
	turns = beside + s.core*(turns-beside)
	return luck.of(onStart, [3]float64{max(turns, beside), beside, min(turns, beside)})
}

// tried is for how long, in ns, settings are in force until they are judged: one side of an A/B test.
const tried = 10e9

// chance returns by how much the logarithm of a rate differs with fewer, and with more, starts of workers than usual. In a
// short time few epochs begin, so how many do is chance. A step takes so many ns.
func (p *plant) chance(step float64) (fewer, more float64) {
	epoch := float64(p.epoch) * step
	if p.workers == 0 || p.persistent || epoch <= 0 {
		return 0, 0
	}
	varies := min(0.9, p.start/epoch) * min(1, math.Sqrt(epoch/tried))
	return -math.Log(1 - varies), -math.Log(1 + varies)
}

// begin changes how long workers take to start at the beginning of an epoch.
func (m *Model) begin(p *plant, workers int, l luck) {
	if m.now.workers > 0 {
		p.start *= (1 + m.begins.core*(l.of(onStart, starting)-1)) * m.begins.longer(m.now.workers, workers, l)
		return
	}
	n, cores := float64(workers), max(1, p.cores)
	fork, settle := 1., max(1, n/cores)
	if c := &m.Capacity.Cores; c.Crowded() { // the new threads share the cores with others', and with each other
		others := 1 / (1 - min(c.Waiting, 0.95))
		fork, settle = others+n/2/cores, others+n/cores
	}
	p.start = l.of(onStart, forking)*n*fork + l.of(onStart, settling)*settle
	if m.imports {
		p.start *= importing
	}
}

// handOver adds the costs of handing over to a plant that gets workers and had none. It removes
// them from a plant that had workers and gets none.
func (m *Model) handOver(p *plant, l luck) {
	h, send, cold := &m.handing, l.of(onHandover, handingOver)*m.handing.send, l.turned().of(onHandover, cooling)
	if p.workers == 0 {
		cold = -l.of(onHandover, cooling)
		kept := 0.0 // of taking: the loop's waits for a core, which others have
		if c := &m.Capacity.Cores; c.Crowded() {
			kept = l.of(onHandover, keeping) * min(c.Waiting, 0.95)
		}
		p.gap = max(0, p.gap-(1-kept)*h.taking-l.of(onHandover, rousing)*h.waking)
		all := m.loading.Alone()
		send = -min(h.collate*all, l.turned().of(onHandover, handingOver)*h.send)
	} else if take := l.of(onHandover, handingOver) * h.take; p.serial {
		p.gap += take
		p.host += wakings * l.of(onHandover, lacking) * h.lack * h.take
	} else {
		p.host += take // this overlaps what the device computes
	}
	if p.serial {
		p.compute = slices.Clone(p.compute)
		for i, ns := range p.compute {
			p.compute[i] += max(cold, -mostCooling*ns)
		}
	}
	loads := make([]demand, len(p.load))
	for i, d := range p.load {
		loads[i] = demand{max(0, d.core+send), d.blocked}
	}
	p.load = loads
}
