package command

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
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
		Session  string            `json:"session" jsonschema:"a live session on this machine, or latest"`
		Settings map[string]string `json:"settings" jsonschema:"the knobs to try, as num_workers: 8"`
	}
)

// newAgentServer returns the server with its tools.
func newAgentServer(version string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "gpustall", Title: "gpustall", Version: version}, nil)
	tool(s, "sessions", "List the sessions in the state directory, the newest first, with their verdicts.", true, func(_ context.Context, _ nothing, w io.Writer) error {
		list, err := store.Digests(cli.SessionDir())
		if err != nil {
			return err
		}
		return listSessions(w, list)
	})
	tool(s, "summary", "A session as JSON: verdict, causes, lines of code, advice, settings tried, and rates.", true, func(_ context.Context, in one, w io.Writer) error {
		session, path, err := openNamed(in.Session)
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(summary.Of(session, path))
	})
	tool(s, "report", "A session's report as markdown, with evidence and caveats.", true, func(_ context.Context, in one, w io.Writer) error {
		session, path, err := openNamed(in.Session)
		if err != nil {
			return err
		}
		return report.Markdown(w, session, report.Options{Session: path})
	})
	tool(s, "compare", "What differs between two sessions, or two segments of one, with intervals.", true, func(_ context.Context, in two, w io.Writer) error {
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
	tool(s, "try_setting", "Change a live training: its DataLoader takes turns with other settings until it is certain which are faster. "+
		"It keeps them if they are, and takes them back if not. It may take minutes.", false, func(ctx context.Context, in trying, w io.Writer) error {
		path, err := findSession(in.Session)
		if err != nil {
			return err
		}
		var knobs []knob.Setting
		for _, name := range slices.Sorted(maps.Keys(in.Settings)) {
			knobs = append(knobs, knob.Setting{Name: name, Value: in.Settings[name]})
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
		func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			var b bytes.Buffer
			if err := f(ctx, in, &b); err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: b.String()}}}, nil, nil
		})
}
