package trace

// Cached is what the operating system's page cache held of the data set's files.
type Cached struct {
	Kept, Of int64 // bytes of the files that were looked at
	Files    int
	More     bool // there are more files than were looked at
	Dropped  bool // the page cache had been asked to forget them
}

// Share returns the part of the bytes that was in the page cache, 0 to 1.
func (c *Cached) Share() float64 { return float64(c.Kept) / float64(c.Of) }

// State says how a run on this data began: cold, warm or partly so.
func (c *Cached) State() string {
	switch share := c.Share(); {
	case share < 0.05:
		return "cold"
	case share > 0.95:
		return "warm"
	default:
		return "partly warm"
	}
}
