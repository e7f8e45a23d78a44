//go:build linux

package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/torch/bridge"
	"dev.gpustall/engine/torch/tcpstore/tcpstoretest"
	"dev.gpustall/engine/trace"
)

// member is a gpustall of a job, with its session.
type member struct {
	*fleet
	session   *trace.Session
	collector *trace.Collector
}

// joins makes the gpustall of some ranks. Its session is about the first of them.
func joins(t *testing.T, store string, world int, ranks ...int) *member {
	t.Helper()
	s := trace.NewSession(trace.Meta{Host: []knob.Setting{{Name: trace.JobRank, Value: fmt.Sprint(ranks[0])}, {Name: trace.JobNode, Value: fmt.Sprint("n", ranks[0])}}})
	r := trace.NewRecorder(trace.NewClock(), 0)
	m := &member{session: s, collector: trace.NewCollector(r, s, nothing{}, nil)}
	m.fleet = &fleet{Job: Job{Store: store, Name: "job", Rank: ranks[0], World: world, Node: fmt.Sprint("n", ranks[0]), Session: s}, recorder: r, known: map[int]*remote{}}
	m.Job.Late = func() bridge.Late { return bridge.Late{Rank: -1, Here: ranks} }
	m.collector.Start()
	t.Cleanup(func() { m.leave(); _ = m.collector.Stop(trace.Outcome{}) })
	return m
}

type nothing struct{}

func (nothing) Feed(_ []trace.Span, steps []trace.Step) ([]trace.Step, []trace.Span) {
	return steps, nil
}

// did records what ranks did.
func (m *member) did(steps int64, ranks ...int) {
	for _, rank := range ranks {
		m.recorder.Rank(trace.Rank{Rank: rank, Steps: steps, Time: steps * 1e8, Wait: steps * 1e6 * int64(rank)})
	}
}

// becomes waits until a condition holds.
func becomes(t *testing.T, what string, so func() bool) {
	t.Helper()
	for begun := time.Now(); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatal(what)
		}
	}
}

// TestFleet: each session gets the counts of all ranks and what their gpustalls tell of them. A store that
// ends, or a row of another version, is no error.
func TestFleet(t *testing.T) {
	store := tcpstoretest.Start(t)
	a, b := joins(t, store.Address, 5, 0, 1), joins(t, store.Address, 5, 2, 3)
	a.did(10, 0, 1)
	b.did(20, 2, 3)
	has := func(m *member, n int) func() bool {
		return func() bool { s := m.session.Snapshot(0, 0); return len(s.Ranks(0, s.Now)) == n }
	}
	becomes(t, "the own ranks are not recorded", func() bool { return has(a, 2)() && has(b, 2)() })
	b.at.Waits, b.at.Loading, b.placed = "transforming", "aug.py:42 blur(img)", time.Now()
	store.Put(a.key(4), []byte(`{"v":99,"ranks":[{"Rank":4,"Steps":7}]}`))
	for range 2 { // the second time, each has what the other one wrote
		for _, m := range []*member{a, b} {
			m.read = time.Time{}
			m.turn()
		}
	}
	becomes(t, "the others' ranks are not recorded", func() bool { return has(a, 4)() && has(b, 4)() })
	s := a.session.Snapshot(0, 0)
	if got, want := s.Peers, []trace.Peer{{Rank: 2, Node: "n2", Waits: "transforming", Line: "aug.py:42 blur(img)"}, {Rank: 3, Node: "n2"}}; !slices.Equal(got, want) {
		t.Errorf("peers %v, want %v", got, want)
	}
	if got, want := s.Ranks(0, s.Now)[3], (trace.Rank{Rank: 3, Steps: 20, Time: 2e9, Wait: 6e7}); got != want {
		t.Errorf("rank 3 did %+v, want %+v", got, want)
	}
	if own, ok := b.session.Snapshot(0, 0).Own(0, 1<<62); !ok || own.Rank != 2 {
		t.Errorf("the session about rank 2 takes rank %d for its own", own.Rank)
	}
	if a.did(30, 0, 1); len(a.local) != 2 {
		t.Errorf("its own ranks are %v", a.local)
	}
	store.Stop()
	for range 3 {
		a.retried = time.Time{}
		a.turn()
	}
	if a.client != nil {
		t.Error("it holds on to a store that has ended")
	}
}

