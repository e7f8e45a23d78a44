package advice

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// call is a library's call that is known to be slow, if a line of the user's code makes it, and what
// to do instead.
type call struct {
	name   string
	at     trace.Doing
	in     []string       // how the name of the innermost function beneath the line begins
	text   *regexp.Regexp // of the line's text, used where no function is known; nil where the text cannot tell
	remedy string
}

// calls holds the known calls. The first one that a line shows counts.
var calls = []call{
	{"resizing images", trace.Loading, []string{"PIL.Image.Image.resize", "PIL.Image.Image.thumbnail", "PIL.Image.resize"}, regexp.MustCompile(`\.(resize|thumbnail)\(`),
		"resize the images once and store them small, or have the decoder make them smaller: Image.draft for JPEGs, before the first access"},
	{"decoding images", trace.Loading, []string{"PIL.ImageFile.", "PIL.JpegImagePlugin.", "PIL.PngImagePlugin."}, regexp.MustCompile(`\b(Image\.open|imread|decode_(jpeg|image))\(|\.convert\(["']RGB["']\)`),
		"store the images no larger than the model takes them, or decode less: Image.draft for JPEGs, or torchvision.io.decode_jpeg"},
	{"loops over pixels", trace.Loading, []string{"PIL.Image.Image.getpixel", "PIL.Image.Image.putpixel", "PIL.Image.getpixel", "PIL.Image.putpixel"}, regexp.MustCompile(`\b(get|put)pixel\(|\[(x|y|i|j|r|c|row|col),\s*(x|y|i|j|r|c|row|col)\b`),
		"let NumPy, PyTorch or OpenCV work on the whole array, not a Python loop on each pixel"},
	{"parsing JSON", trace.Loading, []string{"json."}, regexp.MustCompile(`\bjson\.loads?\(`),
		"parse with orjson.loads, or parse once and store arrays"},
	{"opening HDF5", trace.Loading, []string{"h5py._hl.files."}, regexp.MustCompile(`\bh5py\.File\(`),
		"open the HDF5 file once in each worker, at its first sample, and keep it open"},
	{"opening LMDB", trace.Loading, nil, regexp.MustCompile(`\blmdb\.(open|Environment)\(`),
		"open the LMDB environment once in each worker, at its first sample, and keep it open"},
	{"indexing with pandas", trace.Loading, []string{"pandas."}, regexp.MustCompile(`\.i?loc\[|\.iat\[|\.at\[|\.iterrows\(`),
		"take the columns out of the data frame once, as arrays (to_numpy), and index those for each sample"},
	{"tokenising", trace.Loading, []string{"transformers.tokenization", "transformers.models.", "tokenizers.", "tiktoken.", "sentencepiece.", "nltk.tokenize.", "spacy.tokenizer.", "torchtext."},
		regexp.MustCompile(`(?i)\b(\w+_)?tokeni[sz]er?(\.(batch_)?encode\w*|\.tokenize)?\(|\b(tok|enc|encoding|sp|bpe)\.(batch_)?encode\w*\(|\btok\(`),
		"tokenise once, before the training, and store the tokens (Dataset.map of the datasets package keeps them)"},
	{"empty_cache each step", trace.InStep, []string{"torch.cuda.memory.empty_cache"}, regexp.MustCompile(`\bempty_cache\(`),
		"do without torch.cuda.empty_cache in the loop: it waits for the GPU, and memory must be had anew"},
	{"synchronize each step", trace.InStep, []string{"torch.cuda.synchronize"}, regexp.MustCompile(`\bsynchronize\(`),
		"do without torch.cuda.synchronize in the loop: take times with CUDA events"},
	{printing, trace.InStep, []string{"torch._tensor_str."}, regexp.MustCompile(`^\s*(if\b.*:\s*)?print\(`),
		"print every 100 steps only: to print a tensor waits for the GPU"},
	{".item() each step", trace.InStep, nil, regexp.MustCompile(`\.(item|tolist|cpu|numpy)\(\)`),
		"keep losses and metrics on the GPU as tensors, and read them every 100 steps: .item() and .cpu() wait for the GPU"},
	{copying, trace.InStep, nil, regexp.MustCompile(`\.cuda\(|\.to\([^)]*(dev|gpu|cuda|rank|non_blocking)`),
		"copy less: send a narrower type (uint8) and convert it on the GPU; and pin_memory=True with non_blocking=True has another thread do part of it"},
}

