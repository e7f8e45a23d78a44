package predict

import (
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// handover is what it costs to hand a batch from a worker process of PyTorch's to the step loop, in ns.
type handover struct {
	taking  float64 // of the loop's: as measured where there are workers, 0 without
	waking  float64 // that the loop, which sleeps meanwhile, then has no core for; measured too
	take    float64 // as taking is assumed where there are none, for what a batch is made of
	send    float64 // of a core in the worker's process, which is assumed always
	collate float64 // share of the measured loading that sending is in, at the most
}

// What handing over takes before it was measured: so much for a batch, for each of its tensors, whose file
// descriptor the loop asks the worker for, and for each byte, which lies in memory that is new to both.
// docs/results/predict.md says what of.
const (
	takeBatch, takeTensor, takeByte = 100e3, 300e3, 0.15
	sendBatch, sendTensor, sendByte = 100e3, 230e3, 0.7
)

// What of it is so if luck is bad, likely, and good: taking, which waits for the worker's process as well, and
// how much of the loop's waits for a core go with it.
var (
	handingOver = [3]float64{2.5, 1, 0.5}
	rousing     = [3]float64{0.3, 0.8, 1}
)

// cooling is how much longer a step computes that comes behind a hand-over, in ns: what it needs is not in
// the core's caches any more. It is mostCooling of the step at the most.
var cooling = [3]float64{0, 50e3, 200e3}

const mostCooling = 0.4

// fewTensors are those of a batch of which nobody told: an input and a label.
const fewTensors = 2

func handoverOf(host []knob.Setting, b *attribution.Breakdown, l *Loading, workers int) (h handover) {
	tensors, bytes := trace.BatchIn(host)
	if tensors == 0 {
		tensors = fewTensors
	}
	h.take = takeBatch + takeTensor*tensors + takeByte*bytes
	h.send = sendBatch + sendTensor*tensors + sendByte*bytes
	if workers > 0 {
		h.taking = float64(b.Stall[trace.CauseDataLoader]) / float64(b.Steps)
		h.waking = float64(b.Stall[trace.CauseHost]) / float64(b.Steps)
		h.collate = l.Part(trace.KindCollate)
	}
	return h
}

// handOver makes a plant that has workers, and had none, hand batches over; one that has none any more does not.
func (m *Model) handOver(p *plant, l luck) {
	h, send, cold := &m.handing, l.of(handingOver)*m.handing.send, (-l).of(cooling)
	if p.workers == 0 {
		cold = -l.of(cooling)
		p.gap = max(0, p.gap-h.taking-l.of(rousing)*h.waking)
		all := m.loading.Alone()
		send = -min(h.collate*all, (-l).of(handingOver)*h.send)
	} else if take := l.of(handingOver) * h.take; p.serial {
		p.gap += take
	} else {
		p.host += take // which hides behind what the device computes
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
