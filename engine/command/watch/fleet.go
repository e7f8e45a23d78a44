//go:build linux

package watch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/torch/bridge"
	"dev.gpustall/engine/torch/tcpstore"
	"dev.gpustall/engine/trace"
)

// How often ranks tell each other what they do, and how long a store may take to answer. Reading a row
// takes some 25 us. So at most so many rows are read a second, and all of them at least every so often.
const (
	rowEvery   = time.Second
	storeLimit = 2 * time.Second
	mostRows   = 16
	rowsAtMost = 10 * time.Second

	lateOver    = 10 * time.Second // what ranks did in so much time tells which is late
	placeFirst  = 4 * time.Second  // how often a rank works out where it spends its time: at first, and then twice as rarely each time
	placeAtMost = 16 * time.Second
	retryFirst  = 5 * time.Second  // after a store was lost
	retryAtMost = 60 * time.Second // ... and after it was lost again and again

	// mostCounted is how many ranks' counts are recorded a second, because each rank has about ten
	// gauges.
	mostCounted = 8
)

// rowVersion is the version of a row's form. Rows of other versions are left out.
const rowVersion = 1

// clocksApart is how far the clocks of two machines may be apart until the time of a rank's end is put right by when its row came.
const clocksApart = 2 * time.Second

// row is what one gpustall tells the others: everything that its own ranks did since their first
// batches.
type row struct {
	Version int          `json:"v"`
	Now     int64        `json:"now"`  // ns since 1970
	Beat    int64        `json:"beat"` // rises with each row
	Ranks   []trace.Rank `json:"ranks"`
	Peers   []trace.Peer `json:"peers"`
}

// Job is the distributed training that a session is a part of.
type Job struct {
	Store   string // the address of the store that its ranks share; empty where there is none
	Name    string // keys of different jobs have different names
	Rank    int    // that the session is about
	World   int
	Here    int // ranks on each machine; 0 where that is not known
	Node    string
	File    string              // of the session
	Main    func() bridge.Hello // which tells these anew after an elastic restart; nil where there is none
	Session *trace.Session
	Ranks   Ranks              // of this machine, whose knobs all ranks of the job change together; nil where they do not
	Late    func() bridge.Late // what looks found of another rank of this machine that is late; nil where nobody looks
	OnEnd   func(func())       // has a function called when a rank of this machine has ended; nil where nobody looks
}

// fleet exchanges rows with the other gpustalls of a job, through the job's own store.
type fleet struct {
	Job
	recorder *trace.Recorder
	client   keys

	local   []int          // the ranks whose counts are this gpustall's own, now
	peers   []trace.Peer   // of other gpustalls
	late    trace.Peer     // the rank of this machine, beside the session's own, that others wait for; zero where none is
	stands  []bridge.Stand // of this machine
	ends    []bridge.End   // of this machine, and ...
	ended   atomic.Int64   // ... when one came last, in ns since 1970
	failure int64          // when the last rank failed of which that was noted, in ns since 1970
	noted   bool           // why no step ends was noted
	shown   []trace.Peer   // all that were recorded last
	at      advice.Place
	placed  time.Time
	place   time.Duration // until it is worked out again
	read    time.Time     // when the rows of all others were asked for last, and ...
	got     time.Time     // ... when they were there
	every   time.Duration // between two of these
	known   map[int]*remote
	next    int // of known, whose counts are recorded next
	told    bool
	retry   time.Duration
	retried time.Time

	wake     func()
	beats    int64 // rows published so far
	agreeing agreement
}

// remote is a rank that another gpustall watches.
type remote struct {
	rank     trace.Rank
	node     string
	apart    int64     // ns that its machine's clock is behind this one's, where that is too much; else 0
	by       int       // the rank under which its gpustall publishes, and ...
	beat     int64     // ... the number of its last row, which ...
	heard    time.Time // ... was read then
	recorded int64     // of its steps
}

// Fleet is the exchange with a job's other gpustalls. Its owner must call Stop.
type Fleet struct {
	*Task
	of *fleet
}

// FirstGone says which rank ended first, if one failed. It is for after Stop.
func (f *Fleet) FirstGone() string { return advice.FirstGone(f.of.shown, f.of.World) }

