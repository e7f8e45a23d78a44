package shards

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader/source"
)

// Journal is the file that says what has been packed so far. It exists from before the first
// shard until the manifest is written. Its first line of JSON says what is packed. Then each
// shard has a line.
const Journal = "gpustall-packing.json"

type journal struct {
	to   *source.Files
	path string
	head journalHead
	done []Packed
}

// journalHead is the first line.
type journalHead struct {
	Plan   string `json:"plan"`   // a checksum of what is packed, and how
	Shards int    `json:"shards"` // when all is packed
}

const hintOther = "remove that folder, or pack into another one"

// openJournal continues the journal of an earlier call with the same plan, or begins one. If a
// shard is missing, it and those after it are packed again.
func openJournal(ctx context.Context, to *source.Files, dir, plan string, total int) (*journal, error) {
	j := &journal{to: to, path: source.Join(dir, Journal), head: journalHead{plan, total}}
	b, err := to.ReadAll(ctx, j.path, maxManifest)
	begun := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errs.File(err, "read", j.path, hintOther)
	}
	if begun {
		head, done := parseJournal(b)
		if head.Plan != plan {
			return nil, errs.New("pack into", dir, "packing was begun there with other data, or with other settings", hintOther)
		}
		for _, p := range done {
			if p.check(ctx, to, dir) != nil {
				break
			}
			j.done = append(j.done, p)
		}
	}
	if err := clean(ctx, to, dir, begun); err != nil {
		return nil, err
	}
	return j, errs.Wrap(j.write(ctx), "write", j.path, hintPack)
}

// parseJournal reads the complete lines of a journal: a copied one may end with half a line.
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

// write writes the whole journal, because an object in a store cannot be extended.
func (j *journal) write(ctx context.Context) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	err := e.Encode(j.head)
	for _, p := range j.done {
		err = errors.Join(err, e.Encode(p))
	}
	if err != nil {
		return err
	}
	return j.to.WriteAll(ctx, j.path, b.Bytes())
}

// add adds a finished shard.
func (j *journal) add(ctx context.Context, p Packed) error {
	j.done = append(j.done, p)
	return j.write(ctx)
}

// clean removes what a killed call left of a shard. It refuses a folder with other contents,
// unless a packing was begun there.
func clean(ctx context.Context, to *source.Files, dir string, begun bool) error {
	entries, err := to.List(ctx, dir)
	if err != nil {
		return errs.File(err, "pack into", dir, "choose another folder")
	}
	for _, e := range entries {
		if left, _ := filepath.Match(source.Unfinished("*"), e.Name); left {
			_ = to.Remove(ctx, source.Join(dir, e.Name)) // a file that stays only costs space
		} else if !begun {
			return errs.New("pack into", dir, fmt.Sprintf("the folder is not empty: it holds %s", errs.Path(e.Name)), "choose a new folder")
		}
	}
	return nil
}
