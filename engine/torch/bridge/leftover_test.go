//go:build linux

package bridge

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestLeftoversInMemory: rings in memory are found and removed even if the bridge's other
// folder is gone.
func TestLeftoversInMemory(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		runs       bool // gpustall does
		stays      bool
	}{
		{name: "the training has ended", file: "ring-" + strconv.Itoa(ended.Process.Pid) + "-1"},
		{name: "it runs", file: "ring-" + strconv.Itoa(os.Getpid()) + "-1", stays: true},
		{name: "gpustall runs", file: "ring-" + strconv.Itoa(ended.Process.Pid) + "-1", runs: true, stays: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := t.TempDir()
			gone, shared := filepath.Join(t.TempDir(), folders+"1"), filepath.Join(parent, folders+"2")
			for _, d := range []string{gone, shared} {
				if err := os.Mkdir(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			held := lock(gone, shared)
			defer held.Close()
			if err := os.RemoveAll(gone); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(shared, c.file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if !c.runs {
				_ = held.Close()
			}
			removeLeftovers(parent)
			if _, err := os.Stat(shared); (err == nil) != c.stays {
				t.Error(err)
			}
		})
	}
}

// TestLeftovers: what a killed gpustall left is removed once its training has ended, and nothing
// else is.
func TestLeftovers(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(ended.Process.Pid)
	zombie := exec.Command("true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = zombie.Wait() })
	for end := time.Now().Add(10 * time.Second); lives(zombie.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not end")
		}
	}
	for _, c := range []struct {
		name, file    string
		locked, stays bool
		age           time.Duration
	}{
		{name: "its processes have ended", file: "ring-" + pid + "-1"},
		{name: "so has one that was beginning", file: "part-ring-" + pid + "-1"},
		{name: "one told something", file: "messages-" + pid},
		{name: "nobody waited for it", file: "ring-" + strconv.Itoa(zombie.Process.Pid) + "-1"},
		{name: "a process runs", file: "messages-" + strconv.Itoa(os.Getpid()), stays: true},
		{name: "gpustall runs", file: "ring-" + pid + "-1", locked: true, stays: true},
		{name: "nothing was written yet", file: "control", stays: true},
		{name: "nothing was written for long", file: "control", age: 2 * unused},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := t.TempDir()
			dir, shared := filepath.Join(parent, folders+"1"), filepath.Join(parent, folders+"1", rings)
			for _, d := range []string{dir, shared} {
				if err := os.MkdirAll(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(shared, c.file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := own(dir, shared)
			if err != nil {
				t.Fatal(err)
			}
			if !c.locked {
				f.Close()
			} else {
				defer f.Close()
			}
			then := time.Now().Add(-c.age)
			if err := os.Chtimes(f.Name(), then, then); err != nil {
				t.Fatal(err)
			}
			for _, elsewhere := range []string{"other", folders + "other"} { // an owner may say what it likes
				other := filepath.Join(parent, elsewhere)
				says := filepath.Join(parent, folders+"x"+elsewhere)
				for _, d := range []string{other, says} {
					if err := os.Mkdir(d, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.WriteFile(filepath.Join(other, "ring-"+pid+"-1"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if f, err := own(says, other); err == nil {
					f.Close()
				}
				defer func() {
					if _, err := os.Stat(other); err != nil {
						t.Errorf("%s: %v", other, err)
					}
				}()
			}
			removeLeftovers(parent)
			for _, d := range []string{dir, shared} {
				if _, err := os.Stat(d); (err == nil) != c.stays {
					t.Errorf("%s: %v", d, err)
				}
			}
		})
	}
}
