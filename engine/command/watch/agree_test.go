//go:build linux

package watch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/torch/bridge"
	"dev.gpustall/engine/torch/tcpstore/tcpstoretest"
)

// stand stands for the ranks of a machine.
type stand struct {
	pending, made []knob.Setting
	at            int32
	refuses       error
	answers       []bridge.Answer
}

func (s *stand) Together(func())          {}
func (s *stand) Pending() []knob.Setting  { return s.pending }
func (s *stand) Withdraw()                { s.pending = nil }
func (s *stand) Try([]knob.Setting) error { return s.refuses }
func (s *stand) Answers() []bridge.Answer { return s.answers }
func (s *stand) ApplyAt(changes []knob.Setting, step int32) error {
	s.pending, s.made, s.at = nil, changes, step
	for i := range s.answers {
		s.answers[i].Knobs = changes
	}
	return nil
}

// TestAgree: a change that is asked for at one gpustall is made by the ranks of all at one step, to which none has
// come; or by none, if a rank cannot make it, is trying, or does not answer.
func TestAgree(t *testing.T) {
	four := []knob.Setting{{Name: "num_workers", Value: "4"}}
	answer := func(rank int, step int32) bridge.Answer {
		return bridge.Answer{Rank: rank, Step: step, Every: 1e8, Ready: true, Most: -1}
	}
	for name, c := range map[string]struct {
		other  bridge.Answer // of rank 2, on the other machine
		err    error         // of its gpustall
		silent bool
		note   string // that the asking one makes; empty where the change stays open
	}{
		"all can":            {answer(2, 250), nil, false, "num_workers=4 is in force on 4 ranks"},
		"a gpustall refuses": {answer(2, 250), errors.New("the script decides it"), false, "is held back on all ranks: rank 2: the script decides it"},
		"a rank has a limit": {bridge.Answer{Rank: 2, Ready: true, Most: 1, Why: "the data set reads /d by a position"}, nil, false, "rank 2 can have at most 1 worker: the data set reads /d by a position"},
		"a rank tries":       {bridge.Answer{Rank: 2, Most: -1}, nil, false, ""},
		"a rank is silent":   {answer(2, 250), nil, true, "rank 2 did not answer within"},
		"more than it has":   {bridge.Answer{Rank: 2, Step: 250, Every: 1e8, Ready: true, Most: 6}, nil, false, "num_workers=4 is in force on 4 ranks"},
	} {
		t.Run(name, func(t *testing.T) {
			store := tcpstoretest.Start(t)
			a, b := joins(t, store.Address, 4, 0, 1), joins(t, store.Address, 4, 2, 3)
			mine, theirs := &stand{answers: []bridge.Answer{answer(0, 240), answer(1, 240)}}, &stand{answers: []bridge.Answer{c.other, answer(3, 250)}, refuses: c.err}
			a.Ranks, b.Ranks = mine, theirs
			a.did(10, 0, 1)
			b.did(10, 2, 3)
			becomes(t, "the own ranks are not recorded", func() bool {
				for _, m := range []*member{a, b} {
					m.read = time.Time{}
					m.turn()
				}
				return len(a.others()) == 1 && len(b.others()) == 1
			})
			mine.pending = four
			if c.silent {
				b.leave()
			}
			for range 6 {
				a.agree()
				if !c.silent {
					b.agree()
				}
			}
			if c.silent {
				a.agreeing.begun = time.Now().Add(-answerLimit)
				a.agree()
			}
			noted := func() string {
				var all []string
				for _, n := range a.session.Snapshot(0, 0).Notes {
					all = append(all, n.Text)
				}
				return strings.Join(all, "\n")
			}
			if c.note != "" {
				becomes(t, "no note has "+c.note, func() bool { return strings.Contains(noted(), c.note) })
			}
			if made := strings.Contains(c.note, "in force"); made != (mine.made != nil) || made != (theirs.made != nil) || made && (mine.at != theirs.at || mine.at <= 250) {
				t.Errorf("asked of steps %d and %d: %v, %v", mine.at, theirs.at, mine.made, theirs.made)
			}
			if open := c.note == ""; open != (mine.pending != nil) || open != a.agreeing.mine {
				t.Errorf("what is pending: %s", fmt.Sprint(mine.pending))
			}
		})
	}
}
