package rows

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

// someSpans are of three steps with eight workers.
func someSpans() (spans []trace.Span) {
	for i := range int32(3) {
		for w := range 8 {
			start := int64(i)*1e6 + int64(w)
			spans = append(spans, trace.Span{Start: start, End: start + 9e5, Step: -1, Batch: i, Kind: trace.KindDecode, Track: trace.Worker(w)})
		}
	}
	return spans
}

// FuzzHeader: a file's first bytes are a session's, or one reason why not.
func FuzzHeader(f *testing.F) {
	good := make([]byte, 100)
	copy(good, "SQLite format 3\x00")
	binary.BigEndian.PutUint32(good[60:], Schema)
	binary.BigEndian.PutUint32(good[68:], Application)
	if err := Header(bytes.NewReader(good)); err != nil {
		f.Fatal(err)
	}
	for _, b := range [][]byte{good, good[:50], nil, []byte("epoch,loss\n"), []byte("SQLite format 3\x00")} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Header(bytes.NewReader(b))
		if err != nil && !errors.Is(err, ErrNotSession) && !errors.Is(err, ErrNewer) && !errors.Is(err, ErrDamaged) {
			t.Fatalf("%v", err)
		}
	})
}

// FuzzDocuments: a document is read, or said to be damaged.
func FuzzDocuments(f *testing.F) {
	f.Add(`{"ID":"x","Specs":[{"Name":"num_workers","Max":64}]}`, `{"Status":"running","Drops":[1,2]}`, `{"3":7,"-1":2,"9999":1}`, "12", "-5")
	f.Add("{", "null", "[]", "1e400", `"x"`)
	f.Fuzz(func(t *testing.T, meta, outcome, drops, now, beat string) {
		var d Documents
		_, err := d.Read(map[string]string{"meta": meta, "outcome": outcome, "drops": drops, "now": now, "beat": beat, "baseline": outcome, "steps": now}, map[string]bool{"beat": len(beat) > 9})
		if err != nil && (!errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "\n")) {
			t.Fatalf("%v", err)
		}
	})
}

// FuzzStalls: what is read of a step's stalls is what would be written.
func FuzzStalls(f *testing.F) {
	for _, s := range []string{"", "decode 1200 copy 34", "decode", "later 7", "copy -1 copy 1", "copy 99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var stall, again [trace.NumCauses]int64
		if ParseStalls(text, &stall) != nil {
			return
		}
		written := AppendStalls(nil, &stall)
		if err := ParseStalls(string(written), &again); err != nil || again != stall {
			t.Fatalf("%q -> %v -> %q -> %v, %v", text, stall, written, again, err)
		}
	})
}

// FuzzWork: so are the times of its phases.
func FuzzWork(f *testing.F) {
	for _, s := range []string{"", "batch 90 8 2 decode 60 5 0", "decode 1 2", "later 1 2 3", "read -1 0 0", "read 0 0 0 read 1 1 1", "by:16:decode:7:40 35 5 0", "by:0:none:-1:0 0 0 0", "by:300:x:y:z 1 1 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var work, again trace.Work
		var by, byAgain trace.Built
		if ParseWork(text, &work, &by) != nil {
			return
		}
		written := AppendWork(nil, &work, &by)
		if err := ParseWork(string(written), &again, &byAgain); err != nil || again != work || byAgain != by {
			t.Fatalf("%q -> %+v %+v -> %q -> %+v %+v, %v", text, work, by, written, again, byAgain, err)
		}
	})
}

// FuzzChunk: the spans of a chunk's body, which a checksum and DEFLATE guard, are as
// many as it says and lie on tracks that there are; or it is damaged.
func FuzzChunk(f *testing.F) {
	var e Encoder
	if _, err := e.Encode(someSpans()); err != nil {
		f.Fatal(err)
	}
	f.Add(uint16(24), bytes.Clone(e.raw))
	f.Add(uint16(24), e.raw[:100])
	f.Add(uint16(1), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, count uint16, body []byte) {
		spans, err := decodeSpans(nil, body, uint64(count))
		if len(spans) > int(count) || err == nil && len(body) < int(count)*minSpanBytes {
			t.Fatalf("%d spans of %d in %d bytes, %v", len(spans), count, len(body), err)
		}
		for _, s := range spans {
			if int(s.Track) >= trace.NumTracks {
				t.Fatalf("%+v", s)
			}
		}
	})
}

// FuzzFrame: so is a chunk with its checksum and its compression.
func FuzzFrame(f *testing.F) {
	var e Encoder
	b, err := e.Encode(someSpans())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if spans, err := Decode(nil, b); err == nil && len(spans) > MaxSpans {
			t.Fatalf("%d spans", len(spans))
		}
	})
}
