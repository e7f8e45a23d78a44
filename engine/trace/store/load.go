package store

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store/rows"
)

// keptSegments returns the SQL condition that a column names a segment that a session keeps: one
// of the first or of the newest.
func keptSegments(column string) string {
	return firstAndNewest(column, "segments", "idx", trace.MaxRows-trace.FirstRows)
}

// firstAndNewest returns the SQL condition that a column has the key of one of the first
// trace.FirstRows rows of a table, or of its newest.
func firstAndNewest(column, table, key string, newest int) string {
	return fmt.Sprintf(`(%[1]s IN (SELECT %[3]s FROM %[2]s ORDER BY %[3]s LIMIT %[4]d) OR %[1]s IN (SELECT %[3]s FROM %[2]s ORDER BY %[3]s DESC LIMIT %[5]d))`,
		column, table, key, trace.FirstRows, newest)
}

func (l *loader) segments() {
	var sums []sql.NullInt64
	var predicted []string
	column := "''"
	if l.hasColumn("segments", "predicted") {
		column = "coalesce(predicted, '')"
	}
	script, scripted := "reason LIKE '%"+trace.ByScript+"'", l.hasColumn("segments", "by_script")
	if scripted {
		script = "coalesce(by_script, 0)"
	}
	l.rows(`SELECT idx, start, "end", first_step, reason, transition_steps, transition, `+column+`, `+script+`, `+l.sumColumn("segments")+` FROM segments WHERE `+keptSegments("idx")+` ORDER BY idx`, func(r *sql.Rows) error {
		var s trace.Segment
		var sum sql.NullInt64
		var text string
		err := r.Scan(&s.Index, &s.Start, &s.End, &s.FirstStep, &s.Reason, &s.TransitionSteps, &s.Transition, &text, &s.ByScript, &sum)
		l.s.Segments, sums, predicted = append(l.s.Segments, s), append(sums, sum), append(predicted, text)
		return err
	})
	l.rows(`SELECT segment, name, value FROM knobs WHERE `+keptSegments("segment")+` OR segment NOT IN (SELECT idx FROM segments) ORDER BY segment, pos LIMIT 200000`, func(r *sql.Rows) error {
		var index int32
		var k knob.Setting
		if err := r.Scan(&index, &k.Name, &k.Value); err != nil {
			return err
		}
		i, ok := slices.BinarySearchFunc(l.s.Segments, index, func(s trace.Segment, i int32) int { return int(s.Index) - int(i) })
		if !ok {
			return fmt.Errorf("a knob of segment %d, which is missing: %w", index, ErrDamaged)
		}
		l.s.Segments[i].Knobs = append(l.s.Segments[i].Knobs, k)
		return nil
	})
	if l.err != nil {
		return
	}
	for i := range l.s.Segments {
		s := &l.s.Segments[i]
		if sums[i].Valid && sums[i].Int64 != l.sum.segment(s, predicted[i], scripted) {
			l.harmed("a knob, a time or a number of segment %d is not what was written; do not trust its settings", s.Index)
			continue // a prediction that may be damaged is not shown
		}
		s.Predicted = rows.ParsePrediction(predicted[i])
	}
}

// experiments reads the experiments and leaves out damaged ones, whose segments then count as
// chosen. Older files have no table of them.
func (l *loader) experiments() {
	if !l.hasColumn("experiments", "value") {
		return
	}
	damaged := 0
	l.rows(`SELECT idx, value, `+l.sumColumn("experiments")+` FROM experiments WHERE `+firstAndNewest("idx", "experiments", "idx", trace.MaxRows-trace.FirstRows)+` ORDER BY idx`, func(r *sql.Rows) error {
		var index int32
		var text string
		var sum sql.NullInt64
		var x trace.Experiment
		err := r.Scan(&index, &text, &sum)
		whole := l.intact("experiments", err, sum, l.sum.experiment(index, text)) &&
			json.Unmarshal([]byte(text), &x) == nil && x.Index == index
		if whole {
			l.s.Experiments = append(l.s.Experiments, x)
		} else {
			damaged++
		}
		return l.err
	})
	if damaged > 0 {
		l.harmed("left out %d of its experiments that are not what was written: their segments are taken for settings that somebody chose", damaged)
	}
}

