package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// testCounts counts a test binary's tests, those without subtests alone.
type testCounts struct {
	Passed  int               `json:"passed"`
	Failed  map[string]string `json:"failed,omitempty"`  // name: what it said first
	Skipped map[string]string `json:"skipped,omitempty"` // name: why
}

// tests returns a part that runs a test binary of the bundle against the driver. Without a driver
// the part fails; it is not skipped.
func tests(name string, limit time.Duration, binary string, args ...string) part {
	return part{name, limit, func(ctx context.Context, c *check) (any, error) {
		args := slices.Clone(args)
		if left := remaining(ctx); left > 4*time.Second {
			// With a timeout of its own the binary says which test hangs.
			args = append(args, fmt.Sprintf("-test.timeout=%s", (left-2*time.Second).Round(time.Second)))
		}
		args = append(args, "-test.v")
		if c.quick {
			args = append(args, "-test.short")
		}
		out, err := c.process(ctx, binary, args...)
		n := parseTests(out)
		var s skip
		switch {
		case errors.As(err, &s):
			return nil, err
		case len(n.Failed) > 0:
			return n, fmt.Errorf("%d of %d tests failed; %s", len(n.Failed), n.Passed+len(n.Failed), firstOf(n.Failed))
		case err != nil:
			if bytes.Contains(out, []byte("panic: test timed out")) || strings.Contains(err.Error(), "test timed out") {
				err = fmt.Errorf("%w: %w", err, context.DeadlineExceeded)
			}
			return n, fmt.Errorf("after %d tests passed: %w", n.Passed, err)
		case n.Passed == 0 && len(n.Skipped) > 0:
			return n, skip(firstOf(n.Skipped))
		case n.Passed == 0:
			return n, errors.New("no test ran")
		}
		return n, nil
	}}
}

// parseTests reads the output of a test binary run with -test.v.
func parseTests(out []byte) testCounts {
	n := testCounts{Failed: map[string]string{}, Skipped: map[string]string{}}
	passed := map[string]bool{}
	said := map[string]string{} // by the test that was running
	var running string
	for _, line := range bytes.Split(out, []byte("\n")) {
		text := strings.TrimSpace(string(line))
		for _, mark := range []string{"=== RUN ", "=== CONT ", "=== NAME "} {
			if rest, ok := strings.CutPrefix(text, mark); ok {
				running, text = strings.TrimSpace(rest), ""
			}
		}
		verdict, rest, ok := strings.Cut(strings.TrimPrefix(text, "--- "), ": ")
		if !strings.HasPrefix(text, "--- ") || !ok {
			if running != "" && said[running] == "" && strings.Contains(text, ".go:") {
				said[running] = text
			}
			continue
		}
		name := rest
		if i := strings.LastIndex(rest, " ("); i >= 0 {
			name = rest[:i]
		}
		switch verdict {
		case "PASS":
			passed[name] = true
		case "FAIL":
			n.Failed[name] = said[name]
		case "SKIP":
			n.Skipped[name] = said[name]
		}
	}
	// Of a test with subtests only the subtests count.
	parents := map[string]bool{}
	for _, names := range []map[string]string{n.Failed, n.Skipped} {
		for name := range names {
			ancestors(name, parents)
		}
	}
	for name := range passed {
		ancestors(name, parents)
	}
	for name := range parents {
		delete(passed, name)
		if n.Failed[name] == "" { // a parent that failed by itself has said so
			delete(n.Failed, name)
		}
	}
	n.Passed = len(passed)
	return n
}

// firstOf returns the value of the first key.
func firstOf(m map[string]string) string {
	keys := slices.Sorted(maps.Keys(m))
	return keys[0] + ": " + m[keys[0]]
}

func ancestors(name string, into map[string]bool) {
	for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
		into[name[:i]] = true
	}
}