// StartFleet begins to tell the job's other gpustalls what this session's ranks do, and to record what
// theirs do. If anything fails, the session goes on without it.
func StartFleet(r *trace.Recorder, j Job) *Fleet {
	f := &fleet{Job: j, recorder: r, known: map[int]*remote{}, retry: retryFirst}
	return &Fleet{of: f, Task: Go(r, "exchange what ranks do", func(quit <-chan struct{}) {
		defer f.leave()
		f.agreeing.wake = make(chan struct{}, 1)
		wake := func() {
			select {
			case f.agreeing.wake <- struct{}{}:
			default:
			}
		}
		if j.OnEnd != nil {
			j.OnEnd(func() { f.ended.Store(time.Now().UnixNano()); wake() })
			defer j.OnEnd(nil)
		}
		f.wake = wake
		if j.Ranks != nil {
			f.share()
			defer j.Ranks.Together(nil)
		}
		f.run(quit)
	})}
}

// share has knobs agreed on where there are other ranks.
func (f *fleet) share() {
	agree := f.wake
	if f.Store == "" || f.World <= 1 {
		agree = nil
	}
	f.Ranks.Together(agree)
}

func (f *fleet) leave() {
	if f.client != nil {
		_ = f.client.Close()
	}
	f.client = nil
}

// run exchanges rows, and looks for changes of knobs more often, until quit is closed.
func (f *fleet) run(quit <-chan struct{}) {
	tick := time.NewTimer(timer.Left(lookEvery))
	defer tick.Stop()
	var rows time.Time
	for {
		select {
		case <-quit:
			f.last()
			return
		case <-f.agreeing.wake:
		case <-tick.C:
		}
		if time.Since(rows) >= rowEvery-lookEvery/2 || f.hurried() {
			rows = time.Now()
			f.turn()
		}
		f.agree()
		every := f.agreeing.every()
		if f.hurried() {
			every = agreeEvery
		}
		tick.Reset(timer.Left(every))
	}
}

// hurry is how long after the end of a rank rows are exchanged at once, because others may end with it.
const hurry = 2 * time.Second

func (f *fleet) hurried() bool { return time.Since(time.Unix(0, f.ended.Load())) < hurry }

// How long the last exchange may take, and how long it is waited for what other machines' ranks tell of their ends, where one failed.
const (
	lastLimit = 200 * time.Millisecond
	lastWords = 300 * time.Millisecond
)

// last tells the others how the ranks here ended, and hears how theirs did.
func (f *fleet) last() {
	if f.client == nil {
		f.look()
		f.show()
		return
	}
	f.client.Hurry(lastLimit)
	f.ended.Store(time.Now().UnixNano())
	for begun := time.Now(); f.client != nil && time.Since(begun) < lastWords; time.Sleep(agreeEvery) {
		f.turn()
		gone := 0
		for i := range f.shown {
			if f.shown[i].Gone != 0 {
				gone++
			}
		}
		if gone == f.World || advice.FirstGone(f.shown, f.World) == "" {
			return
		}
	}
}

// follow goes to another store after an elastic restart, whose ranks may be others.
func (f *fleet) follow() {
	if f.Main == nil {
		return
	}
	h := f.Main()
	if h.Store == "" || h.Store == f.Store && h.Job == f.Name && h.World == f.World && max(0, h.Rank) == f.Rank {
		return
	}
	f.leave()
	f.Store, f.Name, f.Rank, f.World, f.Here = h.Store, h.Job, max(0, h.Rank), h.World, h.Here
	f.known, f.peers, f.late, f.retried, f.retry = map[int]*remote{}, nil, trace.Peer{}, time.Time{}, retryFirst
	if f.Ranks != nil {
		f.share()
	}
}

// look finds out which rank of this machine is late, and at which line. What was found stays, for the end of the session.
func (f *fleet) look() {
	if f.Late == nil {
		return
	}
	is := f.Late()
	if f.stands, f.ends, f.local = is.Stands, is.Ends, is.Here; len(is.Lines) == 0 {
		return
	}
	s := f.Session.Snapshot(0, 0)
	if at, ok := advice.Late(s.InStep(s.Now-lateOver.Nanoseconds(), s.Now), is.Rank, is.Lines); ok {
		f.late = trace.Peer{Rank: is.Rank, Node: f.Node, Waits: at.Waits, Line: cmp.Or(at.Loading, at.Script)}
	}
}

