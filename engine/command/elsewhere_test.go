package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestViewElsewhere: HOST:SESSION is opened by ssh and the gpustall there, with the flags that were given.
func TestViewElsewhere(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Setenv("SHELL", "/bin/sh")
	t.Setenv("HOME", bin)
	if err := os.WriteFile(filepath.Join(bin, ".profile"), []byte("PATH="+bin+":$PATH\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// Like ssh, it makes a shell run what follows the host. The gpustall there prints its arguments.
	ssh := "#!/bin/sh\nshift 2 # its options\n[ $1 != lost ] || exit 255\nshift\nexec sh -c \"$*\"\n"
	far := "#!/bin/sh\nfor i; do echo \"<$i>\"; done\ncase \"$*\" in *bad*) exit 3;; *old*) exit 2;; esac\n"
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte(ssh), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, there string
		code        int
		says        string
	}{
		{"view gpu7:latest", "", 1, "there is no gpustall in the path of gpu7"},
		{"view gpu7:latest", far, 0, "<view>\n<-->\n<latest>\n"},
		{"view --ascii gpu7:", far, 0, "<view>\n<--ascii=true>\n<-->\n<latest>\n"},
		{"view me@gpu7:/runs/it's_one.gpustall", far, 0, "<view>\n<-->\n</runs/it's_one.gpustall>\n"},
		{"view gpu7:bad", far, 3, "the gpustall there could not"},
		{"view gpu7:old", far, 2, "install this version there"},
		{"view lost:latest", far, 1, "ssh could not reach lost"},
		{"view runs/a:b", far, 1, "no such file, and no session of that name"},
	} {
		path := filepath.Join(bin, "gpustall")
		_ = os.Remove(path)
		if c.there != "" {
			if err := os.WriteFile(path, []byte(c.there), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if r := gpustall(t, strings.Fields(c.args)...); r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.says) {
			t.Errorf("%s: exit %d, want %d; %q, want %q", c.args, r.code, c.code, r.stdout+r.stderr, c.says)
		}
	}
}
