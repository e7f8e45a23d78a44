package transform

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// param is an argument of a transform.
type param struct {
	name     string
	kind     kind
	def      []float64 // nil: the argument is required
	min, max float64   // of each number
}

// kind is the form of an argument.
type kind uint8

const (
	number kind = iota
	whole
	size   // one whole number, or (height, width)
	pair   // (least, most); the parentheses may be left out
	factor // one number, or (least, most)
	triple // three numbers; the parentheses may be left out
)

// MaxSide bounds a sample's height and width.
const MaxSide = 4096

// spec is a transform of the language.
type spec struct {
	name   string // the short form
	class  string // torchvision's
	help   string
	params []param
	make   func(a args) (step, error) // the error's sentence is the reason
}

// args are the numbers of a call, by parameter; nil if one is not given and has no default.
type args [][]float64

func side(v []float64) [2]int { return [2]int{int(v[0]), int(v[len(v)-1])} }

func span(v []float64) [2]float64 { return [2]float64{v[0], v[len(v)-1]} }

var sizeParam = param{"size", size, nil, 1, MaxSide}

// specs are the transforms of the language.
var specs = []spec{
	{"rrc", "RandomResizedCrop", "a random part, resized (bilinear, antialias)",
		[]param{sizeParam, {"scale", pair, []float64{0.08, 1}, 0, 1}, {"ratio", pair, []float64{3. / 4, 4. / 3}, 1e-3, 1e3}},
		func(a args) (step, error) {
			if len(a[1]) != 2 || len(a[2]) != 2 || a[1][0] > a[1][1] || a[2][0] > a[2][1] || a[1][1] <= 0 {
				return nil, fmt.Errorf("scale and ratio are written as (least, most)")
			}
			return &resample{size: side(a[0]), crop: &randomPart{span(a[1]), span(a[2])}}, nil
		}},
	{"randomcrop", "RandomCrop", "a random part of that size, of the image with zero pixels around it",
		[]param{sizeParam, {"padding", whole, []float64{0}, 0, MaxSide}},
		func(a args) (step, error) {
			return &place{size: side(a[0]), padding: int(a[1][0]), random: true}, nil
		}},
	{"centercrop", "CenterCrop", "the middle, with zero pixels around it where the image is smaller", []param{sizeParam},
		func(a args) (step, error) { return &place{size: side(a[0])}, nil }},
	{"resize", "Resize", "the shorter side to size, or to exactly (height, width) (bilinear, antialias)", []param{sizeParam},
		func(a args) (step, error) { return &resample{size: side(a[0]), short: len(a[0]) == 1}, nil }},
	{"hflip", "RandomHorizontalFlip", "mirrored left to right with probability p", []param{{"p", number, []float64{0.5}, 0, 1}},
		func(a args) (step, error) { return &flip{p: a[0][0]}, nil }},
	{"vflip", "RandomVerticalFlip", "mirrored top to bottom with probability p", []param{{"p", number, []float64{0.5}, 0, 1}},
		func(a args) (step, error) { return &flip{p: a[0][0], vertical: true}, nil }},
	{"colorjitter", "ColorJitter", "each set to a random factor within 1-v to 1+v, or (least, most), in random order; hue shifted by -v to v",
		[]param{{"brightness", factor, []float64{0}, 0, 1e3}, {"contrast", factor, []float64{0}, 0, 1e3}, {"saturation", factor, []float64{0}, 0, 1e3}, {"hue", factor, []float64{0}, -0.5, 0.5}},
		newJitter},
	{"blur", "GaussianBlur", "with a standard deviation drawn from sigma, in pixels",
		[]param{{"kernel_size", whole, nil, 1, maxTaps}, {"sigma", pair, []float64{0.1, 2}, 1e-3, 1e3}},
		func(a args) (step, error) {
			b := &blur{taps: int(a[0][0]), sigma: span(a[1])}
			if b.taps%2 == 0 || b.sigma[0] > b.sigma[1] {
				return nil, fmt.Errorf("kernel_size is odd, and sigma (least, most)")
			}
			return b, nil
		}},
	{"trivialaugment", "TrivialAugmentWide", "one of 14 operations of geometry and colour, of a random magnitude",
		[]param{{"num_magnitude_bins", whole, []float64{31}, 2, 1 << 16}},
		func(a args) (step, error) { return trivial(int(a[0][0])), nil }},
	{"normalize", "Normalize", "(pixel/255 - mean) / std, the data set's own unless given, or those of imagenet, cifar10 or cifar100",
		[]param{{"mean", triple, []float64{}, -10, 10}, {"std", triple, []float64{}, 1e-3, 10}},
		func(a args) (step, error) {
			if len(a[0]) != len(a[1]) {
				return nil, fmt.Errorf("it needs both mean and std, or neither")
			}
			n := &normalise{}
			if len(a[0]) > 0 {
				n.given = true
				for c := range 3 {
					n.mean[c], n.std[c] = float32(a[0][c]), float32(a[1][c])
				}
			}
			return n, nil
		}},
}