// stand says where a rank of this machine is, if it has been there for a while, or how it ended.
func (f *fleet) stand(p *trace.Peer) {
	if i := slices.IndexFunc(f.ends, func(e bridge.End) bool { return e.Rank == p.Rank }); i >= 0 {
		p.Gone, p.How, p.Late = f.ends[i].At.UnixNano(), f.ends[i].How, true
		return
	}
	i := slices.IndexFunc(f.stands, func(is bridge.Stand) bool { return is.Rank == p.Rank })
	if i < 0 {
		return
	}
	is := &f.stands[i]
	at := " at " + advice.Code(is.At)
	if is.At.File == "" {
		at = ""
	}
	p.Late = !is.Waits || is.Stopped
	switch {
	case is.Stopped:
		p.Stands = fmt.Sprintf("stopped (kill -CONT %d continues it)", is.PID)
	case is.Held > 0:
		p.Stands = fmt.Sprintf("waiting for data: a worker is stopped (kill -CONT %d continues it)", is.Held)
	case is.Worker.File != "":
		p.Stands = "waiting for data: a worker is at " + advice.Code(is.Worker)
	case is.At.At == trace.Waiting:
		p.Stands = waitsForData
	case is.At.At == trace.Exchange:
		p.Stands = "in an exchange" + at
	case is.At.At == trace.Backward:
		p.Stands = "in a backward pass" + at
	default:
		p.Stands = cmp.Or(strings.TrimPrefix(at, " "), "in a library's own code")
	}
}

const (
	haltAny   = 30 * time.Second // how long no step has ended when it is noted where ranks are, whoever waits for whom
	noteGone  = 3 * time.Second  // how long after a rank failed that is noted, if the others have not ended with it
	silentFor = 4 * time.Second  // how long after its last row a gpustall is said to be silent, where rows are read each second

	waitsForData = "waiting for data" // and it is not known yet where its worker is
)

// halt notes why no step ends, once each time, and which rank failed.
func (f *fleet) halt(all []trace.Peer) {
	for _, p := range all {
		if p.Failed() && time.Now().UnixNano() > p.Gone+noteGone.Nanoseconds() && p.Gone > f.failure+noteGone.Nanoseconds() {
			first := 1
			if f.failure != 0 { // others ended before it
				first = f.World
			}
			f.failure = p.Gone
			f.recorder.Note("warn", advice.FirstGone([]trace.Peer{p}, first))
		}
	}
	if len(f.stands) == 0 {
		f.noted = false
		return
	}
	s := f.Session.Snapshot(0, 0)
	s.Peers = all
	still, text := s.Silence(), advice.Halted(s)
	late := slices.ContainsFunc(all, func(p trace.Peer) bool { return p.Late && p.Stands != waitsForData })
	wait := slices.ContainsFunc(all, func(p trace.Peer) bool { return !p.Late && p.Stands != "" })
	if f.noted || text == "" || still < advice.HaltGone || still < haltAny && !(late && wait) {
		return
	}
	f.noted = true
	f.recorder.Note("warn", text)
}

// turn publishes the own row, and reads those of others.
func (f *fleet) turn() {
	f.follow()
	f.look()
	defer f.show()
	if f.Store == "" || f.World <= 1 || f.client == nil && (time.Since(f.retried) < f.retry || !f.dial()) {
		return
	}
	err := f.publish()
	if err == nil {
		err = f.gather()
	}
	f.lost(err)
}

// lost gives up the store where it failed.
func (f *fleet) lost(err error) {
	if err != nil { // the training or its network has ended; the store is asked again later
		f.leave()
		f.retried, f.retry = time.Now(), min(2*f.retry, retryAtMost)
	}
}

// keys is a store of what ranks tell each other. Values that are not there are nil.
type keys interface {
	Set(key string, value []byte) error
	Later(key string, value []byte) error // as Set, with the next Get
	Get(keys []string) ([][]byte, error)
	Hurry(limit time.Duration) // no later call takes longer
	Close() error
}

