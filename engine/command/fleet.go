package command

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// fleetFormats are the formats in which the report of a distributed training is
// written.
var fleetFormats = []struct {
	name  string
	write func(*report.Fleet, io.Writer) error
}{{"markdown", (*report.Fleet).Markdown}, {"html", (*report.Fleet).HTML}, {"csv", (*report.Fleet).CSV}}

// reportFleet writes the report of a distributed training, of sessions or of a folder of them.
func reportFleet(args []string, format string, rate float64, out *cli.Output) error {
	var names []string
	at := -1
	for i, f := range fleetFormats {
		if names = append(names, f.name); f.name == format {
			at = i
		}
	}
	if at < 0 {
		return cli.Refuse("--format "+format, "the report of a distributed training is not written so", "choose "+knob.Choice(names)+", or name one session")
	}
	f, files, err := openJob(args, rate)
	if err != nil {
		return err
	}
	return out.Write("the report", func(w io.Writer) error { return fleetFormats[at].write(f, w) }, files...)
}

// openJob reads the sessions of a job, and returns their files too.
func openJob(args []string, rate float64) (*report.Fleet, []string, error) {
	entries, err := jobSessions(args)
	if err != nil {
		return nil, nil, err
	}
	var sides []report.Side
	var files []string
	for i := range entries {
		e := &entries[i]
		if err := e.Digest(); err != nil {
			_ = cli.Say(os.Stderr, "gpustall: %v; the report lacks it\n", err)
			continue
		}
		complain(os.Stderr, e.Session)
		sides = append(sides, report.Side{Session: e.Path, Snapshot: e.Session.Snapshot(0, 0)})
		files = append(files, e.Path)
	}
	if len(sides) == 0 {
		return nil, nil, errs.New("read", args[0], "none of its sessions can be read", "name other sessions")
	}
	return report.NewFleet(sides, rate), files, nil
}

// jobSessions returns the named sessions. For a folder it returns the sessions of the job that was written
// last.
func jobSessions(args []string) ([]store.Entry, error) {
	if len(args) > 1 {
		entries := make([]store.Entry, len(args))
		for i, name := range args {
			path, err := findSession(name)
			if err != nil {
				return nil, err
			}
			if entries[i].Path = path; entries[i].Digest() == nil && ranksOf(&entries[i]) < 2 {
				return nil, cli.Misuse(errs.New("report", name, "it is no session of a distributed training, and several sessions have one report only where they are ranks of one job",
					"name one session, or compare two with gpustall compare"))
			}
		}
		return entries, nil
	}
	all, err := store.List(args[0])
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e store.Entry) bool { return e.Err != nil || ranksOf(&e) < 2 })
	if len(all) == 0 {
		return nil, errs.New("read", args[0], "the folder has no session of a distributed training", "name a session, or a folder in which gpustall torch has recorded the ranks of one")
	}
	job, others := newestJob(all)
	if others > 0 {
		_ = cli.Say(os.Stderr, "gpustall: of the job that was written last, %s; %s of other jobs or earlier runs in %s left out (name the files for those)\n",
			units.Line(cmp.Or(knob.ValueOf(job[0].Meta.Host, trace.JobName), filepath.Base(job[0].Path))), units.Counted(others, "session", "sessions"), errs.Path(args[0]))
	}
	return job, nil
}

// ranksOf returns how many ranks the training of a session has; 0 where it is not distributed.
func ranksOf(e *store.Entry) int {
	n, _ := strconv.Atoi(knob.ValueOf(e.Meta.Host, trace.JobRanks))
	return n
}

// together is how long after a session's last write another session of the same run may begin, because
// machines' clocks may differ.
const together = 10 * time.Second

// newestJob returns the sessions of the run that was written last, and how many other sessions there are.
// all is in the order of store.List. Sessions are of one run if their job has the same name and ranks, and
// they were written at the same time.
func newestJob(all []store.Entry) (job []store.Entry, others int) {
	key := func(e *store.Entry) string {
		return fmt.Sprintln(knob.ValueOf(e.Meta.Host, trace.JobName), e.Meta.Model, ranksOf(e))
	}
	began := all[0].Meta.Started
	for i := range all {
		e := &all[i]
		if key(e) != key(&all[0]) || e.Modified.Add(together).Before(began) {
			others++
			continue
		}
		if e.Meta.Started.Before(began) {
			began = e.Meta.Started
		}
		job = append(job, *e)
	}
	return job, others
}
