package command

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/trace"
)

// jsonKeys adds the JSON keys of a type and of all types in it.
func jsonKeys(t reflect.Type, keys map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		jsonKeys(t.Elem(), keys)
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous, name != "" && name != "-":
				if !f.Anonymous {
					keys[name] = true
				}
				jsonKeys(f.Type, keys)
			}
		}
	}
}

// TestJSONIsDocumented: docs/reference/json.md has each key that is written, each cause and the
// gauges, and no other key.
func TestJSONIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "json.md"))
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{"exit_code": true} // in the summary of a run that failed at once
	for _, v := range []any{summary.Progress{}, summary.Decision{}, summary.Run{}, summary.Comparison{}, summary.Sweeps{}, summary.Trial{}} {
		jsonKeys(reflect.TypeOf(v), keys)
	}
	told, named := map[string]bool{}, map[string]bool{} // anywhere in a row; in its first column
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		first, _, _ := strings.Cut(line[1:], "|")
		for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(line, -1) {
			told[m[1]] = true
			named[m[1]] = named[m[1]] || strings.Contains(first, m[0])
		}
	}
	for key := range keys {
		if !told[key] {
			t.Errorf("docs/reference/json.md does not have %q", key)
		}
	}
	for c := range trace.Cause(trace.NumCauses) {
		if !strings.Contains(string(text), "`"+c.String()+"`") {
			t.Errorf("docs/reference/json.md does not have the cause %q", c)
		}
	}
	gauges := []string{trace.GaugeCPUOurs, trace.GaugeRunQueue, trace.GaugeStarved, trace.GaugeDiskOurs, trace.GaugeHostMemory}
	for _, g := range gauges {
		if !strings.Contains(string(text), "`"+g+"`") {
			t.Errorf("docs/reference/json.md does not have the gauge %q", g)
		}
	}
	for key, is := range named {
		if is && !keys[key] {
			t.Errorf("docs/reference/json.md has %q, which is written nowhere", key)
		}
	}
}

// TestAsksJSON: a command that ends in a summary does so even if it fails early. The --json of a
// script does not count.
func TestAsksJSON(t *testing.T) {
	for args, want := range map[string]bool{
		"run --json": true, "tune --batch-size x --json": true, "torch --json=true -- python x": true,
		"run --json=false": false, "torch -- python x --json": false, "compare --json": false,
	} {
		list := strings.Fields(args)
		if got := cli.AsksJSON(list[0], list[1:]); got != want {
			t.Errorf("%s: %v", args, got)
		}
	}
}
