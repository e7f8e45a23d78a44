package command

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

var (
	keepIn     = flag.String("keep", "", "keep the sessions of scenarios and walks in this folder")
	sessionsIn = flag.String("recorded", "", "score the model on the sessions in this folder")
	fitting    = flag.Bool("fitting", false, "run the walks that the model's constants are fitted on, rather than those that it is scored on")
)

// walk is a run whose knobs are changed one after the other. Each change is predicted before it
// takes effect and measured after.
type walk struct {
	scenario
	steps string // the changes; a comma joins those that are made together
}

// walks score the predictions; none of them was used to fit the model.
var walks = []walk{
	{scenario{name: "emu, reads wait", step: 8 * ms, data: recs, knobs: "--batch-size 16 --num-workers 2 --inject read=1500us"},
		"num_workers=3 num_workers=6 prefetch_factor=1 prefetch_factor=4 batch_size=32 batch_size=8 pin_memory=on num_workers=1 persistent_workers=on num_workers=0,prefetch_factor=0,persistent_workers=off num_workers=4"},
	{scenario{name: "emu, loading computes", step: 5 * ms, data: recs, knobs: "--batch-size 8 --num-workers 1 --inject cpu=1200us"},
		"num_workers=2 num_workers=4 prefetch_factor=4 batch_size=16 batch_size=8 num_workers=1 pin_memory=on persistent_workers=on num_workers=0,prefetch_factor=0,persistent_workers=off num_workers=2"},
	{scenario{name: "emu, reads and decoding", step: 7 * ms, data: recs, knobs: "--batch-size 8 --num-workers 1 --inject read=1ms --inject cpu=700us"},
		"num_workers=2 num_workers=3 num_workers=6 prefetch_factor=1 num_workers=2 batch_size=4 batch_size=16 pin_memory=on"},
	{scenario{name: "emu, short epochs", step: 6 * ms, data: tinySet, knobs: "--batch-size 8 --num-workers 2 --inject read=1500us"},
		"persistent_workers=on num_workers=4 persistent_workers=off num_workers=1 batch_size=16 prefetch_factor=4 batch_size=4"},
	{scenario{name: "cpu device, reads wait", device: "cpu", data: pixels, knobs: "--batch-size 16 --num-workers 1 --inject read=3ms"},
		"num_workers=2 num_workers=4 num_workers=8 prefetch_factor=4 batch_size=32 batch_size=16 num_workers=2 persistent_workers=on num_workers=0,prefetch_factor=0,persistent_workers=off num_workers=1"},
	{scenario{name: "cpu device, loading computes", device: "cpu", data: pixels, knobs: "--batch-size 16 --num-workers 1 --inject cpu=1500us"},
		"num_workers=2 num_workers=4 prefetch_factor=4 num_workers=1 batch_size=32 batch_size=8 persistent_workers=on num_workers=0,prefetch_factor=0,persistent_workers=off num_workers=2"},
}

// calibrations are what the constants of engine/analysis/predict are fitted on.
var calibrations = []walk{
	{scenario{name: "c1", step: 6 * ms, data: recs, knobs: "--batch-size 8 --num-workers 1 --inject read=2500us"},
		"num_workers=2 num_workers=5 prefetch_factor=8 num_workers=3 batch_size=16 batch_size=4 pin_memory=on in_order=off persistent_workers=on num_workers=0,prefetch_factor=0,persistent_workers=off num_workers=1"},
	{scenario{name: "c2", step: 4 * ms, data: recs, knobs: "--batch-size 8 --num-workers 1 --inject cpu=900us"},
		"num_workers=2 num_workers=3 num_workers=8 prefetch_factor=8 num_workers=1 batch_size=32 batch_size=8 num_workers=0,prefetch_factor=0 num_workers=2"},
	{scenario{name: "c3", step: 10 * ms, data: recs, knobs: "--batch-size 16 --num-workers 2 --inject read=500us --inject cpu=500us"},
		"num_workers=4 num_workers=1 num_workers=2 prefetch_factor=1 prefetch_factor=4 batch_size=32 batch_size=8"},
	{scenario{name: "c4", step: 8 * ms, data: tinySet, knobs: "--batch-size 16 --num-workers 1 --inject read=1ms"},
		"num_workers=2 persistent_workers=on num_workers=3 num_workers=1 persistent_workers=off batch_size=8 prefetch_factor=1 num_workers=4"},
	{scenario{name: "c5", device: "cpu", data: pixels, knobs: "--batch-size 32 --num-workers 1 --inject read=1ms"},
		"num_workers=2 num_workers=4 batch_size=16 prefetch_factor=4 num_workers=1 persistent_workers=on num_workers=0,prefetch_factor=0,persistent_workers=off num_workers=3"},
	{scenario{name: "c6", device: "cpu", data: pixels, knobs: "--batch-size 32 --num-workers 1 --inject cpu=1ms"},
		"num_workers=2 num_workers=4 batch_size=16 prefetch_factor=4 num_workers=1 num_workers=0,prefetch_factor=0 num_workers=2"},
	{scenario{name: "c7", step: 3 * ms, data: recs, knobs: "--batch-size 8 --num-workers 2 --inject cpu=600us", neighbours: "1"},
		"num_workers=4 num_workers=1 num_workers=2 num_workers=8 batch_size=16 prefetch_factor=4"},
	{scenario{name: "c8", step: 5 * ms, data: recs, knobs: "--batch-size 8 --num-workers 3 --inject straggler=2:40ms"},
		"in_order=off in_order=on num_workers=6 in_order=off num_workers=2 prefetch_factor=4"},
	{scenario{name: "c9", step: 10 * ms, data: photos, knobs: "--batch-size 4 --num-workers 1"},
		"num_workers=2 num_workers=4 batch_size=8 prefetch_factor=4 num_workers=1 num_workers=0,prefetch_factor=0"},
	{scenario{name: "c10", device: "emu:h100", data: pixels, knobs: "--batch-size 4 --num-workers C"},
		"batch_size=8 batch_size=16 batch_size=64 num_workers=4 num_workers=1 pin_memory=on batch_size=256"},
	{scenario{name: "c11", step: 3 * ms, data: dataKind{kind: "records", samples: 1024, size: 256 << 10, cold: true}, knobs: "--batch-size 8 --num-workers 1"},
		"num_workers=2 num_workers=6 num_workers=12 prefetch_factor=4 persistent_workers=on num_workers=3"},
	{scenario{name: "c12", step: 500 * time.Microsecond, data: pixels, knobs: "--batch-size 512 --num-workers 1 --pin-memory"},
		"num_workers=2 num_workers=4 device_transforms=on num_workers=2 batch_size=128 device_transforms=off num_workers=1"},
	{scenario{name: "c13", step: 200 * time.Microsecond, data: recs, knobs: "--batch-size 2 --num-workers 1"},
		"num_workers=2 batch_size=4 batch_size=8 num_workers=8 batch_size=2 prefetch_factor=8 num_workers=1"},
}

