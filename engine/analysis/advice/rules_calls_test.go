package advice

import (
	"testing"

	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/trace"
)

// callCases are the cases of the calls that are known to be slow.
var callCases = []ruleCase{
	{"resizing images", true, wait(trace.CauseTransform), "num_workers=4", loadsAt("x = img.resize((224, 224))", "PIL.Image.Image.resize", 0.6), "", "(no more than +"},
	{"resizing images", false, wait(trace.CauseTransform), "num_workers=4", loadsAt("x = img.rotate(9)", "PIL.Image.Image.rotate", 0.6), "", "loader settings won't help"},
	{"resizing images", false, wait(trace.CauseTransform), "num_workers=4", loadsAt("x = img.resize((224, 224))", "PIL.Image.Image.resize", 0.05), "", "loader settings won't help"},
	{"decoding images", true, wait(trace.CauseDecode), "num_workers=4", loadsAt("return Image.open(path).convert('RGB')", "PIL.ImageFile.ImageFile.load", 0.9), "", "train.py:42 (return Image.open(path).convert('RGB')) takes 90.0 % of loading"},
	{"decoding images", true, wait(trace.CauseDecode), "num_workers=4", loadsAt("return Image.open(path).convert('RGB')", "PIL.ImageFile.ImageFile.load", 0.9), "", "no more than +100 % throughput, were it free"},
	{"decoding images", false, wait(trace.CauseDecode), "num_workers=4", loadsAt("return open(path).read()", "", 0.9), "", "loader settings won't help"},
	{"loops over pixels", true, wait(trace.CauseTransform), "num_workers=4", loadsAt("out[y, x] = img[y, x] * 2", "", 0.9), "", "not a Python loop"},
	{"loops over pixels", false, wait(trace.CauseTransform), "num_workers=4", loadsAt("out[:, :3] = img * 2  # not out[y, x]", "", 0.9), "", "loader settings won't help"},
	{"parsing JSON", true, wait(trace.CauseDecode), "num_workers=4", loadsAt("d = json.loads(self.lines[i])", "json.decoder.JSONDecoder.raw_decode", 0.9), "", "orjson"},
	{"parsing JSON", false, wait(trace.CauseDecode), "num_workers=4", loadsAt("d = orjson.loads(self.lines[i])", "", 0.9), "", "loader settings won't help"},
	{"opening HDF5", true, wait(trace.CauseDecode), "num_workers=4", loadsAt("with h5py.File(self.path) as f:", "h5py._hl.files.make_fid", 0.9), "", "keep it open"},
	{"opening HDF5", false, wait(trace.CauseDecode), "num_workers=4", loadsAt("return self.file['x'][i]", "h5py._hl.dataset.Dataset.__getitem__", 0.9), "", "loader settings won't help"},
	{"opening LMDB", true, wait(trace.CauseDecode), "num_workers=4", loadsAt("env = lmdb.open(self.path, readonly=True)", "", 0.9), "", "keep it open"},
	{"opening LMDB", false, wait(trace.CauseDecode), "num_workers=4", loadsAt("return self.txn.get(key)", "", 0.9), "", "loader settings won't help"},
	{"indexing with pandas", true, wait(trace.CauseDecode), "num_workers=4", loadsAt("row = self.df.iloc[i]", "pandas.core.internals.managers.BlockManager.fast_xs", 0.9), "", "to_numpy"},
	{"indexing with pandas", false, wait(trace.CauseDecode), "num_workers=4", loadsAt("row = self.rows[i]", "", 0.9), "", "loader settings won't help"},
	{"tokenising", true, wait(trace.CauseCollate), "num_workers=4", loadsAt("return tokenizer([x['text'] for x in batch])", "", 0.9), "", "tokenise once"},
	{"tokenising", false, wait(trace.CauseCollate), "num_workers=4", loadsAt("return pad_sequence([x['tokens'] for x in batch])", "", 0.9), "", ""},
	{"tokenising", true, wait(trace.CauseCollate), "num_workers=4", loadsAt("ids = [enc.encode_ordinary(t) for t in texts]", "", 0.9), "", "tokenise once"},
	{"tokenising", true, wait(trace.CauseCollate), "num_workers=4", loadsAt("batch = self.process(texts)", "transformers.tokenization_utils_fast.PreTrainedTokenizerFast._batch_encode_plus", 0.9), "", "tokenise once"},
	{"tokenising", false, wait(trace.CauseCollate), "num_workers=4", loadsAt("batch = tokenizer.pad(rows)", "transformers.tokenization_utils_base.PreTrainedTokenizerBase.pad", 0.9), "", ""},
	{"tokenising", false, wait(trace.CauseCollate), "num_workers=4", loadsAt("x = video.encode(frame)", "", 0.9), "", ""},
	{"empty_cache each step", true, wait(trace.CauseSync), "num_workers=1", stepsAt("torch.cuda.empty_cache()", "torch.cuda.memory.empty_cache", 0.3), "", "do without torch.cuda.empty_cache"},
	{"empty_cache each step", false, wait(trace.CauseSync), "num_workers=1", stepsAt("loss.backward()", "torch.autograd.graph._engine_run_backward", 0.3), "", "results less often"},
	{"synchronize each step", true, wait(trace.CauseSync), "num_workers=1", stepsAt("torch.cuda.synchronize()", "torch.cuda.synchronize", 0.3), "", "take times with CUDA events"},
	{"synchronize each step", false, wait(trace.CauseSync), "num_workers=1", stepsAt("torch.cuda.synchronize()", "torch.cuda.synchronize", 0.02), "", "results less often"},
	{"printing each step", true, wait(trace.CauseSync), "num_workers=1", stepsAt("print(loss)", "torch._tensor_str._str", 0.3), "", "every 100 steps"},
	{"printing each step", true, nil, "num_workers=1", together(stepsAt("if i % 10 == 0: print(f'{f(loss)}', loss.item())", "", 0.3), cpuDevice), "", "print every 100 steps only (no more than"},
	{"printing each step", false, nil, "num_workers=1", together(stepsAt("print(os.waitpid(child, 0))", "", 0.3), cpuDevice), "", ""},
	{".item() each step", false, nil, "num_workers=1", together(stepsAt("total += torch.mm(x, y).mean().item()", "", 0.9), cpuDevice), "", ""},
	{"printing each step", false, wait(trace.CauseSync), "num_workers=1", stepsAt("sprint(loss)", "", 0.3), "", "results less often"},
	{".item() each step", true, wait(trace.CauseSync), "num_workers=1", stepsAt("total += loss.item()", "", 0.3), "", "keep losses and metrics on the GPU"},
	{".item() each step", false, wait(trace.CauseSync), "num_workers=1", stepsAt("total += loss  # not .item()", "", 0.3), "", "results less often"},
	{".item() each step", false, nil, "num_workers=1", stepsAt("total += loss.item()", "", 0.9), "", "the loader keeps up"}, // it waits for a device that is busy
}

