package machine

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda"
	"dev.gpustall/loader"
)

// TuneLimit is how long a run may try kernels before it starts.
const TuneLimit = time.Minute

// choicesFile returns the file of the kernel variants that were found right and fast. It is ""
// without a home; then each run tries them again.
func choicesFile() string {
	if cli.CheckHome("tuned kernels", cli.CacheVariable, "") != nil {
		return ""
	}
	return filepath.Join(cli.CacheDir(), "autotune.json")
}

// openCUDA opens GPU number n with the fastest kernel variants that earlier runs found. If again
// is true they are forgotten and tried again. The knob autotune says whether they are used.
// GPUSTALL_EMU_TUNE makes the emulated driver tune too.
func openCUDA(n int, again bool) (device.Device, error) {
	c := cuda.Config{Ordinal: n, Trials: tryKernels, TuneEmulated: os.Getenv("GPUSTALL_EMU_TUNE") != ""}
	store := loadChoices(choicesFile())
	if again {
		clear(store.m)
	}
	c.Choices = store
	return cuda.Open(c)
}

// tryKernels returns a process of this program that tries kernels.
func tryKernels() *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", TryCommand)
	cmd.Args[0] = "gpustall"
	return cmd
}

// TryCommand is the hidden command of that process, which calls cuda.ServeTrials.
const TryCommand = "try-kernels"

// tuning is the doctor's finding about kernel variants.
func tuning() []finding {
	c := loadChoices(choicesFile())
	decided, wrong := cuda.Describe(c.m)
	if decided+len(wrong) == 0 {
		return []finding{{"ok", "autotune", "no kernel has been tried on a GPU yet; the first run does it"}}
	}
	out := []finding{{"ok", "autotune", fmt.Sprintf("%d kernel shapes tried before, kept in %s; --autotune again tries anew", decided, c.path)}}
	for _, w := range wrong {
		out = append(out, finding{"note", "autotune", "not used: " + w})
	}
	return out
}

// choices keeps tuned kernel variants in a JSON file. If the file cannot be read or written, the
// next run tunes again. An empty value is removed.
type choices struct {
	mu   sync.Mutex
	path string
	m    map[string]string
}

// maxChoices limits the bytes that are read of the file: it is room for some ten thousand
// kernels.
const maxChoices = 4 << 20

func loadChoices(path string) *choices {
	c := &choices{path: path, m: map[string]string{}}
	f, _, err := loader.Open(path)
	if err != nil {
		return c
	}
	defer f.Close()
	if json.NewDecoder(io.LimitReader(f, maxChoices)).Decode(&c.m) != nil || c.m == nil {
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

// Set remembers a choice, also in the file, and removes the choices that it supersedes.
func (c *choices) Set(key, config string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.m, func(old, _ string) bool { return cuda.Supersedes(key, old) })
	if config == "" {
		delete(c.m, key)
	} else {
		c.m[key] = config
	}
	_ = c.save()
}

func (c *choices) save() error {
	if c.path == "" {
		return nil
	}
	b, err := json.MarshalIndent(c.m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil {
		return err
	}
	return cli.WriteFile(c.path, true, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}