// score is how good the predictions of one run were.
type score struct {
	name     string
	outcomes []predict.Outcome
	rows     []attribution.SegmentStats
}

// middle returns the median, or NaN of nothing.
func middle(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// scoreTable prints for each run how often the outcome was inside the interval, and returns the
// totals.
func scoreTable(scores []score) (inside, of int, width float64) {
	fmt.Println("| run | changes | inside | median half-width | median error | outside |")
	fmt.Println("|---|--:|--:|--:|--:|---|")
	var widths []float64
	for i := range scores {
		s := &scores[i]
		result := predict.ScoreOf(s.outcomes)
		n, all := result.Inside, result.Of
		if all == 0 {
			continue
		}
		inside, of = inside+n, of+all
		widths = append(widths, result.HalfWidths...)
		var out []string
		var errors []float64
		for _, o := range s.outcomes {
			p := &o.Predicted
			if p.Made() {
				errors = append(errors, math.Abs(o.Measured.Value*p.Base/p.Rate-1))
			}
			switch {
			case o.Inside:
			case !p.Made():
				out = append(out, o.Change+" not predicted")
			case predict.Vague(*p):
				out = append(out, o.Change+" "+predict.Untold(*p))
			default:
				gain := predict.Gain(*p)
				out = append(out, fmt.Sprintf("%s %+.0f to %+.0f %%, was %+.0f %%", o.Change, 100*(gain.Lo-1), 100*(gain.Hi-1), 100*(o.Measured.Value-1)))
			}
		}
		fmt.Printf("| %s | %d | %d | %.0f %% | %.0f %% | %s |\n", s.name, all, n, 100*result.HalfWidth(), 100*middle(errors), strings.Join(out, "; "))
	}
	width = middle(widths)
	fmt.Printf("\n%d of %d outcomes fell inside (%.0f %%), median half-width %.0f %%.\n", inside, of, 100*float64(inside)/float64(max(1, of)), 100*width)
	return inside, of, width
}

// What the predictions must reach.
const (
	coverage  = 0.9
	widthMost = 0.15
)

// TestPredictions predicts and measures each change of the walks.
func TestPredictions(t *testing.T) {
	if !*truth {
		t.Skip("takes minutes; run it with -truth, or make truth")
	}
	list := walks
	if *fitting {
		list = calibrations
	}
	rows := regexp.MustCompile(*only)
	data := folders{t: t, dir: t.TempDir(), made: map[dataKind]string{}}
	var scores []score
	for i := range list {
		if sw := &list[i]; rows.MatchString(sw.name) {
			scores = append(scores, sw.run(t, data.of(sw.data)))
		}
	}
	fmt.Printf("\nPredictions over walks of real runs, on %d cores. A change without a prediction counts as outside.\n\n", host.Cores())
	if inside, of, width := scoreTable(scores); float64(inside) < coverage*float64(of) || width > widthMost {
		t.Errorf("%d of %d inside, median half-width %.2f", inside, of, width)
	}
}

// run makes the changes of a walk.
func (sw *walk) run(t *testing.T, data string) score {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range inCores(sw.neighbours) {
		defer compete(t)()
	}
	if sw.data.cold {
		defer chill(t, data)()
	}
	r := sw.start(ctx, t, data)
	ended := make(chan error, 1)
	go func() { ended <- r.train(ctx) }()
	s, _ := sw.measure(t, r)
	for step := range strings.FieldsSeq(sw.steps) {
		var changes []knob.Setting
		for k := range strings.SplitSeq(step, ",") {
			name, value, _ := strings.Cut(k, "=")
			changes = append(changes, knob.Setting{Name: name, Value: value})
		}
		sw.set(t, r, changes...)
		s, _ = sw.measure(t, r)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("%s: %v", sw.name, err)
	}
	out := attribution.Segments(s)
	return score{sw.name, predict.Outcomes(s, out), out}
}

// TestRecorded predicts each change of kept sessions again, from what was known when the change
// was requested.
func TestRecorded(t *testing.T) {
	if *sessionsIn == "" {
		t.Skip("scores the sessions in the folder given by -recorded")
	}
	names, err := filepath.Glob(filepath.Join(*sessionsIn, "*"+store.Ext))
	if err != nil || len(names) == 0 {
		t.Fatalf("no session in %s (%v)", *sessionsIn, err)
	}
	rows := regexp.MustCompile(*only)
	var scores []score
	var took time.Duration
	fits := 0
	for _, name := range names {
		if !rows.MatchString(filepath.Base(name)) {
			continue
		}
		s, err := store.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		snap := all(s)
		sc := score{name: strings.TrimSuffix(filepath.Base(name), store.Ext), rows: attribution.Segments(snap)}
		for i := 1; i < len(sc.rows); i++ {
			t0 := time.Now()
			sc.rows[i].Segment.Predicted = again(snap, i)
			took, fits = took+time.Since(t0), fits+1
		}
		sc.outcomes = append(predict.Outcomes(snap, sc.rows), tested(snap, sc.rows)...)
		scores = append(scores, sc)
	}
	slices.SortFunc(scores, func(a, b score) int { return cmp.Compare(a.name, b.name) })
	scoreTable(scores)
	fmt.Printf("A prediction with its model took %v on average.\n", took/time.Duration(max(1, fits)))
	if testing.Verbose() {
		for i := range scores {
			for _, o := range scores[i].outcomes {
				p := &o.Predicted
				gain := predict.Gain(*p)
				fmt.Printf("%s: %s: %.0f/s -> %.0f (%+.0f..%+.0f %%), was %+.0f %%; data %.2f\n", scores[i].name, o.Change, p.Base, p.Rate,
					100*(gain.Lo-1), 100*(gain.Hi-1), 100*(o.Measured.Value-1), p.Data)
			}
		}
	}
}

// tested predicts each A/B test again.
func tested(s *trace.Snapshot, rows []attribution.SegmentStats) (out []predict.Outcome) {
	for _, x := range attribution.Experiments(s, rows) {
		i := slices.IndexFunc(s.Segments, func(g trace.Segment) bool { return g.Index == x.First })
		if x.Kind == trace.Paired && i > 0 && x.Sides[0].Steps >= 10 && x.Sides[1].Steps >= 10 {
			e := x.Change.Throughput.Estimate()
			if e.Value <= 0 { // of one pair
				e = units.Rough(x.Sides[1].SamplesPerSecond() / x.Sides[0].SamplesPerSecond())
			}
			o := predict.Outcome{Change: knob.Join(x.B, ","), Predicted: again(s, i, x.B...), Measured: e}
			g := predict.Gain(o.Predicted)
			o.Inside = o.Predicted.Made() && !predict.Vague(o.Predicted) && g.Lo <= e.Value && e.Value <= g.Hi
			out = append(out, o)
		}
	}
	return out
}

// again predicts segment i, or these changes in its place, from the session before it.
func again(s *trace.Snapshot, i int, changes ...knob.Setting) trace.Prediction {
	if len(changes) == 0 {
		changes = advice.Chosen(s.Segments[i-1].Knobs, s.Segments[i].Knobs)
	}
	start := s.Segments[i].Start
	was := *s
	was.Segments = s.Segments[:i]
	n, _ := slices.BinarySearchFunc(s.Recent, s.Segments[i].Index, func(st trace.Step, index int32) int { return int(st.Segment) - int(index) })
	was.Recent, was.Now = s.Recent[:n], start
	was.Tallies = slices.DeleteFunc(slices.Clone(s.Tallies), func(t *trace.Tally) bool { return t.Segment >= s.Segments[i].Index })
	t := trace.Count(attribution.Window(&was))
	m, ok := predict.Fit(&was, t, attribution.Segments(&was))
	if !ok {
		return trace.Prediction{}
	}
	p, ok := m.Predict(changes...)
	if !ok {
		return trace.Prediction{}
	}
	return p.Prediction
}
