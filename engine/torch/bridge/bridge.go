//go:build linux

package bridge

import (
	"cmp"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/torch/python"
	"dev.gpustall/engine/trace"
)

// How often the rings are read. Waking up costs more than reading. A ring holds what a worker does in
// some seconds. If one fills faster, all are read more often.
const (
	PollShown = 50 * time.Millisecond // while somebody looks at the screen, and until the first batch
	PollAlone = time.Second
	pollBusy  = 10 * time.Millisecond
	renewing  = 10 * time.Second // after workers began anew, as in each epoch, they may do so again
)

// lookEvery is how often the bridge asks whether the processes of rings still run. While nobody
// looks at the screen, that is each time that it reads the rings.
const lookEvery = PollAlone - PollShown

// Variable is the environment variable that tells the training the folder of rings.
const Variable = "GPUSTALL_TORCH"

// Bridge shares a folder with a training, and records what the training writes there. The goroutine
// that reads the rings owns them, the processes and the recorder; Watch and Record start it. Meanwhile
// others may call GPU, Did and Foresee, which read the view, and the methods of Control.
type Bridge struct {
	Clock   *Clock
	Control *Control

	// Every is how often the rings are read. It is PollShown, unless the caller sets it
	// before Watch.
	Every time.Duration

	// Polled receives a value each time the rings were read, if somebody listens.
	Polled chan time.Time

	Calls

	dir    string // private, with the package for Python
	shared string // the folder of rings, which the training knows
	owner  owners // locked while the bridge is open

	rings map[string]*ring
	mails map[string]*mail

	recorder  *trace.Recorder
	processes map[int]*process
	main      *process // the process that the session is about
	first     chan Start
	begun     bool
	seen      time.Time // when the first loop that trains was seen
	ending    bool      // the training has ended
	counts    counts
	left      bool     // an attached training is as it was
	unread    []unread // the new records of rings, while they are handed on
	fullest   float64  // the largest share of its slots that a ring filled since it was last read
	looked    time.Time
	crew      crew
	lines     lines
	changed   unix.Timespec // when the folder had changed, as of its last reading
	held      []message     // messages that came before there was a recorder

	view    view
	quit    chan struct{}
	done    chan struct{}
	started bool
}

// Calls are what the caller sets before Record. They are called on the goroutine that reads the rings.
type Calls struct {
	Captured func(Captured) // receives the result of a capture, and removes the trace
	Began    func(Start)    // receives the loop that trains, where it turns out to be another one than First told
}

// crew is what the bridge finds out about the workers from outside of them.
type crew struct {
	looks   looks
	pools   pools
	weighed time.Time // when to measure their memory again
	renewed time.Time // when some were last seen to follow those of an iteration before
}

// unread holds the new records of a ring.
type unread struct {
	r       *ring
	records []record // not handed on yet
	buffer  []record
}

// Start is what is known of a training loop at its first batch.
type Start struct {
	Hello  Hello
	Loader Loader
	Batch  Batch
	Since  int64 // ns of the clock: when the loop asked for that batch
}

// Open makes a bridge's folders. The rings are in memory where there is room, so that the kernel does
// not write them to a disk.
func Open() (*Bridge, error) {
	places := places()
	for _, parent := range places {
		removeLeftovers(parent)
	}
	var failed error
	for _, parent := range places {
		b, err := openIn(parent)
		if err == nil {
			return b, nil
		}
		failed = cmp.Or(failed, err)
	}
	return nil, failed
}

// places returns the folders in which a bridge's folder may lie, the best first.
func places() []string {
	places := []string{os.TempDir(), "/tmp", "/var/tmp", memoryFiles}
	return slices.Compact(places)
}

