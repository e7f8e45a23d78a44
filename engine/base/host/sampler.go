package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// Reading is a number that may be unknown here; Why then says why.
type Reading struct {
	Value float64
	Known bool
	Why   string
}

func known(v float64) Reading { return Reading{Value: v, Known: true} }

func unknown(why string) Reading { return Reading{Why: why} }

// file returns the text of a small file. Where it cannot be read, the reading says why.
func (s *Sampler) file(name string) (string, Reading) {
	b, err := fs.ReadFile(s.sys, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", missing(name)
	case err != nil:
		if p := new(fs.PathError); errors.As(err, &p) {
			err = p.Err
		}
		return "", unknown(fmt.Sprintf("/%s cannot be read: %v", name, err))
	}
	return string(b), known(0)
}

func missing(name string) Reading { return unknown("/" + name + " is not there") }

// malformed returns the reading of a file whose text is not as the kernel's documentation has it.
func malformed(name string) Reading { return unknown("/" + name + " is not as expected") }

// number reads a decimal number; other text gives an unknown reading.
func number(name, text string) Reading {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return malformed(name)
	}
	return known(v)
}

// Sample is what counters that only grow showed at one moment. Times are in seconds.
type Sample struct {
	At time.Time

	OurCPU     Reading // cores' time that this process used
	Busy, Idle Reading // time of all the cores that it may use, whoever used them
	Group      Reading // cores' time of the processes with which it shares cores by the thread, itself included
	Running    Reading // its threads' time on a core, and ...
	Waiting    Reading // ... ready to run without one

	// The time in which at least one task of the host waited for this.
	PressureCPU, PressureIO, PressureMemory Reading

	Periods, Throttled Reading // periods of the cgroup's CPU quota, and those in which it ran out
	MajorFaults        Reading // pages that this process had to wait for a disk for
	DiskRead           Reading // bytes that the host's disks read, for any process
	OurRead            Reading // bytes that were read from storage for this process, without what the page cache had
}

// Sampler takes samples. One goroutine may use it.
type Sampler struct {
	sys     fs.FS
	cpus    map[int]bool       // that this process may use; nil when that is unknown
	quota   string             // the directory of the cgroup whose quota is the tightest; empty without a quota
	memory  cgroup             // whose memory limits hold
	sharing string             // how the cores are shared out
	usage   string             // the file that counts our cgroup's CPU time
	beside  map[string]float64 // CPU time of other processes of our session at the last look, in seconds
	besides float64            // what they used so far
	adopted map[string]bool    // processes whose parent may have ended: whether they are of our session
	disks   map[string]bool
	members func() []string    // names in /proc of the processes that are ours; nil: this process
	used    map[string]float64 // cores' time of each process, in seconds
	ended   float64            // of the processes that ended, in seconds
	threads map[string]*thread
	gone    [2]float64 // running and waiting times of threads that ended
	buf     [128]byte
}

// thread is one of the process's threads. Its times are read through a file that stays open,
// because opening it each time costs several times as much.
type thread struct {
	file             threadFile
	running, waiting float64 // seconds
	seen             bool
}

// threadFile is an open file of /proc, which has new content at each read.
type threadFile interface {
	io.ReaderAt
	io.Closer
}

// New returns a sampler of this machine. Until Close it holds a file open for each thread of the
// process.
func New() *Sampler { return newSampler(os.DirFS("/"), Affinity()) }

// NewOf is New for other processes, which it counts as ours. They may come and go; what they used
// until they were last seen still counts.
func NewOf(pids func() []int) *Sampler {
	s := New()
	s.members = func() (names []string) {
		for _, pid := range pids() {
			names = append(names, strconv.Itoa(pid))
		}
		return names
	}
	return s
}

// Family returns a process and all its descendants, as far as the kernel tells.
func Family(pid int) []int { return family(os.DirFS("/"), pid) }

func family(sys fs.FS, pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all) && len(all) < 1<<12; i++ {
		dir := "proc/" + strconv.Itoa(all[i]) + "/task"
		tasks, err := fs.ReadDir(sys, dir)
		if err != nil {
			continue
		}
		for _, task := range tasks {
			children, _ := fs.ReadFile(sys, dir+"/"+task.Name()+"/children") // a thread that has just ended has no such file
			for text := range strings.FieldsSeq(string(children)) {
				if child, err := strconv.Atoi(text); err == nil {
					all = append(all, child)
				}
			}
		}
	}
	return all
}

