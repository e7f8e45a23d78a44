//go:build linux

package bridge

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/mask"
	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/torch/frames"
	"dev.gpustall/engine/trace"
)

// lines finds out which lines of code the loop and its workers are at. Its goroutine looks at their
// frames from outside of the training, at random moments.
type lines struct {
	mu      sync.Mutex
	layout  *frames.Layout
	segment int32
	threads []thread
	table   map[trace.Line]*found // the keys have neither In nor Looks nor Time
	changed bool
	refused error // why no frames can be read; nil where they can
	rate    atomic.Int32
	eager   atomic.Int32 // looks that are still to be made at a higher rate
	clock   *Clock
	ranks   []thread // the loops of other ranks on this machine, and workers of the late one
	late    tardy    // what looks found of that rank
	stands  map[threadID]*stand
	talking share           // of the loop's own steps, which exchange data
	talked  map[int]int64   // ns in which each rank exchanged data outside of backward passes, by its process
	ranked  atomic.Bool     // there are several ranks
	pending map[int][]look  // looks at workers, by process id, whose batches are not delivered yet
	newest  []charged       // the newest looks; see enter
	control *Control        // nil where the goroutine can look at the frames; else threads of the training do, and ...
	stacks  map[int]*stacks // ... what they found, by process id

	reads map[trace.Line]string // texts of lines, by file and number; only who looks uses it
	texts map[trace.Line]string // texts of lines, by file and number; only tell uses it
	alarm *timer.Alarm          // by which the goroutine wakes, and ends
	done  chan struct{}
	calls map[frames.Frame]string // texts of calls; only folded uses it
}

// thread is a thread of the training.
type thread struct {
	pid   int
	tid   int
	state uint64 // the address of its state in the interpreter
	codes uint64 // the address of the interpreter's type of code objects
	role  role
	late  bool  // it is of the rank of this machine that others wait for
	of    int   // the process whose loop it is or works for
	began int64 // of a worker, when it began, in ns since 1970; else 0
}

// look is what a look at a worker found.
type look struct {
	at   int64 // ns of the session
	took time.Duration
	of   *found
	part loadPart
}

// loadPart is a part of what a worker does for a batch.
type loadPart int

const (
	fetches  loadPart = iota // all but the following
	collates                 // the samples become a batch
	starts                   // the worker begins; the batch is its first
	loadParts
)

// charged is a look with the line that its time was charged to.
type charged struct {
	pid   int
	at    int64 // ns of the session
	took  time.Duration
	key   trace.Line // with In
	stack string
	of    *found
}

// found is what looks found of a line.
type found struct {
	looks int
	time  time.Duration

	awaited int                      // looks in batches that the loop waited for
	lost    time.Duration            // the part of time in which it waited
	in      map[string]int           // looks by the innermost function
	under   map[string]time.Duration // by the stack, in the form that folded writes
}

// LookRates names how often threads are looked at; the first rate is the default.
var LookRates = []string{"on", "off", "fast"}

// lineGaps is the mean time between two looks, by LookRates; 0 means no looks.
var lineGaps = [...]time.Duration{lookAtLines, 0, lookEagerly}

// SetLooks sets how often threads are looked at, to one of LookRates. Any goroutine may call it.
func (b *Bridge) SetLooks(rate string) {
	b.lines.rate.Store(int32(max(0, slices.Index(LookRates, rate))))
}

// LookRates returns the rates that SetLooks takes.
func (*Bridge) LookRates() []string { return LookRates }

// Looks returns which of LookRates is in force.
func (b *Bridge) Looks() string { return LookRates[b.lines.rate.Load()] }

// How often a thread is looked at, on average, and at most how many lines of a segment are kept.
const (
	lookAtLines = 50 * time.Millisecond
	lookEagerly = lookAtLines / 5  // after the first step, so that lines are known some seconds earlier ...
	eagerLooks  = 200              // ... so often
	longestLook = 20 * lookAtLines // of one thread; if its last look is longer ago, the rest of the time is charged to no line
	mostLines   = 200              // lines of the segment under way
	fewLines    = 40               // lines of a segment that is over, because all are written again each second
	mostBeneath = 20               // innermost functions that are counted for a line
	mostStacks  = 20               // likewise stacks, of which ...
	toldStacks  = 4                // ... so many are told, where the line has ...
	leastPart   = 0.01             // ... this part of the segment's time or more
	deepest     = 40               // calls of a stack that are told
	longestCall = 120              // characters of one
	mostCalls   = 1 << 12          // texts of calls that are kept
	mostPending = 1 << 12          // looks at a worker whose batches are not delivered yet
	mostNewest  = 1 << 9           // looks that may turn out to be of a later segment: of some 13 s at least, or 3 at the fast rate
)

// tardy is what looks found of the rank of this machine that others wait for.
type tardy struct {
	pid   int
	table map[trace.Line]*found
}

// stacks holds what a thread of the training told of the stacks that it found.
type stacks struct {
	frames []frames.Frame
	stacks [][]frames.Frame
}