// openIn makes a bridge's folders, the first one in parent.
func openIn(parent string) (*Bridge, error) {
	dir, err := os.MkdirTemp(parent, folders)
	if err != nil {
		return nil, errs.Wrap(err, "make", "a folder for the training's rings", "set TMPDIR to a folder that can be written to")
	}
	b := &Bridge{
		Clock: newClock(), Every: PollShown, Polled: make(chan time.Time, 1), dir: dir, shared: filepath.Join(dir, rings), rings: map[string]*ring{}, mails: map[string]*mail{},
		processes: map[int]*process{}, first: make(chan Start, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	err = os.Mkdir(b.shared, 0o700)
	if err == nil && roomy(memoryFiles) {
		if private, merr := os.MkdirTemp(memoryFiles, folders); merr == nil {
			b.shared = private
		}
	}
	b.owner = lock(dir, b.shared)
	if err == nil {
		err = python.Unpack(b.Path())
	}
	if err == nil {
		b.Control, err = newControl(filepath.Join(b.shared, "control"))
	}
	if err != nil {
		_ = b.owner.Close()
		_ = os.RemoveAll(b.shared)
		_ = os.RemoveAll(dir)
		return nil, errs.Wrap(err, "prepare", dir, "free some space, or set TMPDIR to a folder that can be written to")
	}
	return b, nil
}

// memoryFiles is the folder whose files are in memory.
const memoryFiles = "/dev/shm"

// roomy reports whether a folder has room for the rings of many workers.
func roomy(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && int64(s.Bavail)*s.Bsize >= 256<<20
}

// Path returns the folder that PYTHONPATH must name first.
func (b *Bridge) Path() string { return filepath.Join(b.dir, "python") }

// Environ returns an environment for the training: env, with the variables by which the
// training finds the bridge.
func (b *Bridge) Environ(env []string) []string {
	path := b.Path()
	out := slices.DeleteFunc(slices.Clone(env), func(s string) bool {
		if old, ok := strings.CutPrefix(s, "PYTHONPATH="); ok {
			if old != "" {
				path += string(os.PathListSeparator) + old
			}
			return true
		}
		return strings.HasPrefix(s, Variable+"=")
	})
	return append(out, "PYTHONPATH="+path, Variable+"="+b.shared)
}

// Heard reports whether any process wrote a message, and whether any imported PyTorch's DataLoader.
func (b *Bridge) Heard() (told, imported bool) {
	entries, _ := os.ReadDir(b.shared)
	for _, e := range entries {
		told = told || strings.HasPrefix(e.Name(), "messages-")
		imported = imported || e.Name() == "imported"
	}
	return told, imported
}

// First receives the first loop that trains.
func (b *Bridge) First() <-chan Start { return b.first }

// Said reports whether the script's standard error has a note.
func (b *Bridge) Said(text string) bool {
	_, ok := b.view.said.Load(text)
	return ok
}

// Watch begins to look for the first loop that trains.
func (b *Bridge) Watch() { b.start(nil) }

// LastLook looks for the first loop that trains once more, when the training has ended.
func (b *Bridge) LastLook() {
	b.pause()
	b.ending = true
	for range 3 {
		b.poll()
	}
}

// Record begins to record, after First.
func (b *Bridge) Record(r *trace.Recorder) { b.start(r) }

// start stops the goroutine that reads, and starts it with another recorder.
func (b *Bridge) start(r *trace.Recorder) {
	b.pause()
	b.recorder, b.started = r, true
	if r != nil {
		since, _ := firstOf(b.main.pid, b.rings, b.Clock)
		b.main.begin(r, since)
		b.main.segments.began = func() {
			if b.Began != nil {
				b.Began(Start{Hello: b.main.hello, Loader: b.main.loader})
			}
		}
		b.main.lines, b.lines.clock = &b.lines, b.Clock
		b.Control.begin(b.main.segments.knobs, b.main.specs())
		for i := range b.held {
			b.deliver(&b.held[i])
		}
		b.held = nil
	}
	b.quit, b.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(b.done)
		err := trace.Guard("read the training's rings", func() error {
			due := time.NewTimer(0)
			defer due.Stop()
			for every := PollShown; ; {
				var at time.Time
				select {
				case <-b.quit:
					return nil
				case at = <-due.C:
				}
				b.poll()
				every = b.next(every)
				due.Reset(timer.Left(every))
				select {
				case b.Polled <- at:
				default:
				}
			}
		})
		if err != nil && r != nil {
			r.Note("error", err.Error()+"; what follows is not recorded")
		}
	}()
}

// next returns how long to wait until the rings are read again; every is how long it was last time.
func (b *Bridge) next(every time.Duration) time.Duration {
	const full = 1.0 / 8
	switch {
	case b.fullest > full:
		return max(pollBusy, time.Duration(float64(every)*full/b.fullest))
	case b.recorder == nil || b.fullest > full/2:
		return every
	case time.Since(b.crew.renewed) < renewing: // the next ones are seen as they begin
		return PollShown
	}
	return min(2*every, b.Every)
}

// pause ends the goroutine that reads the rings.
func (b *Bridge) pause() {
	if b.started {
		close(b.quit)
		<-b.done
		b.started = false
	}
}

// Stop reads what is left, once the training has ended, and stops.
func (b *Bridge) Stop() {
	b.pause()
	b.lines.stop()
	if b.recorder != nil {
		for range 3 { // some processors need a second look (see ring.look)
			_ = trace.Guard("read the training's rings", func() error { b.poll(); return nil })
		}
		b.lines.tell(b.recorder)
		for _, r := range b.rings {
			b.settle(r)
		}
		b.main.finish()
		b.count()
	}
}

// needed reports whether a process of the training lives on, such as one that was started in the
// background. Its next worker may look for the package.
func (b *Bridge) needed() bool {
	for _, r := range b.rings {
		if lives(r.pid) || lives(r.parent) {
			return true
		}
	}
	for _, m := range b.mails {
		if lives(m.pid) {
			return true
		}
	}
	return false
}

// ending is how long a process may take that looked for gpustall at its end before Close, and left the folders to it.
const ending = 300 * time.Millisecond

// Close removes what the bridge made, unless a process of the training still needs it.
func (b *Bridge) Close() error {
	b.pause()
	b.lines.stop()
	b.counts.ends.close()
	for _, r := range b.rings {
		r.close()
	}
	for _, m := range b.mails {
		_ = m.file.Close()
	}
	b.Control.close()
	for end := time.Now().Add(ending); !b.left && b.needed(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return b.owner.Close() // the last process of the training removes the folders, or the next run
		}
	}
	err := os.RemoveAll(b.shared)
	_ = b.owner.Close()
	if e := os.RemoveAll(b.dir); err == nil {
		err = e
	}
	return err
}

