package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

func newMCP(version string) *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve sessions to a coding agent, by the Model Context Protocol",
		Long: `Serve the Model Context Protocol on standard input and output, for a coding agent
on this machine. Its tools list sessions, and give a session's verdict, lines
and advice as JSON, its report, and a comparison of two. One tool acts:
try_setting has a live run test settings, and keeps them if they are faster.`,
		Example: `  claude mcp add gpustall -- gpustall mcp  # or in the agent's own list of servers
  gpustall mcp`,
		Args: flags.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, got, stop := cli.UntilSignal(cmd.Context(), func() {})
			defer stop()
			err := newAgentServer(version).Run(ctx, &mcp.StdioTransport{})
			if s := got(); s != nil {
				return s
			}
			return errs.Wrap(err, "serve", "an agent", "see what it sent")
		},
	}
}

// These are the arguments of the tools.
type (
	nothing struct{}
	one     struct {
		Session string `json:"session" jsonschema:"a file, a name that the tool sessions lists, or latest"`
	}
	two struct {
		A string `json:"a" jsonschema:"a session as in the tool summary; :A or :#2 behind it names a segment"`
		B string `json:"b" jsonschema:"the session that is compared with a"`
	}
	trying struct {
		Session  string         `json:"session" jsonschema:"a session that the tool sessions lists as running, or latest"`
		Settings map[string]any `json:"settings" jsonschema:"the knobs to try together, by name, as num_workers: 8 or pin_memory: on; the summary's advice names some, and a wrong name is answered with all"`
	}
)

// agentGuide tells an agent how to begin.
const agentGuide = `gpustall records what a PyTorch training's accelerator waits for. Begin with summary of latest: verdict_text says what
holds the training up, advice what to change, lines which code. On a running training try_setting proves a change of the DataLoader and keeps it only if it is
faster. What no setting mends is in the lines. Numbers without an interval prove nothing.`

// newAgentServer returns the server with its tools.
func newAgentServer(version string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "gpustall", Title: "gpustall", Version: version}, &mcp.ServerOptions{Instructions: agentGuide})
	tool(s, "sessions", "List the recorded trainings, the newest first: name, when, status (running: it goes on), length, verdict, the device's utilisation.", true, func(_ context.Context, _ nothing, w io.Writer) error {
		list, err := store.Digests(cli.SessionDir())
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return cli.Say(w, "no sessions in %s: gpustall torch -- COMMAND records one\n", cli.SessionDir())
		}
		return listSessions(w, list)
	})
	tool(s, "summary", "One training as JSON: verdict, what the device waited for by cause and by line of code, what to do next, "+
		"the settings so far and their rates. Of a running one it is as of now.", true, func(_ context.Context, in one, w io.Writer) error {
		session, path, err := openNamed(in.Session)
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(summary.Of(session, path))
	})
	tool(s, "report", "The report on one training as markdown, for people, with evidence and caveats. Longer than the summary.", true, func(_ context.Context, in one, w io.Writer) error {
		session, path, err := openNamed(in.Session)
		if err != nil {
			return err
		}
		return report.Markdown(w, session, report.Options{Session: path})
	})
	tool(s, "compare", "What differs between two trainings, or two segments of one (a stretch with the same settings), with 95 % intervals.", true, func(_ context.Context, in two, w io.Writer) error {
		a, err := openSide(in.A)
		if err != nil {
			return err
		}
		b, err := openSide(in.B)
		if err != nil {
			return err
		}
		c, err := report.Compare(a, b)
		if err != nil {
			return err
		}
		return c.Markdown(w)
	})
	tool(s, "try_setting", "Change a running training: its DataLoader takes turns with other settings until it is certain which are faster. "+
		"They stay if they are, and are taken back if not, or if this call is cancelled. It takes up to 5 minutes of training, and answers with what "+
		"was predicted, the change with its 95 % interval (ratio 1.5: half as fast again), and whether the settings were kept.", false, func(ctx context.Context, in trying, w io.Writer) error {
		path, err := findSession(in.Session)
		if err != nil {
			return err
		}
		var knobs []knob.Setting
		for _, name := range slices.Sorted(maps.Keys(in.Settings)) {
			knobs = append(knobs, knob.Setting{Name: strings.ReplaceAll(name, "-", "_"), Value: fmt.Sprint(in.Settings[name])})
		}
		if len(knobs) == 0 {
			return errs.New("try", "settings", "there are none", "name a knob, as num_workers: 8")
		}
		out, err := trialOf(ctx, path, knobs)
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(out)
	})
	return s
}

// openNamed opens the whole session of a name. It also returns the session's file.
func openNamed(name string) (*trace.Snapshot, string, error) {
	path, err := findSession(name)
	if err != nil {
		return nil, "", err
	}
	s, err := openSession(path)
	if err != nil {
		return nil, "", err
	}
	return all(s), path, nil
}

// tool adds a tool that answers with what f writes. The agent gets to read an error of f.
func tool[In any](s *mcp.Server, name, about string, reads bool, f func(context.Context, In, io.Writer) error) {
	mcp.AddTool(s, &mcp.Tool{Name: name, Description: about, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads}},
		func(ctx context.Context, call *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			var b bytes.Buffer
			defer stillAtIt(ctx, call)()
			if err := f(ctx, in, &b); err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: b.String()}}}, nil, nil
		})
}

// stillAtIt tells a client that asked for it now and then that a call goes on, so that it waits longer. The function that
// it returns stops that.
func stillAtIt(ctx context.Context, call *mcp.CallToolRequest) (stop func()) {
	token := call.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	quit, done, began := make(chan struct{}), make(chan struct{}), time.Now()
	go func() {
		defer close(done)
		timer.Repeat(quit, 5*time.Second, func() bool {
			return call.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: time.Since(began).Seconds(), Message: "it goes on"}) == nil
		})
	}()
	return func() { close(quit); <-done }
}