// begin begins to look, once a message tells how to read frames. Where they cannot be read, threads of the training look.
func (l *lines) begin(m *message, c *Control, r *trace.Recorder) {
	if l.table != nil {
		return
	}
	l.table, l.texts, l.pending, l.talked = map[trace.Line]*found{}, map[trace.Line]string{}, map[int][]look{}, map[int]int64{}
	err := refusal(frames.Allowed(m.from))
	if l.layout = m.Layout; l.layout == nil {
		l.layout = &frames.Layout{Library: m.Library}
		if err == nil {
			err = errs.Reason(m.Reason, "")
		}
	}
	if err == nil {
		l.alarm, err = timer.NewAlarm()
	}
	if err != nil {
		r.Note("warn", approximate+err.Error())
		l.control, l.stacks = c, map[int]*stacks{}
		l.ask(m.from, nil)
		return
	}
	c.looks(noProcess, 0, 0)
	l.done = make(chan struct{})
	go func() {
		defer close(l.done)
		if err := trace.Guard("read the training's frames", l.run); !errors.Is(err, os.ErrClosed) {
			l.mu.Lock()
			l.refused = err
			l.mu.Unlock()
		}
	}()
}

const (
	noLines     = "lines of code are not told: "
	approximate = "lines of code are approximate, as a thread in the training sees them: "
)

// A thread of the training that waits longer than a wake-up takes (wakes) waits for the GIL. It gets the GIL when another
// thread lets go of it, at a later line than the one of that moment. After 5 ms Python has that thread let go where it is.
const (
	wakes    = 150 * time.Microsecond
	switches = 4800 * time.Microsecond
)

// refusal returns why the training's memory cannot be read.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	return errs.Wrap(err, "read", "the training's memory", "allow it (ptrace_scope, CAP_SYS_PTRACE, the container's seccomp profile)")
}

// ask asks the training's main process to look at its own frames.
func (l *lines) ask(pid int, threads []thread) {
	loops := lineGaps[l.rate.Load()]
	workers := 0
	for _, t := range threads {
		if t.role == roleWorker {
			workers++
		}
	}
	if workers > 0 {
		loops *= 2
	}
	l.control.looks(pid, loops, loops*time.Duration(workers))
}

// tells takes a stack that a thread of the training found. Records have its number.
func (l *lines) tells(m *message) {
	s := l.stacks[m.from]
	switch {
	case l.control == nil:
		return
	case s == nil:
		s = &stacks{}
		l.stacks[m.from] = s
	}
	s.frames = append(s.frames, m.Fresh...)
	stack := make([]frames.Frame, 0, len(m.Stack))
	for _, i := range m.Stack {
		if i >= 0 && i < len(s.frames) {
			stack = append(stack, s.frames[i])
		}
	}
	s.stacks = append(s.stacks, stack)
}

// inside takes a look of a thread of the training.
func (l *lines) inside(r *ring, rec *record) {
	s := l.stacks[r.pid]
	if s == nil || int(rec.Arg) >= len(s.stacks) {
		return
	}
	stack, of := s.stacks[rec.Arg], roleLoop
	if r.worker >= 0 {
		of = roleWorker
	}
	key, held := l.place(stack, of), time.Duration(rec.Waiting)
	var other []frames.Frame // of a thread that this one may wait for
	if rec.Sample >= 0 && int(rec.Sample) < len(s.stacks) {
		other = s.stacks[rec.Sample]
	}
	switch {
	case len(other) > 0 && key.At == trace.InStep && among(stack[0].File, waiters):
		key, stack = l.apart(trace.Awaited, other), other
	case held > wakes && held < switches:
		key = trace.Line{At: key.At, Func: "code that holds the GIL"}
	case len(other) > 0 && held >= switches:
		key, stack = l.apart(trace.Locked, other), other
	}
	key.Approximate = true
	l.charge(thread{pid: r.pid, role: of}, key, stack, rec.End, time.Duration(rec.End-rec.Start))
}

// stop ends the goroutine.
func (l *lines) stop() {
	if l.alarm != nil {
		l.alarm.Close()
		<-l.done
		l.alarm = nil
	}
}

// at sets which segment the looks belong to from now on, and which threads there are: those of the main process, and of other ranks.
func (l *lines) at(segment int32, main int, threads, ranks []thread, is *process) {
	l.mu.Lock()
	l.segment, l.threads, l.ranks = segment, threads, ranks
	l.leaveStands()
	if is != nil && is.pid != l.late.pid {
		l.late = tardy{is.pid, map[trace.Line]*found{}}
	}
	l.mu.Unlock()
	if l.control != nil {
		l.ask(main, threads)
	}
}

// enter begins a segment. The loop's records tell of it a second later, where there is no screen, so looks
// since its start are moved to it.
func (l *lines) enter(segment int32, start int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.segment
	l.segment = segment
	for i := range l.newest {
		k := &l.newest[i]
		key := k.key
		key.Segment, key.In = before, ""
		if k.at < start || l.table[key] != k.of {
			continue
		}
		k.of.less(k)
		if k.of.looks == 0 {
			delete(l.table, key)
		}
		l.again(k)
	}
	l.bound(before, fewLines)
}

