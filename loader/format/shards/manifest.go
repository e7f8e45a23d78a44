package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader/source"
)

// Manifest is the file beside the shards of a split that gpustall packed. It has the classes'
// names and describes each shard. Shards from elsewhere have none.
const Manifest = "gpustall-shards.json"

type manifest struct {
	Classes   []string `json:"classes,omitempty"`
	Samples   int      `json:"samples"`
	Synthetic bool     `json:"synthetic,omitempty"`
	Plan      string   `json:"plan,omitempty"` // a checksum of what was packed, and how
	Shards    []Packed `json:"shards"`
}

// Packed describes a shard as it was written.
type Packed struct {
	Name    string `json:"name"`
	Samples int    `json:"samples"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

const (
	maxManifest  = 64 << 20
	hintManifest = "pack the data again"
)

// readManifest reads the manifest of a folder; it is empty if there is none.
func readManifest(ctx context.Context, f *source.Files, dir string) (*manifest, error) {
	path := source.Join(dir, Manifest)
	b, err := f.ReadAll(ctx, path, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return &manifest{}, nil
	}
	if err != nil {
		return nil, errs.File(err, "read", path, hintManifest)
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, errs.New("read", path, "it is damaged: "+err.Error(), hintManifest)
	}
	return &m, nil
}

// check refuses a folder that lacks a shard of the manifest, or has a shard that is not in it.
func (m *manifest) check(dir string, found []source.Entry) error {
	if len(m.Shards) == 0 {
		return nil
	}
	there := map[string]bool{}
	for _, e := range found {
		there[e.Name] = true
	}
	for _, s := range m.Shards {
		if !there[s.Name] {
			return errs.New("open data", source.Join(dir, s.Name), fmt.Sprintf("the shard is missing, and %s lists it", Manifest), "put it back, or pack the data again")
		}
		delete(there, s.Name)
	}
	for n := range there {
		return errs.New("open data", source.Join(dir, n), fmt.Sprintf("%s does not list this shard", Manifest), "remove it, or remove "+Manifest)
	}
	return nil
}

// check refuses a shard that is missing or has another size.
func (p *Packed) check(ctx context.Context, f *source.Files, dir string) error {
	path := source.Join(dir, p.Name)
	st, err := f.Stat(ctx, path)
	if err != nil {
		return errs.File(err, "find", path, hintOther)
	}
	if st.Size != p.Bytes {
		return errs.New("check", path, fmt.Sprintf("it has %d bytes where %d were packed", st.Size, p.Bytes), hintOther)
	}
	return nil
}

// again says whether packing once more, by that plan, would give the same result.
func (m *manifest) again(ctx context.Context, f *source.Files, dir, plan string) error {
	if m.Plan != plan {
		return errs.New("pack into", dir, "it holds shards of other data, or of other settings", hintOther)
	}
	for i := range m.Shards {
		if err := m.Shards[i].check(ctx, f, dir); err != nil {
			return err
		}
	}
	return f.Remove(ctx, source.Join(dir, Journal)) // of a call that was killed between the two
}

// WriteManifest writes the manifest of shards that were written without Pack.
func WriteManifest(dir string, classes []string, synthetic bool, packed []Packed) error {
	m := manifest{Classes: classes, Synthetic: synthetic, Shards: packed}
	for i := range packed {
		m.Samples += packed[i].Samples
	}
	return m.write(context.Background(), nil, dir)
}

// write puts the manifest into a folder.
func (m *manifest) write(ctx context.Context, f *source.Files, dir string) error {
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	return f.WriteAll(ctx, source.Join(dir, Manifest), append(b, '\n'))
}

// unfinished refuses a folder that is being packed, or whose packing was interrupted.
func unfinished(ctx context.Context, f *source.Files, dir string) error {
	b, err := f.ReadAll(ctx, source.Join(dir, Journal), maxManifest)
	if err != nil {
		return nil //nolint:nilerr // nobody packs here
	}
	head, done := parseJournal(b)
	return errs.New("open data", dir, fmt.Sprintf("it is being packed, or packing was interrupted: %d of %d shards are there", len(done), head.Shards),
		"run gpustall data pack again, which goes on")
}
