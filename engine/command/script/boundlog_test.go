//go:build linux

package script

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBoundLog: of a log beyond its bounds, the beginning and the end stay. The space between
// them is given back while the script still writes.
func TestBoundLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	line := []byte(strings.Repeat("a", 1023) + "\n")
	const lines = (logHead + logTail + 16<<20) / 1024
	if _, err := log.Write(bytes.Repeat(line, lines)); err != nil {
		t.Fatal(err)
	}
	from := punch(log, logHead)
	if from == logHead {
		t.Skip("the folder for temporary files cannot give back a part of a file")
	}
	var s unix.Stat_t
	if err := unix.Fstat(int(log.Fd()), &s); err != nil {
		t.Fatal(err)
	}
	if most := int64(logHead + logTail + 1<<20); s.Blocks*512 > most {
		t.Errorf("%d bytes are taken, of at most %d", s.Blocks*512, most)
	}
	if _, err := log.WriteString("the end\n"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	close(ended)
	BoundLog(log, ended)() // which begins anew, at the head
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(text, line) || !bytes.HasSuffix(text, []byte("a\nthe end\n")) {
		t.Errorf("the log begins with %q and ends with %q", text[:40], text[len(text)-40:])
	}
}

// TestBoundLogClosesUp: at the end the file does not have what was given back, and says how much
// that was.
func TestBoundLogClosesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Write(bytes.Repeat([]byte("b"), 3*logHead)); err != nil {
		t.Fatal(err)
	}
	closeUp(log, 2*logHead)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 2*logHead+200 || !bytes.Contains(text, []byte("gpustall left out 1048576 bytes here")) {
		t.Errorf("%d bytes", len(text))
	}
	closeUp(log, logHead) // nothing was given back
	if again, _ := os.ReadFile(path); !bytes.Equal(again, text) {
		t.Error("a log that is whole was changed")
	}
}

// TestReserve: the space that is set aside is not part of the log, and is given back at its end. The same
// holds for a log in memory.
func TestReserve(t *testing.T) {
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := LogInMemory()
	if err != nil {
		t.Fatal(err)
	}
	if IsInMemory(file) || !IsInMemory(memory) {
		t.Error("which of them is in memory is not known")
	}
	taken := func(log *os.File) int64 {
		var s unix.Stat_t
		if err := unix.Fstat(int(log.Fd()), &s); err != nil {
			t.Fatal(err)
		}
		return s.Blocks * 512
	}
	for _, log := range []*os.File{file, memory} {
		defer log.Close()
		if err := Reserve(log); err != nil {
			t.Fatal(err)
		}
		if taken(log) < logNext {
			t.Skip("the folder for temporary files sets nothing aside")
		}
		if _, err := log.WriteString("a line\n"); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		close(ended)
		BoundLog(log, ended)()
		if text, err := os.ReadFile(log.Name()); err != nil || string(text) != "a line\n" {
			t.Errorf("%q, %v", text, err)
		}
		if taken(log) > logHead {
			t.Errorf("%d bytes are taken by a line", taken(log))
		}
	}
}