func open(address string) (keys, error) {
	if path, ok := strings.CutPrefix(address, fileScheme); ok {
		return openFiles(path)
	}
	return tcpstore.Dial(address, storeLimit)
}

func (f *fleet) dial() bool {
	client, err := open(f.Store)
	if f.retried = time.Now(); err != nil {
		if f.retry = min(2*f.retry, retryAtMost); !f.told {
			f.told = true
			f.recorder.Note("info", fmt.Sprintf("what ranks on other machines do is not seen: the training's store at %s: %v", f.Store, err))
		}
		return false
	}
	f.client = client
	return true
}

// within is what keys of the job begin with.
func (f *fleet) within() string {
	return "/gpustall/" + strconv.Itoa(rowVersion) + "/" + f.Name + "/"
}

// key names a row. Rows that are left from before an elastic restart are of another number of ranks.
func (f *fleet) key(rank int) string { return fmt.Sprintf("%s%d/%d", f.within(), f.World, rank) }

// mostAlone is how many ranks a job has at most in which each gpustall reads the rows of all others. In larger ones the
// first rank of each machine adds the rows of its machine to its own, and the others read those.
const mostAlone = 64

// together returns how many ranks share a row.
func (j *Job) together() int {
	if j.World > mostAlone && j.Here > 1 && j.World%j.Here == 0 {
		return j.Here
	}
	return 1
}

// beside reports whether a rank's row is added to the own one.
func (j *Job) beside(rank int) bool {
	n := j.together()
	return n > 1 && j.Rank%n == 0 && rank/n == j.Rank/n
}

// publish writes the own row, under the number of the rank that the session is about.
func (f *fleet) publish() error {
	s := f.Session.Snapshot(0, 0)
	f.beats++
	out := row{Version: rowVersion, Now: time.Now().UnixNano(), Beat: f.beats}
	for _, k := range s.Ranks(0, s.Now) {
		if slices.Contains(f.local, k.Rank) {
			out.Ranks = append(out.Ranks, k)
		}
	}
	if len(out.Ranks) == 0 || len(f.local) == f.World { // there is nothing to say, or nobody else
		return nil
	}
	if time.Since(f.placed) >= f.place {
		f.placed = time.Now()
		if t := trace.Count(attribution.Window(s)); t.Steady.Steps > 0 {
			f.at = advice.At(f.Session.Snapshot(t.From, t.To), t)
			f.place = min(placeAtMost, max(placeFirst, 2*f.place))
		}
	}
	for i := range out.Ranks {
		p := trace.Peer{Rank: out.Ranks[i].Rank, Node: f.Node}
		if f.late.Line != "" && f.late.Rank == p.Rank {
			p = f.late
		}
		if p.Rank == f.Rank {
			p.Session, p.Waits, p.Line = f.File, f.at.Waits, f.at.Script
			if p.Waits != "" {
				p.Line = f.at.Loading
			}
		}
		f.stand(&p)
		out.Peers = append(out.Peers, p)
	}
	for _, e := range f.ends {
		if !slices.Contains(f.local, e.Rank) {
			p := trace.Peer{Rank: e.Rank, Node: f.Node}
			f.stand(&p)
			out.Peers = append(out.Peers, p)
		}
	}
	for rank, k := range f.known {
		if f.beside(rank) && time.Since(k.heard) < silentAfter {
			out.Ranks = append(out.Ranks, k.rank)
		}
	}
	for _, p := range f.peers {
		if f.beside(p.Rank) {
			out.Peers = append(out.Peers, p)
		}
	}
	text, err := json.Marshal(&out)
	if err != nil {
		return err
	}
	return f.client.Later(f.key(f.Rank), text)
}

