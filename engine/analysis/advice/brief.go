package advice

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Brief is what a verdict says on a screen that has no room for its text. The class is not in it.
type Brief struct {
	At     string   // the line of code, or else what the loss is about, in two words; empty where the dominant cause tells it
	Line   bool     // At is a line of code
	Clause []string // the share and At, in fewer and fewer words
}

// brief makes the brief form of a verdict that has its text.
func (s *situation) brief(v *Verdict) (b Brief) {
	lead := units.Prose.Percent(v.Share) + " of the time"
	switch {
	case v.Aside:
		return Brief{At: "not training", Clause: []string{lead + " goes to loops that do not train", lead + ", not training"}}
	case v.Locked:
		b.At = "GIL"
		lead += " waiting for the GIL"
	case v.Group == trace.GroupHost && starved(&s.time.Breakdown, s.host.starved) > 0:
		b.At = "no core"
		lead = s.host.contention()
	case v.Group == trace.GroupHost:
		b.At = "no core"
		lead += " without a core"
	}
	last := lead
	if c, clause := s.placed(v.Text); c != nil {
		of, _, _ := strings.Cut(clause, " is at ")
		b.Clause = []string{lead + "; " + clause, fmt.Sprintf("%s; %s: %s", lead, c.Where(), of)}
		if b.At == "" {
			how := "partly"
			if c.Part > 0.5 {
				how = "mostly"
			}
			b.At, b.Line = c.Where(), true
			last = fmt.Sprintf("%s, %s at %s", lead, how, b.At)
		}
	}
	if b.At != "" {
		b.Clause = append(b.Clause, last)
	}
	return b
}

// placed returns the line that a verdict's text names first, and the clause that names it. It returns nil where the text
// names none.
func (s *situation) placed(text string) (first *lines.Cost, clause string) {
	at := len(text)
	for i := range s.lines {
		c := &s.lines[i]
		said := strings.TrimPrefix(s.whereOf(c.At, *c), "; ")
		if j := strings.Index(text, said); j >= 0 && j < at {
			at, first, clause = j, c, said
		}
	}
	return first, clause
}
