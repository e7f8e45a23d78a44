package trace

import (
	"fmt"
	"slices"
)

// addNotes returns have with more behind it. Of too many, the first FirstRows and the
// newest stay, and between them a note that others were forgotten.
func addNotes(have, more []Note) []Note {
	notes := append(have, more...)
	if len(notes) <= MaxRows {
		return notes
	}
	first, newest := notes[:FirstRows], notes[len(notes)-MaxRows+FirstRows+1:]
	return slices.Concat(first, []Note{forgotten(first[FirstRows-1].T, "notes")}, newest)
}

// forgotten is the note that some rows are not in memory.
func forgotten(t int64, rows string) Note {
	return Note{t, "info", fmt.Sprintf("there are more than %d %s: only the first %d and the newest are shown", MaxRows, rows, FirstRows)}
}

// lacksSegments reports whether segments behind the first FirstRows were forgotten.
func lacksSegments(kept []Segment) bool {
	return len(kept) == MaxRows && kept[FirstRows].Index > kept[FirstRows-1].Index+1
}
