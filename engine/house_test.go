// Package engine holds no code: its tests hold the imports and the sizes of all packages against
// the plan of the house.
package engine

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of docs/dev")

const module = "dev.gpustall/"

// room is a package of the house, with those below it.
type room struct {
	path string
	what string   // for docs/dev/packages.md
	may  []string // which rooms it may import, beside those below it; nil in a room that composes: all
}

// everywhere is what all but the kernels may import besides: an error is a value from the place
// where it arises.
const everywhere = "engine/base/errs"

// tests is the package that, with those below it, nothing but tests may import.
const tests = "kernels/verify"

// house is every package, floor by floor from the top. A room imports rooms of floors below its
// own, and of its own floor only those of its own wing: engine/analysis/advice may import
// engine/analysis/predict. docs/dev/packages.md has this table: go test ./engine -run TestImportTable -update.
var house = [][]room{
	{
		{"engine/command", "the command line: composes all; one file a command", nil},
		{"engine/command/sweepcmd", "gpustall sweep: flags -> plan, its runs here or on a cluster", []string{"engine/analysis/stats", "engine/base/host", "engine/base/knob", "engine/base/units", "engine/batch/sweep", "engine/command/cli", "engine/command/flags", "engine/command/machine", "engine/command/summary", "engine/device", "engine/device/emu", "engine/torch", "engine/trace", "engine/train", "loader/source"}},
		{"engine/command/datacmd", "gpustall data: makes, gets, packs and inspects data sets, and opens them for all commands", []string{"engine/base/host", "engine/base/knob", "engine/base/units", "engine/command/cli", "engine/command/flags", "engine/report/markup", "engine/trace", "loader", "loader/download", "loader/format", "loader/source", "loader/synth", "loader/transform"}},
		{"engine/command/watch", "what goes on beside a training: gauges, experiments, a look at the session's file and one for earlier runs", []string{"engine/analysis/advice", "engine/analysis/attribution", "engine/analysis/experiment", "engine/base/host", "engine/base/knob", "engine/base/timer", "engine/base/units", "engine/command/cli", "engine/command/machine", "engine/device", "engine/device/nvml", "engine/torch", "engine/trace", "engine/trace/store", "engine/train", "loader/source"}},
		{"engine/command/script", "runs the user's command: signals, output, exit code", []string{"engine/base/host", "engine/base/timer", "engine/command/cli"}},
		{"engine/command/machine", "opens devices and says what the machine has", []string{"engine/base/host", "engine/base/knob", "engine/base/units", "engine/command/cli", "engine/device", "engine/device/cpu", "engine/device/cuda", "engine/device/emu", "engine/device/nvml", "engine/trace", "engine/train", "loader", "loader/codec"}},
		{"engine/command/flags", "flags that several commands take, and the help that lists them", []string{"engine/analysis/experiment", "engine/base/knob", "engine/base/units", "engine/batch/sweep", "engine/command/cli", "engine/device", "engine/trace", "engine/train", "engine/train/nn", "engine/train/safetensors", "loader/filter", "loader/format", "loader/source", "loader/transform"}},
		{"engine/command/summary", "what a session tells, as JSON and as lines for people", []string{"engine/analysis/advice", "engine/analysis/attribution", "engine/analysis/lines", "engine/analysis/predict", "engine/analysis/stats", "engine/base/knob", "engine/base/units", "engine/batch/sweep", "engine/command/cli", "engine/device", "engine/report", "engine/trace"}},
		{"engine/command/cli", "what all commands share: exit codes, lines, signals, files, folders", []string{"engine/base/units", "engine/device", "engine/trace"}},
		{"engine/device/gpucheck", "the program of the GPU bundle: checks and measures on a GPU ([gpu.md](../guide/gpu.md))", nil},
		{"bench", "what `make bench-peers` compares with other loaders, and the program that it runs", nil},
	},
	{
		{"tui", "the screen: what it follows, its layout and keys; `quiet` keeps the terminal libraries from asking the terminal at the start, `internal/demo` simulates a run for tests", []string{"engine/analysis/advice", "engine/analysis/attribution", "engine/analysis/stats", "engine/base/knob", "engine/base/timer", "engine/base/units", "engine/trace", "tui/canvas", "tui/panel"}},
		{"tui/panel", "the panels behind one interface, each with a file of its own, and what they draw: the numbers of a moment and their analysis", []string{"engine/analysis/advice", "engine/analysis/attribution", "engine/analysis/lines", "engine/analysis/predict", "engine/analysis/stats", "engine/base/knob", "engine/base/units", "engine/trace", "tui/canvas"}},
		{"tui/canvas", "character cells, themes and glyphs, boxes, bars, the table", []string{}},
		{"engine/torch", "the user's PyTorch training: the importer of profiler traces; `bridge` makes a session of a training while it runs, `frames` reads what its threads are at, `inject` has a process that runs already run code, `tcpstore` talks to the store that the ranks of a training share, `python` is what runs inside of it ([torch.md](../guide/torch.md))", []string{"engine/base/host", "engine/base/knob", "engine/base/timer", "engine/base/mask", "engine/base/units", "engine/trace"}},
		{"engine/batch/sweep", "plans of many configurations, their runs one after the other, what they measured; two sweeps -> a comparison", []string{"engine/analysis/advice", "engine/analysis/attribution", "engine/analysis/stats", "engine/base/knob", "engine/base/mask", "engine/base/units", "engine/report/markup", "engine/report/plot", "engine/trace", "engine/trace/store"}},
		{"engine/batch/lab", "the whole story alone, as stages that are sweeps ([lab.md](../guide/lab.md))", []string{"engine/analysis/advice", "engine/analysis/stats", "engine/base/knob", "engine/base/units", "engine/batch/sweep", "engine/report", "engine/report/markup", "engine/report/plot", "engine/trace"}},
	},
	{
		{"engine/report", "(session, advice) -> markdown, HTML, PNG, CSV, Chrome; two sessions -> a comparison", []string{"engine/analysis/advice", "engine/analysis/attribution", "engine/analysis/fleet", "engine/analysis/lines", "engine/analysis/predict", "engine/analysis/stats", "engine/base/knob", "engine/base/mask", "engine/base/units", "engine/report/markup", "engine/report/plot", "engine/trace"}},
		{"engine/report/markup", "headings, lists, tables and pictures, written as markdown or as one HTML page; tables for spreadsheets", []string{"engine/base/units"}},
		{"engine/report/plot", "PNG pictures of what was measured, labelled in the picture", []string{"engine/analysis/attribution", "engine/base/knob", "engine/base/units", "engine/trace"}},
	},
	{
		{"engine/analysis/experiment", "questions that a run answers by changing its own knobs for a while: A/B test, cached-batch ceiling, tune", []string{"engine/analysis/advice", "engine/analysis/attribution", "engine/analysis/predict", "engine/analysis/stats", "engine/base/knob", "engine/base/units", "engine/trace"}},
		{"engine/analysis/advice", "labels, verdict, rules: what the numbers mean and what to try", []string{"engine/analysis/attribution", "engine/analysis/fleet", "engine/analysis/lines", "engine/analysis/predict", "engine/analysis/stats", "engine/base/knob", "engine/base/units", "engine/trace"}},
		{"engine/analysis/predict", "what another setting would do: the run, simulated with what was measured of it ([predict.md](../results/predict.md))", []string{"engine/analysis/attribution", "engine/analysis/stats", "engine/base/host", "engine/base/knob", "engine/base/units", "engine/trace"}},
		{"engine/analysis/attribution", "charges every idle moment of the device to a cause; segments, epochs", []string{"engine/analysis/stats", "engine/base/knob", "engine/base/units", "engine/trace"}},
		{"engine/analysis/fleet", "which rank of a distributed training the others wait for", []string{"engine/trace"}},
		{"engine/analysis/lines", "which lines of a PyTorch training's code cost the time", []string{"engine/base/knob", "engine/base/units", "engine/trace"}},
		{"engine/analysis/stats", "whether one stretch of steps was faster than another, and how sure that is", []string{"engine/base/units"}},
	},
	{
		{"engine/train", "our own training: the step loop, its knobs, events into times", []string{"engine/base/host", "engine/base/knob", "engine/base/units", "engine/device", "engine/trace", "engine/train/nn", "engine/train/ops", "engine/train/prepared", "kernels", "loader"}},
		{"engine/train/checkpoint", "runs and weights as files", []string{"engine/base/knob", "engine/base/units", "engine/trace", "engine/train", "engine/train/nn", "engine/train/safetensors", "loader"}},
		{"engine/train/nn", "models as static plans of launches", []string{"engine/base/splitmix", "engine/device", "kernels"}},
		{"engine/train/ops", "the table of device ops, and which steps are timed", []string{"engine/base/knob", "engine/device", "engine/trace"}},
		{"engine/train/prepared", "steps in the device's form, and the memory they need of device and host, as knobs change", []string{"engine/base/host", "engine/base/knob", "engine/base/units", "engine/device", "engine/trace", "engine/train/nn", "engine/train/ops", "kernels", "loader"}},
		{"engine/train/safetensors", "named tensors in files, read and written; the Go libraries of the format are not kept up, and it is under 400 lines", []string{}},
	},
	{
		{"engine/device", "the device contract", []string{}},
		{"engine/device/cpu", "trains on the host's threads", []string{"engine/base/host", "engine/device", "kernels", "kernels/cpu"}},
		{"engine/device/cuda", "trains on an NVIDIA GPU; `driver` is what gorgonia.org/cu lacks of the driver's API", []string{"engine/base/host", "engine/device", "kernels", "kernels/cuda"}},
		{"engine/device/emu", "models the time of a GPU, labelled so everywhere", []string{"engine/base/timer", "engine/device", "kernels"}},
		{"engine/device/nvml", "gauges of NVIDIA's management library", []string{}},
		{"engine/device/devicetest", "one table of operations for every device", []string{"engine/base/splitmix", "engine/device", "kernels"}},
		{"loader", "Loader, sampler, workers, schedule, slots, injected bottlenecks; what a data set and a transform are", []string{"engine/base/host", "engine/base/knob", "engine/base/splitmix", "engine/base/timer", "engine/trace"}},
		{"loader/source", "where bytes are: files, S3, Azure; retries, reading ahead, the cache; `sourcetest` is a store that fails, for tests", []string{"loader"}},
		{"loader/format", "finds out what a path holds and opens it; one package a format", []string{"loader", "loader/codec", "loader/filemap", "loader/filter", "loader/parquet", "loader/source", "loader/synth/marker", "loader/transform"}},
		{"loader/codec", "images to RGB pixels, as PIL has them; `jpeg` is its own decoder", []string{"loader"}},
		{"loader/transform", "crop, flip, resize, normalise", []string{"kernels", "kernels/pixels", "loader"}},
		{"loader/synth", "writes synthetic data sets in the real formats", []string{"engine/base/host", "loader", "loader/format", "loader/source", "loader/synth/marker"}},
		{"loader/synth/marker", "the file that says that a data set is synthetic", []string{"loader/source"}},
		{"loader/filter", "conditions on the rows of a table", []string{"loader/parquet"}},
		{"loader/download", "a file over HTTP, gone on with and checked, and archives unpacked", []string{}},
		{"loader/filemap", "a file read through a map of it; one that shrinks is an error", []string{}},
		{"loader/parquet", "flat tables as Parquet files", []string{}},
	},
	{
		{"engine/trace", "spans, steps, tracks, recorder, collector; the session with its digest of all steps", []string{"engine/base/knob"}},
		{"engine/trace/store", "the session file; `rows` is what lies in its rows, without the database", []string{"engine/base/knob", "engine/trace"}},
		{"kernels", "operations: shape, cost, Go reference", []string{}},
		{"kernels/pixels", "transforms of RGB images, for the loader and the CPU device", []string{"kernels"}},
		{"kernels/cpu", "the CPU device's kernels", []string{"kernels", "kernels/pixels"}},
		{"kernels/cuda", "CUDA sources, the PTX made of them, launch geometry", []string{"kernels"}},
		{tests, "what only tests need: `ptxvm` interprets the committed PTX, `emulation` runs the CUDA sources on the host ([kernels.md](kernels.md))", []string{"kernels"}},
	},
	{
		{"engine/base/knob", "settings as text: one row says name, range, default, help and flag of each", []string{}},
		{"engine/base/host", "what the machine lets the process use, by affinity and cgroup, and what it was doing: cores, waiting for a core, pressure, throttling, disks", []string{"engine/base/timer"}},
		{"engine/base/splitmix", "random numbers that a seed decides", []string{}},
		{"engine/base/mask", "takes secrets out of a command line before it is written", []string{}},
		{"engine/base/timer", "waits that end on time, and how long a thread has computed", []string{}},
		{"engine/base/units", "how times, sizes, rates, shares and comparisons are written, for every reader", []string{}},
		{everywhere, "errors as values: operation, object, reason, hint; all but the kernels may import it", []string{}},
	},
}

