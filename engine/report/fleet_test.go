package report

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// rankSession is the session of one rank of a job, which knows so many ranks in all. Its steps take 100 ms
// each, and it waits for data in all but the first. Lines were found where slow is not empty.
func rankSession(rank, world int, node string, wait int64, slow string) Side {
	const ms, steps = int64(1e6), 50
	s := &trace.Snapshot{
		Meta: trace.Meta{ID: "s" + itoa(int64(rank)), Model: "train", DeviceKind: "cpu", Host: []knob.Setting{
			{Name: "torch", Value: "2.15.0"}, {Name: trace.JobName, Value: "4711.0"}, {Name: trace.JobNode, Value: node},
			{Name: trace.JobRank, Value: itoa(int64(rank))}, {Name: trace.JobRanks, Value: itoa(int64(world))},
		}},
		Segments: []trace.Segment{{Knobs: []knob.Setting{{Name: "num_workers", Value: "1"}}, Reason: "start"}},
		Now:      steps * 100 * ms, Outcome: trace.Outcome{Status: "finished", Ended: steps * 100 * ms},
		Gauges: rankGauges(rank, steps-1, wait*ms),
	}
	for i := range int32(steps) {
		st := trace.Step{Index: i, Samples: 4, Start: int64(i) * 100 * ms, End: int64(i+1) * 100 * ms, Busy: (100 - wait) * ms, Wait: wait * ms}
		st.Stall[trace.CauseTransform] = wait * ms
		s.Recent = append(s.Recent, st)
	}
	if slow != "" {
		s.Lines = []trace.Line{
			{At: trace.Loading, File: "/home/me/aug.py", Number: 42, Func: "blur", Text: slow, Looks: 900, Time: 9000 * ms},
			{At: trace.Loading, File: "/home/me/aug.py", Number: 43, Func: "blur", Text: "return x", Looks: 100, Time: 1000 * ms},
		}
	}
	return Side{Session: s.Meta.ID + ".gps", Snapshot: trace.Restore(s).Snapshot(0, 0)}
}

// rankGauges are what a session records of a rank whose steps take 100 ms: it waits for data, has 10 ms of
// its own, and the rest in backward passes.
func rankGauges(rank int, steps, wait int64) map[string][]trace.Point {
	out := map[string][]trace.Point{}
	for name, ns := range map[string]int64{"wait_ns": wait, "body_ns": 1e8 - wait, "backward_ns": 9e7 - wait, "time_ns": 1e8} {
		out["rank_"+itoa(int64(rank))+"_"+name] = []trace.Point{{V: float64(steps * ns)}}
	}
	out["rank_"+itoa(int64(rank))+"_steps"] = []trace.Point{{V: float64(steps)}}
	return out
}

