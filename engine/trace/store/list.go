package store

import (
	"cmp"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
)

// Entry is a session file in a folder.
type Entry struct {
	Path     string
	Modified time.Time
	Size     int64
	Meta     trace.Meta
	Outcome  trace.Outcome
	Session  *trace.Session // as far as it was read
	Err      error          // why it cannot be opened
}

// List returns the session files of a folder, the one written last first. A file
// that cannot be opened is listed with its Err. A missing folder holds none.
func List(dir string) ([]Entry, error) {
	entries, err := list(dir)
	for i := range entries {
		entries[i].read(documents)
	}
	return entries, err
}

// Digests is List with the segments, the gauges and the digest of the steps of each session, which
// its verdict needs. Where these cannot be read, an entry has an Err, and what List says.
func Digests(dir string) ([]Entry, error) {
	entries, err := list(dir)
	for i := range entries {
		e := &entries[i]
		if e.read(digested); e.Err != nil {
			why := e.Err
			if e.read(documents); e.Err == nil {
				e.Session, e.Err = nil, why
			}
		}
	}
	return entries, err
}

// Each yields the session files of a folder as List has them, the one written last first. It opens
// a file only when that entry is asked for.
func Each(dir string) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		entries, _ := list(dir) // a folder that cannot be read has no sessions
		for i := range entries {
			if entries[i].read(documents); !yield(&entries[i]) {
				return
			}
		}
	}
}

// Digest reads what Digests has in addition to List.
func (e *Entry) Digest() error {
	e.read(digested)
	return e.Err
}

// Latest returns the file in dir that was written last and can be opened.
func Latest(dir string) (string, error) {
	entries, err := list(dir)
	if err != nil {
		return "", err
	}
	for i := range entries {
		if entries[i].read(documents); entries[i].Err == nil {
			return entries[i].Path, nil
		}
	}
	return "", errs.New("find the latest session", dir, "there is none that can be opened", "run gpustall first, or pass a file").Because(fs.ErrNotExist)
}

func list(dir string) ([]Entry, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, errs.File(err, "list sessions", dir, "check the path")
	}
	var entries []Entry
	for _, f := range files {
		if f.IsDir() || filepath.Ext(f.Name()) != Ext {
			continue
		}
		info, err := f.Info()
		if err != nil {
			continue // removed in between
		}
		e := Entry{Path: filepath.Join(dir, f.Name()), Modified: info.ModTime(), Size: info.Size()}
		if log, err := os.Stat(e.Path + "-wal"); err == nil && log.ModTime().After(e.Modified) {
			e.Modified = log.ModTime()
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(b.Modified.Compare(a.Modified), cmp.Compare(b.Path, a.Path))
	})
	return entries, nil
}

// read fills in what the file says of itself.
func (e *Entry) read(to extent) {
	err := trace.Guard("read", func() error {
		s, err := open(e.Path, to)
		if err == nil {
			e.Session, e.Err = s, nil
			e.Meta, e.Outcome = s.Meta(), s.Snapshot(0, 0).Outcome
		}
		return err
	})
	if err != nil {
		e.Err = openError(e.Path, err)
	}
}
