package command

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "dev.gpustall/"

// tests is the package that, with those below it, nothing but tests may import.
const tests = "kernels/verify"

// faults is the package that all but the kernels may import, beside what their row
// says: an error is a value from the place where it arises.
const faults = "engine/base/errs"

// house is the import table of docs/dev/architecture.md: which of the project's own
// packages each may import. A key matches a package and those below it; the
// longest key wins. Test imports are not counted.
var house = map[string][]string{
	"kernels":                     {},
	"kernels/pixels":              {"kernels"},
	"kernels/cpu":                 {"kernels", "kernels/pixels"},
	"kernels/cuda":                {"kernels"},
	tests:                         {"kernels"},
	"engine/trace":                {},
	"engine/trace/store":          {"engine/trace"},
	"engine/base/knob":            {"engine/trace"},
	"engine/base/units":           {},
	faults:                        {},
	"engine/base/host":            {"engine/base/timer", "engine/trace"},
	"engine/base/timer":           {},
	"engine/device":               {},
	"engine/device/cpu":           {"engine/device", "engine/base/host", "kernels", "kernels/cpu"},
	"engine/device/cuda":          {"engine/device", "engine/base/host", "kernels", "kernels/cuda"},
	"engine/device/emu":           {"engine/device", "engine/base/timer", "kernels"},
	"engine/device/gpucheck":      nil, // a program of its own: the GPU check
	"engine/device/nvml":          {},
	"engine/device/devicetest":    {"engine/device", "kernels"},
	"loader":                      {"engine/base/host", "engine/base/knob", "engine/base/timer", "engine/trace"},
	"loader/source":               {"loader"},
	"loader/codec":                {"loader"},
	"loader/format":               {"loader", "loader/filemap", "loader/codec", "loader/parquet", "loader/source", "loader/filter", "loader/synth/marker", "loader/transform"},
	"loader/synth":                {"engine/base/host", "loader", "loader/format", "loader/source"},
	"loader/filemap":              {},
	"loader/download":             {},
	"loader/parquet":              {},
	"loader/filter":               {"loader/parquet"},
	"loader/transform":            {"loader", "kernels", "kernels/pixels"},
	"engine/train/nn":             {"engine/device", "kernels"},
	"engine/train/ops":            {"engine/device", "engine/trace"},
	"engine/train/plan":           {"loader", "engine/device", "engine/base/units", "engine/base/host", "engine/train/nn", "engine/train/ops", "engine/trace", "kernels"},
	"engine/train":                {"loader", "engine/device", "engine/base/units", "engine/base/host", "engine/base/knob", "engine/train/nn", "engine/train/ops", "engine/train/plan", "engine/trace", "kernels"},
	"engine/train/safetensors":    {},
	"engine/train/checkpoint":     {"loader", "engine/train", "engine/train/nn", "engine/train/safetensors", "engine/trace", "engine/base/units"},
	"engine/torch":                {"engine/trace", "engine/base/units", "engine/base/knob", "engine/base/host", "engine/base/timer"},
	"engine/analysis/stats":       {"engine/base/units"},
	"engine/analysis/attribution": {"engine/trace", "engine/base/units", "engine/analysis/stats"},
	"engine/analysis/advice":      {"engine/trace", "engine/base/units", "engine/analysis/attribution", "engine/analysis/stats", "engine/analysis/predict"},
	"engine/analysis/experiment":  {"engine/base/knob", "engine/trace", "engine/base/units", "engine/analysis/attribution", "engine/analysis/stats", "engine/analysis/predict", "engine/analysis/advice"},
	"engine/analysis/predict":     {"engine/trace", "engine/base/units", "engine/analysis/attribution", "engine/analysis/stats"},
	"engine/report/markup":        {"engine/base/units"},
	"engine/report/plot":          {"engine/trace", "engine/base/units", "engine/analysis/attribution"},
	"engine/report":               {"engine/trace", "engine/base/units", "engine/analysis/attribution", "engine/analysis/stats", "engine/analysis/advice", "engine/analysis/predict", "engine/report/markup", "engine/report/plot"},
	"engine/batch/sweep":          {"engine/trace", "engine/trace/store", "engine/base/units", "engine/analysis/attribution", "engine/analysis/stats", "engine/analysis/advice", "engine/report/markup", "engine/report/plot"},
	"engine/batch/lab":            {"engine/trace", "engine/base/units", "engine/base/knob", "engine/analysis/stats", "engine/analysis/advice", "engine/report/markup", "engine/report/plot", "engine/report", "engine/batch/sweep"},
	"engine/command":              nil, // composes: may import all
	"bench":                       nil, // programs that measure
	"tui/canvas":                  {},
	"tui":                         {"engine/base/knob", "engine/base/timer", "engine/trace", "engine/base/units", "engine/analysis/attribution", "engine/analysis/stats", "engine/analysis/advice", "engine/analysis/predict"},
}

// exact are packages that do not stand for those below them.
var exact = map[string]bool{"kernels": true, "loader": true, "engine/device": true, "engine/trace": true, "engine/train": true}

func under(path, row string) bool {
	return path == row || strings.HasPrefix(path, row+"/")
}

func rowOf(pkg string) string {
	best := ""
	for row := range house {
		if under(pkg, row) && len(row) > len(best) && (pkg == row || row != "engine/train") {
			best = row
		}
	}
	return best
}

func TestImportTable(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", "cuda", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		f := strings.Fields(line)
		pkg, ok := strings.CutPrefix(f[0], module)
		if !ok {
			continue // main
		}
		row := rowOf(pkg)
		if row == "" {
			t.Errorf("package %s is in no row of the import table", pkg)
			continue
		}
		seen++
		allowed := house[row] // nil: any
		for _, imp := range f[1:] {
			imp, ok := strings.CutPrefix(imp, module)
			if under(imp, tests) && !under(pkg, tests) {
				t.Errorf("%s imports %s, which is for tests alone", pkg, imp)
			}
			if allowed == nil || !ok || under(imp, row) && !exact[row] {
				continue
			}
			if imp == faults && !under(row, "kernels") {
				continue
			}
			if !permits(allowed, imp) {
				t.Errorf("%s imports %s; its row allows %v", pkg, imp, allowed)
			}
		}
	}
	if seen < 10 {
		t.Fatalf("only %d packages seen", seen)
	}
}

func permits(allowed []string, imp string) bool {
	for _, a := range allowed {
		if imp == a || !exact[a] && under(imp, a) {
			return true
		}
	}
	return false
}

// TestLeaves: what all speak of needs nothing but the standard library and faults.
func TestLeaves(t *testing.T) {
	for _, pkg := range []string{"kernels", "engine/device", "engine/trace", "engine/base/units", faults} {
		out, err := exec.Command("go", "list", "-f", `{{join .Imports " "}}`, module+pkg).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", pkg, err)
		}
		for _, imp := range strings.Fields(string(out)) {
			if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") && (imp != module+faults || pkg == "kernels") {
				t.Errorf("%s imports %s", pkg, imp)
			}
		}
	}
}

// TestScreenKnowsNoEngine checks the walls that hold through any number of
// imports: the screen and the reports never reach the engine or the loader.
func TestScreenKnowsNoEngine(t *testing.T) {
	for _, pkg := range []string{"tui", "engine/analysis/stats", "engine/analysis/attribution", "engine/analysis/advice", "engine/report", "engine/trace"} {
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
