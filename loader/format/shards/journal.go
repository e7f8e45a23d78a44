package shards

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"dev.gpustall/engine/fault"
)

// Journal is the file that says what is packed already. It is there before the first shard
// and until the manifest is; a line of JSON says what is packed, and then one each shard.
const Journal = "gpustall-packing.json"

type journal struct {
	path  string
	file  *os.File
	done  []Packed
	total int
}

// journalHead is the first line.
type journalHead struct {
	Plan   string `json:"plan"`   // a checksum of what is packed, and how
	Shards int    `json:"shards"` // in the end
}

const mendOther = "remove that folder, or pack into another one"

// openJournal goes on with the journal of an earlier call with the same plan, or begins one.
// Shards that are not there any more, and what follows them, are packed again.
func openJournal(dir, plan string, total int) (*journal, error) {
	j := &journal{path: filepath.Join(dir, Journal), total: total}
	b, err := os.ReadFile(j.path)
	begun := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.File(err, "read", j.path, mendOther)
	}
	if begun {
		head, done := parseJournal(b)
		if head.Plan != plan {
			return nil, fault.New("pack into", dir, "packing was begun there with other data, or with other settings", mendOther)
		}
		for _, p := range done {
			if p.check(dir) != nil {
				break
			}
			j.done = append(j.done, p)
		}
	}
	if err := clean(dir, begun); err != nil {
		return nil, err
	}
	return j, fault.Wrap(j.begin(journalHead{plan, total}), "write", j.path, mendPack)
}

// parseJournal reads what is whole of a journal: a killed call may have written half a line.
func parseJournal(b []byte) (head journalHead, done []Packed) {
	s := bufio.NewScanner(bytes.NewReader(b))
	for n := 0; s.Scan(); n++ {
		if n == 0 {
			if json.Unmarshal(s.Bytes(), &head) != nil {
				return journalHead{}, nil
			}
			continue
		}
		var p Packed
		if json.Unmarshal(s.Bytes(), &p) != nil {
			break
		}
		done = append(done, p)
	}
	return head, done
}

// begin writes what is known anew, as a whole, and leaves the file open for more.
func (j *journal) begin(head journalHead) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	err := e.Encode(head)
	for _, p := range j.done {
		err = errors.Join(err, e.Encode(p))
	}
	if err = errors.Join(err, publish(j.path, b.Bytes())); err != nil {
		return err
	}
	j.file, err = os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	return err
}

// add notes a shard.
func (j *journal) add(p Packed) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(b, '\n')); err != nil {
		return err
	}
	j.done = append(j.done, p)
	return j.file.Sync()
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

// clean removes what a killed call left of a shard. A folder with anything in it in which
// no packing was begun is refused.
func clean(dir string, begun bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fault.File(err, "pack into", dir, "choose another folder")
	}
	for _, e := range entries {
		if left, _ := filepath.Match(fmt.Sprintf(tmpPattern, "*"), e.Name()); left {
			_ = os.Remove(filepath.Join(dir, e.Name())) // it costs space only
		} else if !begun {
			return fault.New("pack into", dir, fmt.Sprintf("the folder is not empty: it holds %s", fault.Path(e.Name())), "choose a new folder")
		}
	}
	return nil
}

// publish puts bytes into a file that is there as a whole or not at all.
func publish(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), fmt.Sprintf(tmpPattern, filepath.Base(path)))
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
