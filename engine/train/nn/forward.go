package nn

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// Batch norm's constants, PyTorch's defaults.
const (
	normEps      = 1e-5
	normMomentum = 0.1
)

// cols returns the channels of value v as stored.
func (e *emitter) cols(v int) int {
	c := e.m.shape(v).C
	if v == 0 {
		return channels(c, e.c.Type)
	}
	return c
}

// rows returns the positions of value v in the batch.
func (e *emitter) rows(v int) int {
	s := e.m.shape(v)
	return e.c.Batch * s.frames() * s.H * s.W
}

func (e *emitter) activation(v int) ref { return e.tensor(e.rows(v)*e.cols(v), e.c.Type) }

// forward emits the network, from the input buffer to the logits.
func (e *emitter) forward() {
	e.phase = device.PhaseInput
	e.values[0] = e.samples()
	e.phase = device.PhaseForward
	for i, n := range e.m.nodes {
		v := i + 1
		switch n.typ {
		case convNode:
			e.convForward(i, n)
		case normNode:
			// Evaluation does not write them; any vectors will do.
			e.aux[i] = [2]ref{e.stat(n.mean), e.stat(n.variance)}
			if e.train {
				e.aux[i] = [2]ref{e.tensor(n.out.C, kernels.F32), e.tensor(n.out.C, kernels.F32)}
			}
			e.normForward(i, n, e.stat(n.mean), e.stat(n.variance))
		case maxPoolNode:
			e.values[v] = e.activation(v)
			e.aux[i][0] = e.tensor(e.rows(v)*n.out.C, kernels.U8)
			e.emit(n.name, e.pool(n), e.values[n.in], e.values[v], e.aux[i][0])
		case avgPoolNode:
			e.values[v] = e.activation(v)
			e.emit(n.name, e.average(n), e.values[n.in], e.values[v])
		case sumNode:
			e.values[v] = e.activation(v)
			op := kernels.Add{N: e.rows(v) * e.cols(v), Type: e.c.Type, ReLU: n.relu}
			e.emit(n.name, op, e.values[n.in], e.values[n.res], e.values[v])
		case linearNode:
			e.values[v] = e.tensor(e.c.Batch*n.out.C, kernels.F32)
			x := e.values[n.in]
			if e.train && e.c.Dropout > 0 {
				x = e.activation(n.in)
				e.emit("dropout", e.dropout(n), e.values[n.in], e.noise(), x)
			}
			e.aux[i][0] = x
			e.emit(n.name, e.linear(n), x, e.weight(n.weight), e.values[v], e.master(n.bias))
		}
	}
}

func (e *emitter) convForward(i int, n node) {
	y := e.activation(i + 1)
	e.values[i+1] = y
	op := kernels.ConvForward{Conv: e.geometry(n), Type: e.c.Type, Bias: n.bias >= 0, ReLU: n.relu}
	refs := []ref{e.stacked(n), e.weight(n.weight), y}
	if n.bias >= 0 {
		refs = append(refs, e.master(n.bias))
	}
	e.emit(n.name, op, refs...)
}

// stacked returns what a convolution reads: its input, or for one over frames the input's
// frames side by side.
func (e *emitter) stacked(n node) ref {
	if n.frames == 1 {
		return e.values[n.in]
	}
	op := e.stack(n)
	x := e.tensor(op.OutLen(), e.c.Type)
	e.emit(n.name, op, e.values[n.in], x)
	return x
}

func (e *emitter) stack(n node) kernels.StackFrames {
	in := e.m.shape(n.in)
	return kernels.StackFrames{N: e.c.Batch, T: in.T, Pixels: in.H * in.W, C: e.cols(n.in), Taps: n.frames, Pad: n.pad, Type: e.c.Type}
}

