package checkpoint

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/safetensors"
	"dev.gpustall/loader"
)

func model(t *testing.T, name string, classes int) *nn.Model {
	t.Helper()
	m, err := nn.New(name, nn.Shape{H: 8, W: 8, C: 3}, classes)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// point returns the point of a run of a model, with made-up numbers.
func point(m *nn.Model) *train.Point {
	p := &train.Point{Step: 12, Micro: 1, Pace: train.Pace{Updates: 6, From: 3, Epoch: 1}, Loader: loader.Position{Samples: 50, Epoch: 2, Place: 20, Again: []loader.At{{From: 4, To: 8}}, Shuffle: true}, State: &nn.Saved{Accumulate: 2, Drawn: 9}}
	for i, w := range slices.Concat(m.Params(), m.Stats()) {
		v := make([]float32, w.Len())
		for j := range v {
			v[j] = float32(i) + float32(j)/64
		}
		p.State.Weights = append(p.State.Weights, nn.Tensor{Name: w.Name, Shape: w.Shape, Data: v})
	}
	p.State.Optimizer = []nn.Tensor{{Name: "momentum_buffer.fc.bias", Shape: []int{2}, Data: []float32{1, 2}}}
	return p
}

// TestRoundTrip: a checkpoint is read as it was written.
func TestRoundTrip(t *testing.T) {
	path := Path(t.TempDir(), "a-run", 12)
	m := model(t, "cnn", 4)
	want := point(m)
	if err := Write(path, Run{Session: "a-run", Model: "cnn", Seed: 7, Knobs: []knob.Setting{{Name: "batch_size", Value: "4"}}}, want); err != nil {
		t.Fatal(err)
	}
	run, got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if run.Seed != 7 || len(run.Knobs) != 1 || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v %+v, want %+v", run, got, want)
	}
	if err := Fits(path, got.State, m); err != nil {
		t.Error(err)
	}
	if err := Fits(path, got.State, model(t, "cnn", 5)); err == nil || !strings.Contains(err.Error(), "tensor fc.weight is 4x128, and that of cnn for samples of 8x8x3 is 5x128") {
		t.Error(err)
	}
}

// TestInit: weights are taken by torchvision's names. A head for other classes stays as
// it is, and what does not fit is named.
func TestInit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.safetensors")
	m := model(t, "cnn", 4)
	p := point(m)
	if err := Save(path, p); err != nil {
		t.Fatal(err)
	}
	ts, said, err := Init(path, m)
	if err != nil || len(ts) != len(m.Params()) || strings.Contains(said, "new") {
		t.Errorf("%d tensors, %q, %v", len(ts), said, err)
	}
	ts, said, err = Init(path, model(t, "cnn", 7))
	if err != nil || len(ts) != len(m.Params())-2 || !strings.Contains(said, "the head (fc.weight, fc.bias) is new: the file has 4 classes, the data 7") {
		t.Errorf("%d tensors, %q, %v", len(ts), said, err)
	}
	if _, _, err = Init(path, model(t, "resnet18", 4)); err == nil || !strings.Contains(err.Error(), "tensor conv1.weight is 32x3x3x3, and that of resnet18") {
		t.Error(err)
	}
	p.State.Weights = append(p.State.Weights[1:], nn.Tensor{Name: "extra", Shape: []int{}, Data: []float32{1}})
	if err := Save(path, p); err != nil {
		t.Fatal(err)
	}
	if _, _, err = Init(path, m); err == nil || !strings.Contains(err.Error(), "it has no tensor conv1.weight, which cnn needs; it has conv1.bias") {
		t.Error(err)
	}
}

// TestRefused: a file that is no checkpoint, or of a later format, is refused with that
// reason.
func TestRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.safetensors")
	for _, c := range []struct{ about, says string }{
		{"", "it holds weights and no checkpoint"}, {"{", "damaged"}, {`{"version":0}`, "damaged"},
		{`{"version":99,"made":"v9"}`, "it is of version 99, and this gpustall knows versions up to 1; use the gpustall that made it (v9)"},
	} {
		about := map[string]string{aboutKey: c.about}
		if c.about == "" {
			about = nil
		}
		if err := safetensors.Write(path, nil, about); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Read(path); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.about, err)
		}
	}
}

// TestList: a run's checkpoints are listed in the order of their steps, and no other file
// is.
func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{filepath.Base(Path(dir, "b", 9)), filepath.Base(Path(dir, "b", 10)), filepath.Base(Path(dir, "a", 11)), "weights.safetensors", ".b-step1.safetensors"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := List(dir, "b"); err != nil || !slices.Equal(got, []string{Path(dir, "b", 9), Path(dir, "b", 10)}) {
		t.Error(got, err)
	}
	if got, err := List(dir, ""); err != nil || len(got) != 3 {
		t.Error(got, err)
	}
}
