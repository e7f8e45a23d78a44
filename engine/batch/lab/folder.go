package lab

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/report"
)

// Files of a lab's folder, beside the folders of its stages.
const (
	requestFile = "lab.json"
	ReportFile  = report.LabReport
	ResultFile  = report.LabResults
	ScriptFile  = "optimized_training.py"
)

// memo is what the folder holds beside the runs. All else follows from the runs.
type memo struct {
	Request Request       `json:"request"`
	Spent   time.Duration `json:"spent_ns"`
}

// maxMemo is the largest size of a memo, in bytes.
const maxMemo = 1 << 20

// IsFolder reports whether a lab lies in a folder.
func IsFolder(dir string) bool { return sweep.Holds(dir, requestFile) }

// Vacant refuses a folder that holds anything.
func (l *Lab) Vacant() error {
	const op = "begin a lab in"
	entries, err := os.ReadDir(l.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return errs.Wrap(err, op, l.Dir, "name another folder with --out")
	case IsFolder(l.Dir):
		return errs.New(op, l.Dir, "it holds a lab", "--resume goes on with it; or name another folder with --out")
	case len(entries) > 0:
		return errs.New(op, l.Dir, "it holds something else", "name a new folder with --out, or an empty one")
	}
	return nil
}

// Begin makes the folder of a new lab.
func (l *Lab) Begin() error {
	if err := l.Vacant(); err != nil {
		return err
	}
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		return errs.Wrap(err, "begin a lab in", l.Dir, "name another folder with --out")
	}
	return l.Save()
}

// Resume reads what a lab in the folder was asked for.
func (l *Lab) Resume() error {
	const op = "go on with the lab in"
	path := filepath.Join(l.Dir, requestFile)
	fail := func(reason string) error {
		return errs.New(op, l.Dir, reason, "name the folder of a lab with --out, or leave --resume out to begin one")
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail("there is none")
	case err != nil:
		return errs.Wrap(err, op, l.Dir, "name a folder that can be read")
	case !info.Mode().IsRegular() || info.Size() > maxMemo:
		return fail(requestFile + " is none of a lab's")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return errs.Wrap(err, op, l.Dir, "name a folder that can be read")
	}
	var m memo
	if r := &m.Request; json.Unmarshal(b, &m) != nil || r.Long < 1 || r.Trial < 1 || r.Repeat < 1 || r.Warmup < 0 || m.Spent < 0 {
		return fail(requestFile + " is damaged, or none of a lab's")
	}
	l.Request, l.Spent = m.Request, m.Spent
	return nil
}

// Save writes down what the lab is asked for and how long it has taken.
func (l *Lab) Save() error {
	path := filepath.Join(l.Dir, requestFile)
	return errs.Wrap(sweep.WriteJSON(path, memo{l.Request, l.Spent}), "write", path, "name a folder that can be written to with --out")
}
