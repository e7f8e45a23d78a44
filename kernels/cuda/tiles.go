package cuda

import (
	"fmt"
	"strings"
)

// tile is the shape of a convolution kernel's blocks: M x N results, the depth in
// steps of K.
type tile struct {
	M, N, K  int
	stages   int     // depth tiles being loaded or used at once; 0: CUDA cores
	vector   int     // elements a load brings, for CUDA cores
	threads  int     // of a block
	resident int     // blocks a multiprocessor holds, by their registers
	rate     float64 // share of the peak rate that a warp reaches; an estimate
	wgmma    bool    // by Hopper's wgmma
	unfenced bool    // without its proxy fence: an experiment
}

func (t tile) String() string {
	switch {
	case t.wgmma:
		name := fmt.Sprintf(familyWgmma+"%dx%dx%ds%d", t.M, t.N, t.K, t.stages)
		if t.unfenced {
			name += "u"
		}
		return name
	case t.stages == 0:
		return fmt.Sprintf(familySIMT+"%dx%dv%d", t.M, t.N, t.vector)
	}
	return fmt.Sprintf(familyMMA+"%dx%dx%ds%d", t.M, t.N, t.K, t.stages)
}

func mma(m, n, k, stages, threads, resident int, rate float64) tile {
	return tile{M: m, N: n, K: k, stages: stages, threads: threads, resident: resident, rate: rate}
}

func simt(m, n, vector, threads, resident int, rate float64) tile {
	return tile{M: m, N: n, K: 8, vector: vector, threads: threads, resident: resident, rate: rate}
}

// The tiles of conv_tiles.h and conv_tiles_simt.h.
var (
	tiles16 = []tile{
		mma(128, 128, 32, 4, 128, 2, 1),
		mma(128, 128, 64, 3, 256, 1, 0.9),
		mma(128, 256, 32, 3, 256, 1, 1),
		mma(256, 64, 32, 4, 128, 2, 1),
		mma(128, 64, 32, 4, 128, 3, 0.85),
		mma(128, 64, 64, 3, 128, 2, 0.85),
		mma(64, 64, 32, 4, 128, 4, 0.65),
	}
	tilesTuring = []tile{
		mma(128, 128, 32, 2, 256, 1, 0.9),
		mma(128, 64, 32, 2, 128, 2, 0.85),
		mma(64, 64, 32, 2, 128, 4, 0.65),
	}
	wideTile16 = mma(64, 128, 32, 4, 128, 3, 0.85) // weight gradients only
	tilesTF32  = []tile{
		mma(128, 128, 16, 4, 128, 2, 1),
		mma(128, 64, 16, 4, 128, 3, 0.85),
		mma(64, 64, 16, 4, 128, 4, 0.65),
	}
	simtTiles32 = []tile{
		simt(128, 128, 4, 256, 1, 1),
		simt(128, 64, 4, 128, 3, 0.95),
		simt(64, 64, 4, 64, 6, 0.9),
	}
	simtTile16 = simt(128, 64, 4, 128, 3, 0.95)
	simtTile1  = simt(64, 64, 1, 64, 6, 0.5) // any number of channels
)

// Hopper's own matrix products (conv_wgmma.h) are in modules for sm_90a, which only
// compute capability 9.0 runs. They come last in the list of variants, because they
// have not run on a GPU yet: only an autotuner that has found them right and faster
// chooses them.

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

// unfenced returns the tile without the proxy fence of each turn. The manual asks for the fence, so
// this tile must not train even if a trial finds it right: it is in no list of variants.
var unfenced = func() tile {
	t := wgmma(128, 128, 3, 256, 2, 0.9)
	t.unfenced = true
	return t
}()

// The families of a convolution's variants, by the instructions that multiply.
const (
	familyWgmma = "wgmma"
	familyMMA   = "mma"
	familySIMT  = "simt" // CUDA cores
)

// Families returns the families of all variants.
func Families() []string { return []string{familyWgmma, familyMMA, familySIMT} }

// Family returns the family of the variant called config, or nothing for a config that is not a
// convolution's.
func Family(config string) string {
	for _, f := range Families() {
		if strings.HasPrefix(config, f) {
			return f
		}
	}
	return ""
}
