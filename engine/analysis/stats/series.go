package stats

import "slices"

// Block sums up some consecutive steady steps. A long session merges its old steps into
// larger and larger blocks; a block may be one step.
type Block struct {
	Steps   int
	Samples int64
	Active  int64 // ns from the first step's start to the last one's end, pauses left out
	Busy    int64 // ns of compute in them

	// Squares is the sum of the squares of the steps' active ns. It keeps how much single steps
	// varied before they were merged, and so how long their correlation lasts. Where it is 0, both
	// are estimated from the blocks, more coarsely.
	Squares float64
}

// Merge joins b and the block that follows it.
func (b Block) Merge(next Block) Block {
	m := Block{
		Steps: b.Steps + next.Steps, Samples: b.Samples + next.Samples,
		Active: b.Active + next.Active, Busy: b.Busy + next.Busy,
	}
	if x, y := b.squares(), next.squares(); x > 0 && y > 0 {
		m.Squares = x + y
	}
	return m
}

// empty reports whether the block holds no time or no samples.
func (b Block) empty() bool { return b.Steps <= 0 || b.Samples <= 0 || b.Active <= 0 }

// squares returns Squares, which may be left out of a block of one step.
func (b *Block) squares() float64 {
	if b.Steps == 1 {
		return float64(b.Active) * float64(b.Active)
	}
	return b.Squares
}

// Series is a stretch of training under one setting: blocks of equally many steps in order of time,
// without the steps of a transition. The last block may be shorter.
type Series struct {
	Start  int64 // ns in the session
	Blocks []Block
}

// maxBlocks bounds the cost of Measure.
const maxBlocks = 512

// bounded returns the blocks that hold time and samples, merged pairwise until there
// are at most maxBlocks.
func (s Series) bounded() []Block {
	if len(s.Blocks) <= maxBlocks && !slices.ContainsFunc(s.Blocks, Block.empty) {
		return s.Blocks
	}
	b := slices.DeleteFunc(slices.Clone(s.Blocks), Block.empty)
	for len(b) > maxBlocks {
		n := (len(b) + 1) / 2
		for i := range n {
			if 2*i+1 < len(b) {
				b[i] = b[2*i].Merge(b[2*i+1])
			} else {
				b[i] = b[2*i]
			}
		}
		b = b[:n]
	}
	return b
}
