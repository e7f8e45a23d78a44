package flags

import (
	"testing"

	"github.com/spf13/pflag"
)

// TestBatchNorm: --batch-norm=off leaves batch norms out, and so does the flag's former name.
func TestBatchNorm(t *testing.T) {
	for _, c := range []struct {
		args []string
		out  bool
	}{
		{nil, false}, {[]string{"--batch-norm=off"}, true}, {[]string{"--batch-norm"}, false}, {[]string{"--batch-norm=false"}, true},
		{[]string{"--no-batch-norm"}, true}, {[]string{"--no-batch-norm=off"}, false},
	} {
		var m Model
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		m.Add(fs)
		if err := fs.Parse(c.args); err != nil || bool(m.NoBatchNorm) != c.out {
			t.Errorf("%v: %v, %v", c.args, m.NoBatchNorm, err)
		}
		if got := fs.Lookup(BatchNorm).Value.String(); got != map[bool]string{true: "off", false: "on"}[c.out] {
			t.Errorf("%v: --batch-norm is %q", c.args, got)
		}
		for _, s := range m.Settings() {
			if got := "--" + Name(s.Name) + "=" + s.FlagValue(); got != "--batch-norm=off" {
				t.Errorf("%v: %q is the flag of %v", c.args, got, s)
			}
		}
	}
	var m Model
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	m.Add(fs)
	if err := fs.Parse([]string{"--batch-norm=perhaps"}); err == nil {
		t.Error("--batch-norm=perhaps is taken")
	}
}
