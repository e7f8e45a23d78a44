// Package report writes a session down for a reader who was not there: what the
// device waited for, what was changed, what it bought, how sure that is, and what
// the numbers are not. It is pure: a snapshot goes in, text comes out.
package report

import (
	"io"

	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// Options of a report.
type Options struct {
	Session string // the file or name that is shown; Meta.ID when empty
	Table   string // of CSV, one of Tables; steps when empty
}

// Format is a way to write a session down.
type Format struct {
	Name  string // of --format
	Write func(io.Writer, *trace.Snapshot, Options) error
}

// Formats are all there are, the usual one first.
var Formats = []Format{{"markdown", Markdown}, {"html", HTML}, {"png", PNG}, {"csv", CSV}, {"chrome", Chrome}}

// FormatNames are what Formats are called.
func FormatNames() []string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = f.Name
	}
	return names
}

// Markdown writes the report of the whole snapshot, which should hold all spans
// that are left: a page that tells the story, then appendices with the details. It
// fails only as w does.
func Markdown(w io.Writer, s *trace.Snapshot, o Options) error {
	m := newMarkdown(s, o)
	m.title()
	m.sides()
	m.rest()
	return m.doc.Markdown(w)
}

// HTML writes the same report as one page, with pictures in it.
func HTML(w io.Writer, s *trace.Snapshot, o Options) error {
	m := newMarkdown(s, o)
	m.title()
	m.sides()
	if err := m.charts(); err != nil {
		return err
	}
	m.rest()
	return m.doc.HTML(w)
}

// markdown is a report being written: its texts are a document's.
type markdown struct {
	*account
	doc *markup.Document
	o   Options

	unescaped *trace.Snapshot // for pictures, whose texts are no markdown
}

func newMarkdown(s *trace.Snapshot, o Options) *markdown {
	m := &markdown{unescaped: s, doc: &markup.Document{}}
	s, m.o = escaped(s, o)
	m.account = newAccount(s)
	return m
}

// rest is all that follows the front page.
func (m *markdown) rest() {
	m.profile()
	m.feed()
	m.parts()
	m.ranks()
	m.pictures()
	m.changes()
	m.predictions()
	m.keep()
	m.caveats()
	m.environment()
	m.settings()
	m.segmentTable()
	m.epochTable()
	m.operations()
	m.blame()
}
