package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"dev.gpustall/engine/fault"
)

// explain is what JSON says of an error, beside its sentence.
func explain(err error) *fault.Error {
	f := fault.Explain(fault.Wrap(err, "run", "gpustall", "run it again; gpustall doctor says what this machine has"))
	return &f
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
		Type    string       `json:"type"`
		Status  string       `json:"status"`
		Error   string       `json:"error"`
		Failure *fault.Error `json:"failure"`
		Exit    int          `json:"exit_code"`
		Steps   int          `json:"steps"`
	}{"summary", status, err.Error(), explain(err), exitCode(err), 0})
	if merr != nil {
		return fmt.Errorf("encode the failure as JSON: %w", merr)
	}
	_, merr = w.Write(append(b, '\n'))
	return merr
}
