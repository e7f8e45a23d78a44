package report

import (
	"bytes"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

func knobList(text string) (knobs []knob.Setting) {
	for _, f := range strings.Fields(text) {
		name, value, _ := strings.Cut(f, "=")
		knobs = append(knobs, knob.Setting{Name: name, Value: value})
	}
	return knobs
}

// TestDataLoader: PyTorch's words, what differs from its defaults, and what was
// recommended.
func TestDataLoader(t *testing.T) {
	const plain = "batch_size=1 shuffle=off num_workers=0 prefetch_factor=0 pin_memory=off persistent_workers=off drop_last=off " +
		"in_order=on timeout=off precision=fp32 capture=off gradient_accumulation=1 time_ops=sampled " +
		"reads_in_flight=1 shuffle_buffer=1024 on_error=stop"
	for _, tt := range []struct{ knobs, recommended, line, beside, given string }{
		{"", "", "", "", ""},
		{plain, "", "DataLoader(dataset)", "", ""},
		{"num_workers=2 prefetch_factor=0", "prefetch_factor=0", "DataLoader(dataset, num_workers=2)", "", ""},
		{plain, "pin_memory=off", "DataLoader(dataset, pin_memory=False)", "", ""},
		{"num_workers=4 prefetch_factor=2 persistent_workers=on", "", "DataLoader(dataset, num_workers=4, persistent_workers=True)", "", ""},
		{"num_workers=4 prefetch_factor=2", "prefetch_factor=2", "DataLoader(dataset, num_workers=4, prefetch_factor=2)", "", ""},
		{"num_workers=0 prefetch_factor=4 persistent_workers=on", "prefetch_factor=4", "DataLoader(dataset)", "", ""},
		{"prefetch_factor=8 num_workers=2 shuffle=on batch_size=128 timeout=1m30s in_order=off drop_last=on", "",
			"DataLoader(dataset, batch_size=128, shuffle=True, num_workers=2, drop_last=True, timeout=90.0, prefetch_factor=8, in_order=False)", "", ""},
		{"num_workers=1 precision=bf16 device_transforms=on capture=on inject_cpu=50µs ceiling=on", "", "DataLoader(dataset, num_workers=1)",
			"precision=bf16, device_transforms=on, capture=on", ""},
		{"num_workers=1 reads_in_flight=4 on_error=skip", "", "DataLoader(dataset, num_workers=1)", "reads_in_flight=4, on_error=skip", ""},
		{"num_workers=1 capture=off", "capture=off", "DataLoader(dataset, num_workers=1)", "capture=off", ""},
		{
			"batch_size=8 shuffle=on num_workers=2", "",
			"DataLoader(dataset, batch_size=8, num_workers=2, sampler=Mine(...), collate_fn=pad)", "",
			"sampler=Mine(...), collate_fn=pad",
		},
		{"batch_size=8 shuffle=on drop_last=on", "", "DataLoader(dataset, batch_sampler=...)", "", "batch_sampler=..."},
		{"batch_size=1 shuffle=on drop_last=on", "drop_last=on", "DataLoader(dataset, shuffle=True, batch_size=None)", "", "batch_size=None"},
	} {
		facts := []knob.Setting{{Name: trace.LoaderArguments, Value: tt.given}}
		if line, beside := DataLoader(facts, knobList(tt.knobs), knobList(tt.recommended)); line != tt.line || beside != tt.beside {
			t.Errorf("%s, recommended %q: %q and %q, want %q and %q", tt.knobs, tt.recommended, line, beside, tt.line, tt.beside)
		}
	}
}

// TestFlags: injected bottlenecks and the cached-batch ceiling are not settings to
// keep.
func TestFlags(t *testing.T) {
	if got, want := Flags(knobList("num_workers=4 inject_cpu=50µs ceiling=on data=a'b")), `--num-workers=4 --data='a'\''b'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestKeepABaseline: a baseline that was chosen later is not called the settings at the
// start of the run, even if both have the same flags.
func TestKeepABaseline(t *testing.T) {
	run := scripts()["injected"]
	run.stretches = []stretch{run.stretches[1], run.stretches[0]}
	s := run.run(t)
	s.Baseline = trace.Baseline{Segment: 1}
	var b bytes.Buffer
	if err := Markdown(&b, s, Options{}); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	if !strings.Contains(text, "Keep the settings of segment A, which need no flags beside those of the run.") {
		t.Errorf("%.3000s", b.String())
	}
}

// TestWhyThen: the reason for a change is what was known before the change, not what
// came of it.
func TestWhyThen(t *testing.T) {
	sc := scripts()["tuned"]
	sc.stretches = sc.stretches[:2]
	s := sc.run(t)
	rows := attribution.Segments(s)
	a := advice.Of(s, s.Tally(0), rows[:1])
	sc.stretches[1].knobs = knobs(a.First().Value)
	s = sc.run(t)
	var b strings.Builder
	if err := Markdown(&b, s, Options{}); err != nil {
		t.Fatal(err)
	}
	_, why, _ := strings.Cut(b.String(), "Why: ")
	why, _, _ = strings.Cut(why, "\n  - ")
	if a.First().Knob != "num_workers" || !strings.HasPrefix(why, "the step loop loads each batch itself") || strings.Contains(why, "had it") {
		t.Errorf("%s=%s, because %s", a.First().Knob, a.First().Value, why)
	}
}
