// Command results reads what "go test -json" prints, shows each package's result and
// what failed, and adds a line to a file for each test that was skipped. Parts of one test that
// were skipped for one reason share a line:
//
//	go test -json ./... | go run ./.ci/results SKIPPED
//
// Lines that are not of go test are shown as they are.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// event is a line of "go test -json" (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

func main() {
	skipped, err := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	printed := map[[2]string][]string{} // by package and test
	parts := map[string]int{}           // skipped parts of a test, by the line that says so
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil || e.Action == "" {
			fmt.Println(in.Text())
			continue
		}
		name := strings.TrimPrefix(e.Package, "dev.gpustall/")
		test := [2]string{e.Package, e.Test}
		switch e.Action {
		case "build-output":
			fmt.Print(e.Output)
		case "output":
			printed[test] = append(printed[test], e.Output)
		case "skip":
			if top, _, part := strings.Cut(e.Test, "/"); part {
				parts[fmt.Sprintf("%s %s: %s", name, top, reason(printed[test]))]++
			} else if e.Test != "" {
				fmt.Fprintf(skipped, "%s %s: %s\n", name, e.Test, reason(printed[test]))
			}
			delete(printed, test)
		case "fail":
			fmt.Print(strings.Join(printed[test], ""))
			delete(printed, test)
		case "pass":
			for _, line := range printed[test] {
				if e.Test == "" && strings.HasPrefix(line, "ok") {
					fmt.Print(line)
				}
			}
			delete(printed, test)
		}
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "read the output of go test:", err)
		os.Exit(2)
	}
	for line, n := range parts {
		fmt.Fprintf(skipped, "%s (%d parts)\n", line, n)
	}
	if err := skipped.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

var place = regexp.MustCompile(`^\s+\w+\.go:\d+: `)

// reason returns what a skipped test said last.
func reason(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		if at := place.FindString(lines[i]); at != "" {
			said := lines[i][len(at):] + strings.Join(lines[i+1:], "")
			said, _, _ = strings.Cut(said, "--- SKIP")
			return strings.Join(strings.Fields(said), " ")
		}
	}
	return "no reason given"
}