// again counts a look once more that was taken back.
func (l *lines) again(k *charged) {
	moved := l.add(k.key, k.took, k.stack)
	for i := range l.pending[k.pid] {
		if p := &l.pending[k.pid][i]; p.of == k.of && p.at == k.at {
			p.of = moved
		}
	}
	k.of = moved
}

// starts tells looks from before the end of the first step from those since, or forgets them. Rates and shares leave that step
// out: what it imports and compiles is no part of the others.
func (l *lines) starts(end int64, keep bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.table
	if all == nil { // nobody looks
		return
	}
	l.table = map[trace.Line]*found{}
	for i := range l.newest {
		if k := &l.newest[i]; k.at >= end {
			k.of.less(k)
			l.again(k)
		}
	}
	for key, f := range all {
		if key.Segment = trace.FirstStep; keep && f.looks > 0 {
			l.table[key] = f
		}
	}
	l.newest = slices.DeleteFunc(l.newest, func(k charged) bool { return k.at < end })
	l.bound(trace.FirstStep, fewLines)
	l.eager.Store(eagerLooks)
}

// less takes a look back.
func (f *found) less(k *charged) {
	f.looks--
	f.time -= k.took
	if f.in[k.key.In] > 0 {
		f.in[k.key.In]--
	}
	if f.under[k.stack] >= k.took {
		f.under[k.stack] -= k.took
	}
}

// looker is what the goroutine that looks keeps of the threads.
type looker struct {
	readers map[int]*frames.Reader
	spent   map[thread]*frames.Spent
	stack   []frames.Frame
	others  map[int][]neighbour // threads beside those, by process
	other   []frames.Frame      // of one of them
	blocks  map[frames.Frame]bool
	since   time.Time // it looks since then
}

func newLooker() *looker {
	return &looker{readers: map[int]*frames.Reader{}, spent: map[thread]*frames.Spent{}, others: map[int][]neighbour{}, blocks: map[frames.Frame]bool{}, since: time.Now()}
}

// look looks at a thread, one of those. ok is false where nothing is known of the time since the last look.
func (k *looker) look(l *lines, t thread, of []thread) (took time.Duration, futex uint64, ok bool, err error) {
	r := k.readers[t.pid]
	if r == nil {
		maps.DeleteFunc(k.readers, func(pid int, _ *frames.Reader) bool {
			return !slices.ContainsFunc(of, func(t thread) bool { return t.pid == pid })
		})
		maps.DeleteFunc(k.others, func(pid int, _ []neighbour) bool { return k.readers[pid] == nil })
		maps.DeleteFunc(k.spent, func(t thread, _ *frames.Spent) bool { return !slices.Contains(of, t) })
		r = frames.NewReader(t.pid, l.layout.In(t.codes))
		k.readers[t.pid] = r
	}
	k.stack, err = r.Look(t.state, k.stack[:0])
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS):
		return 0, 0, false, refusal(err)
	case err != nil, len(k.stack) == 0: // the interpreter ends without frames
		return 0, 0, false, nil //nolint:nilerr // the thread ended, or the look was torn
	}
	if k.spent[t] == nil {
		k.spent[t] = frames.NewSpent(t.pid, t.tid)
		if t.began < k.since.UnixNano() {
			return 0, 0, false, nil
		}
		k.spent[t].Since(time.Unix(0, t.began))
	}
	took, futex = k.spent[t].Look()
	return took, futex, true, nil
}

// run looks at one thread after another: a loop's and a worker's at once, where there are workers, as waking takes as long as a look.
// Beside them, the loops of other ranks are looked at in turn.
func (l *lines) run() error {
	k := newLooker()
	for turn := 0; ; turn++ {
		l.mu.Lock()
		threads, ranks := l.threads, l.ranks
		l.mu.Unlock()
		due := next(threads, turn)
		every := lineGaps[l.rate.Load()]
		if every > 0 && l.eager.Load() > 0 {
			l.eager.Add(-int32(len(due)))
			every = min(every, lookEagerly)
		}
		wait := cmp.Or(every*time.Duration(len(due)), longestLook)
		if err := l.alarm.Wait(time.Duration((0.5 + rand.Float64()) * float64(wait))); err != nil {
			return err
		}
		if every == 0 {
			clear(k.spent) // the time until the next look is charged to no line
			k.since = time.Now()
			continue
		}
		all := slices.Concat(threads, ranks)
		for i, t := range due {
			if len(ranks) > 0 {
				l.rank(k, ranks[(turn*len(due)+i)%len(ranks)], ranks, all)
			}
			if err := l.thread(k, t, threads, all); err != nil {
				return err
			}
		}
	}
}

// rank looks at a thread of another rank.
func (l *lines) rank(k *looker, t thread, ranks, all []thread) {
	took, _, ok, _ := k.look(l, t, all)
	if !ok { // another user's process may not be read
		return
	}
	l.stood(t, k.stack)
	took = min(took, longestLook*time.Duration(len(ranks)))
	if t.role == roleLoop {
		l.talks(t.pid, k.stack, took)
	}
	if t.late {
		l.isLate(l.place(k.stack, t.role), took)
	}
}

