package sweep

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/mask"
	"dev.gpustall/engine/trace/store"
)

// Folder is where a sweep lies: its plan, the sessions of its runs, and the results made
// from them.
type Folder string

// Files of a folder.
const (
	planFile   = "sweep.json"
	sessions   = "sessions"
	ResultFile = "results.csv"
	ReportFile = "report.md"
	PageFile   = "report.html"
)

// IsFolder reports whether a sweep lies in a folder.
func IsFolder(dir string) bool { return Holds(dir, planFile) }

// Holds reports whether a folder holds a regular file of that name.
func Holds(dir, name string) bool {
	info, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && info.Mode().IsRegular()
}

// WriteJSON writes a value as the whole of a file. A reader sees the old file or the new
// one, and no half.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	part := path + ".part"
	if err := os.WriteFile(part, append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// Path returns the path of a file in the folder.
func (f Folder) Path(name string) string { return filepath.Join(string(f), name) }

// Session returns the path of a run's session.
func (f Folder) Session(p *Plan, r Run) string {
	return filepath.Join(string(f), sessions, p.file(r)+store.Ext)
}

// Save makes the folder and writes the plan into it, without the secrets of its command.
func (f Folder) Save(p *Plan) error {
	const hint = "name a folder that can be written to with --out"
	if err := os.MkdirAll(filepath.Join(string(f), sessions), 0o755); err != nil {
		return errs.Wrap(err, "make the folder of the sweep", string(f), hint)
	}
	saved := *p
	saved.Command = mask.Args(p.Command)
	return errs.Wrap(WriteJSON(f.Path(planFile), &saved), "write the plan of the sweep", f.Path(planFile), hint)
}

// maxPlan is the largest size of a plan, in bytes.
const maxPlan = 16 << 20

// Plan reads the folder's plan.
func (f Folder) Plan() (*Plan, error) {
	path := f.Path(planFile)
	fail := func(reason string) error {
		return errs.New("read sweep", path, reason, "name a folder that gpustall sweep has written")
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail("there is no such file")
	case err != nil:
		return nil, errs.Wrap(err, "read sweep", path, "name a folder that can be read")
	case !info.Mode().IsRegular() || info.Size() > maxPlan:
		return nil, fail("it is no plan of a sweep")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, errs.Wrap(err, "read sweep", path, "name a folder that can be read")
	}
	var p Plan
	if err := json.Unmarshal(b, &p); err != nil || p.check() != nil {
		return nil, fail("it is no plan of a sweep, or damaged")
	}
	return &p, nil
}

// check refuses what cannot be a plan.
func (p *Plan) check() error {
	if len(p.Configs) == 0 || p.Steps < 1 && p.Epochs < 1 || p.Repeat < 1 || p.Repeat > MaxRepeat || p.Warmup < 0 {
		return errors.New("out of range")
	}
	for i := range p.Configs {
		if b := p.Configs[i].Before; b < -1 || b >= i {
			return errors.New("a rung adds to one that is not before it")
		}
	}
	return nil
}

// MaxRepeat is the largest number of runs of a configuration.
const MaxRepeat = 100
