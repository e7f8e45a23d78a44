package experiment

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// Names of the knobs that a tune changes.
const (
	numWorkers       = "num_workers"
	prefetchFactor   = "prefetch_factor"
	pinMemory        = "pin_memory"
	persistent       = "persistent_workers"
	inOrder          = "in_order"
	deviceTransforms = "device_transforms"
	batchSize        = "batch_size"
)

// Tunable are the knobs that a tune can change.
var Tunable = append(slices.Clone(usual), batchSize)

// usual are the knobs that a tune changes if none are named. Another batch size would
// be another training.
var usual = []string{numWorkers, prefetchFactor, pinMemory, persistent, inOrder, deviceTransforms}

// workerCounts and prefetchFactors are the values at which these two knobs are tried.
// Large values are further apart, because 12 workers are hardly faster than 11.
var (
	workerCounts    = []string{"0", "1", "2", "3", "4", "6", "8", "12", "16", "24", "32", "48", "64"}
	prefetchFactors = []string{"1", "2", "4", "8"}
)

// space holds the settings that a tune chooses from: all knobs of a run, of which some
// vary.
type space struct {
	specs []knob.Spec
	found []knob.Setting // all, as the tune found them
	names []string       // of those that vary
	sets  [][]string     // the values of each
	idle  []string       // why other requested knobs do not vary, a sentence each
}

func newSpace(q *Tuning, s *trace.Snapshot, found []knob.Setting) (*space, error) {
	sp := &space{specs: s.Meta.Specs, found: found}
	asked := q.Knobs
	if len(asked) == 0 {
		asked = usual
	}
	for _, name := range asked {
		value, known := knobOf(found, name)
		spec := knob.SpecOf(s.Meta.Specs, name)
		switch {
		case !slices.Contains(Tunable, name):
			return nil, errs.New("tune", name, "it is no knob that a tune changes", "choose "+knob.Choice(Tunable))
		case !known || spec == nil:
			if len(q.Knobs) > 0 {
				return nil, errs.New("tune", name, "the run has no knob of that name", "choose "+knob.Choice(Tunable))
			}
			continue
		case spec.NoEffect != "":
			sp.idle = append(sp.idle, name+" has no effect: "+spec.NoEffect)
			continue
		}
		values := q.Values[name]
		if values == nil {
			values = usualValues(spec, value)
		}
		if name == numWorkers {
			values = slices.DeleteFunc(slices.Clone(values), func(v string) bool {
				n := number(v)
				return spec.Max > 0 && n > spec.Max || q.Workers > 0 && n > q.Workers
			})
		}
		sp.names, sp.sets = append(sp.names, name), append(sp.sets, values)
	}
	if w := number(knob.ValueOf(found, numWorkers)); q.Workers > 0 && w > q.Workers {
		return nil, errs.New("tune", "with at most "+strconv.Itoa(q.Workers)+" workers", "the run has "+strconv.Itoa(w), "lower num_workers first")
	}
	if len(sp.names) == 0 {
		return nil, errs.New("tune", strings.Join(asked, ", "), cmp.Or(strings.Join(sp.idle, "; "), "the run has none of these knobs"), "name others")
	}
	return sp, nil
}

// usualValues returns the values at which a knob is tried, from its value now.
func usualValues(spec *knob.Spec, now string) []string {
	switch {
	case spec.Name == numWorkers:
		return workerCounts
	case spec.Name == prefetchFactor:
		return prefetchFactors
	case spec.Name == batchSize: // up to eight times as many, down to a quarter
		n := number(now)
		return slices.DeleteFunc(slices.Clone(spec.Values), func(v string) bool { b := number(v); return b > 8*n || 4*b < n })
	}
	return []string{"off", "on"}
}

// number returns a knob's value as a number, 0 where it is none.
func number(value string) int {
	n, _ := strconv.Atoi(value)
	return n
}

// with returns base with one knob changed, and with what follows from that: without workers
// nothing is prefetched, and no worker can persist. If base has no workers, these two knobs
// stay as they are.
func (sp *space) with(base []knob.Setting, name, value string) []knob.Setting {
	out := slices.Clone(base)
	before := cmp.Or(knob.ValueOf(base, numWorkers), "0")
	workers := before
	if name == numWorkers {
		workers = value
	}
	for i := range out {
		k := &out[i]
		ofWorkers := k.Name == prefetchFactor || k.Name == persistent
		if k.Name == name && !(ofWorkers && workers == "0") {
			k.Value = value
		}
		switch {
		case workers == "0" && before == "0":
		case workers == "0" && k.Name == prefetchFactor:
			k.Value = "0"
		case workers == "0" && k.Name == persistent:
			k.Value = "off"
		case k.Name == prefetchFactor && k.Value == "0":
			k.Value = "2" // PyTorch's default
		}
	}
	return out
}

// around calls f with every setting in which one varying knob differs from base.
func (sp *space) around(base []knob.Setting, f func([]knob.Setting)) {
	for i, name := range sp.names {
		for _, v := range sp.sets[i] {
			if to := sp.with(base, name, v); !slices.Equal(to, base) {
				f(to)
			}
		}
	}
}

// key returns a text that is the same for equal settings only.
func (sp *space) key(knobs []knob.Setting) string {
	var b strings.Builder
	for _, k := range knobs {
		if knob.ValueOf(sp.found, k.Name) != k.Value {
			b.WriteString(k.Name + "=" + k.Value + " ")
		}
	}
	return b.String()
}

// cheaper reports whether one setting takes less of the host than another. It compares
// the workers, then the changes to what was found, and then the batches in flight.
func (sp *space) cheaper(a, b []knob.Setting) bool {
	of := func(knobs []knob.Setting) []int {
		workers, slots, _ := takes(knobs)
		alone := sp.with(sp.found, numWorkers, strconv.Itoa(workers))
		return []int{workers, len(advice.Changed(alone, knobs)), slots}
	}
	return slices.Compare(of(a), of(b)) < 0
}

// takes returns what a setting takes of the host: workers, batches in flight, samples in a
// batch.
func takes(knobs []knob.Setting) (workers, slots, batch int) {
	workers = number(knob.ValueOf(knobs, numWorkers))
	return workers, workers * number(knob.ValueOf(knobs, prefetchFactor)), number(knob.ValueOf(knobs, batchSize))
}

// covers reports whether a setting takes at least as much of everything as another.
func covers(a, b []knob.Setting) bool {
	w, s, n := takes(a)
	v, r, m := takes(b)
	return w >= v && s >= r && n >= m
}

// lighter reports whether a takes so much less than b that it is worth a try: half of the
// workers or fewer.
func (sp *space) lighter(a, b []knob.Setting) bool {
	n, m := number(knob.ValueOf(a, numWorkers)), number(knob.ValueOf(b, numWorkers))
	return n > 0 && 2*n <= m
}

// distance says how different two settings are. It counts the knobs that differ, and a
// little of how far the numbers of workers lie apart.
func (sp *space) distance(a, b []knob.Setting) float64 {
	n, m := number(knob.ValueOf(a, numWorkers)), number(knob.ValueOf(b, numWorkers))
	apart := float64(max(n, m)-min(n, m)) / float64(max(n, m, 1))
	return float64(len(advice.Chosen(a, b))) + apart
}

// say names the changes from one setting to another: "num_workers=8, pin_memory=on".
func say(from, to []knob.Setting) string {
	changes := advice.Chosen(from, to)
	if len(changes) == 0 {
		return "the settings at the start"
	}
	return knob.Join(changes, ", ")
}