// thread looks at one of the process's own threads.
func (l *lines) thread(k *looker, t thread, threads, all []thread) error {
	took, futex, ok, err := k.look(l, t, all)
	if !ok {
		return err
	}
	l.stood(t, k.stack)
	key, stack := l.place(k.stack, t.role), k.stack
	if t.role == roleLoop {
		l.exchanged(key.At, min(took, longestLook))
		l.talks(t.pid, stack, min(took, longestLook*time.Duration(len(threads))))
	}
	if at, other := l.beside(k, t, futex, key.At); len(other) > 0 {
		key, stack = l.apart(at, other), other
	}
	l.charge(t, key, stack, l.clock.Now(), took)
	return nil
}

// talks takes a look at the loop of a rank. Backward passes are known by themselves.
func (l *lines) talks(pid int, stack []frames.Frame, took time.Duration) {
	if slices.ContainsFunc(stack, func(f frames.Frame) bool {
		return strings.Contains(f.File, "/torch/autograd/") && strings.HasSuffix(f.Name, "backward")
	}) {
		return
	}
	talks := l.exchanges(stack) >= 0
	l.mu.Lock()
	defer l.mu.Unlock()
	if talks {
		l.talked[pid] += took.Nanoseconds()
	} else if _, known := l.talked[pid]; !known {
		l.talked[pid] = 0
	}
}

// isLate counts a look at the late rank.
func (l *lines) isLate(key trace.Line, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key.Segment, key.In = 0, ""
	f := l.late.table[key]
	if f == nil && len(l.late.table) < mostLines {
		f = &found{}
		l.late.table[key] = f
	}
	if f != nil {
		f.looks++
		f.time += took
	}
}

// latest returns the lines of the late rank so far.
func (l *lines) latest() (lines []trace.Line) {
	l.mu.Lock()
	for key, f := range l.late.table {
		key.Looks, key.Time = f.looks, int64(f.time)
		lines = append(lines, key)
	}
	l.mu.Unlock()
	for i := range lines {
		lines[i].Text = l.text(&lines[i])
	}
	return lines
}

// talkedOf returns the ns in which a rank exchanged data outside of backward passes.
func (l *lines) talkedOf(pid int) (ns int64, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ns, known = l.talked[pid]
	return ns, known
}

// charge charges the time since the last look at a thread to the line that it was at, at a time of the session.
func (l *lines) charge(t thread, key trace.Line, stack []frames.Frame, at int64, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	took = min(took, longestLook*time.Duration(len(l.threads)))
	text := l.folded(stack)
	f := l.add(key, took, text)
	if len(l.newest) == mostNewest {
		l.newest = append(l.newest[:0], l.newest[mostNewest/2:]...)
	}
	l.newest = append(l.newest, charged{pid: t.pid, at: at, took: took, key: key, stack: text, of: f})
	if t.role == roleWorker && key.At.OfWorker() && len(l.pending[t.pid]) < mostPending {
		l.pending[t.pid] = append(l.pending[t.pid], look{at: at, took: took, of: f, part: partOfLoading(key.At, stack)})
	}
}

// neighbour is a thread of Python's beside one that is looked at.
type neighbour struct {
	frames.Thread
	runs   int64     // how often it had got a core when it was last looked at
	ran    time.Time // when that had last risen
	active time.Duration
	since  time.Time      // when active was read
	busy   bool           // whether it was on a core, or ready for one, for a good part of the time before
	at     []frames.Frame // where it was last seen at work
}

// fewOthers is how many threads beside the loop's are tried at a look. One works if it ran within workedLately: others may
// sleep until something else wakes them.
const (
	fewOthers    = 6
	workedLately = time.Second
)

// works reports whether the thread of a process runs now and then, and whether it is there at all.
func (o *neighbour) works(pid int, now time.Time) (works, lives bool) {
	if o.TID == 0 { // it was seen to hold the GIL
		return true, true
	}
	active, runs := frames.Active(pid, o.TID)
	if o.runs != 0 && runs != o.runs {
		o.ran = now
	}
	o.runs = runs
	if passed := now.Sub(o.since); passed > workedLately/2 {
		o.busy = passed < workedLately*10 && active-o.active > passed/4
		o.active, o.since = active, now
	}
	return now.Sub(o.ran) < workedLately, runs != 0
}

// meet makes threads of a process known: all where the interpreter's list of threads can be read, else the one that is seen to hold
// the GIL.
func (k *looker) meet(r *frames.Reader, t thread, holder uint64) {
	others := r.Others(t.state)
	if others == nil && holder != 0 {
		others = []frames.Thread{{State: holder}}
	}
	for _, o := range others {
		if known := k.others[t.pid]; len(known) < frames.MostThreads && !slices.ContainsFunc(known, func(b neighbour) bool { return b.Thread == o }) {
			k.others[t.pid] = append(known, neighbour{Thread: o})
		}
	}
}

