package shards

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"dev.gpustall/engine/fault"
	"dev.gpustall/loader"
)

// Manifest is the file beside the shards of a split that gpustall packed: what classes are
// called, and what each shard is. Shards from elsewhere have none.
const Manifest = "gpustall-shards.json"

type manifest struct {
	Classes   []string `json:"classes,omitempty"`
	Samples   int      `json:"samples"`
	Synthetic bool     `json:"synthetic,omitempty"`
	Shards    []Packed `json:"shards"`
}

// Packed is what was written of a shard.
type Packed struct {
	Name    string `json:"name"`
	Samples int    `json:"samples"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

const (
	maxManifest  = 64 << 20
	mendManifest = "pack the data again"
)

// readManifest reads the manifest of a folder; it is empty where there is none.
func readManifest(dir string) (*manifest, error) {
	path := filepath.Join(dir, Manifest)
	f, _, err := loader.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &manifest{}, nil
	}
	if err != nil {
		return nil, fault.File(err, "open data", path, mendManifest)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return nil, fault.File(err, "read", path, mendManifest)
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fault.New("read", path, "it is damaged: "+err.Error(), mendManifest)
	}
	return &m, nil
}

// check refuses a folder that lacks a shard of the manifest, or has one that is none of
// its.
func (m *manifest) check(dir string, names []string) error {
	if len(m.Shards) == 0 {
		return nil
	}
	there := map[string]bool{}
	for _, n := range names {
		there[n] = true
	}
	for _, s := range m.Shards {
		if !there[s.Name] {
			return fault.New("open data", filepath.Join(dir, s.Name), fmt.Sprintf("the shard is missing, and %s lists it", Manifest), "put it back, or pack the data again")
		}
		delete(there, s.Name)
	}
	for n := range there {
		return fault.New("open data", filepath.Join(dir, n), fmt.Sprintf("%s does not list this shard", Manifest), "remove it, or remove "+Manifest)
	}
	return nil
}
