package train

import "dev.gpustall/loader"

// Pace is where the schedule of the learning rate is.
type Pace struct {
	Updates int   `json:"updates"`         // of the optimizer, with those of the run that this one continues
	From    int   `json:"from,omitempty"`  // the update at which the schedule began
	Epoch   int32 `json:"epoch,omitempty"` // the epoch in which it began
}

// progress is how far the run is. It belongs to the step loop.
type progress struct {
	step       int32 // number of the next step
	micro      int   // batches whose gradients wait for the optimizer
	epoch      int32 // of the latest batch; -1 before the first
	epochEnded bool  // with the latest step
	pace       Pace
}

// restore continues at a point, with as many batches an update as before.
func (p *progress) restore(from *Point, accumulate int) {
	p.step, p.micro = int32(from.Step), from.Micro
	if p.pace = from.Pace; from.Pace.Updates == 0 { // an old checkpoint, which does not say
		p.pace.Updates = (from.Step - from.Micro) / accumulate
	}
}

// endsUpdate reports whether the next step ends with the optimizer.
func (p *progress) endsUpdate(accumulate int) bool { return p.micro+1 == accumulate }

// advance counts a step on a batch.
func (p *progress) advance(b *loader.Batch, accumulate int) {
	p.epoch = b.Epoch
	if b.Last {
		p.epochEnded = true
	}
	p.step++
	if p.micro = (p.micro + 1) % accumulate; p.micro == 0 {
		p.pace.Updates++
	}
}

// restartSchedule makes the schedule begin at the next update.
func (p *progress) restartSchedule() {
	p.pace.From, p.pace.Epoch = p.pace.Updates, max(0, p.epoch)
}
