package command

import (
	"strconv"
	"strings"
	"testing"
)

// TestUnasked: a run that ends before its question could be asked says so. auto says briefly
// which device it took.
func TestUnasked(t *testing.T) {
	r := gpustall(t, "run", "--data", tiny(t), "--batch-size", "8", "--paired", "num_workers=2", "--steps", "3")
	if r.code != 0 || !strings.Contains(r.stderr, "ask whether num_workers=2 is faster: the run ended before") || strings.Contains(r.stderr, "take --device cpu") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

// TestAsk: a run that is asked something answers in its summary, and ends with the settings
// with which it began.
func TestAsk(t *testing.T) {
	t.Parallel()
	data := tiny(t)
	for _, tt := range []struct {
		name, kind, why, text string
		args                  []string
		slow                  bool
	}{
		{"ceiling", "ceiling", "", "fixing data buys at most ", []string{"--ask-ceiling"}, true},
		{"paired, ended by the run", "paired", "the run ended", "num_workers 1 -> 2: not significant yet: ", []string{"--paired", "num_workers=2", "--steps", "250"}, false},
		{"paired, out of budget", "paired", "its budget of 4.00 s is spent", "num_workers 1 -> 2: not significant yet: ", []string{"--paired", "num_workers=2", "--budget", "4s"}, true},
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

// TestTune: a tune ends by itself, says what it decided and why, and leaves settings that are as
// fast or faster.
func TestTune(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	r := gpustall(t, "tune", "--device", "emu:h100", "--data", tiny(t), "--batch-size", "8", "--num-workers", "1", "--inject", "read=2ms",
		"--knobs", "num_workers,pin-memory", "--max-workers", "8", "--memory-budget", "16GiB", "--budget", "40s", "--json")
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	m := last(t, r.stdout)
	list, _ := m["experiments"].([]any)
	if len(list) != 1 || m["status"] != "finished" {
		t.Fatalf("status %v, experiments %v", m["status"], list)
	}
	x := list[0].(map[string]any)
	decisions, _ := x["decisions"].([]any)
	told := strings.Count(r.stdout, `"type":"decision"`)
	if x["kind"] != "tune" || len(decisions) < 3 || told != len(decisions) {
		t.Errorf("%d decisions, of which %d were told meanwhile: %v", len(decisions), told, x)
	}
	if x["kept"] != true || !strings.HasPrefix(x["flags"].(string), "--num-workers=") || !strings.HasPrefix(x["data_loader"].(string), "DataLoader(dataset, batch_size=8, ") {
		t.Errorf("kept %v, flags %v, %v", x["kept"], x["flags"], x["data_loader"])
	}
	if n, _ := strconv.Atoi(m["knobs"].(map[string]any)["num_workers"].(string)); n < 2 || n > 8 {
		t.Errorf("left with %d workers", n)
	}
}

func TestTuneRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"--knobs=shuffle":                 "it is no knob that a tune changes",
		"--memory-budget=much":            "write it as 512MiB or 8GB",
		"--memory-budget=8":               "8 B: too small for anything; write it as in 8GiB",
		"--max-workers=-1":                "choose 1 to 64",
		"--budget=1ms":                    "too short to try anything",
		"--max-workers=2 --num-workers=4": "the run begins with 4",
		"--epochs=-1":                     "it is negative",
	} {
		if r := gpustall(t, append([]string{"tune", "--device", "emu:h100"}, strings.Fields(args)...)...); r.code != 2 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d: %s", args, r.code, r.stderr)
		}
	}
}
