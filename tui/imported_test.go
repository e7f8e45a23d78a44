package tui

import (
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/trace"
)

// TestImported: no panel says something of an imported trace that a trace does not contain.
func TestImported(t *testing.T) {
	var steps []trace.Step
	for i := range int32(6) {
		st := trace.Step{Index: i + 5, Batch: -1, Correct: -1, Start: int64(i) * 100e6, End: int64(i+1) * 100e6, Busy: 60e6}
		st.Stall[trace.CauseDataLoader] = 40e6
		steps = append(steps, st)
	}
	run := trace.Restore(&trace.Snapshot{
		Now: 600e6, Recent: steps, Segments: []trace.Segment{{Reason: "as recorded"}}, Outcome: trace.Outcome{Status: "finished", Ended: 600e6},
		Meta: trace.Meta{Imported: "a.pt.trace.json", DeviceKind: "cuda", Model: "a PyTorch training", Profile: &trace.Profile{Loader: trace.InlineLoader}},
	})
	host := &trace.Profile{Count: 6, Total: trace.ProfiledStep{Length: 600e6}, GPUs: []trace.ProfiledGPU{{
		Idle: trace.IdleTime{Host: 240e6}, Host: []trace.HostTime{{Part: trace.HostRange, Name: "load\x1b[2J", Time: 180e6}, {Part: trace.HostCall, Name: "cudaFree", Time: 24e6}},
	}}}
	for _, size := range [][2]int{{120, 36}, {80, 24}} {
		s := &screen{New(Options{Source: run, Replay: true, Profile: host}), t, nil}
		s.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		s.tick()
		told := s.plain()
		for _, key := range []string{"1", "2", "3", "4", "5", "6", "7", "0"} {
			s.press(key, "f")
			told += s.plain()
			s.press("f")
		}
		words := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
			if r == '│' {
				return ' '
			}
			return r
		}, told)), " ")
		for _, want := range []string{"RECORDED", "no knobs: the trace names none", "INPUT-BOUND", advice.NoOperators, advice.NoBatches, "while the GPU was idle, 40.0%", "range load?[2J 75.0%", "runtime call cudaFree 10.0%"} {
			if !strings.Contains(words, want) {
				t.Errorf("%v: no %q in:\n%s", size, want, told)
			}
		}
		if size[0] == 120 && !strings.Contains(words, "step 10 ") {
			t.Errorf("the last step is not 10:\n%s", told)
		}
		for _, never := range []string{"FINISHED", "epoch 1", " yet", "no batch was late", "samples/s 0"} {
			if strings.Contains(words, never) {
				t.Errorf("%v: %q in:\n%s", size, never, told)
			}
		}
	}
}