// contracts are rooms in which those below them do not have a part: whoever may import
// engine/device may not import engine/device/cpu for that.
var contracts = []string{"engine/device", "engine/report", "engine/trace", "engine/train", "kernels", "loader"}

func under(path, room string) bool {
	return path == room || strings.HasPrefix(path, room+"/")
}

// roomOf returns the room that a package lies in, and its floor, from the top.
func roomOf(pkg string) (in *room, floor int) {
	for f := range house {
		for i := range house[f] {
			r := &house[f][i]
			if !under(pkg, r.path) || in != nil && len(r.path) < len(in.path) || pkg != r.path && slices.Contains(contracts, r.path) {
				continue
			}
			in, floor = r, f
		}
	}
	return in, floor
}

// wing is what rooms of one floor that may import each other have in common.
func wing(path string) string {
	parts := strings.Split(path, "/")
	if parts[0] != "engine" {
		return parts[0]
	}
	return strings.Join(parts[:2], "/")
}

// imports calls see with each package of the project and each of the project's packages that it
// imports; tests' imports are not counted.
func imports(t *testing.T, see func(pkg, imported string)) {
	t.Helper()
	out, err := exec.Command("go", "list", "-tags", "cuda", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		pkg, ok := strings.CutPrefix(f[0], module)
		if !ok || pkg == "engine" {
			continue // main, and this test
		}
		seen++
		see(pkg, "")
		for _, imp := range f[1:] {
			if imp, ok := strings.CutPrefix(imp, module); ok {
				see(pkg, imp)
			}
		}
	}
	if seen < 10 {
		t.Fatalf("only %d packages seen", seen)
	}
}

