package trace

import (
	"fmt"
	"iter"
	"sort"
)

// MaxRecent is the number of newest steps that a snapshot holds in memory.
const MaxRecent = 8192

// StepReader reads steps that are no longer in memory, from the session's file.
type StepReader interface {
	// ReadSteps yields the steps with from <= Index < to, in order. The pointer is
	// valid until the next one. After an error it yields nothing more.
	ReadSteps(from, to int32) iter.Seq2[*Step, error]
	// FirstAfter returns the Index of the first step that ends after t, in ns. When there is none,
	// it returns one more than the last step's.
	FirstAfter(t int64) (int32, error)
}

// Each yields the steps with from <= Index < to, in order. The pointer is valid until the next one.
// It reads steps that are not in memory from the session's file, so use it only for what needs each
// step, such as exports.
func (s *Snapshot) Each(from, to int32) iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		recent := s.Recent
		if len(recent) == 0 || recent[0].Index > from && int64(len(recent)) < s.Total.Steps-s.Total.Lost {
			if s.Older == nil {
				if kept := s.Total.Steps - s.Total.Lost; kept > int64(len(recent)) {
					yield(nil, fmt.Errorf("the first %d of %d steps are not kept: this session has no file", kept-int64(len(recent)), kept))
				}
				return
			}
			end := to
			if len(recent) > 0 {
				end = min(to, recent[0].Index)
			}
			for st, err := range s.Older.ReadSteps(from, end) {
				if !yield(st, err) || err != nil {
					return
				}
			}
		}
		for i := range recent {
			if st := &recent[i]; st.Index >= from && st.Index < to && !yield(st, nil) {
				return
			}
		}
	}
}

// FirstAfter returns the Index of the first step that ends after t, in ns. When there is none, it
// returns one more than the last step's.
func (s *Snapshot) FirstAfter(t int64) (int32, error) {
	switch {
	case len(s.Recent) == 0:
		return 0, nil
	case t < s.Recent[0].End && s.Older != nil:
		return s.Older.FirstAfter(t)
	}
	return stepList(s.Recent).FirstAfter(t)
}

// Before returns the last n steps that had ended by t, in ns, or as many as there are.
func (s *Snapshot) Before(t int64, n int) ([]Step, error) {
	end, err := s.FirstAfter(t)
	if err != nil {
		return nil, err
	}
	if r := s.Recent; len(r) > 0 && (s.Older == nil || int64(end)-int64(n) >= int64(r[0].Index)) {
		k := sort.Search(len(r), func(i int) bool { return r[i].Index >= end })
		return r[max(0, k-n):k:k], nil
	}
	var out []Step
	for st, err := range s.Each(end-int32(min(n, int(end))), end) {
		if err != nil {
			return out, err
		}
		out = append(out, *st)
	}
	return out, nil
}

// TallyUntil counts the steps of a segment that had ended by t, in ns. It reads each of them,
// unless all of the segment's steps had.
func (s *Snapshot) TallyUntil(segment int32, t int64) (*Tally, error) {
	all := s.Tally(segment)
	if all.End <= t {
		return all, nil
	}
	part := &Tally{Segment: segment}
	for st, err := range s.Each(all.First, all.Last+1) {
		if err != nil {
			return part, err
		}
		if st.End > t {
			break
		}
		if st.Segment == segment {
			part.Add(st)
		}
	}
	return part, nil
}

// stepList is steps in memory.
type stepList []Step

func (l stepList) ReadSteps(from, to int32) iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		for i := range l {
			if st := &l[i]; st.Index >= from && st.Index < to && !yield(st, nil) {
				return
			}
		}
	}
}

func (l stepList) FirstAfter(t int64) (int32, error) {
	i := sort.Search(len(l), func(i int) bool { return l[i].End > t })
	switch {
	case i < len(l):
		return l[i].Index, nil
	case i == 0:
		return 0, nil
	}
	return l[i-1].Index + 1, nil
}