// TestRestarted: after an elastic restart with one rank more, in which machines have other ranks than before, each is told by the one
// that has it now. Its counts go on.
func TestRestarted(t *testing.T) {
	store := tcpstoretest.Start(t)
	a, b := joins(t, store.Address, 2, 0), joins(t, store.Address, 2, 1)
	turns := func(want ...int64) {
		becomes(t, fmt.Sprint("the steps of ranks are not ", want), func() bool {
			for _, m := range []*member{a, b} {
				m.read = time.Time{}
				m.turn()
			}
			for _, m := range []*member{a, b} {
				s := m.session.Snapshot(0, 0)
				for i, k := range s.Ranks(0, s.Now) {
					if k.Rank != i || i >= len(want) || k.Steps != want[i] {
						return false
					}
				}
				if len(s.Ranks(0, s.Now)) != len(want) {
					return false
				}
			}
			return true
		})
	}
	a.did(30, 0)
	b.did(20, 1)
	turns(30, 20)
	here := func(m *member, rank int) {
		m.Main = func() bridge.Hello { return bridge.Hello{Store: store.Address, Job: "job", Rank: rank, World: 3} }
		m.Job.Late = func() bridge.Late { return bridge.Late{Rank: -1, Here: []int{rank}} }
		m.did(5, rank)
	}
	here(a, 2)
	here(b, 0)
	turns(35, 20, 5)
	if a.known[0] == nil || b.known[2] == nil || a.known[1] != nil {
		t.Errorf("known are %v and %v", a.known, b.known)
	}
	a.Main = func() bridge.Hello { return bridge.Hello{Store: store.Address, Job: "job", World: 1} }
	becomes(t, "one rank is left, and others are still told of", func() bool { a.turn(); return len(a.session.Snapshot(0, 0).Peers) == 0 })
}

// TestLate: of a rank of the same machine that is late it is told at which line, also where ranks share no store.
func TestLate(t *testing.T) {
	m := joins(t, "", 2, 0, 1)
	m.recorder.Rank(trace.Rank{Rank: 0, Steps: 50, Time: 5e9, Wait: 5e7, Body: 495e7, Backward: 45e8})
	m.recorder.Rank(trace.Rank{Rank: 1, Steps: 50, Time: 5e9, Wait: 45e8, Body: 5e8, Backward: 1e8})
	m.Job.Late = func() bridge.Late {
		return bridge.Late{Rank: 1, Lines: []trace.Line{{At: trace.Loading, File: "aug.py", Number: 7, Text: "pad(img)", Looks: 50, Time: 1e9}}}
	}
	want := []trace.Peer{{Rank: 1, Node: "n0", Waits: "data", Line: "aug.py:7 pad(img)"}}
	becomes(t, "the line is not told", func() bool { m.turn(); return slices.Equal(m.session.Snapshot(0, 0).Peers, want) })
}

// TestHalt: where no step ends, it is noted once for whom the others wait, with the line.
func TestHalt(t *testing.T) {
	m := joins(t, "", 2, 0, 1)
	for i := range int32(2) {
		m.recorder.Step(trace.Step{Index: i, Start: -12e9 + int64(i)*5e8, End: -115e8 + int64(i)*5e8})
	}
	becomes(t, "the steps are not recorded", func() bool { return m.session.Snapshot(0, 0).Total.Steps == 2 })
	stands := []bridge.Stand{
		{Rank: 0, At: trace.Line{At: trace.Backward, File: "train.py", Number: 9, Text: "loss.backward()"}, Waits: true},
		{Rank: 1, At: trace.Line{At: trace.InStep, File: "aug.py", Number: 3, Text: "lock.acquire()"}},
	}
	m.Job.Late = func() bridge.Late { return bridge.Late{Rank: -1, Stands: stands} }
	noted := func() (n int) {
		for _, note := range m.session.Snapshot(0, 0).Notes {
			if strings.Contains(note.Text, "no step for 11 s: others wait for rank 1, which is at aug.py:3 lock.acquire()") {
				n++
			}
		}
		return n
	}
	becomes(t, "it is not noted", func() bool { m.turn(); return noted() == 1 })
	m.turn()
	if stands = nil; noted() != 1 {
		t.Error("it is noted twice")
	}
}