// linesAt puts that part of the time of one doing at a line, and the rest at another
// line.
func linesAt(at trace.Doing, text, in string, part float64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		n := int(1000 * part)
		s.Lines = []trace.Line{
			{At: at, File: "/u/train.py", Number: 42, Func: "f", Text: text, In: in, Looks: n, Time: int64(n)},
			{At: at, File: "/u/train.py", Number: 7, Func: "g", Text: "g()", Looks: 1000 - n, Time: int64(1000 - n)},
		}
	}
}

// loadsAt makes workers load at a line, more slowly than the cores allow.
func loadsAt(text, in string, part float64) func(*trace.Snapshot) {
	return together(onTorch("4"), load(20), linesAt(trace.Loading, text, in, part))
}

func stepsAt(text, in string, part float64) func(*trace.Snapshot) {
	return together(onTorch("4"), linesAt(trace.InStep, text, in, part))
}

// TestCallFree: the time of a line bounds the gain, and so does the device's wait for data. A training
// on the host's own cores would also gain from free cores, so nothing bounds its gain.
func TestCallFree(t *testing.T) {
	for _, c := range []struct {
		name string
		part float64
		mod  func(*trace.Snapshot)
		want string
	}{
		{"half of the wait", 0.2, nil, "no more than +29 % throughput, were it free"}, // 20 % of loading, known to 2.5 points
		{"all of the wait", 0.9, nil, "no more than +100 % throughput, were it free"},
		{"on the host", 0.9, onHost, "~+82 % throughput if nothing but this time were saved, at most ~+100 %"},
	} {
		s := uniform(60, wait(trace.CauseDecode), set("num_workers", "4"))
		loadsAt("d = json.loads(x)", "json.decoder.JSONDecoder.raw_decode", c.part)(s)
		if c.mod != nil {
			c.mod(s)
		}
		slow(s)
		gain := ""
		for _, f := range judge(s, s.Recent).all.Findings {
			if f.Rule == "parsing JSON" {
				gain = f.Gain()
			}
		}
		if gain != c.want {
			t.Errorf("%s: %q, want %q", c.name, gain, c.want)
		}
	}
	for _, k := range calls {
		if k.text == nil && len(k.in) == 0 {
			t.Errorf("%s: nothing tells it", k.name)
		}
	}
	if k := knownCall(&lines.Cost{Line: trace.Line{At: trace.Loading, In: "numpy.load", Text: "json.loads(x)"}}); k != nil {
		t.Errorf("a line's text counts for more than what it calls: %s", k.name)
	}
}
