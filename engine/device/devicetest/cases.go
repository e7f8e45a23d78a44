package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// Case is one operation of the table. It runs on a device and is compared with its Go reference.
// Buffers are filled by the names of their arguments. Then Fill corrects those whose values must mean
// something.
type Case struct {
	Name string
	Op   kernels.Op
	Fill func(rng *rand.Rand, bufs [][]byte)
	// Alias gives an argument the buffer of another, where the operation allows it.
	Alias map[int]int
	// Tol is the largest error relative to the largest value of a buffer; 0
	// means the default of the operation's type.
	Tol float64
	// Slow cases are left out in short mode.
	Slow bool
}

// tolerance by the type of what is written. The products of a reduction are
// summed in another order than the reference's.
func tolerance(t kernels.Type) float64 {
	switch t {
	case kernels.F16:
		return 2e-3
	case kernels.BF16:
		return 1.6e-2
	case kernels.TF32:
		return 2e-3
	}
	return 2e-5
}

// computeType returns the narrowest type among an operation's operands.
func computeType(op kernels.Op) kernels.Type {
	for _, a := range op.Args() {
		switch a.Type {
		case kernels.TF32, kernels.F16, kernels.BF16:
			return a.Type
		}
	}
	return kernels.F32
}

// guard surrounds every buffer, so that a write outside it is seen.
const guard = 256

// place is one buffer between two guards on the device.
type place struct{ whole, buf device.Buffer }

func (r *rig) place(b []byte) place {
	r.Helper()
	size := (len(b)+guard-1)/guard*guard + 2*guard
	p := place{whole: r.alloc(size)}
	p.buf = p.whole.Slice(guard, len(b))
	img := make([]byte, size)
	for i := range img {
		img[i] = 0xa5
	}
	copy(img[guard:], b)
	r.put(p.whole, img)
	return p
}

func (r *rig) fetch(name string, p place) []byte {
	r.Helper()
	img := r.get(p.whole)
	n := p.buf.Size
	for i, v := range img {
		if (i < guard || i >= guard+n) && v != 0xa5 {
			r.Errorf("%s: wrote byte %d of a buffer of %d", name, i-guard, n)
			break
		}
	}
	return img[guard : guard+n]
}

func supports(dev device.Device, t kernels.Type) bool {
	for _, n := range dev.Info().Types {
		if n == t.String() {
			return true
		}
	}
	return false
}

// Run checks the case on dev.
func (c Case) Run(t *testing.T, dev device.Device) {
	t.Helper()
	c.check(newRig(t, dev))
}

func (c Case) check(r *rig) {
	if c.Slow && testing.Short() {
		r.Skip("short mode")
	}
	if !supports(r.dev, computeType(c.Op)) {
		r.Skipf("the device has no %v", computeType(c.Op))
	}
	args := c.Op.Args()
	host := c.inputs(args)
	places := make([]place, len(args))
	bufs := make([]device.Buffer, len(args))
	for i := range args {
		if j, ok := c.Alias[i]; ok {
			places[i], host[i] = places[j], host[j]
		} else {
			places[i] = r.place(host[i])
		}
		bufs[i] = places[i].buf
	}
	// It runs twice, because what a launch leaves in scratch memory must not matter.
	p := r.prepare(device.Launch{Op: c.Op, Bufs: bufs})
	r.must(r.dev.Launch(r.main, p))
	for i, a := range args {
		if _, aliased := c.Alias[i]; !aliased && !c.aliasOf(i) {
			if a.Role == kernels.InOut {
				r.must(r.dev.CopyIn(r.main, bufs[i], host[i]))
			}
		} else if !aliased {
			r.must(r.dev.CopyIn(r.main, bufs[i], host[i]))
		}
	}
	r.must(r.dev.Launch(r.main, p))
	r.finish(r.main)

	want := make([][]byte, len(args))
	for i := range host {
		if j, ok := c.Alias[i]; ok {
			want[i] = want[j]
		} else {
			want[i] = append([]byte(nil), host[i]...)
		}
	}
	c.Op.Reference(want)
	for i, a := range args {
		got := r.fetch(a.Name, places[i])
		if a.Role == kernels.In && !c.aliasOf(i) {
			if string(got) != string(host[i]) {
				r.Errorf("%s is an input and was written", a.Name)
			}
			continue
		}
		if err := c.compare(a, got, want[i]); err != nil {
			r.Errorf("%s: %v", a.Name, err)
		}
	}
}

