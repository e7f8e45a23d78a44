package cuda

import "slices"

// Hopper's own matrix products (conv_wgmma.h) are in modules for sm_90a, which no
// other compute capability runs, and are further variants behind all others: they
// have not run on a GPU yet, so they are taken only where an autotuner has found
// them right and faster.

const (
	wgmmaAlign       = 1024 // room to begin the tiles at a multiple of as many bytes
	maxWgmmaVariants = 3    // with a split depth, of one operation
)

func wgmma(m, n, stages, threads, resident int, rate float64) tile {
	return tile{M: m, N: n, K: 64, stages: stages, threads: threads, resident: resident, rate: rate, wgmma: true}
}

// The tiles of conv_wgmma_tiles.h.
var (
	wgmmaTiles = []tile{
		wgmma(128, 256, 4, 256, 1, 1),
		wgmma(256, 128, 4, 256, 1, 1),
		wgmma(128, 128, 3, 256, 2, 0.9),
		wgmma(256, 64, 4, 256, 1, 0.7),
		wgmma(128, 64, 4, 256, 2, 0.65),
	}
	wgmmaWideTiles = []tile{ // weight gradients only
		wgmma(64, 256, 4, 256, 1, 0.7),
		wgmma(64, 128, 4, 256, 2, 0.65),
	}
)

// wgmmaTiles is the tiles that fit c. tensor says that its channels allow tensor
// cores.
func (c convPlan) wgmmaTiles(tensor bool) []tile {
	if c.t.SM != 90 || !tensor || c.typ.Size() != 2 {
		return nil
	}
	tiles := slices.Clone(wgmmaTiles)
	if c.dir == convBackwardWeight {
		tiles = append(tiles, wgmmaWideTiles...)
	}
	return slices.DeleteFunc(tiles, func(l tile) bool { return c.shared(l) > c.t.sharedLimit() })
}
