package trace

// Prediction is what was expected of a segment's knobs before they were put in force. The
// zero value is none.
type Prediction struct {
	Base   float64 // samples/s, measured in the steps that it follows from
	Rate   float64 // samples/s
	Lo, Hi float64 // the interval of Rate

	Data           float64 // share of the time in which the device waits for data, 0 to 1
	DataLo, DataHi float64
}

// Made reports whether there is one.
func (p *Prediction) Made() bool { return p.Rate > 0 && p.Base > 0 }
