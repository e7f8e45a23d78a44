package command

import (
	"strings"
	"testing"
)

// TestStraggler: a slow batch is blamed for head-of-line waits with in_order, and only then. It
// is so slow that no load on the machine hides it.
func TestStraggler(t *testing.T) {
	t.Parallel()
	data := tiny(t)
	for _, c := range []struct {
		name, flags string
		blamed      bool
	}{
		{"in order", "--num-workers=4 --inject=straggler=3:500ms", true},
		{"out of order", "--num-workers=4 --inject=straggler=3:500ms --in-order=off", false},
		{"alone", "--num-workers=1 --inject=straggler=1:100ms", false},
		{"none", "--num-workers=4", false},
	} {
		args := append(strings.Fields("run --device emu:h100 --batch-size 16 --steps 40 --data "+data), strings.Fields(c.flags)...)
		r := gpustall(t, args...)
		if r.code != 0 {
			t.Fatalf("%s: %s", c.name, r.stderr)
		}
		advised := strings.Contains(r.stdout, "try in_order on -> off")
		named := strings.Contains(r.stdout, "worker w2 had ") && strings.Contains(r.stdout, "mostly in read")
		if advised != c.blamed || named != c.blamed {
			t.Errorf("%s: in_order off is advised %v, worker w2 is named %v:\n%s", c.name, advised, named, r.stdout)
		}
	}
}