func TestFleet(t *testing.T) {
	node := rankSession(0, 4, "n1", 2, "")
	for _, more := range []map[string][]trace.Point{rankGauges(1, 49, 2e6), rankGauges(2, 49, 6e7)} {
		for name, points := range more {
			node.Snapshot.Gauges[name] = points
		}
	}
	node.Snapshot.Peers = []trace.Peer{{Rank: 1, Node: "n1", Gone: 9, How: "with exit code 0"}}
	heard := rankSession(0, 3, "n1", 2, "") // its gpustall has heard of the other two
	for name, points := range rankGauges(1, 40, 2e6) {
		heard.Snapshot.Gauges[name] = points
	}
	for name, points := range rankGauges(2, 40, 6e7) {
		heard.Snapshot.Gauges[name] = points
	}
	heard.Snapshot.Peers = []trace.Peer{{Rank: 1, Node: "n2"}, {Rank: 2, Node: "n3", Waits: "transforming"}}
	other := rankSession(3, 4, "n2", 2, "") // it has heard more of rank 1 than that one's own gpustall recorded
	other.Snapshot.Peers = []trace.Peer{{Rank: 1, Node: "n1"}}
	for name, points := range rankGauges(1, 50, 2e6) {
		other.Snapshot.Gauges[name] = points
	}
	changed := rankSession(0, 2, "n1", 2, "")
	faster := *changed.Snapshot
	faster.Segments = append(faster.Segments, trace.Segment{Index: 1, Start: 25e8, Knobs: []knob.Setting{{Name: "num_workers", Value: "4"}}, Reason: "num_workers 1→4"})
	for i := range faster.Recent {
		if st := &faster.Recent[i]; i >= 25 {
			st.Segment, st.Samples = 1, 12
		}
	}
	changed.Snapshot = trace.Restore(&faster).Snapshot(0, 0)
	failed := rankSession(0, 2, "n1", 2, "")
	failed.Snapshot.Outcome.Status = "failed"
	failed.Snapshot.Peers = []trace.Peer{{Rank: 0, Node: "n1", Gone: 9, How: "with exit code 1"}, {Rank: 1, Node: "n2", Gone: 5, How: "by SIGKILL (killed)"}}
	for name, c := range map[string]struct {
		sides []Side
		rate  float64
		want  []string
		lacks []string
	}{
		"one failed": {sides: []Side{failed, rankSession(1, 2, "n2", 2, "")}, want: []string{"**The training failed: rank 1 on n2 ended first, by SIGKILL (killed).**"}},
		"one waits for data on another machine": {
			sides: []Side{rankSession(0, 4, "n1", 2, ""), rankSession(1, 4, "n1", 2, ""), rankSession(3, 4, "n2", 62, "blur(img)")}, rate: 36,
			want: []string{
				"# gpustall report: train on 4 ranks, job 4711.0",
				"**The others wait for rank 3 on n2: 40.0 % of the time of all ranks is lost to that.**",
				"At 49 of 49 steps it comes last to where gradients are exchanged. It waits for data 62.0 % of its time: for transforming, and most of loading is spent at aug.py:42 blur(img).",
				"The ranks together lost 5.88 s of device time, $0.06 at $36.00 an hour.",
				"All of it: gpustall report s3.gps",
				"| 3 | n2 | 100 ms | 62.0 % | 0.0 % | 5.88 s | data: aug.py:42 blur(img) |",
				"| 0 | n1 | 100 ms | 2.0 % | 60.0 % | 0 s | rank 3 |",
				"- No session tells of rank 2.", "- rank 3: s3.gps",
			},
			lacks: []string{"only sums are known", "More than one session"},
		},
		"settings were changed": {
			sides: []Side{changed, rankSession(1, 2, "n1", 2, "")},
			want:  []string{"On all ranks, keep the baseline's settings for now: nothing that was tried can be compared with them"},
		},
		"nobody is late": {
			sides: []Side{rankSession(0, 2, "n1", 2, ""), rankSession(1, 2, "n1", 2, "")},
			want:  []string{"**The ranks go in step: they wait for each other 0.0 % of the time of all ranks.**", "All of them ran on n1.", "| 0 | 100 ms | 2.0 % | 0.0 % | 0 s | - |"},
			lacks: []string{"it comes last", "No session tells", "Next, for"},
		},
		"one gpustall a machine": {
			sides: []Side{node, other},
			want: []string{
				"**The others wait for rank 2 on n1: 43.5 % of the time of all ranks is lost to that.**", "It waits for data 60.0 % of its time.",
				"What it waits for is not recorded: a gpustall torch of its own there tells.", "- Of ranks 1-2 only sums are known",
				"- ranks 0-2: s0.gps",
			},
		},
		"two sessions of a rank": {
			sides: []Side{rankSession(0, 2, "n1", 2, ""), rankSession(1, 2, "n1", 2, ""), rankSession(1, 2, "n1", 2, "")},
			want:  []string{"- More than one session tells of rank 1: the one that is about it counts, or the longer one."},
		},
		"ranks that one has heard of": {
			sides: []Side{heard, rankSession(1, 3, "n2", 2, "")},
			want:  []string{"**The others wait for rank 2 on n3:", "- Of rank 2 only sums are known", "- rank 1: s1.gps", "- ranks 0, 2: s0.gps"},
			lacks: []string{"More than one session", "No session tells"},
		},
		"one rank of two": {
			sides: []Side{rankSession(1, 2, "n1", 62, "")},
			want:  []string{"**Only rank 1 is known, so there is nothing to compare.**", "- No session tells of rank 0.", "| 1 | 100 ms | 62.0 % | - | - | data: transforming |"},
		},
		"texts that would be markdown": {
			sides: []Side{rankSession(0, 2, "`n`|1", 2, ""), rankSession(1, 2, "n\n2", 62, "a|b*c")},
			want:  []string{"aug.py:42 a\\|b\\*c", "\\`n\\`\\|1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFleet(c.sides, c.rate)
			var b, page, csv bytes.Buffer
			if err := f.Markdown(&b); err != nil {
				t.Fatal(err)
			}
			if err := f.HTML(&page); err != nil || !strings.Contains(page.String(), "</html>") {
				t.Errorf("the page: %v", err)
			}
			if err := f.CSV(&csv); err != nil || strings.Count(csv.String(), "\n") != f.Ranks()+1 {
				t.Errorf("the table has other rows than a head and %d ranks: %v\n%s", f.Ranks(), err, csv.String())
			}
			for l := range strings.Lines(b.String()) {
				if strings.Contains(l, "%!") || utf8.RuneCountInString(strings.TrimSuffix(l, "\n")) > markup.Width {
					t.Errorf("bad line: %s", l)
				}
			}
			text := strings.Join(strings.Fields(b.String()), " ")
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, b.String())
				}
			}
			for _, word := range c.lacks {
				if strings.Contains(text, word) {
					t.Errorf("%q in\n%s", word, b.String())
				}
			}
		})
	}
}
