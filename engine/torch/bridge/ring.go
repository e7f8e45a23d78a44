//go:build linux

package bridge

import (
	"encoding/binary"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
)

// The layout of a ring's file: engine/torch/python/gpustall/ring.py writes it.
const (
	ringMagic  = "gpustall"
	ringLayout = 1
	ringHeader = 4096
	countAt    = 64 // records so far
	closedAt   = 72
	roleAt     = 80
	threadAt   = 88  // the address of the state of the writer's thread; 0 where it is not known
	tidAt      = 120 // the system's number of that thread
	codesAt    = 128 // the address of the type of code objects
	stepsAt    = 96  // of a loop's ring: the steps of its process so far, then their samples, and when the last step began
	recordSize = 64
	maxSlots   = 1 << 20
)

// role is the kind of thread that writes a ring.
type role uint32

const (
	roleLoop role = iota
	roleWorker
	roleInline
	rolePin
	roleSender // the thread of a worker that sends its batches
	roleLooker // a thread that looks at the frames of its process
)

// record is a slot of a ring. All times are ns of CLOCK_MONOTONIC.
type record struct {
	Start, End       int64
	Core, Waiting    int64 // of End - Start; -1 where that was not measured. Core of kindNext and kindLast: the samples of all steps so far
	Iteration, Round uint32
	Batch, Step      int32
	Sample           int32
	Arg              uint32
	Kind             kind
	_                uint8 // of kindBrief: how many steps
	Flags            uint16
	Offset           uint32 // of kindBatch: ns from its start to its collation; 0 where collation has its own record
}

var _ [recordSize]byte = [unsafe.Sizeof(record{})]byte{}

// ring holds the records of one writer, in shared memory.
type ring struct {
	path      string
	memory    []byte
	slots     uint64
	pid       int
	parent    int // the process whose loop it works for
	worker    int // its number; -1 where the writer is not a worker
	iteration uint32
	role      role
	mix       mix
	made      time.Time // when the writer made it
	starts    int64     // ns: when the worker began, until its first batch is read; else 0

	spare   []record // of read
	tail    uint64   // the number of records read
	limit   uint64   // the number of records that may be read
	before  uint64   // the count that the last look found
	dropped int64    // records that were overwritten, until Bridge.lost counts them
	ended   bool     // the writer has ended
}

// mix says how the timed batches of a worker divide into phases. Its other batches are taken to divide in
// the same way.
type mix struct {
	batches int
	mean    [trace.NumPhases]int64 // ns a batch; recent batches weigh more
	trace.Mix
}

// learn adds a batch whose phases were timed. A worker's first batch differs from others, because it
// reads and imports things for the first time.
func (m *mix) learn(spent *[trace.NumPhases]int64) {
	m.batches++
	for k := range spent {
		if m.batches <= 2 {
			m.mean[k] = spent[k]
		}
		m.mean[k] += (spent[k] - m.mean[k]) / 4
	}
	m.Mix = trace.MixOf(&m.mean)
}

// openRing maps a ring's file.
func openRing(path string) (*ring, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size < ringHeader || size > ringHeader+maxSlots*recordSize {
		return nil, errs.Reason("it has not the size of a ring", "")
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(m[at:]) }
	r := &ring{
		path: path, memory: m, slots: uint64(word(12)), pid: int(word(16)), parent: int(word(20)),
		worker: int(int32(word(24))), iteration: word(28), role: role(word(roleAt)), made: info.ModTime(),
	}
	if string(m[:8]) != ringMagic || word(8) != ringLayout || r.slots == 0 || r.slots&(r.slots-1) != 0 || uint64(size) < ringHeader+r.slots*recordSize {
		r.close()
		return nil, errs.Reason("it is no ring of this version", "")
	}
	return r, nil
}

func (r *ring) close() {
	if r.memory != nil {
		_ = unix.Munmap(r.memory)
		r.memory = nil
	}
}

func (r *ring) word(at int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.memory[at])))
}

// over reports whether the writer has ended. Some of its records may still be unread.
func (r *ring) over() bool { return r.memory == nil || r.word(closedAt) != 0 }

// look finds how many records there are. The writer, in Python, has no memory barriers. Where the
// processor may show stores out of order, a record is believed only at the second look.
func (r *ring) look() {
	r.ended = r.word(closedAt) != 0
	n := r.word(countAt)
	r.limit = n
	if runtime.GOARCH != "amd64" {
		r.limit, r.before = r.before, n
		r.ended = r.ended && r.limit == n
	}
}

// began returns when the oldest of the records began; the current time where there is
// none.
func began(records []record) int64 {
	if len(records) == 0 {
		return monotonic()
	}
	return records[0].Start
}

// counted returns what the header of a loop's ring says about the steps of its process, in the form of the
// process's last record. ok is false where there were no steps.
func (r *ring) counted() (last record, ok bool) {
	if r.memory == nil || r.role != roleLoop {
		return last, false
	}
	n, samples, began := r.word(stepsAt), r.word(stepsAt+8), int64(r.word(stepsAt+16))
	return record{Kind: kindLast, Step: int32(n - 1), Core: int64(samples), Start: began, End: began, Batch: -1, Sample: -1, Waiting: -1}, n > 0
}

// read appends the records up to the last look. It replaces each record of kindBrief by those that it stands
// for. Records that the writer overwrote meanwhile count as dropped.
func (r *ring) read(into []record) []record {
	r.spare = r.unread(r.spare[:0])
	for i := range r.spare {
		if rec := &r.spare[i]; rec.Kind == kindBrief {
			into = (*brief)(unsafe.Pointer(rec)).apart(into)
		} else {
			into = append(into, *rec)
		}
	}
	return into
}

// unread appends the records up to the last look as they are.
func (r *ring) unread(into []record) []record {
	if r.limit-r.tail > r.slots {
		r.dropped += int64(r.limit - r.tail - r.slots)
		r.tail = r.limit - r.slots
	}
	at := len(into)
	for i := r.tail; i < r.limit; i++ {
		slot := ringHeader + recordSize*(i&(r.slots-1))
		into = append(into, *(*record)(unsafe.Pointer(&r.memory[slot])))
	}
	// The slot after the last complete one may be half written over.
	if n := r.word(countAt); n+1 > r.tail+r.slots {
		gone := min(n+1-r.slots-r.tail, r.limit-r.tail)
		r.dropped += int64(gone)
		into = append(into[:at], into[at+int(gone):]...)
	}
	r.tail = r.limit
	return into
}