// beside looks at the thread of the process for which the one waits that was just seen to do one thing. futex is what it waits on.
// It returns which way the one waits, and the other's frames: none where it waits for none.
func (l *lines) beside(k *looker, t thread, futex uint64, does trace.Doing) (trace.Doing, []frames.Frame) {
	r := k.readers[t.pid]
	holder, waits := r.Waits(t.state, futex)
	if waits && t.role == roleLoop {
		if holder != 0 { // who holds it now, does so meanwhile
			k.other, _ = r.Look(holder, k.other[:0])
			return trace.Locked, k.other
		}
		return does, nil
	}
	if holder != 0 && l.layout.Links == nil {
		k.meet(r, t, holder)
	}
	switch does {
	case trace.InStep:
		does = trace.Awaited
	case trace.Loading, trace.Sampling:
	default:
		return does, nil
	}
	if !among(k.stack[0].File, waiters) && !k.waits(l, futex) {
		return does, nil
	}
	k.meet(r, t, holder)
	return does, k.works(l, r, t)
}

// waits reports whether the thread that was just looked at waits at a line that calls C. One that has been woken on a crowded host has
// no core yet and is not blocked, so a line at which it was blocked before counts too.
func (k *looker) waits(l *lines, futex uint64) bool {
	at := k.stack[0]
	if !l.says(&at, waitCalls...) {
		return false
	}
	if futex != 0 && len(k.blocks) < mostCalls {
		k.blocks[at] = true
	}
	return k.blocks[at]
}

// works returns where a thread beside one is that is at work now. Where none is, it is where one was that has been on a core much or
// ready for one: on a crowded host both may wait for a core, after the one made the other go on.
func (k *looker) works(l *lines, r *frames.Reader, t thread) (at []frames.Frame) {
	others := k.others[t.pid]
	for range min(fewOthers, len(others)) { // in turn: those that work share the time
		other := others[0]
		works, lives := other.works(t.pid, time.Now())
		var found []frames.Frame
		var err error
		if works && lives {
			found, err = r.Look(other.State, k.other[:0])
			k.other = found
		}
		others = others[1:]
		if !lives || other.TID == 0 && (err != nil || len(found) == 0) { // it ended; another one may have its place
			continue
		}
		works = err == nil && len(found) > 0 && !among(found[0].File, waiters) && !among(found[0].File, couriers) &&
			!strings.Contains(found[0].File, "/gpustall/") && !l.says(&found[0], waitCalls...)
		if works {
			other.at = append(other.at[:0], found...)
		}
		others = append(others, other)
		if works {
			at = other.at
			break
		}
		if other.busy && len(other.at) > 0 {
			at = other.at
		}
	}
	k.others[t.pid] = others
	return at
}

// waiters are files whose functions wait for other threads, couriers those of threads that only hand on what other processes send.
// Beyond these, a line that calls a function in C of a queue or a lock waits too.
var (
	waiters   = []string{"/threading.py", "/queue.py", "/concurrent/futures/_base.py", "/concurrent/futures/thread.py", "/selectors.py"}
	couriers  = []string{"/multiprocessing/connection.py", "/multiprocessing/pool.py", "/multiprocessing/queues.py", "/concurrent/futures/process.py", "/socket.py"}
	waitCalls = []string{".get(", ".put(", ".acquire(", ".wait(", ".result(", ".join("}
)

// apart is the line of a thread beside the loop's. Where it is a library's, it is the function that does its work.
func (l *lines) apart(at trace.Doing, stack []frames.Frame) trace.Line {
	if user := slices.IndexFunc(stack, func(f frames.Frame) bool { return !l.library(f.File) }); user >= 0 {
		return l.line(at, stack, user)
	}
	return l.called(at, stack)
}

// next returns the threads to look at: one of the loop's, and one of the workers'.
func next(threads []thread, turn int) (due []thread) {
	for _, of := range []role{roleLoop, roleWorker} {
		var all []thread
		for _, t := range threads {
			if t.state != 0 && t.role == of {
				all = append(all, t)
			}
		}
		if len(all) > 0 {
			due = append(due, all[turn%len(all)])
		}
	}
	return due
}

// add counts a look. If a segment has too many lines, the one with the least time goes.
func (l *lines) add(key trace.Line, took time.Duration, stack string) *found {
	in := key.In
	key.Segment, key.In = l.segment, ""
	f := l.table[key]
	if f == nil {
		f = &found{in: map[string]int{}, under: map[string]time.Duration{}}
		l.table[key] = f
		l.bound(l.segment, mostLines)
	}
	f.looks++
	f.time += took
	if in != "" && (f.in[in] > 0 || len(f.in) < mostBeneath) {
		f.in[in]++
	}
	if key.At != trace.Idling && (f.under[stack] > 0 || len(f.under) < mostStacks) {
		f.under[stack] += took
	}
	l.changed = true
	return f
}

// partOfLoading returns the part that a worker's stack is in.
func partOfLoading(at trace.Doing, stack []frames.Frame) loadPart {
	switch {
	case at == trace.Starting:
		return starts
	case slices.ContainsFunc(stack, func(f frames.Frame) bool {
		return strings.HasSuffix(f.File, "gpustall/fetching.py") && strings.HasSuffix(f.Name, "collated") || strings.HasSuffix(f.File, "torch/utils/data/_utils/collate.py")
	}):
		return collates
	}
	return fetches
}