// TestImportTable holds the imports against the house, and the house against its page.
func TestImportTable(t *testing.T) {
	imports(t, func(pkg, imp string) {
		in, floor := roomOf(pkg)
		if in == nil {
			t.Errorf("package %s is in no room of the house", pkg)
			return
		}
		if imp == "" {
			return
		}
		if under(imp, tests) && !under(pkg, tests) {
			t.Errorf("%s imports %s, which is for tests alone", pkg, imp)
		}
		to, below := roomOf(imp)
		switch {
		case to == nil || to == in || in.may == nil:
		case imp == everywhere && !under(pkg, "kernels"):
		case below < floor, below == floor && wing(in.path) != wing(to.path):
			t.Errorf("%s imports %s, which is not on a floor below", pkg, imp)
		case !slices.Contains(in.may, to.path):
			t.Errorf("%s imports %s; its room may import %v", pkg, imp, in.may)
		}
	})
	generated(t, "packages.md", "import table", importTable())
}

// importTable is the house as docs/dev/packages.md has it.
func importTable() string {
	var b strings.Builder
	b.WriteString("| floor | package | what it is |\n|---|---|---|\n")
	for f, rooms := range house {
		for _, r := range rooms {
			fmt.Fprintf(&b, "| %d | `%s` | %s |\n", len(house)-f, r.path, r.what)
		}
	}
	return b.String()
}

