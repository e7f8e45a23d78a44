package prepared

import (
	"math"
	"testing"

	"dev.gpustall/kernels"
	"dev.gpustall/loader"
	"dev.gpustall/loader/transform"
)

// image returns noise with some structure.
func image(w, h, seed int) *loader.Sample {
	s := &loader.Sample{W: w, H: h, C: 3, Pixels: make([]byte, 3*w*h)}
	rng := loader.NewRNG(1, 2, seed)
	for i := range s.Pixels {
		s.Pixels[i] = byte(i/7 + rng.IntN(90))
	}
	return s
}

// TestTransformsOnDevice: the device's operations give the host's results, to the bit except for
// the rounding of the normalisation. That holds whatever the images' sizes, and for samples that
// the host resizes because they are too large.
func TestTransformsOnDevice(t *testing.T) {
	anySize, small := transform.Input{Constants: transform.ImageNet}, transform.Input{H: 33, W: 29, Constants: transform.CIFAR}
	for _, tt := range []struct {
		text  string
		in    transform.Input
		steps int // of the device
	}{
		{"normalize", small, 0},
		{"randomcrop((33,29),4)|hflip|normalize", small, 0},
		{"rrc(24)|hflip|normalize", anySize, 1},
		{"rrc((20,31),(0.01,0.3))", anySize, 1},
		{"resize(28)|centercrop(24)|hflip|normalize", anySize, 1},
		{"hflip|rrc(24)|vflip|randomcrop(20,3)|normalize", anySize, 3},
		{"rrc(40)|hflip|colorjitter(0.4,0.4,0.4,0.1)|blur(23,0.1,2.0)|trivialaugment|hflip|normalize", small, 4},
		{"rrc(24)|trivialaugment(5)|colorjitter(0.9,(0.1,3),(0,4),(-0.5,0.5))", anySize, 3},
		{"rrc(24)|blur(33)|hflip|normalize", anySize, 0},
		{"centercrop(50)|blur(31,3)|resize((20,60))|normalize", small, 3},
		{"resize((3,3))|normalize", small, 0}, // too many taps
	} {
		tr := transform.Must(tt.text, tt.in)
		steps := tr.DeviceSteps()
		if len(steps) != tt.steps {
			t.Errorf("%s: %d steps on the device, want %d", tt.text, len(steps), tt.steps)
		}
		info := tr.Shape(loader.Info{})
		const n = 12
		at := loader.NewLayout(info, n, true)
		mem, record := make([]byte, n*at.Sent()), make([]int32, n*at.Record)
		want := make([]float32, n*info.Values())
		packed := 0
		for i := range n {
			s := image(29, 33, i)
			if tt.in.H == 0 {
				s = image(2+i*41, 3+i*i*5, i)
			}
			r1, r2 := loader.NewRNG(5, 1, i), loader.NewRNG(5, 1, i)
			tr.Host(s, &r1, want[i*info.Values():(i+1)*info.Values()])
			from := i * at.Sample
			if at.Packed {
				from = packed
			}
			rec := record[i*at.Record : (i+1)*at.Record]
			used := tr.Device(s, &r2, mem[from:from+at.Sample], rec)
			if at.Packed {
				rec[kernels.AugOffset] = int32(from / kernels.Packing)
				packed += (used + kernels.Packing - 1) / kernels.Packing * kernels.Packing
			}
			if r1 != r2 {
				t.Fatalf("%s: sample %d draws differently", tt.text, i)
			}
		}
		pixels := mem
		recordBytes := make([]byte, 4*len(record))
		copy(kernels.Ints(recordBytes), record)
		if make := transforms(steps, at); make != nil {
			for _, op := range make(n) {
				pixels = run(op, pixels, recordBytes)
			}
		}
		mean, std := tr.Normalisation()
		got := make([]float32, len(want))
		kernels.Augment{N: n, H: info.H, W: info.W, C: 3, CPad: 3, Mean: mean, Std: std, Words: at.Record}.Ref(pixels, record, got)
		for k := range want {
			if math.Abs(float64(got[k]-want[k])) > 1e-5 {
				t.Errorf("%s: sample %d, value %d is %v on the host, %v on the device", tt.text, k/info.Values(), k%info.Values(), want[k], got[k])
				break
			}
		}
	}
}

func run(op kernels.Op, x, record []byte) []byte {
	y := make([]byte, op.Args()[2].Size())
	op.Reference([][]byte{x, record, y})
	return y
}
