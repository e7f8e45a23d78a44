package cuda

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// FileChoices keeps the choices in a JSON file, written at once when one is
// added. A choice that cannot be written is kept for the run.
type FileChoices struct {
	path string

	mu  sync.Mutex
	m   map[string]string
	err error
}

// OpenChoices reads the choices in path; a file that is not there has none. With
// an error the choices are empty and usable.
func OpenChoices(path string) (*FileChoices, error) {
	c := &FileChoices{path: path, m: make(map[string]string)}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &c.m)
	}
	if err != nil {
		c.m = make(map[string]string)
		return c, fmt.Errorf("kernel choices in %s: %w; delete the file and they are measured again", path, err)
	}
	if c.m == nil { // the file held null
		c.m = make(map[string]string)
	}
	return c, nil
}

// Get returns the choice for key.
func (c *FileChoices) Get(key string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.m[key]
	return v, ok
}

// Set stores a choice.
func (c *FileChoices) Set(key, config string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[key] = config
	c.err = c.write()
}

// Err returns why the latest choice was not written.
func (c *FileChoices) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// write replaces the file whole, so that a run killed on the way leaves the old one.
func (c *FileChoices) write() error {
	b, err := json.MarshalIndent(c.m, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil {
		return fmt.Errorf("kernel choices: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(c.path), "choices-*.tmp")
	if err != nil {
		return fmt.Errorf("kernel choices: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // a leftover is only untidy
		return fmt.Errorf("kernel choices: %w", err)
	}
	return nil
}
