package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/command/watch"
	"dev.gpustall/engine/trace"
)

// printer prints progress in a goroutine of its own, from start to stop.
type printer struct {
	of        *recording
	summarise func(cause error) *summary.Run
	opts      *options
	out       io.Writer
	log       io.Writer
	task      *watch.Task

	unread  func()                 // called when nobody reads out any more
	said    func(note string) bool // whether others have printed the note where log goes; nil if there are no others
	noted   int                    // notes that were printed
	decided int                    // decisions of a tune that were printed
}

func (p *printer) start() {
	period := time.Duration(max(p.opts.interval, 0.05) * float64(time.Second))
	p.task = watch.Every(p.of.recorder, "print progress", period, p.progress)
}

func (p *printer) stop() { p.task.Stop() }

func (p *printer) progress() {
	s := p.of.session.Snapshot(0, 0)
	p.tell(s, nil)
	p.decisions(s)
	g := summary.ProgressOf(s, p.opts.epochs, p.opts.steps)
	var err error
	if p.opts.json {
		g.Type = "progress"
		err = p.encode(g)
	} else {
		err = cli.Say(p.out, "%s\n", g.Line())
	}
	if errors.Is(err, syscall.EPIPE) {
		p.unread()
	}
}

// decisions prints the new decisions of a tune.
func (p *printer) decisions(s *trace.Snapshot) {
	for i := range s.Experiments {
		x := &s.Experiments[i]
		for ; x.Kind == trace.Tune && p.decided < len(x.Decisions); p.decided++ {
			d := &x.Decisions[p.decided]
			if !p.opts.json {
				_ = cli.Say(p.out, "%-*s%s\n", cli.LabelWidth, "tune", units.Line(d.Text))
				continue
			}
			line := summary.DecisionOf(d)
			line.Type = "decision"
			_ = p.encode(line)
		}
	}
}

// tell prints the new notes of the run. It leaves out the error that the run ends with.
func (p *printer) tell(s *trace.Snapshot, cause error) {
	told := max(0, len(s.Notes)-(s.Noted-p.noted)) // how many notes of s were printed
	p.noted = s.Noted
	for _, n := range s.Notes[told:] {
		if n.Level == "info" || p.said != nil && p.said(n.Text) || cause != nil && strings.Contains(cause.Error(), n.Text) {
			continue
		}
		_ = cli.Say(p.log, "gpustall: %s\n", units.Line(n.Text))
	}
}

func (p *printer) summary(cause error) error {
	last := p.of.session.Snapshot(0, 0)
	p.tell(last, cause)
	p.decisions(last)
	s := p.summarise(cause)
	if p.opts.json {
		return p.encode(s)
	}
	return cli.Say(p.out, "%s", s.Text())
}

func (p *printer) encode(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the progress as JSON: %w", err)
	}
	_, err = p.out.Write(append(b, '\n'))
	return err
}