// gather reads the rows of others, and records what is new.
func (f *fleet) gather() error {
	rows := time.Duration(len(f.known)+mostRows-1) / mostRows
	every := max(rowEvery, rows*time.Second)
	if f.Rank == 0 || f.together() == 1 {
		every = min(every, rowsAtMost)
	}
	all := time.Since(f.read) >= every-rowEvery/2 || f.hurried()
	if all {
		f.read, f.every = time.Now(), every
	}
	var keys []string
	var from []int
	for rank := range f.World {
		if (all && rank%f.together() == 0 || f.beside(rank)) && !slices.Contains(f.local, rank) {
			keys, from = append(keys, f.key(rank)), append(from, rank)
		}
	}
	if f.Ranks != nil { // agree looks at it next
		keys = append(keys, f.changeKey())
	}
	values, err := f.client.Get(keys)
	if err != nil {
		return err
	}
	if all {
		f.got = time.Now()
	}
	if f.Ranks != nil {
		last := len(values) - 1
		f.agreeing.read, f.agreeing.fresh, values = values[last], true, values[:last]
	}
	if len(values) == 0 {
		return nil
	}
	var peers []trace.Peer
	for _, p := range f.peers {
		if !all && !f.beside(p.Rank) { // it was not read
			peers = append(peers, p)
		}
	}
	for i, v := range values {
		var in row
		if v == nil || json.Unmarshal(v, &in) != nil || in.Version != rowVersion {
			continue
		}
		for _, k := range in.Ranks {
			if k.Rank < 0 || k.Rank >= f.World || slices.Contains(f.local, k.Rank) {
				continue
			}
			if f.known[k.Rank] == nil {
				f.known[k.Rank] = &remote{}
			}
			r := f.known[k.Rank]
			if r.rank, r.by = k, from[i]; r.beat != in.Beat {
				r.beat, r.heard, r.apart = in.Beat, time.Now(), 0
				if apart := r.heard.UnixNano() - in.Now; apart < -clocksApart.Nanoseconds() || apart > (clocksApart+every).Nanoseconds() {
					r.apart = apart
				}
			}
		}
		for _, p := range in.Peers {
			if p.Rank < 0 || p.Rank >= f.World || slices.Contains(f.local, p.Rank) {
				continue
			}
			if k := f.known[p.Rank]; k != nil {
				if k.node = p.Node; p.Gone != 0 {
					p.Gone += k.apart
				}
			}
			peers = append(peers, p)
		}
	}
	f.record(peers, mostCounted*int(every/rowEvery))
	return nil
}

// record records the counts of some ranks, in turn if there are many, and what peers wait for.
func (f *fleet) record(peers []trace.Peer, most int) {
	ranks := make([]int, 0, len(f.known))
	for rank := range f.known {
		ranks = append(ranks, rank)
	}
	slices.Sort(ranks)
	for range min(len(ranks), most) {
		f.next = (f.next + 1) % len(ranks)
		if k := f.known[ranks[f.next]]; k.rank.Steps != k.recorded {
			f.recorder.Rank(k.rank)
			k.recorded = k.rank.Steps
		}
	}
	slices.SortFunc(peers, func(a, b trace.Peer) int { return cmp.Compare(a.Rank, b.Rank) })
	f.peers = peers
}

// show records what is known of other ranks, where that is new.
func (f *fleet) show() {
	all := slices.Clone(f.peers)
	if f.late.Line != "" {
		all = append(all, f.late)
	}
	of := func(rank int, node string) *trace.Peer {
		i := slices.IndexFunc(all, func(p trace.Peer) bool { return p.Rank == rank })
		if i < 0 {
			i, all = len(all), append(all, trace.Peer{Rank: rank, Node: node})
		}
		return &all[i]
	}
	for _, is := range f.stands {
		of(is.Rank, f.Node)
	}
	for _, e := range f.ends {
		of(e.Rank, f.Node)
	}
	for i := range all {
		f.stand(&all[i])
	}
	for rank, k := range f.known {
		if f.got.Sub(k.heard) > max(silentFor, 2*f.every) {
			if p := of(rank, k.node); p.Gone == 0 {
				p.Gone, p.Silent, p.Late = k.heard.UnixNano(), true, true
			}
		}
	}
	slices.SortFunc(all, func(a, b trace.Peer) int { return cmp.Compare(a.Rank, b.Rank) })
	f.halt(all)
	if !slices.Equal(all, f.shown) {
		f.shown = all
		f.recorder.Peers(slices.Clone(all))
	}
}
