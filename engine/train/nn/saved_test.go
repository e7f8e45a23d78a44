package nn_test

import (
	"slices"
	"strings"
	"testing"

	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
)

func newState(t *testing.T, model string, seed int64, typ kernels.Type, accumulate int) *nn.State {
	t.Helper()
	m, err := nn.New(model, nn.Shape{H: 8, W: 8, C: 3}, 4)
	if err != nil {
		t.Fatal(err)
	}
	st, err := nn.NewState(newRefDevice(), m, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Free)
	if err := st.Configure(nn.Layout{Type: typ, Accumulate: accumulate}); err != nil {
		t.Fatal(err)
	}
	return st
}

func save(t *testing.T, st *nn.State) *nn.Saved {
	t.Helper()
	s, err := st.Save(true)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func same(a, b []nn.Tensor) bool {
	return slices.EqualFunc(a, b, func(a, b nn.Tensor) bool {
		return a.Name == b.Name && slices.Equal(a.Shape, b.Shape) && slices.Equal(a.Data, b.Data)
	})
}

// TestSavedBytes: saving a state takes the planned memory, besides what is copied from the
// device at the same time.
func TestSavedBytes(t *testing.T) {
	for _, l := range []nn.Layout{{Rule: kernels.SGD}, {Rule: kernels.Momentum, Accumulate: 2}, {Rule: kernels.Adam}, {Rule: kernels.Adadelta, Accumulate: 4}} {
		m, err := nn.New("cnn", nn.Shape{H: 8, W: 8, C: 3}, 4)
		if err != nil {
			t.Fatal(err)
		}
		st, err := nn.NewState(newRefDevice(), m, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Free()
		if err := st.Configure(l); err != nil {
			t.Fatal(err)
		}
		saved := save(t, st)
		least := 4 * m.NumParams()
		for _, v := range slices.Concat(saved.Weights, saved.Optimizer) {
			least += 4 * int64(len(v.Data))
		}
		if n := m.SavedBytes(l); n < least || n > least*105/100 {
			t.Errorf("%+v: %d bytes are planned, and it takes %d", l, n, least)
		}
	}
}

// TestSaved: a state takes over all of another one, even with another type or
// accumulation.
func TestSaved(t *testing.T) {
	for _, c := range []struct {
		name, model string
		from, to    kernels.Type
		many, less  int
	}{{"with statistics", "resnet18", kernels.F32, kernels.F32, 1, 1}, {"accumulating in fp16", "cnn", kernels.F16, kernels.F16, 4, 4}, {"fp16 to fp32", "cnn", kernels.F16, kernels.F32, 1, 1}} {
		from := newState(t, c.model, 1, c.from, c.many)
		want := save(t, from)
		for i := range want.Optimizer { // as if it had trained
			for j := range want.Optimizer[i].Data {
				want.Optimizer[i].Data[j] = float32(i+1) + float32(j%7)/8
			}
		}
		if err := from.Restore(want); err != nil {
			t.Fatal(c.name, err)
		}
		to := newState(t, c.model, 2, c.to, c.less)
		if same(save(t, to).Weights, want.Weights) {
			t.Fatal("two seeds make the same weights")
		}
		if err := to.Restore(save(t, from)); err != nil {
			t.Fatal(c.name, err)
		}
		got := save(t, to)
		if !same(got.Weights, want.Weights) || !same(got.Optimizer, want.Optimizer) {
			t.Errorf("%s: what was saved is not what was restored", c.name)
		}
	}
	// Another accumulation has the momentum in the same units.
	from := newState(t, "cnn", 1, kernels.F32, 1)
	s := save(t, from)
	s.Optimizer[0].Data[0] = 3
	to := newState(t, "cnn", 1, kernels.F32, 2)
	if err := to.Restore(s); err != nil {
		t.Fatal(err)
	}
	if got := save(t, to).Optimizer[0].Data[0]; got != 3 {
		t.Errorf("the momentum of two batches a step is %g, want 3", got)
	}
}

// TestSavedOfOthers: another optimizer's state is refused, and the error names what is
// missing.
func TestSavedOfOthers(t *testing.T) {
	st := newState(t, "cnn", 1, kernels.F32, 1)
	s := save(t, st)
	for i := range s.Optimizer {
		s.Optimizer[i].Name = strings.Replace(s.Optimizer[i].Name, "momentum_buffer", "exp_avg", 1)
	}
	if err := st.Restore(s); err == nil || !strings.Contains(err.Error(), "no tensor momentum_buffer.conv1.weight: it is another optimizer's (it keeps exp_avg)") {
		t.Error(err)
	}
	if err := st.Load([]nn.Tensor{{Name: "fc.bias", Data: make([]float32, 3)}}); err == nil || !strings.Contains(err.Error(), `"fc.bias" has 3 elements, the model's 4`) {
		t.Error(err)
	}
	if err := st.Load([]nn.Tensor{{Name: "nothing"}}); err == nil {
		t.Error("a tensor that nobody knows was taken")
	}
}
