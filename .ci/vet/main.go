// Command vet holds the linters that "go vet -vettool" runs on each package: go vet's own, staticcheck's,
// and some more. go vet keeps their results in the build cache.
//
// A line is left alone by a comment at its end: //nolint:name, with the reason behind it.
package main

import (
	"encoding/gob"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/golangci/misspell"
	"github.com/golangci/unconvert"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/gostaticanalysis/nilerr"
	"github.com/karamaru-alpha/copyloopvar"
	"github.com/kisielk/errcheck/errcheck"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/appends"
	"golang.org/x/tools/go/analysis/passes/asmdecl"
	"golang.org/x/tools/go/analysis/passes/assign"
	"golang.org/x/tools/go/analysis/passes/atomic"
	"golang.org/x/tools/go/analysis/passes/bools"
	"golang.org/x/tools/go/analysis/passes/buildtag"
	"golang.org/x/tools/go/analysis/passes/cgocall"
	"golang.org/x/tools/go/analysis/passes/composite"
	"golang.org/x/tools/go/analysis/passes/copylock"
	"golang.org/x/tools/go/analysis/passes/defers"
	"golang.org/x/tools/go/analysis/passes/directive"
	"golang.org/x/tools/go/analysis/passes/errorsas"
	"golang.org/x/tools/go/analysis/passes/framepointer"
	"golang.org/x/tools/go/analysis/passes/hostport"
	"golang.org/x/tools/go/analysis/passes/httpresponse"
	"golang.org/x/tools/go/analysis/passes/ifaceassert"
	"golang.org/x/tools/go/analysis/passes/loopclosure"
	"golang.org/x/tools/go/analysis/passes/lostcancel"
	"golang.org/x/tools/go/analysis/passes/nilfunc"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/analysis/passes/sigchanyzer"
	"golang.org/x/tools/go/analysis/passes/slog"
	"golang.org/x/tools/go/analysis/passes/stdmethods"
	"golang.org/x/tools/go/analysis/passes/stdversion"
	"golang.org/x/tools/go/analysis/passes/stringintconv"
	"golang.org/x/tools/go/analysis/passes/structtag"
	"golang.org/x/tools/go/analysis/passes/testinggoroutine"
	"golang.org/x/tools/go/analysis/passes/tests"
	"golang.org/x/tools/go/analysis/passes/timeformat"
	"golang.org/x/tools/go/analysis/passes/unmarshal"
	"golang.org/x/tools/go/analysis/passes/unreachable"
	"golang.org/x/tools/go/analysis/passes/unsafeptr"
	"golang.org/x/tools/go/analysis/passes/unusedresult"
	"golang.org/x/tools/go/analysis/passes/waitgroup"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// leftOut are the checks of staticcheck's that ask for a style which is not this project's.
var leftOut = regexp.MustCompile(`^(QF.*|ST1000|ST1003|ST1005|ST1016|ST1020|ST1021|ST1022)$`)

// unchecked are calls whose error may be dropped, and files in which any may.
var (
	unchecked      = regexp.MustCompile(`^fmt\.Fprint|\.Close$|^\(\*database/sql\.Tx\)\.Rollback$`)
	uncheckedFiles = regexp.MustCompile(`_test\.go$|/kernels/verify/`)
)

func main() {
	all := append(vets[:len(vets):len(vets)],
		quiet(bodyclose.Analyzer), quiet(copyloopvar.NewAnalyzer()), quiet(errorlint.NewAnalyzer()),
		quiet(ineffassign.Analyzer), quiet(nilerr.Analyzer), unhandled, unusedObjects, needless, misspelled,
	)
	for _, group := range [][]*lint.Analyzer{staticcheck.Analyzers, simple.Analyzers, stylecheck.Analyzers} {
		for _, check := range group {
			if !leftOut.MatchString(check.Analyzer.Name) {
				all = append(all, quiet(check.Analyzer))
			}
		}
	}
	if ofModule(os.Args[len(os.Args)-1]) {
		register(all) // what the others found out about the standard library is read too
		all = facts
	}
	unitchecker.Main(all...)
}

// facts are the analyzers that learn from packages of other modules, whose code is not judged. All
// staticcheck's would take the longest for what is the least: modernc.org/sqlite is C made Go.
var facts = []*analysis.Analyzer{printf.Analyzer}

// register tells gob of the facts of analyzers, and of those that they require.
func register(analyzers []*analysis.Analyzer) {
	for _, a := range analyzers {
		for _, fact := range a.FactTypes {
			gob.Register(fact)
		}
		register(a.Requires)
	}
}

// ofModule reports whether what go vet asks for, in a file, is only what to know of a package of another module.
func ofModule(name string) bool {
	var asked struct {
		ImportPath string
		VetxOnly   bool
	}
	text, err := os.ReadFile(name)
	if err != nil || filepath.Ext(name) != ".cfg" || json.Unmarshal(text, &asked) != nil {
		return false // go vet asks for the version or the flags
	}
	host, _, _ := strings.Cut(asked.ImportPath, "/")
	return asked.VetxOnly && strings.Contains(host, ".") && host != "dev.gpustall"
}

// vets are the analyzers of go vet (cmd/vet).
var vets = []*analysis.Analyzer{
	appends.Analyzer, asmdecl.Analyzer, assign.Analyzer, atomic.Analyzer, bools.Analyzer,
	buildtag.Analyzer, cgocall.Analyzer, composite.Analyzer, copylock.Analyzer, defers.Analyzer,
	directive.Analyzer, errorsas.Analyzer, framepointer.Analyzer, hostport.Analyzer, httpresponse.Analyzer,
	ifaceassert.Analyzer, loopclosure.Analyzer, lostcancel.Analyzer, nilfunc.Analyzer, printf.Analyzer,
	shift.Analyzer, sigchanyzer.Analyzer, slog.Analyzer, stdmethods.Analyzer, stdversion.Analyzer,
	stringintconv.Analyzer, structtag.Analyzer, testinggoroutine.Analyzer, tests.Analyzer, timeformat.Analyzer,
	unmarshal.Analyzer, unreachable.Analyzer, unsafeptr.Analyzer, unusedresult.Analyzer, waitgroup.Analyzer,
}

// quiet has an analyzer leave alone the lines that a //nolint names, and what cgo makes.
func quiet(a *analysis.Analyzer) *analysis.Analyzer {
	run, name := a.Run, a.Name
	if regexp.MustCompile(`^[A-Z]+\d+$`).MatchString(name) {
		name = "staticcheck"
	}
	a.Run = func(pass *analysis.Pass) (any, error) {
		heard := *pass
		lines := map[string][]string{}
		heard.Report = func(d analysis.Diagnostic) {
			if at := pass.Fset.Position(d.Pos); filepath.Ext(at.Filename) == ".go" && !strings.HasSuffix(at.Filename, "_cgo_gotypes.go") {
				text := line(lines, at.Filename, at.Line)
				if _, names, found := strings.Cut(text, "//nolint:"); !found || !strings.Contains(","+strings.Fields(names)[0]+",", ","+name+",") {
					d.Message += " (" + a.Name + ")"
					pass.Report(d)
				}
			}
		}
		return run(&heard)
	}
	return a
}

// line returns a line of a file; it is empty where the file has none.
func line(files map[string][]string, name string, n int) string {
	if _, read := files[name]; !read {
		text, _ := os.ReadFile(name)
		files[name] = strings.Split(string(text), "\n")
	}
	if n < 1 || n > len(files[name]) {
		return ""
	}
	return files[name][n-1]
}

var unhandled = quiet(&analysis.Analyzer{
	Name: "errcheck", Doc: "reports errors that are dropped", Requires: []*analysis.Analyzer{errcheck.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, dropped := range pass.ResultOf[errcheck.Analyzer].(errcheck.Result).UncheckedErrors {
			if !uncheckedFiles.MatchString(dropped.Pos.Filename) && !unchecked.MatchString(dropped.FuncName) {
				report(pass, dropped.Pos.Filename, dropped.Pos.Line, "the error of "+dropped.FuncName+" is dropped")
			}
		}
		return nil, nil
	},
})

var unusedObjects = quiet(&analysis.Analyzer{
	Name: "unused", Doc: "reports what is declared and not used", Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, object := range pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result).Unused {
			report(pass, object.Position.Filename, object.Position.Line, fmt.Sprintf("%s %s is not used", object.Kind, object.Name))
		}
		return nil, nil
	},
})

