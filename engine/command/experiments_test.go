package command

import (
	"strings"
	"testing"
)

// A run that is asked something answers it in its summary, and ends as it began.
func TestAsk(t *testing.T) {
	data := tiny(t)
	for _, tt := range []struct {
		name, kind, why, text string
		args                  []string
		slow                  bool
	}{
		{"ceiling", "ceiling", "", "fixing data buys at most ", []string{"--ask-ceiling"}, true},
		{"paired, ended by the run", "paired", "the run ended", "num_workers 1 -> 2: not known yet: ", []string{"--paired", "num_workers=2", "--steps", "250"}, false},
		{"paired, out of budget", "paired", "its budget of 4.00 s is spent", "num_workers 1 -> 2: not known yet: ", []string{"--paired", "num_workers=2", "--budget", "4s"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.slow && testing.Short() {
				t.Skip("an answer takes seconds")
			}
			args := append([]string{"run", "--device", "emu:h100", "--data", data, "--batch-size", "8", "--num-workers", "1", "--inject", "read=2ms", "--epochs", "0", "--json"}, tt.args...)
			if tt.slow { // the answer ends it
				args = append(args[:len(args)-len(tt.args)-3], append([]string{"--json"}, tt.args...)...)
			}
			r := gpustall(t, args...)
			if r.code != 0 {
				t.Fatalf("exit %d: %s", r.code, r.stderr)
			}
			m := last(t, r.stdout)
			if m["status"] != "finished" || m["knobs"].(map[string]any)["ceiling"] != "off" {
				t.Errorf("status %v, knobs %v", m["status"], m["knobs"])
			}
			list, _ := m["experiments"].([]any)
			if len(list) != 1 {
				t.Fatalf("experiments %v", m["experiments"])
			}
			x := list[0].(map[string]any)
			why, _ := x["why"].(string)
			if x["kind"] != tt.kind || why != tt.why || !strings.HasPrefix(x["text"].(string), tt.text) {
				t.Errorf("%v", x)
			}
			if tt.kind == "ceiling" {
				gain, _ := m["ceiling_gain"].(map[string]any)
				if gain["answer"] != "different" || gain["ratio"].(float64) < 1.5 {
					t.Errorf("ceiling_gain %v", gain)
				}
			}
			members := 0
			for _, g := range m["segment_table"].([]any) {
				if _, ok := g.(map[string]any)["experiment"]; ok {
					members++
				}
			}
			if members == 0 || float64(members) != x["segments"].(float64) {
				t.Errorf("%d segments belong to it, it says %v", members, x["segments"])
			}
		})
	}
}

func TestAskRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"--paired=num_workers":             "write num_workers=4, say",
		"--paired=speed=4":                 "there is no knob of that name",
		"--paired=num_workers=640":         "num_workers",
		"--budget=0s":                      "too short for a pair",
		"--budget=long":                    "not a time such as 90s or 5m",
		"--paired=num_workers=2 --steps=9": "",
	} {
		r := gpustall(t, append([]string{"run", "--device", "emu:h100", "--num-workers", "2"}, strings.Fields(args)...)...)
		if want != "" && (r.code != 2 || !strings.Contains(r.stderr, want)) || want == "" && r.code != 0 {
			t.Errorf("%s: exit %d: %s", args, r.code, r.stderr)
		}
	}
}
