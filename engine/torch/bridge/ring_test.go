//go:build linux

package bridge

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"
)

// writer writes a ring as ring.py does.
type writer struct {
	t    *testing.T
	file *os.File
	n    uint64
}

const testSlots = 8

// nobody is the id of no process, because the largest id is 1<<22. The folders of a running
// process would stay.
const nobody = 1<<22 + 42

func newWriter(t *testing.T, dir, name string, role role, pid, worker int) *writer {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	head := make([]byte, ringHeader+testSlots*recordSize)
	copy(head, ringMagic)
	for i, v := range []uint32{ringLayout, testSlots, uint32(pid), uint32(pid), uint32(worker), 1} {
		binary.NativeEndian.PutUint32(head[8+4*i:], v)
	}
	binary.NativeEndian.PutUint32(head[roleAt:], uint32(role))
	w := &writer{t: t, file: f}
	w.put(head, 0)
	return w
}

func (w *writer) put(b []byte, at int64) {
	w.t.Helper()
	if _, err := w.file.WriteAt(b, at); err != nil {
		w.t.Fatal(err)
	}
}

func (w *writer) write(records ...record) {
	for i := range records {
		w.put(unsafe.Slice((*byte)(unsafe.Pointer(&records[i])), recordSize), ringHeader+recordSize*int64(w.n%testSlots))
		w.n++
		w.put(binary.NativeEndian.AppendUint64(nil, w.n), countAt)
	}
}

func TestRing(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir, "ring", roleWorker, 42, 3)
	r, err := openRing(filepath.Join(dir, "ring"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if r.pid != 42 || r.parent != 42 || r.worker != 3 || r.role != roleWorker || r.slots != testSlots {
		t.Fatalf("%+v", r)
	}
	read := func() (first int32, n int) {
		r.look()
		r.look() // where the processor may reorder, the first look is not believed
		got := r.read(nil)
		for i := range got {
			if got[i].Batch != got[0].Batch+int32(i) {
				t.Fatalf("not in order: %v", got)
			}
		}
		if len(got) > 0 {
			first = got[0].Batch
		}
		return first, len(got)
	}
	put := func(from, n int) {
		for i := range n {
			w.write(record{Batch: int32(from + i), Start: int64(i), End: int64(i + 1)})
		}
	}
	put(0, 3)
	if first, n := read(); first != 0 || n != 3 {
		t.Errorf("%d records from %d, want 3 from 0", n, first)
	}
	put(3, 7)
	if first, n := read(); first != 3 || n != 7 || r.dropped != 0 {
		t.Errorf("%d records from %d, %d dropped; want 7 from 3", n, first, r.dropped)
	}
	put(10, 11) // three more than there are slots, and the oldest slot may be half written over
	if first, n := read(); first != 14 || n != 7 || r.dropped != 4 {
		t.Errorf("%d records from %d, %d dropped; want 7 from 14, 4 dropped", n, first, r.dropped)
	}
	put(21, 8) // as many as there are
	if first, n := read(); first != 22 || n != 7 || r.dropped != 5 {
		t.Errorf("%d records from %d, %d dropped; want 7 from 22, 5 dropped", n, first, r.dropped)
	}
}

// TestBrief: brief steps that one record stands for are read as the records of each.
func TestBrief(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir, "ring", roleLoop, 42, -1)
	r, err := openRing(filepath.Join(dir, "ring"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	three := brief{
		Start: 100, Kind: kindBrief, Many: 3, Flags: flagTrain, Iteration: 2, Round: 1, Batch: 8, Step: 20, Samples: 4, Through: 92,
		Body: 10, Next: 1, SecondBody: 20, Second: 2, ThirdBody: 30, Third: 3,
	}
	one := brief{
		Start: 166, Kind: kindBrief, Many: 1, Flags: flagTrain, Iteration: 2, Round: 1, Batch: 11, Step: 23, Samples: 4, Through: 96,
		Body: 5, Next: 6,
	}
	body := func(step int32, start, end int64) record {
		return record{
			Kind: kindBody, Step: step, Batch: step - 12, Start: start, End: end, Iteration: 2, Round: 1, Flags: flagTrain | flagFinal,
			Core: -1, Waiting: -1, Sample: -1,
		}
	}
	next := func(step int32, start, end, through int64) record {
		rec := body(step, start, end)
		rec.Kind, rec.Flags, rec.Arg, rec.Core = kindNext, flagTrain, 4, through
		return rec
	}
	want := []record{
		body(19, 100, 110), next(20, 110, 111, 84), body(20, 111, 131), next(21, 131, 133, 88), body(21, 133, 163), next(22, 163, 166, 92),
		body(22, 166, 171), next(23, 171, 177, 96),
	}
	w.write(*(*record)(unsafe.Pointer(&three)), *(*record)(unsafe.Pointer(&one)))
	r.look()
	r.look()
	if got := r.read(nil); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for i, v := range []uint64{24, 96, 177} { // as a killed process leaves them
		w.put(binary.NativeEndian.AppendUint64(nil, v), int64(stepsAt+8*i))
	}
	if last, ok := r.counted(); !ok || last.Step != 23 || last.Core != 96 || last.Start != 177 || last.Kind != kindLast {
		t.Errorf("%+v, %v", last, ok)
	}
}

func TestBadRings(t *testing.T) {
	dir := t.TempDir()
	for name, change := range map[string]func(w *writer){
		"no magic":      func(w *writer) { w.put([]byte("x"), 0) },
		"other layout":  func(w *writer) { w.put([]byte{9}, 8) },
		"odd slots":     func(w *writer) { w.put([]byte{7}, 12) },
		"too short":     func(w *writer) { _ = w.file.Truncate(ringHeader + 1) },
		"no header":     func(w *writer) { _ = w.file.Truncate(10) },
		"endless slots": func(w *writer) { w.put([]byte{0, 0, 0, 0x80}, 12) },
	} {
		change(newWriter(t, dir, name, roleLoop, 1, 0))
		if r, err := openRing(filepath.Join(dir, name)); err == nil {
			r.close()
			t.Errorf("%s: it was opened", name)
		}
	}
}
