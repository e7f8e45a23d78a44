package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store/rows"
)

// stepFile reads the steps of a session's file, which may still be written to.
type stepFile struct {
	path string
	mode string // how it is opened
	told bool   // the session's notes already say which steps are damaged
}

// stepColumns lists the columns that step scans, in order.
func (l *loader) stepColumns() string {
	work := "work"
	if !l.worked {
		work = "''"
	}
	through := "through"
	if !l.counted {
		through = "0"
	}
	return `idx, epoch, segment, batch, samples, correct, loss, flags, start, "end", busy, wait, load, copy, bytes, ` + through + `, stalls, ` + work + `, ` + l.sumColumn("steps")
}

// ReadSteps leaves out damaged steps. At the end it yields an error that counts them, unless the
// session's notes already tell of them.
func (f stepFile) ReadSteps(from, to int32) iter.Seq2[*trace.Step, error] {
	return func(yield func(*trace.Step, error) bool) {
		damaged := 0
		err := f.read(func(l *loader) error {
			rows, err := l.tx.Query(`SELECT `+l.stepColumns()+` FROM steps WHERE idx >= ? AND idx < ? ORDER BY idx`, from, to)
			if err != nil {
				return err
			}
			defer rows.Close()
			var s trace.Step
			last := int64(math.MinInt64) // Index of the step before
			for rows.Next() {
				switch ok, err := l.step(rows, &s); {
				case err != nil:
					return err
				case !ok || int64(s.Index) <= last:
					damaged++
				case !yield(&s, nil):
					return context.Canceled
				default:
					last = int64(s.Index)
				}
			}
			return rows.Err()
		})
		if err == nil && damaged > 0 && !f.told {
			err = errs.Reason(fmt.Sprintf("%d steps are not what was written", damaged), hints[ErrDamaged]).Because(ErrDamaged)
		}
		if err != nil && err != context.Canceled { //nolint:errorlint // the reader had enough; what wraps it is another error
			yield(nil, f.reading(err))
		}
	}
}

// FirstAfter searches by halves, since steps end in the order of Index.
func (f stepFile) FirstAfter(t int64) (int32, error) {
	var lo, hi int64 // the first step that ends after t is in [lo, hi]
	err := f.read(func(l *loader) error {
		var first, last sql.NullInt64
		if err := l.tx.QueryRow(`SELECT min(idx), max(idx) FROM steps`).Scan(&first, &last); err != nil {
			return err
		}
		if !first.Valid {
			return nil
		}
		lo, hi = first.Int64, last.Int64+1
		for lo < hi {
			mid := lo + (hi-lo)/2
			var at, end int64 // of the first step at or after mid: some may be missing
			if err := l.tx.QueryRow(`SELECT idx, "end" FROM steps WHERE idx >= ? ORDER BY idx LIMIT 1`, mid).Scan(&at, &end); err != nil {
				return err
			}
			if end > t {
				hi = mid
			} else {
				lo = at + 1
			}
		}
		return nil
	})
	if err != nil {
		return 0, f.reading(err)
	}
	return int32(min(max(lo, math.MinInt32), math.MaxInt32)), nil
}

// reading wraps an error of reading the file.
func (f stepFile) reading(err error) error {
	return errs.Wrap(err, "read steps of session", f.path, hints[ErrDamaged])
}

// read calls f with a view of the file's state at one moment.
func (f stepFile) read(use func(*loader) error) error {
	return trace.Guard("read", func() error {
		db, err := openDB(f.path, append(readOnly, f.mode)...)
		if err != nil {
			return err
		}
		defer db.Close()
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		defer tx.Rollback()
		l := &loader{tx: tx, s: new(trace.Snapshot)}
		l.columns()
		if l.err != nil {
			return l.err
		}
		return use(l)
	})
}

// step reads one row, and reports whether it is as it was written. In a file without
// checksums a row that cannot be read is an error.
func (l *loader) step(r *sql.Rows, s *trace.Step) (ok bool, err error) {
	*s = trace.Step{}
	var loss sql.NullFloat64 // NaN is stored as NULL
	var stalls, work sql.RawBytes
	var sum sql.NullInt64
	err = r.Scan(&s.Index, &s.Epoch, &s.Segment, &s.Batch, &s.Samples, &s.Correct, &loss, &s.Flags,
		&s.Start, &s.End, &s.Busy, &s.Wait, &s.Load, &s.Copy, &s.Bytes, &s.Through, &stalls, &work, &sum)
	text, worked := string(stalls), string(work)
	if err == nil {
		s.Loss = float32(orNaN(loss))
		if err = cmp.Or(rows.ParseStalls(text, &s.Stall), rows.ParseWork(worked, &s.Work, &s.Built)); err != nil {
			err = fmt.Errorf("step %d: %w", s.Index, err)
		}
	}
	if l.summed("steps") && (err != nil || sum.Valid && sum.Int64 != l.sum.step(s, text, worked)) {
		return false, nil //nolint:nilerr // a damaged row is left out and counted
	}
	return err == nil, err
}