// Example is a text of the language.
const Example = "rrc(224)|hflip|colorjitter(0.4,0.4,0.4,0.1)|blur(23,0.1,2.0)|trivialaugment|normalize"

// Notes explain what the list of transforms does not.
const Notes = `Names may be torchvision's classes too; arguments come in its order or by name, as in
rrc(224,scale=(0.2,1)). Samples are as torchvision makes them of Pillow's images. Without
normalize they are 0 to 1. A random decision depends on the seed, the epoch and the sample
alone: the same seed gives the same batches whatever num_workers is.
`

// maxTaps bounds a blur's kernel.
const maxTaps = 255

// newJitter makes a ColorJitter. A number says how far the factor may be from the value
// that changes nothing.
func newJitter(a args) (step, error) {
	var of [4]*[2]float64
	for i, v := range a {
		b, none := span(v), 1.0
		if i == 3 {
			none = 0
		}
		if len(v) == 1 {
			if v[0] < 0 {
				return nil, fmt.Errorf("%g is negative", v[0])
			}
			if b = [2]float64{none - v[0], none + v[0]}; i < 3 {
				b[0] = max(b[0], 0)
			}
		}
		if b[0] > b[1] {
			return nil, fmt.Errorf("a range is written as (least, most)")
		}
		if b[0] != none || b[1] != none {
			of[i] = &b
		}
	}
	return jitter(of), nil
}

// find returns the spec of a name, or nil.
func find(name string) *spec {
	for i := range specs {
		if s := &specs[i]; strings.EqualFold(name, s.name) || strings.EqualFold(name, s.class) {
			return s
		}
	}
	return nil
}

// Names returns the transforms' short names.
func Names() []string {
	out := make([]string, len(specs))
	for i := range specs {
		out[i] = specs[i].name
	}
	return out
}

// usage returns how a transform is written: "hflip(p=0.5)".
func (s *spec) usage() string {
	var words []string
	for _, p := range s.params {
		word := p.name
		if len(p.def) == 1 {
			word += fmt.Sprintf("=%.4g", p.def[0])
		} else if len(p.def) > 1 {
			word += fmt.Sprintf("=(%.4g,%.4g)", p.def[0], p.def[1])
		}
		words = append(words, word)
	}
	return s.name + "(" + strings.Join(words, ",") + ")"
}

// Help returns a line for each transform.
func Help() string {
	var b strings.Builder
	for i := range specs {
		s := &specs[i]
		fmt.Fprintf(&b, "  %-55s %s: %s\n", s.usage(), s.class, s.help)
	}
	return b.String()
}

