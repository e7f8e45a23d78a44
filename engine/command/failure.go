package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// failure takes an error apart for those who read JSON. The sentence itself is
// kept beside it.
type failure struct {
	Operation string `json:"operation"` // what was being done
	Object    string `json:"object"`    // with what
	Reason    string `json:"reason"`
	Mend      string `json:"mend"` // what to do about it
}

// stageError knows what was being done when an error came. Its text is the
// error's own.
type stageError struct {
	error
	operation, object, mend string
}

func (e stageError) Unwrap() error { return e.error }

// during marks err, if it is one; mend is for errors that name none.
func during(operation, object, mend string, err error) error {
	if err == nil {
		return nil
	}
	return stageError{err, operation, object, mend}
}

// explain takes an error apart. Errors read "operation object: reason; mend", or
// end in ": mend"; what one leaves out, its stage knows.
func explain(err error) failure {
	var stage stageError
	var wrong usageError
	f := failure{Reason: strings.TrimSpace(err.Error())}
	switch {
	case errors.As(err, &wrong):
		f.Operation, f.Object, f.Mend = "read the flags", "gpustall run", "gpustall run --help lists the flags and what they take"
		if flag, _, ok := strings.Cut(f.Reason, ": "); ok && strings.HasPrefix(flag, "--") {
			f.Object = flag
		}
	case errors.As(err, &stage):
		f.Operation, f.Object, f.Mend = stage.operation, stage.object, stage.mend
	default:
		f.Operation, f.Object, f.Mend = "run", "gpustall", "run it again; gpustall doctor says what this machine has"
	}
	for _, head := range []string{f.Operation + " " + f.Object, f.Object} {
		f.Reason = strings.TrimPrefix(f.Reason, head+": ")
	}
	if reason, mend := cutMend(f.Reason); mend != "" {
		f.Reason, f.Mend = reason, mend
	}
	return f
}

// mends are the words that a way out begins with.
var mends = regexp.MustCompile(`^(or )?(ask|build|check|choose|close|free|give|install|lower|make|name|raise|restore|run|set|start|turn|unset|upgrade|use|wait|write) `)

// clause ends in ": " or "; ", or with the sentence.
var clause = regexp.MustCompile(`.+?(: |; |$)`)

// cutMend finds the last clauses of a sentence that say what to do. What follows
// them is the cause that the error wraps.
func cutMend(text string) (reason, mend string) {
	parts := clause.FindAllStringIndex(text, -1)
	from, to := -1, -1
	for i := len(parts) - 1; i > 0; i-- {
		if mends.MatchString(text[parts[i][0]:parts[i][1]]) {
			from = parts[i][0]
			if to < 0 {
				to = parts[i][1]
			}
		} else if from >= 0 {
			break
		}
	}
	if from < 0 {
		return text, ""
	}
	trim := func(s string) string { return strings.TrimRight(s, ":; ") }
	return trim(text[:from]), trim(text[from:to])
}

// summarised says that a summary which tells of the error was printed.
type summarised struct{ error }

func (e summarised) Unwrap() error { return e.error }

// asksJSON reports whether the command line is a run's with --json, be the rest
// of it right or not.
func asksJSON(command string, args []string) bool {
	return command == "run" && (slices.Contains(args, "--json") || slices.Contains(args, "--json=true"))
}

// summariseFailure ends the output of a run that did not come to its summary.
func summariseFailure(w io.Writer, err error) error {
	status := "failed"
	if errors.As(err, new(signalError)) {
		status = "stopped"
	}
	b, merr := json.Marshal(struct {
		Type    string  `json:"type"`
		Status  string  `json:"status"`
		Error   string  `json:"error"`
		Failure failure `json:"failure"`
		Exit    int     `json:"exit_code"`
		Steps   int     `json:"steps"`
	}{"summary", status, err.Error(), explain(err), exitCode(err), 0})
	if merr != nil {
		return fmt.Errorf("encode the failure as JSON: %w", merr)
	}
	_, merr = w.Write(append(b, '\n'))
	return merr
}
