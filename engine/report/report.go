// Package report writes a session down for a reader who was not there. It tells what
// the device waited for, what was changed, what that gained, how sure the gain is, and
// what the numbers do not say. It is pure: a snapshot goes in, text comes out.
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
	Name  string // the value of --format
	Write func(io.Writer, *trace.Snapshot, Options) error
}

// Formats are all formats; the first one is the default.
var Formats = []Format{{"markdown", Markdown}, {"html", HTML}, {"png", PNG}, {"csv", CSV}, {"chrome", Chrome}, {"folded", Folded}}

// FormatNames returns the names of Formats.
func FormatNames() []string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = f.Name
	}
	return names
}

// Markdown writes the report of the whole snapshot: a page that tells the story, then
// appendices with the details. The snapshot should hold every span that is left.
// Markdown fails only when w does.
func Markdown(w io.Writer, s *trace.Snapshot, o Options) error {
	return compose(s, o, nil).Markdown(w)
}

// HTML writes the same report as one page, with pictures in it.
func HTML(w io.Writer, s *trace.Snapshot, o Options) error {
	pictures, err := draw(s)
	if err != nil {
		return err
	}
	return compose(s, o, pictures).HTML(w)
}

// section is one part of a report. It adds its texts to the document, and nothing if
// the session has nothing of the kind.
type section interface{ write(d *markup.Document) }

// compose puts the sections of a report together. Their order here is their order on
// the page.
func compose(s *trace.Snapshot, o Options, pictures gallery) *markup.Document {
	s, o = escaped(s, o)
	a := newAccount(s)
	d := &markup.Document{}
	for _, part := range []section{
		&front{a},
		pictures,
		profile{s.Meta.Profile},
		feed{a},
		newWhere(a),
		newParts(s),
		newRanks(s),
		&timeline{a},
		&changes{a},
		&tunes{a},
		&predictions{a},
		&keep{a},
		&caveats{a},
		&environment{session: o.Session, s: s},
		newMeasurements(a),
		&segments{a},
		&epochs{a},
		&operations{a},
		&blame{s},
	} {
		part.write(d)
	}
	return d
}
