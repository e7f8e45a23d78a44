package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/adrg/xdg"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda"
)

// openCUDA opens GPU number n, with the kernel variants that earlier runs found
// fastest.
func openCUDA(n int) (device.Device, error) {
	if err := cuda.Available(); err != nil {
		return nil, err
	}
	return cuda.Open(cuda.Config{Ordinal: n, Choices: loadChoices(filepath.Join(xdg.CacheHome, "gpustall", "autotune.json"))})
}

// choices keeps autotuned kernel variants in a JSON file. A file that cannot be
// read or written costs the tuning again, not the run.
type choices struct {
	mu   sync.Mutex
	path string
	m    map[string]string
}

func loadChoices(path string) *choices {
	c := &choices{path: path, m: map[string]string{}}
	if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &c.m) != nil {
		c.m = map[string]string{}
	}
	return c
}

// Get returns the variant chosen for a key.
func (c *choices) Get(key string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.m[key]
	return v, ok
}

// Set remembers a choice, in the file too.
func (c *choices) Set(key, config string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[key] = config
	_ = c.save()
}

func (c *choices) save() error {
	b, err := json.MarshalIndent(c.m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil {
		return err
	}
	tmp := fmt.Sprintf("%s.%d", c.path, os.Getpid())
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, c.path)
}
