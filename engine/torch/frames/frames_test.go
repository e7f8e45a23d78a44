//go:build linux

package frames

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// pythons are the interpreters to read: those that GPUSTALL_PYTHONS names, else python3.
func pythons(t testing.TB) []string {
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

// truth is what testdata/truth.py tells before it works.
type truth struct {
	Layout Layout
	Thread uint64
	PID    int
	TID    int
	Free   bool // of a GIL
}

// start runs a script of testdata for so many seconds, or until the test ends. The rest of its output says
// how the time of its work divided.
func start(t testing.TB, python, script, seconds string) (begin truth, in *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(python, "testdata/"+script, seconds)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	in = bufio.NewReader(out)
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &begin)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", python, err, line)
	}
	return begin, in
}

// TestTornAddress: an address out of a torn frame is an error wherever it points, also after a good one.
func TestTornAddress(t *testing.T) {
	good := make([]byte, 3*pageSize)
	at := uint64(uintptr(unsafe.Pointer(&good[2*pageSize])))
	w := window{before: 1}
	for _, bad := range []uint64{0, 1, pageSize - 1, 1 << 47, 1 << 63, math.MaxUint64 - pageSize, math.MaxUint64 - 100, math.MaxUint64} {
		if got, err := w.at(os.Getpid(), at, 88); err != nil || !bytes.Equal(got, good[:88]) {
			t.Fatalf("%#x: %v", at, err)
		}
		if _, err := w.at(os.Getpid(), bad, 88); err == nil {
			t.Errorf("%#x is read", bad)
		}
	}
}

// longestGap is how long it takes at most, in seconds, from one look to the next where nothing holds the test up.
const longestGap = 0.004