// ours returns the processes that count as ours.
func (s *Sampler) ours() []string {
	if s.members == nil {
		return []string{"self"}
	}
	return s.members()
}

func newSampler(sys fs.FS, cpus []int) *Sampler {
	s := &Sampler{sys: sys, disks: disks(sys), threads: map[string]*thread{}, used: map[string]float64{}}
	for _, n := range cpus {
		if s.cpus == nil {
			s.cpus = map[int]bool{}
		}
		s.cpus[n] = true
	}
	_, s.quota = quota(sys)
	s.memory, _ = findCgroup(sys, "memory")
	s.sharing, s.usage = sharedOut(sys)
	return s
}

// Close closes the files.
func (s *Sampler) Close() {
	for tid, t := range s.threads {
		_ = t.file.Close()
		delete(s.threads, tid)
	}
}

// Sample looks at the counters.
func (s *Sampler) Sample() Sample {
	out := Sample{At: time.Now()}
	out.OurCPU, out.MajorFaults = s.process()
	out.Busy, out.Idle = s.cpuTime()
	out.Group = s.groupTime(out.OurCPU, out.Busy)
	out.Running, out.Waiting = s.queue()
	out.PressureCPU, out.PressureIO, out.PressureMemory = s.pressure("cpu"), s.pressure("io"), s.pressure("memory")
	out.Periods, out.Throttled = s.throttling()
	out.DiskRead, out.OurRead = s.diskRead(), s.ourRead()
	return out
}

// queue adds up the run-queue times of the threads of our processes. It keeps those of threads that
// ended, because the sums must not shrink.
func (s *Sampler) queue() (running, waiting Reading) {
	for _, member := range s.ours() {
		dir := "proc/" + member + "/task"
		tids, err := fs.ReadDir(s.sys, dir)
		if err != nil {
			if s.members == nil {
				return missing(dir), missing(dir)
			}
			continue // the thread has just ended
		}
		for _, tid := range tids {
			s.look(dir + "/" + tid.Name())
		}
	}
	const dir = "proc/self/task"
	run, wait := s.gone[0], s.gone[1]
	for tid, t := range s.threads {
		run, wait = run+t.running, wait+t.waiting
		if !t.seen {
			s.gone[0], s.gone[1] = s.gone[0]+t.running, s.gone[1]+t.waiting
			_ = t.file.Close()
			delete(s.threads, tid)
			continue
		}
		t.seen = false
	}
	switch {
	case len(s.threads) == 0:
		return missing(dir + "/*/schedstat"), missing(dir + "/*/schedstat")
	case run == 0 && wait == 0: // a kernel that does not count them writes zeros
		r := unknown("/" + dir + "/*/schedstat counts nothing")
		return r, r
	}
	return known(run), known(wait)
}

// look reads the times of one thread.
func (s *Sampler) look(dir string) {
	t := s.threads[dir]
	if t == nil {
		f, err := s.sys.Open(dir + "/schedstat")
		if err != nil { // the thread has just ended, or the kernel has no such file
			return
		}
		file, ok := f.(threadFile)
		if !ok {
			_ = f.Close()
			return
		}
		t = &thread{file: file}
		s.threads[dir] = t
	}
	t.seen = s.readThread(t)
}

// readThread reads "running waiting slices" of a thread, in ns. It is false for a thread that
// ended.
func (s *Sampler) readThread(t *thread) bool {
	n, err := t.file.ReadAt(s.buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	first, rest, _ := bytes.Cut(s.buf[:n], []byte{' '})
	second, _, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return false
	}
	t.running, t.waiting = float64(decimal(first))/1e9, float64(decimal(second))/1e9
	return true
}

// decimal returns the number at the beginning of b.
func decimal(b []byte) (v int64) {
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		v = 10*v + int64(c-'0')
	}
	return v
}

// Threads are the run-queue times of our processes' threads at one moment, in seconds.
type Threads struct{ Running, Waiting Reading }

// Threads samples only these times.
func (s *Sampler) Threads() Threads {
	running, waiting := s.queue()
	return Threads{running, waiting}
}

// Starved returns the share of the time since before in which the threads could run and had no
// core; false where that is not known.
func (t Threads) Starved(before Threads) (share float64, known bool) {
	running, waiting := grown(before.Running, t.Running), grown(before.Waiting, t.Waiting)
	r := ratio(waiting, plus(running, waiting))
	return r.Value, r.Known && running.Value+waiting.Value > 0
}