// poll reads what is new. It looks at the rings of loops first, so that it also reads all that
// other rings got before the loops' records, and the stacks that looks found.
func (b *Bridge) poll() {
	b.fullest = 0
	b.discover()
	for _, r := range b.rings {
		if r.role == roleLoop || r.role == roleLooker {
			r.look()
		}
	}
	for _, m := range b.mails {
		for _, msg := range m.read() {
			msg.from = m.pid
			msg.T -= b.Clock.origin
			b.hear(&msg)
		}
	}
	if b.recorder == nil {
		b.announce()
		return
	}
	b.succeed()
	b.drain(false)
	b.drain(true)
	b.view.show(b.main.facts)
	b.answer()
	late := b.counts.late(b.main, b.processes)
	own, ranks := b.threads(late)
	b.lines.ranked.Store(b.main.hello.World > 1)
	b.lines.at(b.main.segments.segment.Index, b.main.pid, own, ranks, late)
	if b.main.segments.knobs.Workers > 1 {
		b.crew.looks.look(b.workers())
	}
	b.forget()
}

// discover opens the new files.
func (b *Bridge) discover() {
	var dir unix.Stat_t
	if unix.Stat(b.shared, &dir) != nil || dir.Mtim == b.changed {
		return
	}
	// Files may still come within the tick of the clock that stamped the folder.
	if now := time.Now().UnixNano(); now-dir.Mtim.Nano() > int64(time.Second) {
		b.changed = dir.Mtim
	}
	entries, err := os.ReadDir(b.shared)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(b.shared, name)
		var pid int
		switch {
		case strings.HasPrefix(name, "ring-") && b.rings[name] == nil:
			if r, err := openRing(path); err == nil {
				if b.rings[name] = r; renews(r, b.rings) {
					b.crew.renewed = time.Now()
				}
			}
		case strings.HasPrefix(name, "messages-") && b.mails[name] == nil:
			if _, err := fmt.Sscanf(name, "messages-%d", &pid); err != nil {
				continue
			}
			if m, err := openMail(path, pid); err == nil {
				b.mails[name] = m
			}
		}
	}
}

// renews reports whether a ring is of a worker that follows those of another iteration over the loader.
func renews(of *ring, all map[string]*ring) bool {
	if of.role == roleWorker {
		for _, r := range all {
			if r.role == roleWorker && r.parent == of.parent && r.iteration != of.iteration {
				return true
			}
		}
	}
	return false
}

// hear takes a message of a process, and holds it until there is a session.
func (b *Bridge) hear(m *message) {
	b.process(m.from).facts.hear(m)
	if b.recorder == nil {
		b.held = append(b.held, *m)
		return
	}
	b.deliver(m)
}

// deliver hands a message on to the session, or to its process.
func (b *Bridge) deliver(m *message) {
	p := b.process(m.from)
	switch {
	case m.Type == "frames" && p == b.main:
		b.lines.begin(m, b.Control, b.recorder)
	case m.Type == "stack":
		b.lines.tells(m)
	case m.Type == "refused" && p != b.main && p.hello.World > 1: // no rank has more workers than all can have
		b.recorder.Specs(b.Control.refuse(&m.Refused, m.Knobs["num_workers"]))
	case m.Type == "note":
		if m.Said {
			b.view.said.Store(m.Text, true)
		}
		b.recorder.Note(m.Level, m.Text)
	case m.Type == "captured" && p == b.main && b.Captured != nil:
		m.Captured.Path = filepath.Join(b.shared, filepath.Base(m.Captured.Path))
		b.Captured(m.Captured)
	default:
		p.hear(m)
	}
}