// await takes a batch that the loop has now, and the time in which the loop waited for it. Looks at the
// worker in one of the batch's parts weigh as much as the loop waited for that part. So lines count where
// they held the training up, and not in batches that were ready.
func (l *lines) await(b *batch, from, to int64) {
	if b.pid == 0 || b.done <= b.begun {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending[b.pid]) == 0 { // nobody looks, for instance
		return
	}
	collating := b.done
	if b.collating > b.begun && b.collating < b.done {
		collating = b.collating
	}
	waited := func(start, end int64) float64 {
		return float64(max(0, min(end, to)-max(start, from))) / float64(max(1, end-start))
	}
	begun := b.begun
	parts := [loadParts]float64{fetches: waited(begun, collating), collates: waited(collating, b.done)}
	if b.starts > 0 {
		parts[starts] = waited(b.starts, begun)
		begun = b.starts
	}
	l.pending[b.pid] = slices.DeleteFunc(l.pending[b.pid], func(k look) bool {
		if part := parts[k.part]; part > 0 && k.at >= begun && k.at < b.done {
			k.of.awaited++
			k.of.lost += time.Duration(part * float64(k.took))
			l.changed = true
		}
		return k.at < b.done
	})
}

// awaitAny takes a wait for a batch of which nothing tells how it was made, as of a worker that ran before gpustall was attached.
// Looks at workers within the wait weigh alike.
func (l *lines) awaitAny(from, to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for pid, looks := range l.pending {
		l.pending[pid] = slices.DeleteFunc(looks, func(k look) bool {
			if k.at >= from && k.at < to {
				k.of.awaited++
				k.of.lost += k.took / time.Duration(len(l.pending))
				l.changed = true
			}
			return k.at < to
		})
		if len(l.pending[pid]) == 0 && !slices.ContainsFunc(l.threads, func(t thread) bool { return t.pid == pid }) {
			delete(l.pending, pid)
		}
	}
}

// folded writes a stack as flame graph tools read it: "main (train.py:33);blur (aug.py:42)".
// For a worker it leaves out the calls from before the work began, and everywhere those of gpustall.
func (l *lines) folded(stack []frames.Frame) string {
	if i := slices.IndexFunc(stack, func(f frames.Frame) bool { return among(f.File, servers) }); i >= 0 {
		stack = stack[:i]
	}
	calls := make([]string, 0, deepest)
	for i := min(len(stack), deepest) - 1; i >= 0; i-- {
		f := stack[i]
		if path.Base(path.Dir(f.File)) == "gpustall" && l.library(f.File) {
			continue
		}
		text, known := l.calls[f]
		if !known {
			call := []rune(units.Line(fmt.Sprintf("%s (%s:%d)", f.Name, filepath.Base(f.File), f.Line)))
			text = strings.ReplaceAll(string(call[:min(len(call), longestCall)]), ";", ",")
			if l.calls == nil || len(l.calls) >= mostCalls {
				l.calls = map[frames.Frame]string{}
			}
			l.calls[f] = text
		}
		calls = append(calls, text)
	}
	return strings.Join(calls, ";")
}

// stacks returns the call stacks in which a line has most of its time, one a line of
// text.
func (f *found) stacks() string {
	most := slices.SortedFunc(maps.Keys(f.under), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.under[b], f.under[a]), cmp.Compare(a, b))
	})
	var b strings.Builder
	for _, stack := range most[:min(len(most), toldStacks)] {
		fmt.Fprintf(&b, "%s %d\n", stack, f.under[stack].Microseconds())
	}
	return b.String()
}

// bound keeps at most so many lines of the segment. It merges those with the least time into lines without a
// file.
func (l *lines) bound(segment int32, most int) {
	var all []trace.Line
	for key, f := range l.table {
		if key.Segment == segment && key.File != "" && f.looks > 0 {
			all = append(all, key)
		}
	}
	if len(all) <= most {
		return
	}
	slices.SortFunc(all, func(a, b trace.Line) int { return cmp.Compare(l.table[b].time, l.table[a].time) })
	for _, key := range all[most:] {
		rest := trace.Line{Segment: segment, At: key.At, Func: "other lines"}
		if l.table[rest] == nil {
			l.table[rest] = &found{}
		}
		l.table[rest].looks += l.table[key].looks
		l.table[rest].time += l.table[key].time
		l.table[rest].awaited += l.table[key].awaited
		l.table[rest].lost += l.table[key].lost
		delete(l.table, key)
	}
}

// The file of a frame shows by these what a thread is at.
var (
	fetchers   = []string{"torch/utils/data/_utils/fetch.py", "gpustall/fetching.py"}
	loaders    = []string{"torch/utils/data/dataloader.py", "gpustall/live.py", "gpustall/steps.py", "gpustall/loaders.py"}
	exchangers = []string{
		"/torch/distributed/distributed_c10d.py", "/torch/distributed/_functional_collectives.py",
		"/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", "/torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py",
		"/torch/futures/__init__.py",
	}
	wrapper = []string{"/torch/nn/parallel/distributed.py"} // it sends buffers to all ranks before a forward pass
	talkers = []string{"/torch/distributed/", "/deepspeed/"}
	servers = []string{"torch/utils/data/_utils/worker.py", "gpustall/worker.py"}
)

