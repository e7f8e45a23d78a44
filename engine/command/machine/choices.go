package machine

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda"
	"dev.gpustall/loader"
)

// TuneLimit is how long a run may try kernels before it starts.
const TuneLimit = time.Minute

// choicesFile returns the file of the kernel variants that were found right and fast. It is ""
// without a home, and then each run tries them again.
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
		store.Clear()
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

// tuning returns the doctor's finding about kernel variants.
func tuning() []finding {
	path := choicesFile()
	decided, wrong := loadChoices(path).Describe()
	if decided+len(wrong) == 0 {
		return []finding{{"ok", "autotune", "no kernel has been tried on a GPU yet; the first run does it"}}
	}
	out := []finding{{"ok", "autotune", fmt.Sprintf("%d kernel shapes tried before, kept in %s; --autotune again tries anew", decided, path)}}
	for _, w := range wrong {
		out = append(out, finding{"note", "autotune", "not used: " + w})
	}
	return out
}

// maxChoices limits the bytes that are read of the file. It has room for some ten
// thousand kernels.
const maxChoices = 4 << 20

// loadChoices reads the kernel variants in the file at path, and saves later ones there. A path of
// "" is no file.
func loadChoices(path string) *cuda.Store {
	if path == "" {
		return cuda.NewStore(nil, nil)
	}
	var text []byte
	if f, _, err := loader.Open(path); err == nil {
		text, _ = io.ReadAll(io.LimitReader(f, maxChoices))
		_ = f.Close()
	}
	return cuda.NewStore(text, func(text []byte) error {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return cli.WriteFile(path, true, func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	})
}
