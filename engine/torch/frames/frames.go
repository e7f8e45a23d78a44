//go:build linux

// Package frames reads the frames of a thread from outside of its Python process, innermost first,
// with file, function and line. It neither stops the process nor takes any lock of it. A look costs
// the reader some tens of microseconds.
//
// The version of an interpreter determines where things lie in its memory. The Python package
// gpustall finds the offsets inside of the process and tells them (Layout); see
// engine/torch/python/gpustall/frames.py.
package frames

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/errs"
)

// Layout says where an interpreter keeps its frames. All numbers but CodeType and GIL are
// offsets in bytes.
type Layout struct {
	State       [2]int64 `json:"state"` // from a thread's state to its innermost frame: one step, or two if the second is not negative
	Code        int64    `json:"code"`  // in a frame
	Back        int64    `json:"back"`  // in a frame: its caller
	Instruction int64    `json:"instruction"`
	First       int64    `json:"first"` // of the first instruction, in a code object, where Instruction is a pointer
	Scale       int64    `json:"scale"` // bytes of what Instruction counts; 0 where it is a pointer

	File  int64  `json:"file"` // in a code object
	Name  int64  `json:"name"`
	Line  int64  `json:"line"`
	Table int64  `json:"table"`
	Form  string `json:"form"` // of Table: locations, linetable or lnotab

	Text struct {
		Mask   uint32    `json:"mask"`
		States [4]uint32 `json:"states"` // ASCII, and characters of 1, 2 and 4 bytes
		ASCII  int64     `json:"ascii"`
		Wide   int64     `json:"wide"`
	} `json:"text"`
	Bytes int64 `json:"bytes"`
	Head  int64 `json:"head"` // bytes of an object's head; its last word is the object's type

	Links *Links `json:"links"` // in a thread's state; nil where they are not known

	CodeType uint64   `json:"code_type"` // the address of the type of code objects
	GIL      uint64   `json:"gil"`       // the address of the lock that a thread must hold to run Python; 0 where it is not known
	Library  []string `json:"library"`   // folders whose code is not the user's
}

// Links are where a thread's state has the states of the threads before and after it and of the interpreter, and the number that
// the system gives the thread.
type Links struct {
	Before      int64 `json:"before"`
	After       int64 `json:"after"`
	Interpreter int64 `json:"interpreter"`
	Number      int64 `json:"number"`
}

// Thread is a thread of Python's.
type Thread struct {
	State uint64
	TID   int // 0 where it is not known
}

// Frame is a call under way.
type Frame struct {
	File, Name string
	Line       int // 0 where it is not known
}

// Deepest is how many frames of a thread are read, from the innermost one. Imports that begin others, and recursions, are over
// a hundred calls deep.
const Deepest = 512

// errTorn is the error of a look during which the thread moved on.
var errTorn = errs.Reason("the thread went on meanwhile", "")

// Reader reads the threads of one process.
type Reader struct {
	pid    int
	layout *Layout
	codes  map[uint64]*code
	window window
	calls  []call // of the look under way
	heads  []byte // of those of their code objects that are to be read, and the innermost frame as it is then
	parts  []unix.RemoteIovec

	waiters uint64 // the address of how many threads wait for the GIL; 0 where no wait has shown it
}

// code is what is known of a code object.
type code struct {
	key   [2]uint64 // what shows whether the memory still holds it
	read  time.Time // when it last did
	file  string
	name  string
	lines []span
}

// NewReader returns a reader of the process pid.
func NewReader(pid int, l *Layout) *Reader {
	r := &Reader{pid: pid, layout: l, codes: map[uint64]*code{}}
	if l.Form == "locations" {
		r.window.before = 1
	}
	return r
}

// read fills buf from an address of the process.
func (r *Reader) read(at uint64, buf []byte) error {
	_, err := readv(r.pid, []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}, []unix.RemoteIovec{{Base: uintptr(at), Len: len(buf)}}, len(buf))
	return err
}

// readv is process_vm_readv, which must read so many bytes. Go's scheduler does not know of the call: for one of some
// microseconds it would wake two more threads.
func readv(pid int, local []unix.Iovec, remote []unix.RemoteIovec, least int) (int, error) {
	n, _, err := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(pid),
		uintptr(unsafe.Pointer(&local[0])), uintptr(len(local)), uintptr(unsafe.Pointer(&remote[0])), uintptr(len(remote)), 0)
	switch {
	case err != 0:
		return 0, err
	case int(n) < least:
		return 0, unix.EFAULT
	}
	return int(n), nil
}