// TestShares: charging the time since the last look to the function found gives the time that the
// function took. Looks follow the clock, so a busy machine makes fewer looks, and none is at a fixed
// time.
func TestShares(t *testing.T) {
	for _, python := range pythons(t) {
		begin, in := start(t, python, "truth.py", "4")
		r := NewReader(begin.PID, &begin.Layout)
		found, looks, torn, late := map[string]float64{}, 0, 0, 0.0
		stop := make(chan map[string]float64)
		go func() {
			shares := map[string]float64{}
			_ = json.NewDecoder(in).Decode(&shares)
			stop <- shares
		}()
		var shares map[string]float64
		for last := time.Now(); shares == nil; {
			select {
			case shares = <-stop:
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
			if i := slices.IndexFunc(stack, func(f Frame) bool {
				return strings.HasPrefix(f.File, "<") && f.Name != "<module>" && !strings.HasPrefix(f.File, "<frozen ")
			}); i >= 0 {
				t.Fatalf("%s: a frame that is no function of Python: %+v", python, stack[i])
			}
			for i, f := range stack {
				if _, known := map[string]int{"sleeps": 1, "parses": 1, "computes": 1, "yields": 1, "deep": 1, "schläft": 1}[f.Name]; known && strings.HasSuffix(f.File, "truth.py") {
					found[f.Name] += now.Sub(last).Seconds()
					if f.Line == 0 {
						t.Errorf("%s: no line of %s: %v", python, f.Name, stack[:i+1])
					}
					break
				}
			}
			late += max(0, now.Sub(last).Seconds()-longestGap)
			last = now
		}
		whole := 0.0
		for _, s := range found {
			whole += s
		}
		most := 0.08 + late/whole // a late look tells nothing of the time before it
		t.Logf("%s: %d looks, %d torn; shares may be %.1f %% off", python, looks, torn, 100*most)
		for name, share := range shares {
			t.Logf("%-10s %5.1f %%, found %5.1f %%", name, 100*share, 100*found[name]/whole)
			if math.Abs(share-found[name]/whole) > most {
				t.Errorf("%s: %s has %.1f %% of the time, found %.1f %%", python, name, 100*share, 100*found[name]/whole)
			}
		}
		if torn > looks/4 {
			t.Errorf("%s: %d of %d looks torn", python, torn, looks)
		}
	}
}

// TestIn: what one process tells serves for another one of the same interpreter.
func TestIn(t *testing.T) {
	python := pythons(t)[0]
	one, _ := start(t, python, "truth.py", "3600")
	two, _ := start(t, python, "truth.py", "3600")
	r := NewReader(two.PID, one.Layout.In(two.Layout.CodeType))
	for range 100 {
		stack, err := r.Look(two.Thread, nil)
		if err == nil && slices.ContainsFunc(stack, func(f Frame) bool { return f.Name == "<module>" && strings.HasSuffix(f.File, "truth.py") && f.Line > 0 }) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the other process's frames are not found")
}

// TestHolder: a thread that waits for the GIL is seen to wait, and the one that holds it is found with the line that
// called the C code.
func TestHolder(t *testing.T) {
	for _, python := range pythons(t) {
		begin, in := start(t, python, "holds.py", "1.5")
		if begin.Free {
			t.Logf("%s: it has no GIL", python)
			continue
		}
		if begin.Layout.GIL == 0 {
			t.Errorf("%s: the GIL is not found", python)
			continue
		}
		r, looks, waits := NewReader(begin.PID, &begin.Layout), 0, 0
		var whole, waited time.Duration
		spent := NewSpent(begin.PID, begin.TID)
		stop := make(chan float64)
		go func() {
			truth := struct{ Waits float64 }{-1}
			_ = json.NewDecoder(in).Decode(&truth)
			stop <- truth.Waits
		}()
		lines := map[int]int{}
		for truth := 0.0; truth == 0; {
			select {
			case truth = <-stop:
				if found := float64(waited) / float64(whole); math.Abs(found-truth) > 0.1 {
					t.Errorf("%s: it waits %.1f %% of the time, found %.1f %%", python, 100*truth, 100*found)
				} else {
					t.Logf("%s: it waits %.1f %% of the time, found %.1f %% by %d looks", python, 100*truth, 100*found, looks)
				}
				continue
			case <-time.After(time.Duration((1 + 2*rand.Float64()) * float64(time.Millisecond))):
			}
			looks++
			took, futex := spent.Look()
			whole += took
			holder, is := r.Waits(begin.Thread, futex)
			if !is {
				continue
			}
			waits++
			waited += took
			if holder != 0 && begin.Layout.Form == "locations" &&
				!slices.ContainsFunc(r.Others(begin.Thread), func(o Thread) bool {
					_, runs := Active(begin.PID, o.TID)
					return o.State == holder && runs > 0
				}) {
				t.Errorf("%s: the thread that holds the GIL is not among the others, %v", python, r.Others(begin.Thread))
			}
			if stack, err := r.Look(holder, nil); err == nil && len(stack) > 0 && stack[0].Name == "holds" {
				lines[stack[0].Line]++
			}
		}
		if n := lines[holdsAt]; 10*n < 9*waits {
			t.Errorf("%s: of %d waits the thread that holds the GIL is at line %d in %d: %v", python, waits, holdsAt, n, lines)
		}
	}
}

// holdsAt is the line of testdata/holds.py that holds the GIL.
const holdsAt = 24

func BenchmarkSpent(b *testing.B) {
	begin, _ := start(b, pythons(b)[0], "holds.py", "3600")
	s := NewSpent(begin.PID, begin.TID)
	for b.Loop() {
		s.Look()
	}
}

func BenchmarkLook(b *testing.B) {
	begin, _ := start(b, pythons(b)[0], "truth.py", "3600")
	r, depth := NewReader(begin.PID, &begin.Layout), 0
	var stack []Frame
	for b.Loop() {
		stack, _ = r.Look(begin.Thread, stack[:0])
		depth += len(stack)
	}
	b.ReportMetric(float64(depth)/float64(b.N), "frames/op")
}