// generated holds a part of a page of docs/dev, between two markers, against what it is made
// from; with -update it writes it.
func generated(t *testing.T, page, part, want string) {
	t.Helper()
	path := filepath.Join("..", "docs", "dev", page)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- begin "+part+" -->\n", "<!-- end "+part+" -->"
	head, rest, ok := strings.Cut(string(raw), begin)
	have, tail, closed := strings.Cut(rest, end)
	switch {
	case !ok || !closed:
		t.Fatalf("%s lacks the markers of the %s", path, part)
	case have == want:
	case *update:
		if err := os.WriteFile(path, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the %s of %s is not what the code says: go test ./engine -run %s -update", part, path, t.Name())
	}
}

// TestLeaves: what all speak of needs nothing but the standard library and packages of ours.
func TestLeaves(t *testing.T) {
	for _, pkg := range []string{"kernels", "engine/device", "engine/trace", "engine/base/units", everywhere} {
		out, err := exec.Command("go", "list", "-f", `{{join .Imports " "}}`, module+pkg).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", pkg, err)
		}
		for _, imp := range strings.Fields(string(out)) {
			if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") && !strings.HasPrefix(imp, module) {
				t.Errorf("%s imports %s", pkg, imp)
			}
		}
	}
}

// TestScreenKnowsNoEngine: the screen and the reports do not reach the training loop, a device or
// the loader, through whatever they import.
func TestScreenKnowsNoEngine(t *testing.T) {
	for _, pkg := range []string{"tui", "engine/analysis/advice", "engine/analysis/attribution", "engine/analysis/stats", "engine/report", "engine/trace"} {
		out, err := exec.Command("go", "list", "-deps", module+pkg).Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", pkg, err)
		}
		for _, dep := range strings.Fields(string(out)) {
			dep, ok := strings.CutPrefix(dep, module)
			if ok && (under(dep, "engine/train") || under(dep, "loader") || under(dep, "engine/device") || under(dep, "kernels")) {
				t.Errorf("%s depends on %s", pkg, dep)
			}
		}
	}
}