func among(file string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(file, name) })
}

// exchanges returns which frame of a stack exchanges data with other ranks; -1 where none does. Its own frame does in work.wait(), as
// that is no Python function: the line's text tells.
func (l *lines) exchanges(stack []frames.Frame) int {
	at := slices.IndexFunc(stack, func(f frames.Frame) bool {
		return among(f.File, exchangers) || among(f.File, wrapper) && strings.HasSuffix(f.Name, "broadcast_coalesced")
	})
	if at >= 0 || len(stack) == 0 || !l.ranked.Load() {
		return at
	}
	file := stack[0].File
	if l.library(file) && !slices.ContainsFunc(talkers, func(part string) bool { return strings.Contains(file, part) }) {
		return -1
	}
	if l.says(&stack[0], ".wait(") && !l.says(&stack[0], "os.wait(") {
		return 0
	}
	return -1
}

// says reports whether the text of a frame's line has one of some parts.
func (l *lines) says(f *frames.Frame, parts ...string) bool {
	line := trace.Line{File: f.File, Number: f.Line}
	text, known := l.reads[line]
	if !known {
		if l.reads == nil || len(l.reads) >= mostCalls {
			l.reads = map[trace.Line]string{}
		}
		text = textOf(&line)
		l.reads[line] = text
	}
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// place says what a thread is at, and at which line: the innermost one of the user's own code. If a
// library makes the batch all by itself, the library's function takes the place of the line.
func (l *lines) place(stack []frames.Frame, of role) trace.Line {
	user, loading := -1, false
	for i, f := range stack {
		switch {
		case among(f.File, fetchers):
			loading = true
		case among(f.File, servers):
			if user >= 0 {
				return l.line(trace.Starting, stack, user)
			}
			return trace.Line{At: trace.Idling}
		case among(f.File, loaders):
			switch {
			case user >= 0:
				return l.line(trace.Sampling, stack, user)
			case i > 0 && strings.HasSuffix(stack[i-1].File, "torch/utils/data/sampler.py"):
				return l.function(trace.Sampling, stack, 0)
			}
			return trace.Line{At: trace.Waiting}
		case user < 0 && !l.library(f.File):
			user = i
		}
		if !loading {
			continue
		}
		if user < 0 {
			return l.called(trace.Loading, stack[:i])
		}
		return l.line(trace.Loading, stack, user)
	}
	switch {
	case of != roleLoop && user >= 0 && len(stack) == frames.Deepest: // the rest was not read
		return l.line(trace.Loading, stack, user)
	case of != roleLoop:
		return trace.Line{At: trace.Idling}
	case user < 0:
		return trace.Line{At: partOf(stack, len(stack), l.exchanges(stack)), Func: "a library's own code"}
	}
	return l.line(partOf(stack, user, l.exchanges(stack[:user+1])), stack, user)
}

// partOf says which part of a step a stack is in. A closure that an optimizer calls is not the optimizer;
// there the optimizer calls the user's innermost frame. A forward pass within a backward pass is
// activation checkpointing. The frame talks exchanges data.
func partOf(stack []frames.Frame, user, talks int) trace.Doing {
	at := trace.InStep
	for i := range stack {
		f := &stack[i]
		switch {
		case i == talks:
			return trace.Exchange
		case strings.HasSuffix(f.File, "/torch/_dynamo/convert_frame.py"), strings.HasSuffix(f.File, "/torch/_inductor/compile_fx.py") && strings.Contains(f.Name, "compile"):
			return trace.Compiles // compiled code runs without these frames
		case strings.Contains(f.File, "/torch/autograd/"):
			if strings.HasSuffix(f.Name, "backward") {
				return trace.Backward
			}
		case strings.HasSuffix(f.File, "/torch/nn/modules/module.py"):
			if strings.HasSuffix(f.Name, "_call_impl") {
				at = trace.Forward
			}
		case at == trace.InStep && i < user && strings.Contains(f.File, "/torch/optim/") && strings.HasSuffix(f.Name, "step") && !strings.HasSuffix(f.File, "lr_scheduler.py"):
			at = trace.Stepping
		}
	}
	return at
}

// glue holds the files of libraries that only call what a user chose, as Compose calls a
// transform.
var glue = []string{"/threading.py", "/concurrent/futures/thread.py", "/multiprocessing/pool.py", "/torch/utils/data/", "/torch/nn/modules/module.py", "/torchvision/datasets/", "/gpustall/"}

// called returns the function of a library that works, from frames without the user's code. It is the
// outermost function that is not glue.
func (l *lines) called(at trace.Doing, stack []frames.Frame) trace.Line {
	for i := len(stack) - 1; i >= 0; i-- {
		f := &stack[i]
		if strings.HasSuffix(f.Name, "Compose.__call__") || slices.ContainsFunc(glue, func(part string) bool { return strings.Contains(f.File, part) }) {
			continue
		}
		return l.function(at, stack, i)
	}
	if at != trace.Loading {
		return trace.Line{At: at, Func: "a library's thread"}
	}
	return trace.Line{At: at, Func: "the data set's and DataLoader's own code"}
}

// function returns a library's function, in the place of a line of it.
func (l *lines) function(at trace.Doing, stack []frames.Frame, i int) trace.Line {
	out := l.line(at, stack, i)
	out.Library, out.Number = true, 0
	if of, _, _ := strings.Cut(l.module(stack[i].File), "."); of != "" {
		out.Func += " (" + of + ")"
	}
	return out
}

// line returns the line of a frame, with the innermost function beneath it.
func (l *lines) line(at trace.Doing, stack []frames.Frame, i int) trace.Line {
	f := &stack[i]
	out := trace.Line{At: at, File: f.File, Number: f.Line, Func: f.Name}
	for j := i; nested(out.Func) && j+1 < len(stack) && stack[j+1].File == f.File; j++ { // it belongs to the function around it
		out.Func = stack[j+1].Name
	}
	if i > 0 {
		out.In = l.module(stack[0].File) + stack[0].Name
	}
	return out
}

// nested reports whether a function is a comprehension, which is a function of its own before Python 3.12, or a generator
// expression.
func nested(name string) bool {
	for _, of := range [...]string{"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"} {
		if strings.HasSuffix(name, of) {
			return true
		}
	}
	return false
}

// library reports whether a file is not the user's.
func (l *lines) library(file string) bool {
	if strings.HasPrefix(file, "<") {
		return strings.HasPrefix(file, "<frozen") || strings.HasPrefix(file, "<__array") || file == "<template>"
	}
	return packages(file) >= 0 || slices.ContainsFunc(l.layout.Library, func(folder string) bool { return strings.HasPrefix(file, folder+"/") })
}

// packages returns where the folder of installed packages ends in a file's name, or -1 if the file is
// in none. Python's own list lacks the folders that a .pth file or PYTHONPATH added.
func packages(file string) int {
	for _, folder := range [...]string{"/site-packages/", "/dist-packages/"} {
		if i := strings.LastIndex(file, folder); i >= 0 {
			return i + len(folder) - 1
		}
	}
	return -1
}

// module names a library's file as Python imports it, with a dot at its end: "PIL.ImageFilter.".
func (l *lines) module(file string) string {
	longest := file[:max(0, packages(file))]
	for _, folder := range l.layout.Library {
		if strings.HasPrefix(file, folder+"/") && len(folder) > len(longest) {
			longest = folder
		}
	}
	if longest == "" {
		return strings.TrimSuffix(filepath.Base(file), ".py") + "."
	}
	file = strings.TrimSuffix(strings.TrimPrefix(file, longest+"/"), ".py")
	return strings.ReplaceAll(strings.TrimSuffix(file, "/__init__"), "/", ".") + "."
}

// tell records all lines so far, where there are new looks.
func (l *lines) tell(r *trace.Recorder) {
	l.mu.Lock()
	if l.refused != nil {
		r.Note("warn", noLines+l.refused.Error())
		l.refused = nil
	}
	if !l.changed {
		l.mu.Unlock()
		return
	}
	l.changed = false
	all := make([]trace.Line, 0, len(l.table))
	whole := map[int32]time.Duration{}
	for key, f := range l.table {
		whole[key.Segment] += f.time
	}
	for key, f := range l.table {
		key.Looks, key.Time, key.Awaited, key.Lost = f.looks, int64(f.time), f.awaited, int64(f.lost)
		if float64(f.time) >= leastPart*float64(whole[key.Segment]) {
			key.Stacks = f.stacks()
		}
		for in, n := range f.in {
			if 2*n > f.looks {
				key.In = in
			}
		}
		all = append(all, key)
	}
	l.mu.Unlock()
	for i := range all {
		all[i].Text = l.text(&all[i])
	}
	slices.SortFunc(all, func(a, b trace.Line) int {
		return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(b.Time, a.Time), cmp.Compare(a.File, b.File), cmp.Compare(a.Number, b.Number))
	})
	r.Lines(all)
}

// longestLine is how much of a line's text is kept.
const longestLine = 120

// text returns a line's text; empty where its file cannot be read.
func (l *lines) text(of *trace.Line) string {
	if of.Number == 0 || of.File == "" {
		return ""
	}
	at := trace.Line{File: of.File, Number: of.Number}
	text, known := l.texts[at]
	if known {
		return text
	}
	text = textOf(&at)
	text = mask.Text(text[:min(len(text), longestLine)])
	l.texts[at] = text
	return text
}

// textOf reads a line's text.
func textOf(line *trace.Line) string {
	f, err := os.Open(line.File)
	if err != nil {
		return ""
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		if n == line.Number {
			return strings.ToValidUTF8(strings.TrimSpace(in.Text()), "?")
		}
	}
	return ""
}
