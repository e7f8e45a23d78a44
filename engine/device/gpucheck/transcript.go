package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// transcript is the output of a part's processes. Where a part failed, it is written beside the JSON
// file: a GPU is often lent for minutes, and the cause must be found later.
type transcript struct{ strings.Builder }

// outputBytes is how much of the end of a process's standard output is kept.
const outputBytes = 512 << 10

func (t *transcript) add(name string, args []string, out, said []byte, err error) {
	if n := len(out) - outputBytes; n > 0 {
		out = out[n:]
	}
	fmt.Fprintf(t, "$ %s %s\n%s", name, strings.Join(args, " "), out)
	if len(said) > 0 {
		fmt.Fprintf(t, "--- standard error\n%s\n", said)
	}
	if err != nil {
		fmt.Fprintf(t, "--- %v\n", err)
	}
}

// beside returns the path of a file in the JSON file's folder, named after the JSON file.
func (c *check) beside(name string) string {
	return strings.TrimSuffix(c.file, filepath.Ext(c.file)) + "-" + name
}

// keepTranscript writes a part's transcript and returns the file's name.
func (c *check) keepTranscript(part string) string {
	if c.transcript.Len() == 0 {
		return ""
	}
	name := c.beside(part + ".log")
	if os.MkdirAll(filepath.Dir(name), 0o755) != nil || os.WriteFile(name, []byte(c.transcript.String()), 0o644) != nil {
		return "" // the JSON file has the reason in short
	}
	return filepath.Base(name)
}

// sessionBytes is the largest session file that is kept.
const sessionBytes = 16 << 20

// keepSession copies a run's session beside the JSON file, for gpustall view and
// report.
func (c *check) keepSession(path, name string) string {
	b, err := os.ReadFile(path)
	if err != nil || len(b) > sessionBytes {
		return ""
	}
	kept := c.beside(name + ".gpustall")
	if os.WriteFile(kept, b, 0o644) != nil {
		return "" // the summary is in the JSON file
	}
	return filepath.Base(kept)
}
