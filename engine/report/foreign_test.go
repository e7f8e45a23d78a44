package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"image/png"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"dev.gpustall/engine/trace"
)

// evil is a text that a file name, a label, a note or a setting may hold.
const evil = "=cmd()\x1b[2J\x1b]0;title\a\u009b31m\u202e|`code`\r\n# heading\n| a | b |\n<script>[link](http://x)*bold*~~gone~~\t"

// TestForeign fills every text of a session with characters that must not reach a reader,
// and checks that no format lets them through.
func TestForeign(t *testing.T) {
	long := strings.Repeat("A", 10_000)
	for name, spoil := range map[string]func(string) string{
		"instead": func(string) string { return evil },
		"before":  func(s string) string { return evil + s },
		"after":   func(s string) string { return s + evil + long },
	} {
		t.Run(name, func(t *testing.T) {
			s := scripts()["injected"].run(t)
			s.Ops = []trace.OpTime{{Segment: s.Segments[0].Index, Name: "conv", Layer: "stem", Phase: "forward", Variant: "plain", Calls: 2, Total: 9, Min: 4, Max: 5}}
			s.Lines = looked
			s = rewrite(s, spoil)
			o := rewrite(Options{Session: "name"}, spoil)
			for _, f := range Formats {
				format, write := f.Name, f.Write
				for _, o.Table = range Tables {
					var b bytes.Buffer
					if err := write(&b, s, o); err != nil {
						t.Fatal(err)
					}
					out := b.String()
					if format == "png" {
						if _, err := png.Decode(&b); err != nil {
							t.Error(err)
						}
						break
					}
					if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
						t.Errorf("%s: %q", format, out[max(0, i-40):min(len(out), i+40)])
					}
					if strings.Contains(out, long[:2000]) {
						t.Errorf("%s: an over-long text is not cut", format)
					}
					checks[format](t, out)
				}
			}
		})
	}
}

var checks = map[string]func(t *testing.T, out string){
	"markdown": func(t *testing.T, out string) {
		for _, wild := range []string{`(?m)^# heading`, `[^\\]<script`, `[^\\]\]\(`, `[^\\]\*bold`, `[^\\]~~gone`} {
			// The command line is shown as code, in which none of these acts.
			if m := regexp.MustCompile("(?m)^.*"+wild+".*$").FindAllString(out, -1); len(m) > 0 && !(len(m) == 1 && strings.HasPrefix(m[0], "      ")) {
				t.Errorf("%s comes through: %.300q", wild, m)
			}
		}
		cells := 0
		for _, l := range strings.Split(out, "\n") {
			if !strings.HasPrefix(l, "|") {
				cells = 0
				continue
			}
			n := len(regexp.MustCompile(`(^|[^\\])(\\\\)*\|`).FindAllString(l, -1))
			if cells > 0 && n != cells {
				t.Errorf("a row of %d bars in a table of %d: %.300q", n, cells, l)
			}
			cells = n
		}
	},
	"folded": func(t *testing.T, out string) {
		for l := range strings.Lines(out) {
			if !regexp.MustCompile(`^[^;\n]+(;[^;\n]+)+ [0-9]+\n$`).MatchString(l) {
				t.Errorf("not calls and a number: %q", l)
			}
		}
	},
	"csv": func(t *testing.T, out string) {
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil || len(rows) < 2 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for _, row := range rows {
			for _, f := range row {
				if f == "" || f == "-" || !strings.ContainsRune("=+-@", rune(f[0])) {
					continue
				}
				if _, err := strconv.ParseFloat(f, 64); err != nil {
					t.Errorf("a formula: %.100q", f)
				}
			}
		}
	},
	"html": func(t *testing.T, out string) {
		out, _, _ = strings.Cut(out, "<script>\"use strict\"") // ours, at the end
		for _, wild := range []string{"<script", "<a href=\"http", "ZgotmplZ"} {
			if strings.Contains(out, wild) {
				t.Errorf("%q comes through", wild)
			}
		}
	},
	"chrome": func(t *testing.T, out string) {
		if !json.Valid([]byte(out)) {
			t.Error("no JSON")
		}
	},
}