// TestEnds: how a rank ended is told to the others at once, by one that ends with it too; of one that is not heard of, since when.
func TestEnds(t *testing.T) {
	store := tcpstoretest.Start(t)
	a, b := joins(t, store.Address, 2, 0), joins(t, store.Address, 2, 1)
	a.did(10, 0)
	b.did(10, 1)
	peer := func() (p trace.Peer) {
		for _, p = range a.session.Snapshot(0, 0).Peers {
			if p.Rank == 1 {
				break
			}
		}
		return p
	}
	becomes(t, "the rows are not read", func() bool {
		for _, m := range []*member{a, b} {
			m.read = time.Time{}
			m.turn()
		}
		return len(a.known) == 1
	})
	a.got = a.known[1].heard.Add(silentFor + time.Second)
	a.show()
	becomes(t, "it is not said that it is silent", func() bool { return peer().Silent && peer().Node == "n1" })
	end := bridge.End{Rank: 1, At: time.Now(), How: "with exit code 1"}
	b.Job.Late = func() bridge.Late { return bridge.Late{Rank: -1, Ends: []bridge.End{end}, Here: []int{1}} }
	b.last()
	a.last()
	becomes(t, "its end is not told", func() bool { p := peer(); return p.Gone == end.At.UnixNano() && p.Failed() && !p.Silent })
}

// TestFiles: ranks that share a FileStore have their rows beside it, which go when they end. Rows of an earlier job count for nothing.
func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := joins(t, fileScheme+path, 3, 0), joins(t, fileScheme+path, 3, 1)
	old := &files{folder: path + ".gpustall", own: map[string]bool{}}
	if err := old.Set(a.key(2), []byte(`{"v":1,"beat":1,"ranks":[{"Rank":2,"Steps":7}]}`)); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-2 * outdated)
	_ = os.Chtimes(old.file(a.key(2)), past, past)
	a.did(10, 0)
	b.did(10, 1)
	becomes(t, "the ranks are not recorded", func() bool {
		for _, m := range []*member{a, b} {
			m.read = time.Time{}
			m.turn()
		}
		s := a.session.Snapshot(0, 0)
		return len(s.Ranks(0, s.Now)) > 1
	})
	if s := a.session.Snapshot(0, 0); len(s.Ranks(0, s.Now)) != 2 {
		t.Errorf("ranks %v", s.Ranks(0, s.Now))
	}
	for _, leaves := range []func(){a.leave, b.leave, func() { _ = old.Close() }} {
		leaves()
	}
	if _, err := os.Stat(old.folder); err == nil {
		t.Error("the folder is left")
	}
}

// TestTogether: in a large job the first rank of a machine adds the rows of its machine to its own, and others read that alone.
func TestTogether(t *testing.T) {
	store := tcpstoretest.Start(t)
	const world = 128
	first, second, far := joins(t, store.Address, world, 8), joins(t, store.Address, world, 9), joins(t, store.Address, world, 24)
	for i, m := range []*member{first, second, far} {
		m.Here = 8
		m.did(10, []int{8, 9, 24}[i])
		becomes(t, "the own rank is not recorded", func() bool { s := m.session.Snapshot(0, 0); return len(s.Ranks(0, s.Now)) == 1 })
	}
	for _, m := range []*member{second, first, first, far} { // the second time, the machine's first rank has read the row of the other one
		m.read = time.Time{}
		m.turn()
	}
	if len(far.known) != 2 || far.known[9] == nil || far.known[9].by != 8 {
		t.Errorf("the rank of another machine knows %v", far.known)
	}
}
