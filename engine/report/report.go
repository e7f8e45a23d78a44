// Package report writes a session down for a reader who was not there: what the
// device waited for, what was changed, what it bought, how sure that is, and what
// the numbers are not. It is pure: a snapshot goes in, text comes out.
package report

import (
	"bufio"
	"io"

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
var Formats = []Format{{"markdown", Markdown}, {"csv", CSV}, {"chrome", Chrome}}

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
	s, o = escaped(s, o)
	b := bufio.NewWriter(w)
	m := &markdown{w: b, account: newAccount(s), o: o}
	m.title()
	m.sides()
	m.pictures()
	m.changes()
	m.keep()
	m.caveats()
	m.environment()
	m.settings()
	m.segmentTable()
	m.epochTable()
	m.operations()
	return b.Flush()
}

// markdown is a report being written. Errors stay in w until Flush.
type markdown struct {
	*account
	w *bufio.Writer
	o Options
}
