//go:build linux

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/torch/bridge"
)

// TestUnwatched: where no loop was seen it is said why, and what would show one.
func TestUnwatched(t *testing.T) {
	b, err := bridge.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	folder := ""
	for _, s := range b.Environ(nil) {
		if dir, ok := strings.CutPrefix(s, bridge.Variable+"="); ok {
			folder = dir
		}
	}
	r := &torchRun{bridge: b, script: &script{done: make(chan struct{})}}
	for _, c := range []struct{ file, says string }{
		{"", "PyTorch was imported by no process that could be watched (a Python run with -I"},
		{"imported", "took no batch from torch.utils.data.DataLoader"},
		{"messages-1", "no batch was loaded for training"},
	} {
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(folder, c.file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := r.unwatched()
		if !strings.Contains(got, c.says) || strings.Contains(got, "gpustall.watch(") != (c.file != "") {
			t.Errorf("with %q it says %q, not %q", c.file, got, c.says)
		}
	}
	r.script.why = scriptError{name: "python", code: 1}
	close(r.script.done)
	if got := r.unwatched(); strings.Contains(got, "gpustall.watch(") {
		t.Errorf("of a script that failed it says %q", got)
	}
}
