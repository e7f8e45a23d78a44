package nn

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// ref is an argument of a launch: a fixed buffer, or tensor t-1 of the list.
type ref struct {
	buf device.Buffer
	t   int // 0 for a fixed buffer
}

func (r ref) none() bool { return r.t == 0 && r.buf.Size == 0 }

func fixed(b device.Buffer) ref { return ref{buf: b} }

// call is a launch before its tensors have a place.
type call struct {
	op    kernels.Op
	refs  []ref
	layer string
	phase string
}

// list is a sequence of launches before their tensors have a place.
type list struct {
	calls   []call
	tensors []tensor
	phase   string // of what is emitted
}

// tensor adds n elements of type t.
func (l *list) tensor(n int, t kernels.Type) ref {
	l.tensors = append(l.tensors, tensor{size: n * t.Size(), first: -1})
	return ref{t: len(l.tensors)}
}

// emit adds a launch and extends its tensors' lives to it.
func (l *list) emit(layer string, op kernels.Op, refs ...ref) {
	for _, r := range refs {
		if r.t == 0 {
			continue
		}
		t := &l.tensors[r.t-1]
		if t.first < 0 {
			t.first = len(l.calls)
		}
		t.last = len(l.calls)
	}
	l.calls = append(l.calls, call{op, refs, layer, l.phase})
}

// resolve turns the list into launches on the activations' memory, after pack. A nil list
// has none.
func (l *list) resolve(activations device.Buffer) []device.Launch {
	if l == nil {
		return nil
	}
	out := make([]device.Launch, len(l.calls))
	for i, c := range l.calls {
		bufs := make([]device.Buffer, len(c.refs))
		for j, r := range c.refs {
			bufs[j] = r.buf
			if r.t > 0 {
				t := l.tensors[r.t-1]
				bufs[j] = activations.Slice(t.off, t.size)
			}
		}
		out[i] = device.Launch{Op: c.op, Bufs: bufs, Layer: c.layer, Phase: c.phase}
	}
	return out
}

// emitter walks the model once forward and once backward, and writes a list.
type emitter struct {
	list
	m       *Model
	st      *State // nil when only the memory is to be known
	c       PlanConfig
	train   bool
	metrics device.Buffer

	values []ref    // the model's values: 0 the input
	aux    [][2]ref // per node: saved mean and invstd, the pool's index, or what a linear layer read
	grads  []ref    // gradients of values
	users  []int    // how many nodes read a value
}

// lists are the lists of a plan, nil where it has none, and the bytes of activations that
// they share.
type lists struct {
	train, accumulate, eval *list
	memory                  int
}

func (m *Model) lists(st *State, c PlanConfig, metrics device.Buffer) lists {
	var out lists
	if !c.Test {
		train := m.step(st, c, metrics)
		train.optimize()
		out.train = &train.list
	}
	if !c.Test && c.Accumulate > 1 {
		accumulate := m.step(st, c, metrics)
		accumulate.sum()
		out.accumulate = &accumulate.list
	}
	eval := m.emitter(st, c, metrics, false)
	eval.forward()
	eval.loss()
	out.eval = &eval.list
	for _, l := range []*list{out.train, out.accumulate, out.eval} {
		if l != nil {
			out.memory = max(out.memory, pack(l.tensors))
		}
	}
	return out
}

func (m *Model) emitter(st *State, c PlanConfig, metrics device.Buffer, train bool) *emitter {
	e := &emitter{m: m, st: st, c: c, train: train, metrics: metrics}
	n := len(m.nodes)
	e.values, e.grads, e.users = make([]ref, n+1), make([]ref, n+1), make([]int, n+1)
	e.aux = make([][2]ref, n)
	for _, nd := range m.nodes {
		e.users[nd.in]++
		if nd.res >= 0 {
			e.users[nd.res]++
		}
	}
	return e
}

// step emits a training step up to the parameters' gradients.
func (m *Model) step(st *State, c PlanConfig, metrics device.Buffer) *emitter {
	e := m.emitter(st, c, metrics, true)
	e.forward()
	e.grads[len(m.nodes)] = e.loss()
	e.backward()
	if c.Dropout > 0 {
		e.emit("dropout", kernels.NextNoise{}, e.noise())
	}
	return e
}

// weight, master, grad, stat, hyper and noise return a buffer of the state, or an empty ref
// without a state. A weight is in the compute type.
func (e *emitter) weight(i int) ref {
	if e.st == nil {
		return ref{}
	}
	return fixed(e.st.weight(i))
}

// master returns a float32 parameter: a bias, or a batch norm's gamma or beta.
func (e *emitter) master(i int) ref {
	if e.st == nil {
		return ref{}
	}
	return fixed(e.st.places.of(e.st.weights, i))
}

func (e *emitter) grad(i int) ref {
	if e.st == nil {
		return ref{}
	}
	return fixed(e.st.places.of(e.st.grads, i))
}

func (e *emitter) stat(i int) ref {
	if e.st == nil {
		return ref{}
	}
	return fixed(e.st.places.ofStat(e.st.stats, i))
}

func (e *emitter) hyper() ref {
	if e.st == nil {
		return ref{}
	}
	return fixed(e.st.hyper.buf)
}

func (e *emitter) noise() ref {
	if e.st == nil {
		return ref{}
	}
	return fixed(e.st.noise)
}

// input returns a part of the batch's buffer.
func (e *emitter) input(off, n int) ref {
	if e.st == nil {
		return ref{}
	}
	return fixed(e.c.Input.Slice(off, n))
}
