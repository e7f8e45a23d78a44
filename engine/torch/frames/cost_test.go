//go:build linux

package frames

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"testing"
)

func BenchmarkLook(b *testing.B) {
	python, err := exec.LookPath("python3")
	if err != nil {
		b.Skip("skipped: python3 is not installed")
	}
	cmd := exec.Command(python, "testdata/truth.py", "3600")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var begin struct {
		Layout Layout
		Thread uint64
		PID    int
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &begin)
	}
	if err != nil {
		b.Fatal(err)
	}
	r := NewReader(begin.PID, &begin.Layout)
	var stack []Frame
	depth := 0
	for b.Loop() {
		stack, _ = r.Look(begin.Thread, stack[:0])
		depth += len(stack)
	}
	b.ReportMetric(float64(depth)/float64(b.N), "frames/op")
}
