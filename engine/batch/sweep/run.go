package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace/store"
)

// Job is what a Runner has to do: train with these settings for so many steps or epochs,
// and leave the session in a file.
type Job struct {
	Command  []string // of the user's, with the settings that it has placeholders for; empty for gpustall's own training
	Settings []knob.Setting
	Steps    int
	Epochs   int // instead of Steps, with an evaluation after each; 0 for Steps
	Session  string
	Progress func(step int) // called from time to time
}

// Runner does one run. It ends early when ctx does.
type Runner func(ctx context.Context, j Job) error

// Event tells of a sweep that is under way.
type Event struct {
	Run
	Name     string        // of the configuration
	Done, Of int           // runs; Done counts earlier ones, and this one when it has ended
	Step     int           // of the run under way
	Steps    int           // of the whole run; 0 where that is not known
	Ended    bool          // the run has ended
	Kept     bool          // it was measured before this sweep began
	Measured *Measured     // by a run that ended well
	Err      error         // of a run that failed
	Took     time.Duration // by this run
	Left     time.Duration // estimated for the whole sweep; 0 while nothing is known
}

// Measure does all runs of a plan that its folder does not have yet, and returns what all
// runs measured. A run that fails is told of and left out, as are the runs that would
// repeat it. When ctx ends, Measure returns what was measured until then with the error of
// ctx.
func (p *Plan) Measure(ctx context.Context, f Folder, runner Runner, tell func(Event)) (*Results, error) {
	for i := range p.Configs {
		p.Configs[i].Failed = ""
	}
	if err := f.Save(p); err != nil {
		return nil, err
	}
	order := p.Order()
	all := p.none()
	clock := estimate{order: order}
	for n, r := range order {
		c := &p.Configs[r.Config]
		if c.Failed != "" {
			continue
		}
		path := f.Session(p, r)
		e := Event{Run: r, Name: c.Name, Done: n, Of: len(order), Steps: p.length(), Left: clock.left(n)}
		m, err := Read(path, p.Warmup, p.Steps)
		if err == nil {
			all[r.Config][r.Round] = m
			e.Done, e.Ended, e.Kept, e.Measured = n+1, true, true, m
			tell(e)
			continue
		}
		if err := errors.Join(discard(path), ctx.Err()); err != nil {
			return p.results(all), err
		}
		tell(e)
		started := time.Now()
		j := p.job(r, path)
		j.Progress = func(step int) {
			during := e
			during.Step = step
			tell(during)
		}
		err = runner(ctx, j)
		if ctx.Err() != nil {
			return p.results(all), errors.Join(discard(path), ctx.Err())
		}
		if err == nil {
			m, err = Read(path, p.Warmup, p.Steps)
		}
		if missing(err) || errors.Is(err, errUnfinished) {
			err = fmt.Errorf("the run ended without %s", p.extent())
			if p.Command != nil {
				err = fmt.Errorf("the command ended before %s with these settings: lower --steps, or let it train longer", p.extent())
			}
		}
		e.Done, e.Ended, e.Took = n+1, true, time.Since(started)
		if err != nil {
			c.Failed, e.Err = err.Error(), err
			if err := f.Save(p); err != nil {
				return p.results(all), err
			}
		} else {
			all[r.Config][r.Round], e.Measured = m, m
		}
		clock.took(r, e.Took)
		e.Left = clock.left(n + 1)
		tell(e)
	}
	return p.results(all), nil
}

// discard removes the session of a run that did not come to its end. It also removes
// the files that SQLite keeps beside it, which SQLite would take for part of the next
// session, and the log.
func discard(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm", path + "-journal", LogOf(path)} {
		if err := os.Remove(name); err != nil && !missing(err) {
			return errs.Wrap(err, "remove an unfinished run", name, "remove it, or name another folder with --out")
		}
	}
	return nil
}

// LogOf returns the file that has what the command of a session printed.
func LogOf(session string) string { return strings.TrimSuffix(session, store.Ext) + ".log" }

// Load reads what a folder's runs have measured.
func Load(f Folder) (*Results, error) {
	p, err := f.Plan()
	if err != nil {
		return nil, err
	}
	all := p.none()
	for _, r := range p.Order() {
		m, err := Read(f.Session(p, r), p.Warmup, p.Steps)
		switch {
		case err == nil:
			all[r.Config][r.Round] = m
		case !missing(err) && !errors.Is(err, errUnfinished):
			return nil, err
		}
	}
	return p.results(all), nil
}

// none returns room for every run.
func (p *Plan) none() [][]*Measured {
	all := make([][]*Measured, len(p.Configs))
	for i := range all {
		all[i] = make([]*Measured, p.Repeat)
	}
	return all
}

// estimate estimates how long a sweep still takes: the runs of a configuration as long as
// before, and those of a new one as long as the mean.
type estimate struct {
	order []Run
	runs  []timed
}

type timed struct {
	config int
	took   time.Duration
}

func (e *estimate) took(r Run, d time.Duration) { e.runs = append(e.runs, timed{r.Config, d}) }

func (e *estimate) left(from int) (sum time.Duration) {
	if len(e.runs) == 0 {
		return 0
	}
	var all time.Duration
	for _, t := range e.runs {
		all += t.took
	}
	mean := all / time.Duration(len(e.runs))
	for _, r := range e.order[from:] {
		d := mean
		for _, t := range e.runs {
			if t.config == r.Config {
				d = t.took
			}
		}
		sum += d
	}
	return sum
}