// What one reader can hold: fields and methods of a type, lines of a function.
const (
	mostFields  = 30
	mostMethods = 40
	mostLines   = 80
)

// TestRoomsAreSmall counts fields and methods of types, and lines of functions.
func TestRoomsAreSmall(t *testing.T) {
	type size struct{ fields, methods int }
	sizes := map[string]*size{}
	of := func(name string) *size {
		if sizes[name] == nil {
			sizes[name] = &size{}
		}
		return sizes[name]
	}
	large := map[string]string{}
	const root = ".."
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel) + "."
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				switch typ := n.Type.(type) {
				case *ast.StructType:
					of(pkg + n.Name.Name).fields += typ.Fields.NumFields()
				case *ast.InterfaceType:
					of(pkg + n.Name.Name).methods += typ.Methods.NumFields()
				}
			case *ast.FuncDecl:
				name := pkg + n.Name.Name
				if n.Recv != nil {
					receiver := receiverOf(n.Recv.List[0].Type)
					of(pkg+receiver).methods++
					name = pkg + receiver + "." + n.Name.Name
				}
				if lines := files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1; lines > mostLines {
					large[name] = fmt.Sprintf("%d lines", lines)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range sizes {
		if s.fields > mostFields || s.methods > mostMethods {
			large[name] = fmt.Sprintf("%d fields and %d methods", s.fields, s.methods)
		}
	}
	for name, what := range large {
		t.Errorf("%s has %s; the most are %d fields and %d methods of a type, %d lines of a function", name, what, mostFields, mostMethods, mostLines)
	}
}

// receiverOf is the name of a method's type.
func receiverOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverOf(e.X)
	case *ast.IndexExpr:
		return receiverOf(e.X)
	case *ast.IndexListExpr:
		return receiverOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
