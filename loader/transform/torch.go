package transform

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Torch returns the transforms as Python expressions, with torchvision.transforms as T.
func (t *Pipeline) Torch() []string { return t.torch }

// written is a step of the language with all of its arguments.
type written struct {
	*spec
	given args
}

// String returns a call of torchvision's class, without arguments that have their defaults. The
// language can read it too.
func (s written) String() string {
	var words []string
	for i, p := range s.params {
		if p.def != nil && slices.Equal(s.given[i], p.def) {
			continue
		}
		word := python(s.given[i])
		if p.kind != size {
			word = p.name + "=" + word
		}
		words = append(words, word)
	}
	return s.class + "(" + strings.Join(words, ", ") + ")"
}

// test returns the steps that replace this step when a model is evaluated. If all images
// before it have one size (sized), a random part becomes the whole image. Otherwise it
// becomes the middle, as is usual for photographs.
func (s written) test(sized bool) []string {
	n := s.given[0]
	switch s.name {
	case "resize", "centercrop":
		return []string{s.String()}
	case "randomcrop":
		return []string{"centercrop(" + python(n) + ")"}
	case "rrc":
		of := side(n)
		if sized || of[0] != of[1] {
			return []string{fmt.Sprintf("resize((%d,%d))", of[0], of[1])}
		}
		return []string{fmt.Sprintf("resize(%d)", of[0]*256/224), fmt.Sprintf("centercrop(%d)", of[0])}
	}
	return nil
}

// torch returns ToTensor, which makes pixels 0 to 1, and the normalisation unless it changes
// nothing.
func (c Constants) torch() []string {
	out := []string{"T.ToTensor()"}
	if c == unchangedPixels {
		return out
	}
	three := func(v [3]float32) string {
		var words []string
		for _, x := range v {
			words = append(words, strconv.FormatFloat(float64(x), 'g', -1, 32))
		}
		return "(" + strings.Join(words, ", ") + ")"
	}
	return append(out, "T.Normalize("+three(c.mean)+", "+three(c.std)+")")
}

// python returns a number, or a tuple of several, as Python writes it.
func python(v []float64) string {
	var words []string
	for _, x := range v {
		words = append(words, strconv.FormatFloat(x, 'g', -1, 64))
	}
	if len(words) == 1 {
		return words[0]
	}
	return "(" + strings.Join(words, ", ") + ")"
}
