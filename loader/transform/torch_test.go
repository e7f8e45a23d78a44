package transform

import (
	"strings"
	"testing"
)

// TestTorch: a pipeline is written as torchvision code, for training and for evaluation.
func TestTorch(t *testing.T) {
	any, cifar := Input{Constants: ImageNet}, Input{H: 32, W: 32, Constants: CIFAR}
	const imagenet, small = "T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))", "T.Normalize((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.201))"
	for _, c := range []struct {
		text       string
		in         Input
		torch      string
		test, norm string
	}{
		{"rrc(224)|hflip|normalize", any, "T.RandomResizedCrop(224), T.RandomHorizontalFlip()", "T.Resize(256), T.CenterCrop(224)", imagenet},
		{"rrc(224,scale=(0.2,1))|hflip(0.3)|trivialaugment|normalize(cifar10)", cifar, "T.RandomResizedCrop(224, scale=(0.2, 1)), T.RandomHorizontalFlip(p=0.3), T.TrivialAugmentWide()", "T.Resize((224, 224))", small},
		{"randomcrop(32,4)|hflip|normalize", cifar, "T.RandomCrop(32, padding=4), T.RandomHorizontalFlip()", "T.CenterCrop(32)", small},
		{"resize(36)|centercrop((32,30))|colorjitter(0.4,0,(0.5,2))|blur(5,1,1.5)", any, "T.Resize(36), T.CenterCrop((32, 30)), T.ColorJitter(brightness=0.4, saturation=(0.5, 2)), T.GaussianBlur(kernel_size=5, sigma=(1, 1.5))", "T.Resize(36), T.CenterCrop((32, 30))", ""},
	} {
		p, err := Compile(c.text, c.in)
		if err != nil {
			t.Fatal(err)
		}
		test, err := p.Test()
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range []struct {
			is   []string
			want string
		}{{p.Torch(), c.torch}, {test.Torch(), c.test}} {
			want := []string{of.want, "T.ToTensor()"}
			if c.norm != "" {
				want = append(want, c.norm)
			}
			if got := strings.Join(of.is, ", "); got != strings.Join(want, ", ") {
				t.Errorf("%s: %s, want %s", c.text, got, strings.Join(want, ", "))
			}
		}
	}
}
