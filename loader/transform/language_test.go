package transform

import (
	"errors"
	"strings"
	"testing"

	"dev.gpustall/loader"
)

// TestErrorsPoint: an error says what is wrong with a text, and where.
func TestErrorsPoint(t *testing.T) {
	anySize, small := Input{Constants: ImageNet}, Input{H: 32, W: 32, Constants: CIFAR}
	for _, tt := range []struct {
		text, under string // the caret stands under the last character of this, or behind it if that ends the text
		in          Input
		want        string
	}{
		{"", "", anySize, "a transform's name is missing"},
		{"rrc(224)|hflp|normalize", "rrc(224)|h", anySize, "hflip?"},
		{"rrc(224)|RandomHorizontalFlipp", "rrc(224)|R", anySize, "hflip?"},
		{"rrc(224)hflip", "rrc(224)h", anySize, "instead of |"},
		{"rrc(224", "rrc(224 ", anySize, "do not end"},
		{"rrc", "rrc ", anySize, "needs its size"},
		{"rrc(a)", "rrc(a", anySize, `"a" instead of a number`},
		{"rrc(size=)", "rrc(size=)", anySize, "a number is missing"},
		{"rrc(0)", "rrc(0", anySize, "choose 1 to 4096"},
		{"rrc(2.5)", "rrc(2", anySize, "whole number"},
		{"rrc(224,scale=(0.5,0.2))", "r", anySize, "(least, most)"},
		{"rrc(224,scal=(0.5,1))", "rrc(224,s", anySize, "has no scal"},
		{"rrc(224,size=3)", "rrc(224,s", anySize, "given twice"},
		{"rrc(224,0.1,1,0.7,1.3,5)", "rrc(224,0.1,1,0.7,1.3,5", anySize, "takes no more"},
		{"rrc(224)|normalize|hflip", "rrc(224)|normalize|h", anySize, "nothing can come after normalize"},
		{"rrc(224)|normalize(mnist)", "rrc(224)|normalize(m", anySize, "imagenet, cifar10 or cifar100"},
		{"rrc(224)|normalize(1,2)", "rrc(224)|normalize(1", anySize, "3 numbers, not 2"},
		{"resize(256)|hflip", "resize(256)|hflip ", anySize, "of any size and stay so"},
		{"randomcrop(64,4)", "r", small, "larger than the image of 32x32"},
		{"rrc(224)|\thflip", "", anySize, "printable ASCII"},
	} {
		_, err := Compile(tt.text, tt.in)
		var at *SyntaxError
		if !errors.As(err, &at) || !strings.Contains(err.Error(), tt.want) || tt.under != "" && at.At != len(tt.under)-1 {
			t.Errorf("%q: %v, want %q under the end of %q", tt.text, err, tt.want, tt.under)
		} else if tt.under != "" && !strings.HasSuffix(at.Caret(), "\n"+strings.Repeat(" ", len(tt.under)-1)+"^") {
			t.Errorf("%q: the caret is elsewhere:\n%s", tt.text, at.Caret())
		}
	}
}

// TestSpellings: several spellings give the same transform.
func TestSpellings(t *testing.T) {
	img := noise(61, 43)
	for _, same := range [][]string{
		{"rrc(24)|hflip|normalize", "RandomResizedCrop(24) | RandomHorizontalFlip(p=0.5) | Normalize(imagenet)",
			"rrc((24,24),(0.08,1),0.75,1.3333333333333333)|hflip()|normalize(0.485,0.456,0.406,0.229,0.224,0.225)"},
		{"resize(28)|centercrop(24)", "Resize(size=28)|CenterCrop((24,24))"},
	} {
		var want []float32
		for i, text := range same {
			tr := Must(text, Input{Constants: ImageNet})
			got := make([]float32, tr.h*tr.w*3)
			for k := range 5 {
				rng := loader.NewRNG(1, 1, k)
				tr.Host(img, &rng, got)
				if i == 0 {
					want = append(want, got...)
				} else if !equal(got, want[k*len(got):(k+1)*len(got)]) {
					t.Errorf("%s is not %s", text, same[0])
				}
			}
		}
	}
}

func equal(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// FuzzCompile: a text is refused with a place in it, or makes samples, on the host and for the
// device, of whatever images there are.
func FuzzCompile(f *testing.F) {
	f.Add("rrc(224,scale=(0.2,1))|hflip(0.3)|vflip|randomcrop(20,4)|resize((3,4))|centercrop(2)|normalize(cifar10)", uint8(32), uint8(32))
	f.Add("trivialaugment(2)|blur(3,1)|colorjitter(0.1,0.2,0.3,0.4)|resize(9)|centercrop((7,8))|normalize", uint8(0), uint8(9))
	f.Fuzz(func(t *testing.T, text string, w, h uint8) {
		in := Input{H: int(h % 64), W: int(w % 64)}
		if in.H == 0 || in.W == 0 { // of any size
			in = Input{}
		}
		tr, err := Compile(text, in)
		var at *SyntaxError
		if err != nil && (!errors.As(err, &at) || at.At > len(text) || at.Caret() == "") {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil {
			return
		}
		if tr.h < 1 || tr.w < 1 {
			t.Fatalf("%q makes samples of %d x %d", text, tr.h, tr.w)
		}
		img := noise(1+int(w%64), 1+int(h%64))
		if in.H > 0 {
			img = noise(in.W, in.H)
		}
		for _, s := range tr.steps { // not of megabytes, for speed
			if sh, sw := s.shape(img.H, img.W); sh*sw > 1<<14 {
				return
			}
		}
		host, rng := make([]float32, tr.h*tr.w*3), loader.NewRNG(1, 0, len(text))
		tr.Host(img, &rng, host)
		layout := loader.NewLayout(tr.Shape(loader.Info{}), 1, true)
		rng = loader.NewRNG(1, 0, len(text))
		tr.Device(img, &rng, make([]byte, layout.Sample), make([]int32, layout.Record))
	})
}
