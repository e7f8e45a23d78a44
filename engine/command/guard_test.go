package command

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/trace/store"
)

var (
	update  = flag.Bool("update", false, "write the goldens of testdata/sessions")
	another = flag.String("gpustall", "", "a gpustall to check against the goldens of testdata/sessions, instead of the one built here")
)

// recorded is the folder of the sessions. Its record.sh says how each was made.
const recorded = "../../testdata/sessions"

// guarded are the sessions. The file of damaged was changed as a failing disk might
// change it.
var guarded = []string{
	"plain", "stragglers", "out-of-memory", "capture", "killed",
	"full-disk", "ceiling", "injected", "diverged", "damaged",
}

// wholeGolden is the size in bytes from which a golden is kept compressed.
const wholeGolden = 200_000

// TestGuard: what the command line says of sessions that an earlier gpustall recorded stays the
// same, byte for byte.
func TestGuard(t *testing.T) {
	state := t.TempDir()
	dir := filepath.Join(state, "gpustall", "sessions")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unpackSessions(t, dir)
	run := func(t *testing.T, args ...string) (stdout, stderr []byte) {
		t.Helper()
		cmd := exec.Command(cmp.Or(*another, binary), args...)
		cmd.Dir = dir // so that reports name the file alone
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
		var out, errb bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errb
		if err := cmd.Run(); err != nil {
			t.Fatalf("gpustall %s: %v\n%s", strings.Join(args, " "), err, errb.Bytes())
		}
		return out.Bytes(), errb.Bytes()
	}
	list, _ := run(t, "sessions")
	checkGolden(t, "sessions.txt", list)
	for _, name := range guarded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := name + store.Ext
			markdown, complaints := run(t, "report", file)
			checkGolden(t, name+".md", markdown)
			for line := range strings.Lines(string(markdown)) {
				if n := utf8.RuneCountInString(strings.TrimSpace(line)); strings.HasPrefix(line, "|") && n > 100 {
					t.Errorf("a row of a table is %d columns wide: %s", n, line)
				}
			}
			checkGolden(t, name+".stderr", complaints)
			if replayed, _ := run(t, "replay", file); !bytes.Equal(replayed, markdown) {
				t.Errorf("replay and report differ: %s", firstDifference(markdown, replayed))
			}
			steps, _ := run(t, "report", file, "--format", "csv")
			checkGolden(t, name+".csv", steps)
			ops, _ := run(t, "report", file, "--format", "csv", "--table", "ops")
			checkGolden(t, name+".ops.csv", ops)
			chrome, _ := run(t, "report", file, "--format", "chrome")
			checkGolden(t, name+".trace.json", chrome)
			checkGolden(t, name+".json", summaryJSON(t, filepath.Join(dir, file)))
		})
	}
}

// summaryJSON returns the summary of run --json, as far as the session tells it, with one value a
// line.
func summaryJSON(t *testing.T, path string) []byte {
	t.Helper()
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(summary.Of(all(s), filepath.Base(path)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", " "); err != nil {
		t.Fatal(err)
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// unpackSessions unpacks the sessions into dir. All get the same time of change, so that they are
// listed by name.
func unpackSessions(t *testing.T, dir string) {
	t.Helper()
	packed, err := filepath.Glob(filepath.Join(recorded, "*.gz"))
	if err != nil || len(packed) < len(guarded) {
		t.Fatalf("%d files in %s, of %d sessions: %v", len(packed), recorded, len(guarded), err)
	}
	for _, from := range packed {
		b, err := readGzip(from)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, strings.TrimSuffix(filepath.Base(from), ".gz"))
		if err := os.WriteFile(to, b, 0o644); err != nil {
			t.Fatal(err)
		}
		when := time.Unix(1_700_000_000, 0)
		if err := os.Chtimes(to, when, when); err != nil {
			t.Fatal(err)
		}
	}
}

// checkGolden compares with the golden of that name, or writes it with -update. A large golden is
// kept compressed. An empty one has no file.
func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join(recorded, "golden", name)
	if *update {
		if err := writeGolden(path, got); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		want, err = readGzip(path + ".gz")
	}
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && len(got) == 0) {
		t.Fatalf("%v; go test ./engine/command -run TestGuard -update writes it", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs: %s", name, firstDifference(want, got))
	}
}

func writeGolden(path string, b []byte) error {
	for _, old := range []string{path, path + ".gz"} {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	switch {
	case len(b) == 0:
		return nil
	case len(b) <= wholeGolden:
		return os.WriteFile(path, b, 0o644)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path+".gz", packed.Bytes(), 0o644)
}

func readGzip(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", path, err)
	}
	return io.ReadAll(r)
}

// firstDifference shows the lines that differ, between the common beginning and end of the two
// texts. It is a short unified diff.
func firstDifference(want, got []byte) string {
	const most, widest = 8, 240
	a, b := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	endA, endB := len(a), len(b)
	for endA > same && endB > same && a[endA-1] == b[endB-1] {
		endA, endB = endA-1, endB-1
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d lines became %d\n@@ -%d,%d +%d,%d @@\n", endA-same, endB-same, same+1, endA-same, same+1, endB-same)
	show := func(sign string, lines []string) {
		for i, l := range lines {
			if i == most {
				fmt.Fprintf(&out, "%s… and %d more\n", sign, len(lines)-most)
				break
			}
			if len(l) > widest {
				l = l[:widest] + "…"
			}
			out.WriteString(sign + l + "\n")
		}
	}
	if same > 0 {
		show(" ", a[same-1:same])
	}
	show("-", a[same:endA])
	show("+", b[same:endB])
	return out.String()
}
