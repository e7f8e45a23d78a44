package trace

const (
	historyBucket = int64(100e6) // ns of the first buckets
	maxHistory    = 1 << 15      // buckets
)

// HistoryPoint is what the steps did in one bucket of time. A step that spans several buckets is
// divided among them.
type HistoryPoint struct {
	Steps, Samples float32 // their parts in this bucket
	Busy           float32 // ns of compute
	StepTime       float32 // ns; over Steps, the mean step time
}

func (p *HistoryPoint) add(o *HistoryPoint) {
	p.Steps += o.Steps
	p.Samples += o.Samples
	p.Busy += o.Busy
	p.StepTime += o.StepTime
}

// History is the run in buckets of equal time, from 0 on. Its memory is bounded: when there would
// be too many buckets, they become twice as long.
type History struct {
	Bucket int64          // ns
	Points []HistoryPoint // those that no later step can change
	Open   HistoryPoint   // the bucket after them
}

// add divides a step among the buckets, with those that were missed just before it. Steps come in order
// of time.
func (h *History) add(s *Step, missed, samples int64) {
	if h.Bucket == 0 {
		h.Bucket = historyBucket
	}
	wall := s.End - s.Start
	if s.Start < 0 || wall <= 0 {
		return
	}
	for (s.End-1)/h.Bucket >= maxHistory {
		h.halve()
	}
	for b := max(s.Start/h.Bucket, int64(len(h.Points))); b <= (s.End-1)/h.Bucket; b++ {
		for int64(len(h.Points)) < b {
			h.Points = append(h.Points, h.Open)
			h.Open = HistoryPoint{}
		}
		over := min(s.End, (b+1)*h.Bucket) - max(s.Start, b*h.Bucket)
		f := float32(over) / float32(wall)
		h.Open.add(&HistoryPoint{Steps: f * float32(1+missed), Samples: f * float32(int64(s.Samples)+samples), Busy: f * float32(s.Busy), StepTime: f * float32(wall)})
	}
}

// halve makes the buckets twice as long. It makes new slices, since readers may hold the old ones.
func (h *History) halve() {
	n := len(h.Points)
	points := make([]HistoryPoint, 0, n/2+1)
	for i := 0; i+1 < n; i += 2 {
		p := h.Points[i]
		p.add(&h.Points[i+1])
		points = append(points, p)
	}
	if n%2 == 1 {
		h.Open.add(&h.Points[n-1])
	}
	h.Points = points
	h.Bucket *= 2
}
