package prepared

import (
	"strings"
	"testing"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/device"
	"dev.gpustall/loader"
)

// TestRisks: each limit warns of some values, and not of others.
func TestRisks(t *testing.T) {
	const mib = 1 << 20
	plenty := Limits{Cores: 8, Memory: host.Memory{Limit: 1 << 40}, Locked: host.Limit{Unlimited: true, Known: true}, Files: host.Limit{Most: 1024, Known: true}, FilesOpen: 20}
	knobs := func(workers int, pin bool) Knobs {
		return Knobs{Loader: loader.Knobs{BatchSize: 64, NumWorkers: workers, PrefetchFactor: 2, PinMemory: pin}}
	}
	few := func(change func(*Limits)) Limits { l := plenty; change(&l); return l }
	for _, c := range []struct {
		name   string
		limits Limits
		device int64
		to     Knobs
		grave  bool
		says   string // empty: nothing
	}{
		{"enough of everything", plenty, 1 << 40, knobs(4, true), false, ""},
		{"workers beyond the cores", few(func(l *Limits) { l.Cores = 2 }), 1 << 40, knobs(4, true), false, "4 workers on 2 cores"},
		{"as many as cores", few(func(l *Limits) { l.Cores = 4 }), 1 << 40, knobs(4, true), false, ""},
		{"few open files", few(func(l *Limits) { l.Files.Most = 25 }), 1 << 40, knobs(4, true), true, "open files: 6 more where ulimit -n leaves 5"},
		{"files are not counted", few(func(l *Limits) { l.Files.Most, l.FilesOpen = 25, -1 }), 1 << 40, knobs(4, true), false, ""},
		{"little host memory", few(func(l *Limits) { l.Memory.Limit = 140 * mib }), 1 << 40, knobs(4, true), true, "host memory: "},
		{"a small device", plenty, mib, knobs(4, true), true, "device memory: at least "},
		{"page-locking more than allowed", few(func(l *Limits) { l.Locked = host.Limit{Most: 64 << 10, Known: true} }), 1 << 40, knobs(4, true), false, "page-locks "},
		{"no page-locking", few(func(l *Limits) { l.Locked = host.Limit{Most: 64 << 10, Known: true} }), 1 << 40, knobs(4, false), false, ""},
	} {
		cfg := &Config{Split: Split{Dataset: loader.Info{Samples: 1000, H: 32, W: 32, C: 3, Bytes: 3072_000}}, Hold: 4}
		s := &Steps{est: estimator{cfg: cfg, info: device.Info{Memory: c.device}}}
		s.host.est = &s.est
		got := s.Risks(knobs(1, false), c.to, &c.limits)
		switch {
		case c.says == "" && len(got) > 0:
			t.Errorf("%s: %+v", c.name, got)
		case c.says != "" && (len(got) != 1 || !strings.HasPrefix(got[0].Text, c.says) || got[0].Grave != c.grave):
			t.Errorf("%s: %+v, want %q", c.name, got, c.says)
		}
	}
}
