package store

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store/rows"
)

// Write adds b in one transaction. It refuses a step whose Index is not above that of the step
// before it.
func (st *File) Write(b *trace.Drained) error {
	last := st.last
	for i := range b.Steps {
		if index := int64(b.Steps[i].Index); index <= last {
			return st.writing(errs.Reason(fmt.Sprintf("step %d comes after step %d", index, last), "number the steps of a trace in their order, each once"))
		}
		last = int64(b.Steps[i].Index)
	}
	spans, steps := st.spans, st.steps
	due := st.due()
	begins := trace.Begins(b.Steps)
	err := st.transact(func(tx *sql.Tx) error {
		if begins >= 0 { // those before are taken back
			b.Steps, begins, st.steps = b.Steps[begins:], 0, 0
			if _, err := tx.Exec(`DELETE FROM steps; DELETE FROM digest`); err != nil {
				return err
			}
			due = false
		}
		if due {
			if err := st.putDigest(tx); err != nil {
				return err
			}
		}
		for _, f := range []func(*sql.Tx, *trace.Drained) error{
			st.putSegments, st.putSteps, st.putSpans, st.putNotes, st.putGauges, st.putOps, st.putExperiments, st.putState,
		} {
			if err := f(tx, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		st.spans, st.steps = spans, steps
		return st.writing(err)
	}
	st.last = last
	if due {
		st.digested = st.digest.Total.Steps
	}
	for i := range b.Steps {
		st.digest.Add(&b.Steps[i])
	}
	st.digested = min(st.digested, st.digest.Total.Steps)
	return nil
}

// insert runs one prepared statement for n rows.
func insert(tx *sql.Tx, query string, n int, row func(i int) []any) error {
	if n == 0 {
		return nil
	}
	stmt, err := tx.Prepare(query)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for i := range n {
		if _, err := stmt.Exec(row(i)...); err != nil {
			return err
		}
	}
	return nil
}

func (st *File) putSegments(tx *sql.Tx, b *trace.Drained) error {
	err := insert(tx, `INSERT OR REPLACE INTO segments VALUES(?,?,?,?,?,?,?,?,?,?)`, len(b.Segments), func(i int) []any {
		s := &b.Segments[i]
		predicted := rows.PredictionText(&s.Predicted)
		return []any{s.Index, s.Start, s.End, s.FirstStep, s.Reason, s.TransitionSteps, s.Transition, predicted, s.ByScript, st.sum.segment(s, predicted, true)}
	})
	if err != nil {
		return err
	}
	for _, s := range b.Segments {
		if _, err := tx.Exec(`DELETE FROM knobs WHERE segment = ?`, s.Index); err != nil {
			return err
		}
		err := insert(tx, `INSERT INTO knobs VALUES(?,?,?,?)`, len(s.Knobs), func(i int) []any {
			return []any{s.Index, i, s.Knobs[i].Name, s.Knobs[i].Value}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (st *File) putSteps(tx *sql.Tx, b *trace.Drained) error {
	var text, work []byte
	st.steps += int64(len(b.Steps))
	return insert(tx, `INSERT OR REPLACE INTO steps VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, len(b.Steps), func(i int) []any {
		s := &b.Steps[i]
		text = rows.AppendStalls(text[:0], &s.Stall)
		work = rows.AppendWork(work[:0], &s.Work, &s.Built)
		stalls, worked := string(text), string(work)
		return []any{
			s.Index, s.Epoch, s.Segment, s.Batch, s.Samples, s.Correct, float64(s.Loss), s.Flags,
			s.Start, s.End, s.Busy, s.Wait, s.Load, s.Copy, s.Bytes, s.Through, stalls, worked, st.sum.step(s, stalls, worked),
		}
	})
}

// putSpans packs the spans into chunks and deletes the oldest chunks beyond the
// limit.
func (st *File) putSpans(tx *sql.Tx, b *trace.Drained) error {
	trace.SortSpans(b.Spans)
	for spans := b.Spans; len(spans) > 0; {
		part := spans[:min(len(spans), rows.MaxSpans)]
		spans = spans[len(part):]
		data, err := st.enc.Encode(part)
		if err != nil {
			return err
		}
		last := part[0].End
		for _, s := range part {
			last = max(last, s.End)
		}
		id := st.spans.add(len(part), len(data), part[0].Start)
		if _, err := tx.Exec(`INSERT INTO spans VALUES(?,?,?,?,?)`, id, part[0].Start, last, len(part), data); err != nil {
			return err
		}
	}
	st.spans.begin(b.Segments)
	gone := st.spans.overflow(st.limit)
	return insert(tx, `DELETE FROM spans WHERE id = ?`, len(gone), func(i int) []any { return []any{gone[i]} })
}

func (st *File) putNotes(tx *sql.Tx, b *trace.Drained) error {
	return insert(tx, `INSERT INTO notes(t, level, text, crc) VALUES(?,?,?,?)`, len(b.Notes), func(i int) []any {
		n := &b.Notes[i]
		return []any{n.T, n.Level, n.Text, st.sum.note(n)}
	})
}

func (st *File) putGauges(tx *sql.Tx, b *trace.Drained) error {
	return insert(tx, `INSERT INTO gauges(name, t, v, crc) VALUES(?,?,?,?)`, len(b.Gauges), func(i int) []any {
		g := &b.Gauges[i]
		return []any{g.Name, g.T, g.V, st.sum.gauge(g)}
	})
}

func (st *File) putOps(tx *sql.Tx, b *trace.Drained) error {
	return insert(tx, `INSERT OR REPLACE INTO ops VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)`, len(b.Ops), func(i int) []any {
		o := &b.Ops[i]
		return []any{o.ID, o.Segment, o.Name, o.Layer, o.Phase, o.Variant, o.Calls, o.Total, o.Min, o.Max, o.FLOPs, o.Bytes, st.sum.op(o)}
	})
}

func (st *File) putExperiments(tx *sql.Tx, b *trace.Drained) error {
	texts := make([]string, len(b.Experiments))
	for i := range b.Experiments {
		text, err := json.Marshal(&b.Experiments[i])
		if err != nil {
			return err
		}
		texts[i] = string(text)
	}
	return insert(tx, `INSERT OR REPLACE INTO experiments VALUES(?,?,?)`, len(texts), func(i int) []any {
		index := b.Experiments[i].Index
		return []any{index, texts[i], st.sum.experiment(index, texts[i])}
	})
}

// putState writes what changes all the time: how far the session is known, the counts, and a
// heartbeat from which a reader knows that the writer lives.
func (st *File) putState(tx *sql.Tx, b *trace.Drained) error {
	drops := map[int]int64{}
	for i, n := range b.Drops {
		if n > 0 {
			drops[i] = n
		}
	}
	for key, v := range map[string]any{"drops": drops, "now": b.Now, "steps": st.steps, "beat": time.Now().UnixMilli()} {
		if err := st.putDoc(tx, key, v); err != nil {
			return err
		}
	}
	if b.Baseline != nil {
		if err := st.putDoc(tx, "baseline", b.Baseline); err != nil {
			return err
		}
	}
	if b.Redescribe(&st.meta) {
		if err := st.putDoc(tx, "meta", st.meta); err != nil {
			return err
		}
	}
	if b.Lines != nil {
		if err := st.putDoc(tx, "lines", b.Lines); err != nil {
			return err
		}
	}
	if b.Peers != nil {
		if err := st.putDoc(tx, "peers", b.Peers); err != nil {
			return err
		}
	}
	if b.Files != nil {
		return st.putDoc(tx, "files", b.Files)
	}
	return nil
}