// resolve turns a call into a step, and into the call with all its arguments.
func (r *reader) resolve(c call) (step, written) {
	s := find(c.name)
	if s == nil {
		r.fail(c.at, "choose "+strings.Join(Names(), ", "), "there is no transform %q%s", c.name, meant(c.name))
	}
	given := make(args, len(s.params))
	if word := slices.IndexFunc(c.args, func(v value) bool { return v.word != "" }); word >= 0 {
		r.constants(s, c.args, word, given)
	} else {
		r.bind(s, c, given)
	}
	for i, p := range s.params {
		if given[i] == nil {
			if p.def == nil {
				r.fail(c.end, "write it as in "+s.usage(), "%s needs its %s", s.name, p.name)
			}
			given[i] = p.def
		}
	}
	st, err := s.make(given)
	if err != nil {
		r.fail(c.at, "write it as in "+s.usage(), "%s: %v", s.name, err)
	}
	return st, written{s, given}
}

// constants binds a name of constants, as in normalize(imagenet).
func (r *reader) constants(s *spec, vs []value, word int, given args) {
	v := vs[word]
	m, known := constants[v.word]
	if s.name != "normalize" || !known || len(vs) > 1 {
		hint := "write it as in " + s.usage()
		if s.name == "normalize" {
			hint = "choose imagenet, cifar10 or cifar100, or give mean and std as six numbers"
		}
		r.fail(v.at, hint, "%q instead of a number", v.word)
	}
	for i, three := range [][3]float32{m.mean, m.std} {
		for _, x := range three {
			given[i] = append(given[i], float64(x))
		}
	}
}

// bind gives a call's arguments to the parameters, in order or by name.
func (r *reader) bind(s *spec, c call, given args) {
	usage := "write it as in " + s.usage()
	next := 0
	for i := 0; i < len(c.args); {
		v := c.args[i]
		at := next
		if v.name != "" {
			if at = slices.IndexFunc(s.params, func(p param) bool { return p.name == v.name }); at < 0 {
				r.fail(v.at, usage, "%s has no %s", s.name, v.name)
			}
			next = len(s.params) // arguments with a name come last
		} else {
			if at >= len(s.params) {
				r.fail(v.at, usage, "%s takes no more here", s.name)
			}
			next++
		}
		if given[at] != nil {
			r.fail(v.at, usage, "%s is given twice", s.params[at].name)
		}
		p := &s.params[at]
		given[at] = v.nums
		i++
		if want := p.kind.flat(); want > 1 && !v.tuple && v.name == "" { // without parentheses
			for len(given[at]) < want && i < len(c.args) && !c.args[i].tuple && c.args[i].name == "" {
				given[at] = append(given[at], c.args[i].nums...)
				i++
			}
		}
		r.checkArgument(s, p, v, given[at])
	}
}

// flat returns how many numbers may follow one another without parentheses.
func (k kind) flat() int {
	switch k {
	case pair:
		return 2
	case triple:
		return 3
	}
	return 1
}

func (r *reader) checkArgument(s *spec, p *param, v value, nums []float64) {
	usage := "write it as in " + s.usage()
	least, most := 1, 1
	switch p.kind {
	case size, pair, factor:
		most = 2
	case triple:
		least, most = 3, 3
	}
	if len(nums) < least || len(nums) > most {
		r.fail(v.at, usage, "%s of %s is %d numbers, not %d", p.name, s.name, most, len(nums))
	}
	for _, n := range nums {
		if n < p.min || n > p.max || math.IsNaN(n) {
			r.fail(v.at, fmt.Sprintf("choose %g to %g", p.min, p.max), "%s=%g of %s is out of range", p.name, n, s.name)
		}
		if (p.kind == size || p.kind == whole) && n != math.Trunc(n) {
			r.fail(v.at, usage, "%s of %s is a whole number, not %g", p.name, s.name, n)
		}
	}
}

// meant suggests the transform whose name is one letter or two away.
func meant(name string) string {
	best, least := "", 3
	for i := range specs {
		for _, n := range []string{specs[i].name, specs[i].class} {
			if d := distance(strings.ToLower(name), strings.ToLower(n)); d < least && d < len(n) {
				best, least = specs[i].name, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (%s?)", best)
}

// distance returns the Levenshtein distance: how many letters to add, leave out or
// change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
