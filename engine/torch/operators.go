package torch

import (
	"bytes"
	"cmp"
	"slices"

	"dev.gpustall/engine/trace"
)

// The limits of a table of operators. A trace of more than a few steps exceeds them, and gets no table.
const (
	maxOperators = 1 << 20
	maxNames     = 1 << 14
)

// operator is one call of an operator of PyTorch on the host, or a range that the user named.
type operator struct {
	span
	thread   int64
	external int64
	name     int32
	named    bool // a range named by the user or by PyTorch's own Python, not an operator
}

// names numbers the names of operators and kernels.
type names struct {
	of  []string
	all map[string]int32
}

// number returns the number of a name; -1 where there are too many names.
func (n *names) number(name []byte) int32 {
	if i, ok := n.all[string(name)]; ok {
		return i
	}
	if len(n.of) == maxNames {
		return -1
	}
	if n.all == nil {
		n.all = map[string]int32{}
	}
	i := int32(len(n.of))
	n.of = append(n.of, string(name))
	n.all[n.of[i]] = i
	return i
}

// operate stores a call of an operator, while there is room.
func (r *recording) operate(e *event) {
	if len(r.operators) == maxOperators {
		r.tooMany = true
		return
	}
	r.operators = append(r.operators, operator{e.at, e.tid, e.external, r.names.number(e.name), e.annotated})
	r.tooMany = r.tooMany || r.operators[len(r.operators)-1].name < 0
}

// table returns how long operators took in the steps. With a device that is the time of their kernels
// and copies. Otherwise it is the host's time in them, without the operators that they call. It returns
// nothing where the trace does not tell.
func (r *recording) table(steps []window) []trace.OpTime {
	if r.tooMany {
		return nil
	}
	slices.SortFunc(r.operators, func(a, b operator) int {
		return cmp.Or(cmp.Compare(a.thread, b.thread), cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	t := &table{names: &r.names, at: map[opKey]int{}}
	within := func(at int64) bool {
		i, _ := slices.BinarySearchFunc(steps, at+1, func(w window, at int64) int { return cmp.Compare(w.start, at) })
		return i > 0 && at < steps[i-1].end
	}
	type frame struct {
		operator
		self  int64
		phase string
	}
	launched := map[int64]frame{} // the innermost operator, by external id
	var stack []frame
	pop := func() {
		f := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !f.named && len(r.device) == 0 && within(f.start) {
			t.add(opKey{f.name, -1, f.phase}, f.self)
		}
	}
	for i := range r.operators {
		o := &r.operators[i]
		for len(stack) > 0 && (stack[len(stack)-1].thread != o.thread || stack[len(stack)-1].end <= o.start) {
			pop()
		}
		f := frame{*o, o.length(), phaseOf(r.names.of[o.name])}
		if len(stack) > 0 {
			outer := &stack[len(stack)-1]
			outer.self -= span{o.start, min(o.end, outer.end)}.length()
			f.phase = cmp.Or(f.phase, outer.phase)
		}
		if !o.named && o.external != absent {
			launched[o.external] = f
		}
		stack = append(stack, f)
	}
	for len(stack) > 0 {
		pop()
	}
	for i := range r.device {
		d := &r.device[i]
		if d.name < 0 {
			return nil
		}
		if f, ok := launched[d.external]; d.matched && ok {
			t.add(opKey{f.name, d.name, f.phase}, d.length())
		} else if d.matched {
			t.add(opKey{d.name, -1, ""}, d.length())
		}
	}
	slices.SortStableFunc(t.rows, func(a, b trace.OpTime) int { return cmp.Compare(b.Total, a.Total) })
	return t.rows
}

// phaseOf returns the phase of a step that a range marks, or "" where it marks none.
func phaseOf(name string) string {
	switch b := []byte(name); {
	case bytes.HasPrefix(b, []byte("autograd::engine::evaluate_function")):
		return "backward"
	case bytes.HasPrefix(b, []byte("Optimizer.step")):
		return "optimizer"
	}
	return ""
}

// table sums the time of calls by row.
type table struct {
	names *names
	at    map[opKey]int
	rows  []trace.OpTime
}

// opKey identifies the row of a call.
type opKey struct {
	name, kernel int32 // kernel is -1 without one
	phase        string
}

func (t *table) add(k opKey, ns int64) {
	i, ok := t.at[k]
	if !ok {
		i = len(t.rows)
		t.at[k] = i
		row := trace.OpTime{Name: t.names.of[k.name], Phase: k.phase, Min: ns}
		if k.kernel >= 0 {
			row.Variant = t.names.of[k.kernel]
		}
		t.rows = append(t.rows, row)
	}
	row := &t.rows[i]
	row.Calls++
	row.Total += ns
	row.Min, row.Max = min(row.Min, ns), max(row.Max, ns)
}
