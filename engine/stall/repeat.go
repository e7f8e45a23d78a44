package stall

import (
	"strings"

	"dev.gpustall/engine/evidence"
)

// repeat has each segment whose settings were measured before told apart from those, or
// pooled with them. It returns what each row is compared by with rows of other settings:
// its own steps with those pooled before it, and for base, a row, with all of its group.
func repeat(h evidence.History, rows []SegmentStats, base int) []evidence.Stretch {
	pooled := make([]evidence.Stretch, len(rows))
	first := map[string]int{} // row that has these settings first
	pools := map[int]*evidence.Stretch{}
	for i := range rows {
		r := &rows[i]
		pooled[i], r.Repeats = r.Stretch, -1
		if len(r.Segment.Knobs) == 0 {
			continue // they are not known
		}
		var settings strings.Builder
		for _, k := range r.Segment.Knobs {
			settings.WriteString(k.Name + "=" + k.Value + "\n")
		}
		lead, found := first[settings.String()]
		if !found {
			first[settings.String()] = i
			s := r.Stretch
			pools[i] = &s
			continue
		}
		r.Repeats = lead
		if pool := pools[lead]; pool.Step.Mean > 0 && r.Stretch.Step.Mean > 0 {
			if r.Again = evidence.Again(*pool, r.Stretch, h, evidence.DefaultMargin); r.Again.Pooled {
				pooled[i], *pool = r.Again.Stretch, r.Again.Stretch
			}
		}
	}
	if base < 0 || rows[base].Repeats >= 0 && !rows[base].Again.Pooled {
		return pooled
	}
	if pool := pools[rows[base].group(base)]; pool != nil {
		pooled[base] = *pool
	}
	return pooled
}

// Repeated says what became of settings that were measured before; empty for others.
func Repeated(rows []SegmentStats, i int) string {
	r := &rows[i]
	if r.Repeats < 0 || r.Again.Stretch.Steps == 0 {
		return ""
	}
	return "as " + rows[r.Repeats].Name() + ": " + r.Again.String()
}