// announce sends the first loop that trains. If there are ranks, it sends the loop of rank 0, or of the
// first rank on this machine. If each rank has a gpustall of its own, as under srun, neither of these may
// come here.
func (b *Bridge) announce() {
	if b.begun {
		return
	}
	var lowest *process
	for _, p := range b.processes {
		if p.known && p.loading && (lowest == nil || p.hello.before(&lowest.hello)) {
			lowest = p
		}
	}
	if lowest == nil {
		return
	}
	if b.seen.IsZero() {
		b.seen = time.Now()
	}
	if !lowest.hello.leads() && !b.ending && time.Since(b.seen) < awaitFirst {
		return
	}
	if since, ok := firstOf(lowest.pid, b.rings, b.Clock); ok {
		b.begun, b.main = true, lowest
		b.view.show(lowest.facts)
		b.first <- Start{lowest.hello, lowest.loader, lowest.batch, since}
	}
}

// succeed has the session go on with the process that took the place of the one that it was about, as when torchrun starts its
// ranks anew. It is the same command, and the first rank or the same one.
func (b *Bridge) succeed() {
	was := b.main
	unread := func() bool {
		for _, r := range b.rings {
			if r.parent == was.pid && r.tail < r.limit {
				return true
			}
		}
		return false
	}
	if was.hello.World < 1 || len(b.processes) == 1 || lives(was.pid) || unread() {
		return
	}
	for _, p := range b.processes {
		if p == was || !p.known || !p.loading || p.hello.Rank != was.hello.Rank && !p.hello.leads() || !slices.Equal(p.hello.Argv, was.hello.Argv) || !lives(p.pid) {
			continue
		}
		since, ok := firstOf(p.pid, b.rings, b.Clock)
		if !ok {
			continue
		}
		for _, r := range b.rings {
			if r.parent == was.pid {
				b.settle(r)
			}
		}
		was.out.span(trace.TrackStep, trace.Span{Start: was.totals.last, End: since, Step: -1, Batch: -1, Kind: trace.KindPause})
		was.finish()
		was.out.recorder, was.lines = nil, nil
		p.out.before, p.lines, b.main = was.reached(), &b.lines, p
		p.begin(b.recorder, since)
		b.lines.enter(p.segments.segment.Index, since)
		if b.Began != nil {
			b.Began(Start{Hello: p.hello, Loader: p.loader, Batch: p.batch})
		}
		b.recorder.Note("warn", fmt.Sprintf("rank %d began anew as process %d: the session goes on with it", max(0, p.hello.Rank), p.pid))
		return
	}
}

// awaitFirst is how long the bridge waits for the first rank on this machine when another one
// trains.
const awaitFirst = 2 * time.Second

// leads reports whether the process is the first rank of the job, or of this machine.
func (h *Hello) leads() bool { return h.Rank <= 0 || h.Local == 0 }

// before reports whether a session should be about this process rather than about o.
func (h *Hello) before(o *Hello) bool {
	if h.leads() != o.leads() {
		return h.leads()
	}
	return h.Rank < o.Rank
}

// firstOf returns when a process's loop began, on the bridge's clock.
func firstOf(pid int, rings map[string]*ring, c *Clock) (since int64, ok bool) {
	for _, r := range rings {
		if r.role == roleLoop && r.pid == pid && r.limit > 0 {
			first := r.tail
			r.tail = 0
			if all := r.read(nil); len(all) > 0 {
				since, ok = all[0].Start-c.origin, true
			}
			r.tail, r.dropped = first, 0
		}
	}
	return since, ok
}

func (b *Bridge) process(pid int) *process {
	p := b.processes[pid]
	if p == nil {
		p = newProcess(b.Control, pid)
		b.processes[pid] = p
	}
	return p
}

// threads returns the loop's threads and the main process's workers that run, the loops of other ranks, and the workers of the late
// one.
func (b *Bridge) threads(late *process) (own, ranks []thread) {
	of := func(r *ring) thread {
		t := thread{r.pid, int(r.word(tidAt)), r.word(threadAt), r.word(codesAt), r.role, late != nil && r.parent == late.pid, r.parent, 0}
		if r.role == roleWorker {
			t.began = r.made.UnixNano()
		}
		return t
	}
	for r := range b.running(roleLoop, roleWorker) {
		own = append(own, of(r))
	}
	if b.main.hello.World <= 1 {
		return own, nil
	}
	var workers []thread
	for _, r := range b.rings {
		p := b.processes[r.parent]
		switch {
		case p == nil || p == b.main || p.hello.World <= 1 || !p.loading || r.over() || r.word(threadAt) == 0:
		case r.role == roleLoop:
			ranks = append(ranks, of(r))
		case r.role == roleWorker && p == late:
			workers = append(workers, of(r))
		}
	}
	return own, append(ranks, workers...)
}