// Allowed returns why a process's memory may not be read; nil where it may.
func Allowed(pid int) error {
	_, err := (&Reader{pid: pid}).word(0) // permission is asked before the address
	if errors.Is(err, unix.EFAULT) {
		return nil
	}
	return err
}

func (r *Reader) word(at uint64) (uint64, error) {
	var b [8]byte
	err := r.read(at, b[:])
	return binary.NativeEndian.Uint64(b[:]), err
}

// tags are the bits of a pointer to an object that some versions use for themselves.
const tags = 7

// innermost returns the address of a thread's innermost frame.
func (r *Reader) innermost(state uint64) (uint64, error) {
	at, err := r.word(state + uint64(r.layout.State[0]))
	if err == nil && r.layout.State[1] >= 0 {
		at, err = r.word(at + uint64(r.layout.State[1]))
	}
	return at, err
}

// Look appends a thread's frames to into, innermost first. state is the address of the thread's state.
// The thread runs meanwhile, so a look may be torn. Look then tries again, a few times.
func (r *Reader) Look(state uint64, into []Frame) (stack []Frame, err error) {
	for range tries {
		if stack, err = r.look(state, into); err == nil {
			break
		}
	}
	return stack, err
}

// tries is how often a look is tried at most.
const tries = 4

// shim is the file of the code in a frame between C and Python, from 3.12 on.
const shim = "<shim>"

func (r *Reader) look(state uint64, into []Frame) ([]Frame, error) {
	first, err := r.innermost(state)
	if err != nil {
		return into, err
	}
	l := r.layout
	size := max(l.Code, l.Back, l.Instruction) + 8
	r.calls, r.window.high = r.calls[:0], 0
	var innermost [2]uint64 // its code and caller
	for at := first; at != 0 && len(r.calls) < Deepest; {
		block, err := r.window.at(r.pid, at, size)
		if err != nil {
			return into, errTorn
		}
		word := func(at int64) uint64 { return binary.NativeEndian.Uint64(block[at:]) }
		if len(r.calls) == 0 {
			innermost = [2]uint64{word(l.Code), word(l.Back)}
		}
		c := call{code: word(l.Code) &^ tags}
		if c.offset = int64(int32(binary.NativeEndian.Uint32(block[l.Instruction:]))) * l.Scale; l.Scale == 0 {
			c.offset = int64(word(l.Instruction) - c.code - uint64(l.First))
		}
		r.calls = append(r.calls, c)
		at = word(l.Back)
	}
	if len(r.calls) == 0 {
		return into, nil
	}
	at := time.Now()
	n, now, err := r.readHeads(first, at)
	// If the innermost frame has not changed, neither have its callers. It may have ended just now.
	if err != nil || now != innermost {
		return into, errTorn
	}
	heads := r.heads
	for _, call := range r.calls {
		c := call.of
		if c == nil {
			if c, err = r.decode(call.code, heads[:n], at); err != nil {
				return into, errTorn
			}
			heads = heads[n:]
		}
		if c.file == shim { // a frame between C and Python
			continue
		}
		into = append(into, Frame{c.file, c.name, lineAt(c.lines, call.offset)})
	}
	return into, nil
}

// call is a frame as it was read.
type call struct {
	code   uint64
	offset int64 // of its instruction
	of     *code // nil where it is to be read
}

// trusted is how long a code object is taken to be where it was. Reading those of each look would take a third of its time.
const trusted = time.Second

// readHeads finds the code objects of r.calls. It reads the beginnings of those that it does not know at once, n bytes of each, and
// after them the code and the caller that the innermost frame has now.
func (r *Reader) readHeads(innermost uint64, at time.Time) (n int, now [2]uint64, err error) {
	l := r.layout
	n = int(max(l.File, l.Name, l.Table, l.Line)) + 8
	r.parts = r.parts[:0]
	for i := range r.calls {
		c := &r.calls[i]
		if known := r.codes[c.code]; known != nil && at.Sub(known.read) < trusted {
			c.of = known
			continue
		}
		r.parts = append(r.parts, unix.RemoteIovec{Base: uintptr(c.code), Len: n})
	}
	all, frame := n*len(r.parts), int(max(l.Code, l.Back))+8
	r.heads = slices.Grow(r.heads[:0], all+frame)[:all+frame]
	r.parts = append(r.parts, unix.RemoteIovec{Base: uintptr(innermost), Len: frame})
	_, err = readv(r.pid, []unix.Iovec{{Base: &r.heads[0], Len: uint64(all + frame)}}, r.parts, all+frame)
	word := func(at int64) uint64 { return binary.NativeEndian.Uint64(r.heads[all+int(at):]) }
	return n, [2]uint64{word(l.Code), word(l.Back)}, err
}

