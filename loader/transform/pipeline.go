package transform

import (
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/kernels/pixels"
	"dev.gpustall/loader"
)

// Input describes what a transform is given: RGB images of one size, or of any size (0), and
// the normalisation of their data set.
type Input struct {
	H, W      int
	Constants Constants
}

// Constants are the mean and standard deviation of a data set's pixels, in units of [0,1].
type Constants struct {
	mean, std [3]float32
}

// The constants of the data sets' training pixels that all CIFAR-10 and ImageNet recipes use.
var (
	CIFAR    = Constants{cifarMean, cifarStd}
	CIFAR100 = Constants{[3]float32{0.5071, 0.4867, 0.4408}, [3]float32{0.2675, 0.2565, 0.2761}}
	ImageNet = Constants{imageNetMean, imageNetStd}

	constants = map[string]Constants{"cifar10": CIFAR, "cifar100": CIFAR100, "imagenet": ImageNet}
)

// unchangedPixels stands for no normalisation: samples are in [0,1].
var unchangedPixels = Constants{std: [3]float32{1, 1, 1}}

// step is one part of a pipeline. Its random decisions are made first (draw), for all steps in
// their order, and written down as numbers. Host or device then only carries them out.
type step interface {
	// shape returns the size that images of a size become; 0 is any.
	shape(h, w int) (int, int)
	// words returns how many numbers draw writes.
	words() int
	// draw decides what is done to a w x h image, and returns the size of the result.
	draw(w, h int, rng *loader.RNG, p []int32) (ow, oh int)
	// apply writes the result for in to dst, ow x oh pixels.
	apply(z *scratch, in *image, p []int32, dst []byte, ow, oh int)
}

// cropper is a step that may read less than the whole image.
type cropper interface {
	step
	needs(w, h int, p []int32) loader.Rect
}

// image is RGB pixels, or a part of such an image.
type image struct {
	w, h int
	held loader.Rect // what pix holds
	pix  []byte
}

// row returns columns [x, x+n) of row y.
func (m *image) row(x, y, n int) []byte {
	at := ((y-m.held.Y)*m.held.W + x - m.held.X) * 3
	return m.pix[at : at+3*n]
}

// scratch is the memory that a sample is made with.
type scratch struct {
	pixels.Resizer
	rng    loader.RNG
	params []int32
	in     image // of the step that is at work
	work   pixels.Job
	strip  []byte // rows of a result that is being normalised
	buf    [2][]byte

	blur    pixels.Blur
	colours pixels.Colours
}

// scratches is how many scratches are kept. If more workers run at once, the others
// allocate.
const scratches = 64

// Pipeline is a compiled transform. It makes float32 samples of images. Or it leaves the last
// steps (crop with padding, flip and normalisation) to the device.
type Pipeline struct {
	Crop
	Text string

	in    Input
	h, w  int // of a sample
	norm  Constants
	torch []string
	test  []string // the steps of Test
	steps []step
	words int
	free  chan *scratch // at rest
	sent  sent
}

// Compile makes a transform of a text.
func Compile(text string, in Input) (t *Pipeline, err error) {
	r := &reader{text: text}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *SyntaxError:
			t, err = nil, e
		default:
			panic(e)
		}
	}()
	calls := r.calls()
	t = &Pipeline{Text: text, in: in, free: make(chan *scratch, scratches)}
	norm := unchangedPixels
	h, w := in.H, in.W
	for i, c := range calls {
		s, written := r.resolve(c)
		if n, ok := s.(*normalise); ok {
			if i+1 < len(calls) {
				r.fail(calls[i+1].at, "put normalize at the end", "nothing can come after normalize, which makes floats of the pixels")
			}
			if norm = in.Constants; n.given {
				norm = n.Constants
			}
			continue
		}
		if s, ok := s.(interface{ refuse(h, w int) string }); ok {
			if why := s.refuse(h, w); why != "" {
				r.fail(c.at, "choose another size, or resize before it", "%s: %s", c.name, why)
			}
		}
		t.torch, t.test = append(t.torch, "T."+written.String()), append(t.test, written.test(h > 0)...)
		h, w = s.shape(h, w)
		t.add(s)
	}
	if h == 0 || w == 0 {
		r.fail(len(text), "begin with rrc(224), or with resize(256)|centercrop(224)", "the images are of any size and stay so: a batch needs samples of one size")
	}
	t.h, t.w, t.norm, t.torch = h, w, norm, append(t.torch, norm.torch()...)
	t.Norm = NewNorm(norm.mean, norm.std)
	t.end(in)
	for _, s := range t.steps {
		t.words += s.words()
	}
	t.split(in)
	return t, nil
}

