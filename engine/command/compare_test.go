package command

import (
	"bytes"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/report"
)

// against returns a comparison with this throughput, and with 100 and 108 bytes of memory.
func against(answer stats.Answer, ratio, lo, hi float64) *report.Comparison {
	c := &report.Comparison{Sides: [2]*report.Compared{{Memory: 100}, {Memory: 108, Session: "b"}}}
	c.Throughput = stats.Change{Answer: answer, Ratio: ratio, Lo: lo, Hi: hi}
	return c
}

func TestFailIf(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit string
		c     *report.Comparison
		fails bool
		says  string // on standard error
	}{
		{"certainly slower", "slower=5%", against(stats.Different, 0.9, 0.88, 0.92), true, ""},
		{"slower, perhaps by less", "slower=5%", against(stats.Different, 0.94, 0.91, 0.97), false, ""},
		{"slower by a little", "slower=0%", against(stats.Different, 0.98, 0.97, 0.99), true, ""},
		{"faster", "slower=5%", against(stats.Different, 1.2, 1.1, 1.3), false, ""},
		{"not known", "slower=5%", against(stats.Unknown, 0.5, 0.1, 2), false, "not known yet"},
		{"more memory", "memory=5%", against(stats.Same, 1, 0.99, 1.01), true, ""},
		{"memory within the limit", "memory=10%", against(stats.Same, 1, 0.99, 1.01), false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			limits, err := parseLimits([]string{c.limit})
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := judge(&b, c.c.Sides[1].Session, &c.c.Throughput, [2]int64{c.c.Sides[0].Memory, c.c.Sides[1].Memory}, limits); (err != nil) != c.fails {
				t.Errorf("the error is %v", err)
			}
			if !strings.Contains(b.String(), c.says) || c.says == "" && b.Len() > 0 {
				t.Errorf("it says %q", b.String())
			}
		})
	}
}

func TestFailIfRefuses(t *testing.T) {
	for _, text := range []string{"faster=5%", "slower", "slower=5", "slower=%", "slower=-1%", "slower=NaN%", "=5%", ""} {
		if _, err := parseLimits([]string{text}); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestIsSegment(t *testing.T) {
	for name, want := range map[string]bool{"A": true, "#0": true, "#12": true, "": false, "#": false, "12": false, "#-1": false, "B": false} {
		if isSegment(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