// pageSize is what is mapped or not, as a whole.
const pageSize = 4096

// window is memory of a process that was read at once: a frame and what lies before it, where since Python 3.11 the frames
// of its callers are.
type window struct {
	before    int // pages
	low, high uint64
	base      uint64 // the address of memory[0]
	memory    []byte
}

// at returns so many bytes at an address, until the next call.
func (w *window) at(pid int, at uint64, size int64) ([]byte, error) {
	if at < w.low || at > w.high || uint64(size) > w.high-at { // a torn frame's address may be any
		if err := w.read(pid, at, int(size)); err != nil {
			return nil, err
		}
	}
	from := at - w.base
	return w.memory[from : from+uint64(size)], nil
}

func (w *window) read(pid int, at uint64, size int) error {
	start := at &^ (pageSize - 1)
	if start < uint64(w.before+1)*pageSize || size > pageSize {
		return unix.EFAULT
	}
	w.base = start - uint64(w.before)*pageSize
	if w.memory == nil {
		w.memory = make([]byte, (w.before+2)*pageSize)
	}
	top := int(at-start) + size
	var local [2]unix.Iovec
	var remote [2]unix.RemoteIovec
	for i := range w.before + 1 { // downwards, as what lies before it may not be mapped
		n := pageSize
		if i == 0 {
			n = top
		}
		local[i] = unix.Iovec{Base: &w.memory[(w.before-i)*pageSize], Len: uint64(n)}
		remote[i] = unix.RemoteIovec{Base: uintptr(start) - uintptr(i*pageSize), Len: n}
	}
	n, err := readv(pid, local[:w.before+1], remote[:w.before+1], top)
	w.low, w.high = start-uint64(max(0, n-top)/pageSize)*pageSize, start+uint64(top)
	if err != nil {
		w.high = 0
	}
	return err
}

// In returns the layout of another process of the same interpreter, in which the type of code objects is at codes. A
// process that was not forked has the interpreter elsewhere.
func (l *Layout) In(codes uint64) *Layout {
	if codes == l.CodeType {
		return l
	}
	other := *l
	other.CodeType, other.GIL = codes, 0
	return &other
}

// gilBytes is how much of the GIL there is at most, with the conditions that threads wait on.
const gilBytes = 320

// Where the GIL has what its waiters wait on, a pthread_cond_t, and how many of them are taken for a plausible number.
const (
	condition    = 32
	conditionEnd = 80
	mostWaiters  = 1 << 10
)

// Waits reports whether the thread with this state waits for the GIL, and which other thread holds it: 0 where none does, or it is
// not known. futex is what the thread waits on, 0 where it is not blocked. A thread that waits wakes every 5 ms, so where others have
// the cores it is ready for one most of the time. Then the number of waiters tells. In glibc's pthread_cond_t it lies before what they
// wait on, so the first wait that is seen shows where.
func (r *Reader) Waits(state, futex uint64) (holder uint64, waits bool) {
	gil := r.layout.GIL
	if waits = futex-gil < gilBytes; gil == 0 || !waits && r.layout.Links != nil && (futex != 0 || r.waiters == 0) {
		return 0, false
	}
	var b [conditionEnd]byte // its interval, the thread that held it last, whether it is held, ...
	if r.read(gil, b[:]) != nil {
		return 0, waits
	}
	count := func(at uint64) uint32 { return binary.NativeEndian.Uint32(b[at-gil:]) >> 3 }
	if binary.NativeEndian.Uint32(b[16:]) == 1 {
		if holder = binary.NativeEndian.Uint64(b[8:]); holder == state {
			holder = 0
		}
	}
	if !waits {
		return holder, holder != 0 && futex == 0 && r.waiters != 0 && count(r.waiters) > 0
	}
	if at := futex&^7 - 4; futex-gil >= condition+8 && futex-gil < conditionEnd && count(at)-1 < mostWaiters {
		r.waiters = at
	}
	return holder, true
}

