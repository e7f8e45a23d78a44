package rows

import (
	"strconv"
	"strings"

	"dev.gpustall/engine/trace"
)

// wholeBatch stands before the time of a batch that was split as a whole.
const wholeBatch = "batch"

// AppendWork writes the times that were measured by phase, on a core, waiting for one
// and blocked: "batch 90 8 2 decode 60 5 0".
func AppendWork(b []byte, w *trace.Work) []byte {
	add := func(name string, s trace.Split) {
		if s == (trace.Split{}) {
			return
		}
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = append(b, name...)
		for _, ns := range [...]int64{s.Core, s.Waiting, s.Blocked} {
			b = strconv.AppendInt(append(b, ' '), ns, 10)
		}
	}
	add(wholeBatch, w.Batch)
	for k := trace.KindRead; k.IsPhase(); k++ {
		add(k.String(), *w.Phases.Of(k))
	}
	return b
}

// ParseWork is the inverse of AppendWork. A phase that this program does not know is
// left out.
func ParseWork(text string, w *trace.Work) error {
	f := strings.Fields(text)
	if len(f)%4 != 0 {
		return ErrDamaged
	}
	for ; len(f) > 0; f = f[4:] {
		var s trace.Split
		for i, ns := range [...]*int64{&s.Core, &s.Waiting, &s.Blocked} {
			var err error
			if *ns, err = strconv.ParseInt(f[1+i], 10, 64); err != nil || *ns < 0 {
				return ErrDamaged
			}
		}
		if f[0] == wholeBatch {
			w.Batch = s
		}
		for k := trace.KindRead; k.IsPhase(); k++ {
			if k.String() == f[0] {
				*w.Phases.Of(k) = s
			}
		}
	}
	return nil
}