// aliasOf reports whether another argument shares argument j's buffer.
func (c Case) aliasOf(j int) bool {
	for _, k := range c.Alias {
		if k == j {
			return true
		}
	}
	return false
}

func (c Case) compare(a kernels.Arg, got, want []byte) error {
	switch a.Type {
	case kernels.U8:
		for i := range got {
			if got[i] != want[i] {
				return fmt.Errorf("[%d] = %d, want %d", i, got[i], want[i])
			}
		}
		return nil
	case kernels.I32:
		g, w := kernels.Ints(got), kernels.Ints(want)
		for i := range g {
			if g[i] != w[i] {
				return fmt.Errorf("[%d] = %d, want %d", i, g[i], w[i])
			}
		}
		return nil
	}
	tol := c.Tol
	if tol == 0 {
		tol = max(tolerance(a.Type), tolerance(computeType(c.Op)))
	}
	return Compare(kernels.Load(got, a.Type), kernels.Load(want, a.Type), tol)
}

// Compare returns an error when got is further from want than tol times the
// largest magnitude in want. NaN agrees with NaN alone, infinity with itself.
func Compare(got, want []float32, tol float64) error {
	var scale float64
	for _, v := range want {
		if x := math.Abs(float64(v)); x > scale && !math.IsInf(x, 0) {
			scale = x
		}
	}
	worst, at := -1.0, 0
	for i, w := range want {
		g := got[i]
		d := math.Abs(float64(g) - float64(w))
		if g == w || (g != g && w != w) {
			d = 0
		} else if math.IsNaN(d) || math.IsInf(d, 0) {
			return fmt.Errorf("[%d] = %v, want %v", i, g, w)
		}
		if d > worst {
			worst, at = d, i
		}
	}
	if worst > tol*scale {
		return fmt.Errorf("[%d] = %v, want %v: off by %.2g of the largest value %.4g, allowed %.2g",
			at, got[at], want[at], worst/scale, scale, tol)
	}
	return nil
}

// inputs makes the buffers' contents. Outputs hold NaNs.
func (c Case) inputs(args []kernels.Arg) [][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	bufs := make([][]byte, len(args))
	for i, a := range args {
		// From float32 memory, so that every view is aligned.
		bufs[i] = floatBytes(make([]float32, (a.Size()+3)/4))[:a.Size()]
		if a.Role == kernels.Out {
			for j := range bufs[i] {
				bufs[i][j] = 0xff
			}
			continue
		}
		fill(rng, a, bufs[i])
	}
	if c.Fill != nil {
		c.Fill(rng, bufs)
	}
	return bufs
}

// fill writes values that fit the name of an argument.
func fill(rng *rand.Rand, a kernels.Arg, b []byte) {
	switch a.Type {
	case kernels.U8:
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return
	case kernels.I32:
		return // the case's Fill knows the range
	}
	v := make([]float32, a.Len)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	switch a.Name {
	case "gamma", "running var", "saved invstd", "running_var", "saved_invstd", "invstd", "var":
		for i := range v {
			v[i] = 0.5 + float32(rng.Float64())
		}
	case "hyper":
		v[kernels.HyperLR], v[kernels.HyperMomentum], v[kernels.HyperWeightDecay] = 0.1, 0.9, 5e-4
		v[kernels.HyperLossScale], v[kernels.HyperSkip], v[kernels.HyperGrowth] = 8, 0, 3
		v[kernels.HyperGradScale] = 4 // as after a step that doubled the loss scale
		v[kernels.HyperStep], v[kernels.HyperFilled1], v[kernels.HyperFilled2] = 3, 1-0.9*0.9*0.9, 1-0.99*0.99*0.99
		v[kernels.HyperBatches], v[kernels.HyperFresh], v[kernels.HyperEps], v[kernels.HyperLRDecay] = 2, 0.01, 1e-3, 0.01
	case "sum", "square_avg", "acc_delta", "exp_avg_sq": // squares
		for i := range v {
			v[i] *= v[i]
		}
	}
	kernels.Store(b, a.Type, v)
}
