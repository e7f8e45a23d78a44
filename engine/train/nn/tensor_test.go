package nn_test

import (
	"slices"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
)

// TestUnload: a state that went to the host and back is the same, with the sums under
// way. Its allocations have the announced sizes.
func TestUnload(t *testing.T) {
	dev := newRefDevice()
	note := &noting{refDevice: dev}
	m, err := nn.New("cnn", nn.Shape{H: 8, W: 8, C: 3}, 4)
	if err != nil {
		t.Fatal(err)
	}
	st, err := nn.NewState(note, m, 3)
	if err != nil {
		t.Fatal(err)
	}
	all := nn.Layout{Type: kernels.F16, Accumulate: 4, Rule: kernels.Adam} // all that a state may have
	if err := st.Configure(all); err != nil {
		t.Fatal(err)
	}
	before, err := st.Read("conv2.weight")
	if err != nil {
		t.Fatal(err)
	}
	sizes := st.Sizes()
	if want := m.StateSizes(all); !slices.Equal(sizes, want) {
		t.Errorf("Sizes are %v, want %v", sizes, want)
	}
	img, err := st.Unload()
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Sizes()) != 0 || len(img) != len(sizes) {
		t.Errorf("after Unload it has %v on the device and %d images", st.Sizes(), len(img))
	}
	for i := range img {
		if len(img[i]) != sizes[i] {
			t.Errorf("image %d has %d bytes, want %d", i, len(img[i]), sizes[i])
		}
	}
	note.got = nil
	if err := st.Reload(img); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(note.got, sizes) {
		t.Errorf("Reload allocated %v, Sizes said %v", note.got, sizes)
	}
	after, err := st.Read("conv2.weight")
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("the weights changed: %v", err)
	}
	again, err := st.Unload()
	if err != nil {
		t.Fatal(err)
	}
	for i := range img {
		if !slices.Equal(img[i], again[i]) {
			t.Errorf("buffer %d changed on the way", i)
		}
	}
}

// noting notes what is allocated.
type noting struct {
	*refDevice
	got []int
}

func (d *noting) Alloc(n int) (device.Buffer, error) {
	d.got = append(d.got, n)
	return d.refDevice.Alloc(n)
}