// printing is the name of the call that prints.
const printing = "printing each step"

var (
	quoted = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	called = regexp.MustCompile(`\w+\(`)
	short  = regexp.MustCompile(`^(print|item|tolist|mean|sum|float|int|str|len|round|format|join|time)\($`)
)

// prints reports whether a line that prints calls nothing else that may take its time.
func prints(text string) bool {
	others := func(name string) bool { return !short.MatchString(name) }
	return !slices.ContainsFunc(called.FindAllString(quoted.ReplaceAllString(code(text), ""), -1), others)
}

// copying is the name of the call that copies a batch to the GPU.
const copying = "copying to the GPU"

// callRules has a rule for each call that is known to be slow.
func callRules() (rules []Rule) {
	for i := range calls {
		c := &calls[i]
		r := Rule{Name: c.name, Check: c.check}
		if c.at == trace.Loading {
			r.Group = trace.GroupData
		}
		rules = append(rules, r)
	}
	return rules
}

// muchOfCalls is the part of loading, or of the loop's time, from which a call is told.
const muchOfCalls = 0.1

// check finds the lines that make the call.
func (k *call) check(s *situation) (f Finding, ok bool) {
	f.Remedy, f.line = k.remedy, true
	if k.at == trace.InStep && s.host.device { // there is no GPU to wait for
		if k.name != printing {
			return f, false
		}
		f.Remedy, _, _ = strings.Cut(k.remedy, ":")
	}
	var most lines.Cost
	part := 0.0
	for i := range s.lines {
		c := &s.lines[i]
		if knownCall(c) != k {
			continue
		}
		if c.Part > most.Part {
			most = *c
		}
		part += c.Part
		f.Share += c.Lost
		f.Free += c.Free
	}
	of := "loading"
	if k.at != trace.Loading {
		of = "the loop's time"
		f.Script = true
		idle := 1.
		if !s.host.device { // otherwise these calls do not keep a device from its work
			unused, _ := s.fewKernels()
			idle = 1 - s.time.Utilisation() + unused
		}
		f.Share, f.Free = min(f.Share, idle), min(f.Free, idle)
	} else if f.Free = min(f.Free, s.time.DataShare()); s.host.device && s.loader.workers > 0 && s.loader.computing() {
		f.Free = 0 // the training computes on the same cores, and would be faster too
	}
	f.Evidence = fmt.Sprintf("%s takes %s of %s", most.Named(), units.Prose.Percent(part), of)
	return f, part >= muchOfCalls && f.Share >= moderate
}

// calls reports whether a rule about a known call applies to threads that do this.
func (s *situation) calls(at trace.Doing) bool {
	for i := range calls {
		if calls[i].at == at {
			if _, ok := calls[i].check(s); ok {
				return true
			}
		}
	}
	return false
}

// knownCall returns which of calls a line makes, or nil. It looks at the innermost function that the
// line called or, where none is known, at the line's text.
func knownCall(c *lines.Cost) *call {
	for i := range calls {
		k := &calls[i]
		if k.at != c.At && !(k.at == trace.InStep && c.At == trace.Forward) {
			continue
		}
		if slices.ContainsFunc(k.in, func(in string) bool { return strings.HasPrefix(c.In, in) }) && !strings.HasSuffix(c.In, ".pad") { // a tokenizer pads too
			return k
		}
		if c.In == "" && k.text != nil && k.text.MatchString(code(c.Text)) && (k.name != printing || prints(c.Text)) {
			return k
		}
	}
	return nil
}

// code returns a line of Python without its comment.
func code(text string) string {
	text, _, _ = strings.Cut(text, "#")
	return text
}
