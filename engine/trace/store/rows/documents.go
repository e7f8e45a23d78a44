// Package rows reads and writes what lies in the rows of a session's file: spans in
// chunks, stalls by name, documents as JSON. It does not import the database,
// because with that library its tests on random bytes would be a hundred times as slow.
package rows

import (
	"encoding/json"
	"fmt"

	"dev.gpustall/engine/trace"
)

// Documents are what the file says of the run as a whole.
type Documents struct {
	Meta     trace.Meta
	Outcome  trace.Outcome
	Baseline trace.Baseline
	Files    map[int32]string // where the worst samples lie
	Lines    []trace.Line     // of the user's code
	Peers    []trace.Peer     // other ranks
	Now      int64            // ns, how far the session is known; where NowKnown
	NowKnown bool
	Beat     int64 // Unix ms of the last write
	Steps    int64 // that were written
}

// Read reads the documents by their keys. It leaves out damaged ones, except those that no session
// can do without, and says so in harm.
func (d *Documents) Read(docs map[string]string, damaged map[string]bool) (harm []string, err error) {
	drops := map[int]int64{}
	for _, doc := range []struct {
		key  string
		into any
		must bool
		says string // what to say of it when it is damaged
	}{
		{"meta", &d.Meta, true, "do not trust what it says of the device, the model and the data"},
		{"outcome", &d.Outcome, true, "do not trust what it says of how the run ended"},
		{"baseline", &d.Baseline, false, "segments are compared with the first"},
		{"files", &d.Files, false, "samples are told by their numbers"},
		{"lines", &d.Lines, false, "lines of code are not told"},
		{"peers", &d.Peers, false, "what other ranks wait for is not told"},
		{"drops", &drops, false, "how many spans were dropped is not known"},
		{"now", &d.Now, false, "the run seems to end with its last step"},
		{"beat", &d.Beat, false, "a run that still goes on seems to be killed"},
		{"steps", &d.Steps, false, "whether steps are missing is not known"},
	} {
		text, ok := docs[doc.key]
		if damaged[doc.key] {
			harm = append(harm, fmt.Sprintf("its %s record is not what was written: %s", doc.key, doc.says))
		}
		if !doc.must && (!ok || damaged[doc.key]) {
			continue
		}
		if err := json.Unmarshal([]byte(text), doc.into); err != nil {
			return nil, fmt.Errorf("its %s cannot be read: %w", doc.key, ErrDamaged)
		}
	}
	_, stored := docs["now"]
	d.NowKnown = stored && !damaged["now"]
	for i, n := range drops {
		if i >= 0 && i < trace.NumTracks {
			d.Outcome.Drops[i] = n
		}
	}
	return harm, nil
}
