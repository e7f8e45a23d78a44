package sweep

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
)

// Slurm is what is asked of a cluster for the runs. An empty field leaves it to the
// cluster's default.
type Slurm struct {
	Partition  string
	Time       string // limit of a run, as Slurm writes it: 00:30:00
	Gres       string // devices of a run, as Slurm writes them: gpu:1
	CPUs       int    // cores of a run; 0: as many as Plan.cores says
	Mem        string // memory of a run, as Slurm writes it: 16G
	Account    string
	QOS        string
	Constraint string
	Args       []string // further ones of sbatch, as exclusive or nodelist=n[1-4]
}

// options returns what sbatch is asked for, for these runs.
func (s *Slurm) options(p *Plan, runs []Run) (all []string, err error) {
	cpus := ""
	if n := cmp.Or(s.CPUs, p.cores(runs)); n > 0 {
		cpus = strconv.Itoa(n)
	}
	for _, o := range []struct{ name, value string }{
		{"partition", s.Partition}, {"time", s.Time}, {"gres", s.Gres}, {"cpus-per-task", cpus}, {"mem", s.Mem},
		{"account", s.Account}, {"qos", s.QOS}, {"constraint", s.Constraint},
	} {
		if o.value != "" {
			all = append(all, o.name+"="+o.value)
		}
	}
	for _, a := range s.Args {
		all = append(all, strings.TrimPrefix(a, "--"))
	}
	for _, o := range all {
		if strings.ContainsAny(o, " \t\r\n") {
			return nil, errs.New("write batch script", o, "it holds a space", "write it as sbatch takes it")
		}
	}
	return all, nil
}

// cores returns how many cores the runs need: one more than the most workers. It is 0 where a command decides
// about its workers itself.
func (p *Plan) cores(runs []Run) (most int) {
	for _, r := range runs {
		n, err := strconv.Atoi(knob.ValueOf(p.All(r.Config), "num_workers"))
		if err == nil || p.Command == nil {
			most = max(most, n+1)
		}
	}
	return most
}

// scriptFile is the batch script in a folder; its tasks write what they print beside it.
const scriptFile = "slurm.sh"

// Missing returns the runs of a plan that a folder does not have yet. It removes what is
// left of unfinished ones.
func (p *Plan) Missing(f Folder) (runs []Run, err error) {
	for _, r := range p.Order() {
		path := f.Session(p, r)
		if _, err := Read(path, p.Warmup, p.Steps); err == nil {
			continue
		}
		if err := discard(path); err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// Script writes a batch script whose array has a task for each of the runs, and returns its
// path. command returns the words of the command that does a run. The cluster chooses the
// order of the tasks and their nodes.
func (p *Plan) Script(f Folder, runs []Run, s Slurm, command func(Job) ([]string, error)) (string, error) {
	dir, err := filepath.Abs(string(f))
	if err != nil {
		return "", errs.Wrap(err, "find the folder", string(f), "name another one with --out")
	}
	var b bytes.Buffer
	b.WriteString("#!/bin/bash\n#SBATCH --job-name=gpustall-sweep\n")
	fmt.Fprintf(&b, "#SBATCH --array=0-%d\n#SBATCH --output=\"%s\"\n", len(runs)-1, filepath.Join(dir, "slurm-%a.out"))
	options, err := s.options(p, runs)
	if err != nil {
		return "", err
	}
	for _, o := range options {
		fmt.Fprintf(&b, "#SBATCH --%s\n", o)
	}
	b.WriteString("case $SLURM_ARRAY_TASK_ID in\n")
	for i, r := range runs {
		words, err := command(p.job(r, Folder(dir).Session(p, r)))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%d) exec", i)
		for _, w := range words {
			b.WriteString(" '" + strings.ReplaceAll(w, "'", `'\''`) + "'")
		}
		b.WriteString(" ;;\n")
	}
	b.WriteString("esac\n")
	path := filepath.Join(dir, scriptFile)
	err = os.WriteFile(path, b.Bytes(), 0o755)
	return path, errs.Wrap(err, "write batch script", path, "name a folder that can be written to with --out")
}