// Test returns the transform for evaluating a model. Its samples have the same size and
// normalisation. Random steps are left out, or applied to the middle of the image.
func (t *Pipeline) Test() (*Pipeline, error) {
	in := t.in
	in.Constants = t.norm
	return Compile(strings.Join(append(slices.Clone(t.test), "normalize"), "|"), in)
}

// Check says what is wrong with a text for images of any size.
func Check(text string) error {
	_, err := Compile(text, Input{H: MaxSide, W: MaxSide})
	return err
}

// add adds a step, or makes it a part of the one before.
func (t *Pipeline) add(s step) {
	if len(t.steps) > 0 {
		if r, ok := t.steps[len(t.steps)-1].(*resample); ok && r.join(s) {
			return
		}
	}
	t.steps = append(t.steps, s)
}

// end removes from the last steps what the device can do with the normalisation: a flip, and
// before it a crop with padding that keeps the size.
func (t *Pipeline) end(in Input) {
	last := func() step {
		if len(t.steps) == 0 {
			return nil
		}
		return t.steps[len(t.steps)-1]
	}
	drop := func() { t.steps = t.steps[:len(t.steps)-1] }
	switch s := last().(type) {
	case *flip:
		if !s.vertical {
			t.Flip = s.p
			drop()
		}
	case *resample:
		t.Flip, s.flip = s.flip, 0
	}
	if s, ok := last().(*place); ok && s.random {
		h, w := in.H, in.W
		for _, before := range t.steps[:len(t.steps)-1] {
			h, w = before.shape(h, w)
		}
		if s.size == [2]int{h, w} {
			t.Padding = s.padding
			drop()
		}
	}
}

// Shape returns the data set's info with the shape of the transform's samples.
func (t *Pipeline) Shape(info loader.Info) loader.Info {
	info.H, info.W, info.C = t.h, t.w, 3
	info.Sent, info.Packed, info.Record = t.sent.bytes, t.sent.packed, augWords+t.sent.words
	return info
}

// String returns the transform as it was written.
func (t *Pipeline) String() string { return t.Text }

// drawAll decides for all steps and returns the size of the result.
func (t *Pipeline) drawAll(z *scratch, w, h int, rng *loader.RNG) (ow, oh int) {
	z.params = grow(z.params, t.words)
	p := z.params
	for _, s := range t.steps {
		w, h = s.draw(w, h, rng, p[:s.words()])
		p = p[s.words():]
	}
	return w, h
}

// apply carries out the first n steps. Its results, the image and the numbers of the later
// steps, are valid until the next call.
func (t *Pipeline) apply(z *scratch, s *loader.Sample, n int) (in *image, p []int32) {
	in = &z.in
	*in = image{s.W, s.H, s.Held(), s.Pixels}
	if len(in.pix) < 3*in.held.W*in.held.H {
		panic(fmt.Sprintf("an image of %d x %d has %d bytes", in.held.W, in.held.H, len(in.pix)))
	}
	p = z.params
	for i, st := range t.steps[:n] {
		w, h := sized(st, in.w, in.h, p)
		z.buf[i%2] = grow(z.buf[i%2], 3*w*h)
		st.apply(z, in, p, z.buf[i%2], w, h)
		*in = image{w, h, loader.Rect{W: w, H: h}, z.buf[i%2]}
		p = p[st.words():]
	}
	return in, p
}

// sized returns the size that draw decided on.
func sized(s step, w, h int, p []int32) (ow, oh int) {
	if r, ok := s.(*resample); ok {
		return r.sized(p)
	}
	oh, ow = s.shape(h, w)
	return ow, oh
}