// running yields the rings of the main process, of writers that run and have one of these roles.
func (b *Bridge) running(roles ...role) iter.Seq[*ring] {
	return func(yield func(*ring) bool) {
		for _, r := range b.rings {
			if slices.Contains(roles, r.role) && r.parent == b.main.pid && !r.over() && !yield(r) {
				return
			}
		}
	}
}

// workers yields the process ids of the main process's workers that run.
func (b *Bridge) workers() iter.Seq[int] {
	return func(yield func(int) bool) {
		for r := range b.running(roleWorker) {
			if !yield(r.pid) {
				return
			}
		}
	}
}

// drain hands on the new records in order of time: those of loops, or of all other rings. Batches
// are numbered in that order. A loop may use one thread after another to take batches, each with a
// ring.
func (b *Bridge) drain(loops bool) {
	n := 0
	for _, r := range b.rings {
		if loops != (r.role == roleLoop) {
			continue
		}
		if !loops && r.role != roleLooker {
			r.look()
		}
		if r.tail == r.limit {
			continue
		}
		if n == len(b.unread) {
			b.unread = append(b.unread, unread{})
		}
		l := &b.unread[n]
		n++
		b.fullest = max(b.fullest, float64(r.limit-r.tail)/float64(r.slots))
		l.buffer = r.read(l.buffer[:0])
		if r.dropped > 0 && !loops && r.role != roleLooker {
			p := b.process(r.parent)
			p.hole = max(p.hole, began(l.buffer)-b.Clock.origin)
		}
		l.r, l.records = r, l.buffer
	}
	for lines := b.unread[:n]; len(lines) > 0; {
		first := 0
		for i := range lines {
			if records := lines[i].records; len(records) == 0 || len(lines[first].records) > 0 && records[0].End < lines[first].records[0].End {
				first = i
			}
		}
		l := &lines[first]
		p := b.process(l.r.parent)
		if len(l.records) == 0 {
			b.lost(p, l.r)
			last := len(lines) - 1
			lines[first], lines[last] = lines[last], lines[first]
			lines = lines[:last]
			continue
		}
		b.hand(p, l.r, &l.records[0])
		l.records = l.records[1:]
	}
}

// hand gives a record to its process.
func (b *Bridge) hand(p *process, r *ring, rec *record) {
	rec.Start -= b.Clock.origin
	rec.End -= b.Clock.origin
	switch {
	case rec.End < rec.Start:
	case r.role == roleLooker:
		if p == b.main {
			b.lines.inside(r, rec)
		}
	case r.role == roleLoop:
		p.loop(rec)
	default:
		p.work(r, rec)
	}
}

// lost records how many records were overwritten before they were read.
func (b *Bridge) lost(p *process, r *ring) {
	if r.dropped > 0 && p == b.main && r.role != roleLooker {
		b.recorder.Track(p.lanes.of(r)).Lost(r.dropped)
	}
	r.dropped = 0
}

// settle hands on how many steps a process had, when no record follows. A killed process has no last record.
func (b *Bridge) settle(r *ring) {
	if last, ok := r.counted(); ok {
		b.hand(b.process(r.parent), r, &last)
	}
}

// forget closes the rings of writers that have ended, and removes their files.
func (b *Bridge) forget() {
	gone := func(int) bool { return false }
	if time.Since(b.looked) > lookEvery {
		b.looked = time.Now()
		b.count()
		b.weigh()
		b.crew.looks.tell(b.recorder)
		b.lines.tell(b.recorder)
		stands := standsOf(b)
		b.view.holds(b.counts.late(b.main, b.processes), &b.lines, stands)
		b.crew.pools.tell(b.workers(), b.recorder)
		gone = func(pid int) bool { return unix.Kill(pid, 0) == unix.ESRCH }
	}
	for name, r := range b.rings {
		if (r.ended || gone(r.pid)) && r.tail == r.word(countAt) {
			b.process(r.parent).lanes.leave(r)
			b.settle(r)
			r.close()
			_ = os.Remove(r.path)
			delete(b.rings, name)
		}
	}
}