// steps reads the steps and leaves out damaged ones. When there are many, it reads the newest and
// those that the file's digest does not count.
func (l *loader) steps() {
	counted := int32(math.MinInt32) // Index of the last step that the digest counts
	from := int64(math.MinInt32)
	if l.docs.Steps > readThrough || l.to < everything {
		if d := l.digest(); d != nil && d.Total.Steps > 0 {
			l.s.Digest, counted = *d, d.Last.Index
			from = int64(counted) + 1
			if l.to == everything {
				from -= trace.MaxRecent + 1
			}
		}
	}
	l.through = counted == math.MinInt32
	damaged, repeated, at := 0, 0, int32(-1)
	l.rows(`SELECT `+l.stepColumns()+` FROM steps WHERE idx >= ? ORDER BY idx`, func(r *sql.Rows) error {
		var s trace.Step
		ok, err := l.step(r, &s)
		switch {
		case err != nil:
			return err
		case !ok:
			if damaged++; damaged == 1 {
				at = int32(max(from, 0))
				if n := len(l.s.Recent); n > 0 {
					at = l.s.Recent[n-1].Index + 1
				}
			}
			return nil
		case len(l.s.Recent) > 0 && s.Index <= l.s.Recent[len(l.s.Recent)-1].Index:
			repeated++
			return nil
		}
		if s.Index > counted {
			l.s.Digest.Add(&s)
		}
		if len(l.s.Recent) == 2*trace.MaxRecent {
			l.s.Recent = append(l.s.Recent[:0], l.s.Recent[trace.MaxRecent:]...)
		}
		l.s.Recent = append(l.s.Recent, s)
		return nil
	}, from)
	have := l.s.Total.Steps - l.s.Total.Lost
	if damaged > 0 {
		l.harmed("left out %d of %d steps that are not what was written, the first of them step %d: totals, epochs and rates lack them", damaged, int64(damaged)+have, at)
	}
	if repeated > 0 {
		l.harmed("left out %d steps whose number an earlier step has", repeated)
	}
	if lost := l.docs.Steps - int64(damaged+repeated) - have; lost > 0 {
		l.harmed("of %d steps that were written %d can no longer be found: totals, epochs and rates lack them", l.docs.Steps, lost)
	}
}

func (l *loader) notes() {
	damaged := 0
	l.rows(`SELECT t, level, text, `+l.sumColumn("notes")+` FROM notes WHERE `+firstAndNewest("id", "notes", "id", trace.MaxRows)+` ORDER BY id`, func(r *sql.Rows) error {
		var n trace.Note
		var sum sql.NullInt64
		err := r.Scan(&n.T, &n.Level, &n.Text, &sum)
		if l.intact("notes", err, sum, l.sum.note(&n)) {
			l.s.Notes = append(l.s.Notes, n)
		} else {
			damaged++
		}
		return l.err
	})
	if damaged > 0 {
		l.harmed("left out %d of its notes that are not what was written", damaged)
	}
}

func (l *loader) gauges() {
	l.s.Gauges = map[string][]trace.Point{}
	damaged := 0
	l.rows(`SELECT name, t, v, `+l.sumColumn("gauges")+` FROM (SELECT * FROM gauges ORDER BY id DESC LIMIT 1000000) ORDER BY id`, func(r *sql.Rows) error {
		var g trace.GaugePoint
		var v, sum = sql.NullFloat64{}, sql.NullInt64{}
		err := r.Scan(&g.Name, &g.T, &v, &sum)
		g.V = orNaN(v)
		if l.intact("gauges", err, sum, l.sum.gauge(&g)) {
			l.s.Gauges[g.Name] = append(l.s.Gauges[g.Name], g.Point)
		} else {
			damaged++
		}
		return l.err
	})
	if damaged > 0 {
		l.harmed("left out %d of its gauge samples that are not what was written", damaged)
	}
}

// ops reads the table of device ops. Old files have no column for the segment. Their checksums,
// where they have any, do not cover all columns and are not checked.
func (l *loader) ops() {
	damaged := 0
	sums := l.summed("ops")
	columns, which := `segment, phase, variant, min, max, `+l.sumColumn("ops"), keptSegments("segment")+` OR segment NOT IN (SELECT idx FROM segments)`
	if !l.hasColumn("ops", "segment") {
		columns, which, sums = `0, '', '', 0, 0, NULL`, "1", false
	}
	l.rows(`SELECT pos, name, layer, calls, total, flops, bytes, `+columns+` FROM ops WHERE `+which+` ORDER BY pos LIMIT 500000`, func(r *sql.Rows) error {
		var o trace.OpTime
		var flops, bytes sql.NullFloat64
		var sum sql.NullInt64
		err := r.Scan(&o.ID, &o.Name, &o.Layer, &o.Calls, &o.Total, &flops, &bytes, &o.Segment, &o.Phase, &o.Variant, &o.Min, &o.Max, &sum)
		o.FLOPs, o.Bytes = orNaN(flops), orNaN(bytes)
		if sums && (err != nil || sum.Valid && sum.Int64 != l.sum.op(&o)) {
			damaged++
			err = nil
		} else {
			l.s.Ops = append(l.s.Ops, o)
		}
		return err
	})
	if damaged > 0 {
		l.harmed("left out %d of its device ops that are not what was written", damaged)
	}
}