var needless = quiet(&analysis.Analyzer{
	Name: "unconvert", Doc: "reports conversions to the type that a value has",
	Run: func(pass *analysis.Pass) (any, error) {
		for _, at := range unconvert.Run(pass) {
			report(pass, at.Filename, at.Line, "the conversion is needless")
		}
		return nil, nil
	},
})

var misspelled = quiet(&analysis.Analyzer{
	Name: "misspell", Doc: "reports words that are often misspelled so",
	Run: func(pass *analysis.Pass) (any, error) {
		words := misspell.New()
		words.Compile()
		for _, file := range pass.Files {
			name := pass.Fset.File(file.FileStart).Name()
			text, err := os.ReadFile(name)
			if err != nil {
				continue // cgo made it
			}
			_, diffs := words.ReplaceGo(string(text))
			for _, diff := range diffs {
				report(pass, name, diff.Line, fmt.Sprintf("%q is misspelled: %q", diff.Original, diff.Corrected))
			}
		}
		return nil, nil
	},
})

// report reports a line of a file of the package.
func report(pass *analysis.Pass, name string, line int, message string) {
	for _, file := range pass.Files {
		if f := pass.Fset.File(file.FileStart); line <= f.LineCount() && pass.Fset.Position(f.LineStart(line)).Filename == name {
			pass.Report(analysis.Diagnostic{Pos: f.LineStart(line), Message: message})
			return
		}
	}
}