// Host writes the whole transform's result into dst.
func (t *Pipeline) Host(s *loader.Sample, rng *loader.RNG, dst []float32) {
	if len(t.steps) == 0 {
		t.Crop.Host(s, rng, dst)
		return
	}
	z := t.take()
	defer t.give(z)
	t.drawAll(z, s.W, s.H, rng)
	dy, dx, mirrored := t.Crop.draw(rng)
	in, p := t.apply(z, s, len(t.steps)-1)
	last := t.steps[len(t.steps)-1]
	if r, ok := last.(*resample); ok && t.Padding == 0 {
		z.work = r.job(p)
		z.work.Mirrored = z.work.Mirrored != mirrored
		z.normalised(in, &t.Norm, dst)
		return
	}
	i := (len(t.steps) - 1) % 2
	z.buf[i] = grow(z.buf[i], 3*t.w*t.h)
	last.apply(z, in, p, z.buf[i], t.w, t.h)
	t.write(z.buf[i], t.w, t.h, dy, dx, mirrored, dst)
}

// TakesPlanes reports whether HostPlanes takes images of that size.
func (t *Pipeline) TakesPlanes(w, h int) bool { return len(t.steps) == 0 && t.Crop.takesPlanes(w, h) }

// HostPlanes does what Host does for images that all have Planes. The results lie one behind
// the other.
func (t *Pipeline) HostPlanes(s []loader.Sample, dst []float32) { t.Crop.hostPlanes(s, t.h, dst) }

// Needs returns the part of an image that the first step will read.
func (t *Pipeline) Needs(w, h int, rng loader.RNG) loader.Rect {
	if len(t.steps) > 0 {
		if c, ok := t.steps[0].(cropper); ok {
			z := t.take()
			defer t.give(z)
			z.rng = rng
			z.params = grow(z.params, t.words)
			p := z.params[:c.words()]
			c.draw(w, h, &z.rng, p)
			return c.needs(w, h, p)
		}
	}
	return loader.Rect{W: w, H: h}
}

// take and give keep scratch from call to call. take makes a new one if none is free.
func (t *Pipeline) take() *scratch {
	select {
	case z := <-t.free:
		return z
	default:
		return &scratch{}
	}
}

func (t *Pipeline) give(z *scratch) {
	z.Release()
	z.in.pix = nil // the pixels are the sample's, and its worker lets go of large ones
	select {
	case t.free <- z:
	default:
	}
}

// Train returns the usual recipe, in the language, for samples of size x size (0: the usual
// size).
func Train(in Input, size int) string {
	if in.H > 0 && (size == 0 || size == in.H && size == in.W) {
		return fmt.Sprintf("randomcrop(%d,4)|hflip|normalize", in.H)
	}
	if size == 0 {
		size = usualSize
	}
	return fmt.Sprintf("rrc(%d)|hflip|normalize", size)
}

// usualSize is the side of ImageNet's samples.
const usualSize = 224

// Must compiles a text that is known to be right.
func Must(text string, in Input) *Pipeline {
	t, err := Compile(text, in)
	if err != nil {
		panic(err)
	}
	return t
}

// CIFARTrain returns the usual CIFAR-10 recipe: crop with padding 4, flip half.
func CIFARTrain() *Pipeline { return SmallTrain(32) }

// SmallTrain returns the same recipe for images with another side.
func SmallTrain(side int) *Pipeline {
	in := Input{H: side, W: side, Constants: CIFAR}
	return Must(Train(in, 0), in)
}

// ImageNetTrain returns the usual ImageNet recipe.
func ImageNetTrain(size int) *Pipeline {
	in := Input{Constants: ImageNet}
	return Must(Train(in, size), in)
}

// Completions returns how a typed text can go on: the names that the last step may have, after
// the steps before it.
func Completions(typed string) []string {
	at := strings.LastIndexByte(typed, '|') + 1
	var out []string
	for i := range specs {
		if s := &specs[i]; strings.HasPrefix(s.name, strings.TrimSpace(typed[at:])) {
			out = append(out, typed[:at]+s.name)
		}
	}
	return out
}
