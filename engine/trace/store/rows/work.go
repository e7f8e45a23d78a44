package rows

import (
	"fmt"
	"strconv"
	"strings"

	"dev.gpustall/engine/trace"
)

// wholeBatch stands before the time of a batch that was split as a whole.
const wholeBatch = "batch"

// builtBy stands before who built the batch: the worker's track, then phase, sample and time of the
// piece that took longest, and how that time divides. An older program takes it for a phase that it
// does not know.
const builtBy = "by"

// AppendWork writes the measured times by phase (on a core, waiting for one, blocked) and who built
// the batch: "batch 90 8 2 decode 60 5 0 by:16:decode:7:40 35 5 0".
func AppendWork(b []byte, w *trace.Work, by *trace.Built) []byte {
	add := func(name string, s trace.Split) {
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = append(b, name...)
		for _, ns := range [...]int64{s.Core, s.Waiting, s.Blocked} {
			b = strconv.AppendInt(append(b, ' '), ns, 10)
		}
	}
	if w.Batch != (trace.Split{}) {
		add(wholeBatch, w.Batch)
	}
	for k := trace.KindRead; k.IsPhase(); k++ {
		if s := *w.Phases.Of(k); s != (trace.Split{}) {
			add(k.String(), s)
		}
	}
	if *by != (trace.Built{}) {
		p := &by.Slowest
		add(fmt.Sprintf("%s:%d:%s:%d:%d", builtBy, by.Worker, p.Kind, p.Sample, p.Took), p.Split)
	}
	return b
}

// ParseWork reads what AppendWork wrote. It leaves out a phase that this program does not know.
func ParseWork(text string, w *trace.Work, by *trace.Built) error {
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
		if rest, ok := strings.CutPrefix(f[0], builtBy+":"); ok {
			if err := parseBuilt(rest, by); err != nil {
				return err
			}
			by.Slowest.Split = s
		}
		for k := trace.KindRead; k.IsPhase(); k++ {
			if k.String() == f[0] {
				*w.Phases.Of(k) = s
			}
		}
	}
	return nil
}

// parseBuilt reads "16:decode:7:40". A phase that this program does not know becomes none.
func parseBuilt(text string, by *trace.Built) error {
	f := strings.Split(text, ":")
	if len(f) != 4 {
		return ErrDamaged
	}
	worker, err := strconv.ParseUint(f[0], 10, 8)
	if err != nil {
		return ErrDamaged
	}
	sample, err := strconv.ParseInt(f[2], 10, 32)
	if err != nil {
		return ErrDamaged
	}
	took, err := strconv.ParseInt(f[3], 10, 64)
	if err != nil || took < 0 {
		return ErrDamaged
	}
	*by = trace.Built{Worker: trace.TrackID(worker), Slowest: trace.Piece{Sample: int32(sample), Took: took}}
	for k := range trace.NumKinds {
		if k.String() == f[1] {
			by.Slowest.Kind = k
		}
	}
	return nil
}