// samples returns the network's input: the input buffer itself where that has finished
// samples of the right type, or what the device makes of it.
func (e *emitter) samples() ref {
	s, n := e.m.In, e.c.Batch
	padded := channels(s.C, e.c.Type)
	switch {
	case e.c.DeviceTransforms:
		words := max(e.c.Record, kernels.AugLen)
		record := e.input(e.c.AugOff, 4*words*n)
		pixels := e.input(e.c.SamplesOff, n*e.c.sampleBytes(e.m))
		if e.c.Transforms != nil {
			for _, op := range e.c.Transforms(n) {
				made := e.tensor(op.Args()[2].Len, kernels.U8)
				e.emit("input", op, pixels, record, made)
				pixels = made
			}
		}
		x := e.activation(0)
		op := kernels.Augment{N: n, H: s.H, W: s.W, C: s.C, CPad: padded, Mean: e.c.Mean, Std: e.c.Std, Type: e.c.Type, Words: words}
		e.emit("input", op, pixels, record, x)
		return x
	case e.c.Type.Size() == 2:
		x := e.activation(0)
		op := kernels.PadChannels{Rows: e.rows(0), C: s.C, CPad: padded, Type: e.c.Type}
		e.emit("input", op, e.input(0, 4*n*s.elems()), x)
		return x
	}
	return e.input(0, 4*n*s.elems())
}

// normForward emits a batch norm that reads or updates the given running
// statistics.
func (e *emitter) normForward(i int, n node, mean, variance ref) {
	y := e.activation(i + 1)
	e.values[i+1] = y
	op := kernels.BatchNormForward{Rows: e.rows(i + 1), C: n.out.C, Type: e.c.Type, Eps: normEps, Momentum: normMomentum,
		Train: e.train, ReLU: n.relu, Residual: n.res >= 0}
	refs := []ref{e.values[n.in], y, e.master(n.weight), e.master(n.bias), mean, variance, e.aux[i][0], e.aux[i][1]}
	if n.res >= 0 {
		refs = append(refs, e.values[n.res])
	}
	e.emit(n.name, op, refs...)
}

// loss emits the loss and returns the logits' gradient.
func (e *emitter) loss() ref {
	last := len(e.m.nodes)
	n, c := e.c.Batch, e.m.Classes
	d := e.tensor(n*c, kernels.F32)
	e.phase = device.PhaseLoss
	op := kernels.SoftmaxXent{N: n, C: c}
	if e.train {
		op.Smoothing = e.c.Smoothing
	}
	e.emit("loss", op,
		e.values[last], e.input(e.c.LabelsOff, 4*n), fixed(e.metrics), d, e.hyper())
	return d
}

func (e *emitter) geometry(n node) kernels.Conv {
	in := e.m.shape(n.in)
	return kernels.Conv{N: e.c.Batch * n.out.frames(), H: in.H, W: in.W, C: n.frames * e.cols(n.in), K: n.out.C,
		R: n.size, S: n.size, Stride: n.stride, Pad: n.pad}
}

func (e *emitter) pool(n node) kernels.MaxPool {
	in := e.m.shape(n.in)
	return kernels.MaxPool{N: e.c.Batch, H: in.H, W: in.W, C: in.C, Size: n.size, Stride: n.stride, Pad: n.pad,
		T: in.T, SizeT: n.frames, StrideT: n.step(), Type: e.c.Type}
}

func (e *emitter) average(n node) kernels.AvgPool {
	in := e.m.shape(n.in)
	return kernels.AvgPool{N: e.c.Batch, H: in.frames() * in.H, W: in.W, C: in.C, Type: e.c.Type}
}

func (e *emitter) dropout(n node) kernels.Dropout {
	return kernels.Dropout{N: e.rows(n.in) * e.cols(n.in), Rate: e.c.Dropout, Type: e.c.Type}
}

func (e *emitter) linear(n node) kernels.Linear {
	return kernels.Linear{N: e.c.Batch, In: e.m.shape(n.in).C, Out: n.out.C, Type: e.c.Type}
}
