//go:build linux

package frames

import (
	"bufio"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pythons are the interpreters to read: those that GPUSTALL_PYTHONS names, else python3.
func pythons(t *testing.T) []string {
	t.Helper()
	if names := os.Getenv("GPUSTALL_PYTHONS"); names != "" {
		return filepath.SplitList(names)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("skipped: frames of a Python process; python3 is not installed")
	}
	return []string{python}
}

// TestShares: the time since the last look, charged to the function found, is the time that it took.
// How often to look follows the clock, so a busy machine makes fewer looks, and none is at a fixed time.
func TestShares(t *testing.T) {
	for _, python := range pythons(t) {
		cmd := exec.Command(python, "testdata/truth.py", "4")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(out)
		var begin struct {
			Layout Layout
			Thread uint64
			PID    int
		}
		line, err := in.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &begin)
		}
		if err != nil {
			t.Fatalf("%s: %v: %s", python, err, line)
		}
		r := NewReader(begin.PID, &begin.Layout)
		found, looks, torn := map[string]float64{}, 0, 0
		stop := make(chan map[string]float64)
		go func() {
			truth := map[string]float64{}
			_ = json.NewDecoder(in).Decode(&truth)
			stop <- truth
		}()
		var truth map[string]float64
		for last := time.Now(); truth == nil; {
			select {
			case truth = <-stop:
				continue
			case <-time.After(time.Duration((1 + 2*rand.Float64()) * float64(time.Millisecond))):
			}
			stack, err := r.Look(begin.Thread, nil)
			looks++
			if err != nil {
				torn++
				continue
			}
			now := time.Now()
			for i, f := range stack {
				if _, known := map[string]int{"sleeps": 1, "parses": 1, "computes": 1, "yields": 1, "deep": 1, "schläft": 1}[f.Name]; known && strings.HasSuffix(f.File, "truth.py") {
					found[f.Name] += now.Sub(last).Seconds()
					if f.Line == 0 {
						t.Errorf("%s: no line of %s: %v", python, f.Name, stack[:i+1])
					}
					break
				}
			}
			last = now
		}
		_ = cmd.Wait()
		whole := 0.0
		for _, s := range found {
			whole += s
		}
		t.Logf("%s: %d looks, %d torn", python, looks, torn)
		for name, share := range truth {
			t.Logf("%-10s %5.1f %%, found %5.1f %%", name, 100*share, 100*found[name]/whole)
			if math.Abs(share-found[name]/whole) > 0.08 {
				t.Errorf("%s: %s has %.1f %% of the time, found %.1f %%", python, name, 100*share, 100*found[name]/whole)
			}
		}
		if torn > looks/4 {
			t.Errorf("%s: %d of %d looks torn", python, torn, looks)
		}
	}
}