// MostThreads is how many threads of a process are known beside the one that is asked about.
const MostThreads = 64

// Others returns the threads of the interpreter beside the one with this state.
func (r *Reader) Others(state uint64) (others []Thread) {
	k := r.layout.Links
	if k == nil {
		return nil
	}
	block := make([]byte, max(k.Before, k.After, k.Interpreter, k.Number)+8)
	word := func(at int64) uint64 { return binary.NativeEndian.Uint64(block[at:]) }
	for _, way := range [][2]int64{{k.After, k.Before}, {k.Before, k.After}} {
		if r.read(state, block) != nil {
			return nil
		}
		interpreter := word(k.Interpreter)
		for last, at := state, word(way[0]); at != 0 && len(others) < MostThreads; last, at = at, word(way[0]) {
			if r.read(at, block) != nil || word(way[1]) != last || word(k.Interpreter) != interpreter { // the list changed meanwhile
				break
			}
			others = append(others, Thread{at, int(word(k.Number))})
		}
	}
	return others
}

// mostCodes is how many code objects are kept.
const mostCodes = 1 << 14

// decode returns the code object at an address, which begins with head, as it was read at a time. If another kind of object is
// there, it is that of a shim.
func (r *Reader) decode(at uint64, head []byte, now time.Time) (*code, error) {
	l := r.layout
	word := func(at int64) uint64 { return binary.NativeEndian.Uint64(head[at:]) }
	if word(l.Head-8) != l.CodeType {
		return &code{file: shim}, nil
	}
	file, table := word(l.File), word(l.Table)
	if c := r.codes[at]; c != nil && c.key == [2]uint64{file, table} {
		c.read = now
		return c, nil
	}
	if len(r.codes) >= mostCodes {
		clear(r.codes)
	}
	c := &code{key: [2]uint64{file, table}, read: now}
	var err error
	if c.file, err = r.text(file); err != nil {
		return nil, err
	}
	if c.name, err = r.text(word(l.Name)); err != nil {
		return nil, err
	}
	data, err := r.bytes(table)
	if err != nil {
		return nil, err
	}
	c.lines = spansOf(l.Form, data, int(int32(binary.NativeEndian.Uint32(head[l.Line:]))))
	r.codes[at] = c
	return c, nil
}

// These limit how much is read of a text and of a table of lines.
const (
	longestText  = 4096
	longestTable = 1 << 18
)

func (r *Reader) bytes(at uint64) ([]byte, error) {
	n, err := r.word(at + uint64(r.layout.Head))
	if err != nil || n > longestTable {
		return nil, unix.EFAULT
	}
	if n == 0 {
		return nil, nil
	}
	data := make([]byte, n)
	return data, r.read(at+uint64(r.layout.Bytes), data)
}

func (r *Reader) text(at uint64) (string, error) {
	t := &r.layout.Text
	var head [20]byte // the length, the hash, the state
	if err := r.read(at+uint64(r.layout.Head), head[:]); err != nil {
		return "", err
	}
	n := binary.NativeEndian.Uint64(head[:])
	state := binary.NativeEndian.Uint32(head[16:]) & t.Mask
	if n == 0 || n > longestText {
		return "", nil
	}
	width, from := 1, t.Wide
	switch state {
	case t.States[0]:
		from = t.ASCII
	case t.States[1]:
	case t.States[2]:
		width = 2
	case t.States[3]:
		width = 4
	default:
		return "", unix.EFAULT
	}
	data := make([]byte, int(n)*width)
	if err := r.read(at+uint64(from), data); err != nil {
		return "", err
	}
	if state == t.States[0] {
		return string(data), nil
	}
	var b strings.Builder
	units := make([]uint16, 0, n)
	for i := 0; i < len(data); i += width {
		switch width {
		case 1:
			b.WriteRune(rune(data[i]))
		case 2:
			units = append(units, binary.NativeEndian.Uint16(data[i:]))
		default:
			b.WriteRune(rune(binary.NativeEndian.Uint32(data[i:])))
		}
	}
	b.WriteString(string(utf16.Decode(units)))
	return b.String(), nil
}
