package report

import (
	"cmp"
	"strings"

	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// legend remembers what the timelines have shown, to explain it below them.
type legend struct {
	glyphs               map[byte]bool
	workers, inline, pin bool // the loading lanes that were drawn
}

// add notes a lane and its glyphs.
func (l *legend) add(id trace.TrackID, glyphs string) {
	l.inline = l.inline || id == trace.TrackInline
	l.pin = l.pin || id == trace.TrackPin
	l.workers = l.workers || id.IsWorker() && id != trace.TrackInline
	for _, g := range []byte(glyphs) {
		l.glyphs[g] = true
	}
}

// loaders names the lanes that load.
func (l *legend) loaders() string {
	if !l.workers && !l.pin {
		return "Inline (the step loop itself)"
	}
	text := "Workers (w0, w1, …"
	if l.inline {
		text += "; inline is the step loop itself"
	}
	if l.pin {
		text += "; pin is the thread that page-locks what they made"
	}
	return text + ")"
}

// legends are the lanes whose glyphs are explained, each with the kinds it shows.
var legends = []struct {
	lane  string // empty for the lanes that load
	kinds []trace.Kind
}{
	{"", []trace.Kind{
		trace.KindRead, trace.KindFirstByte, trace.KindDecode, trace.KindTransform,
		trace.KindFetch, trace.KindCollate, trace.KindPin, trace.KindStart, trace.KindBlocked,
	}},
	{"Host (the step loop)", []trace.Kind{
		trace.KindNext, trace.KindSampler, trace.KindStarved, trace.KindEnqueue, trace.KindSync, trace.KindRebuild, trace.KindPause,
	}},
	{"H2D", []trace.Kind{trace.KindCopy}},
	{"Script (what the training script does with its batch)", []trace.Kind{trace.KindBackward, trace.KindOptimizer}},
	{"Compute", []trace.Kind{trace.KindCompute}},
}

// String explains the glyphs that were drawn.
func (l *legend) String() string {
	var text []string
	explain := func(lane string, entries []string) {
		if len(entries) > 0 {
			text = append(text, lane+": "+strings.Join(entries, ", "))
		}
	}
	for _, g := range legends {
		var entries []string
		for _, k := range g.kinds {
			entries = l.entry(entries, k.Info().Letter, k.Info().Doing)
		}
		explain(cmp.Or(g.lane, l.loaders()), entries)
	}
	var entries []string
	for c := range trace.Cause(trace.NumCauses) {
		entries = l.entry(entries, byte(c.Info().Letter), c.Info().For)
	}
	explain("STALL (what compute waited for)", entries)
	return strings.Join(text, ". ")
}

// entry adds what a glyph means, if it was drawn.
func (l *legend) entry(entries []string, glyph byte, says string) []string {
	if !l.glyphs[glyph] {
		return entries
	}
	return append(entries, markup.Code(string(glyph))+" "+says)
}
