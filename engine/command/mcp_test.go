package command

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestAgent: an agent that starts gpustall mcp finds its tools, and gets what the commands say.
func TestAgent(t *testing.T) {
	dir := t.TempDir()
	unpackSessions(t, dir)
	file := filepath.Join(dir, "plain.gpustall")
	cmd := exec.Command(binary, "mcp")
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(context.Background(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	tools, err := session.ListTools(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	acts := map[string]bool{}
	for _, tool := range tools.Tools {
		acts[tool.Name] = !tool.Annotations.ReadOnlyHint
	}
	if len(acts) != 5 || !acts["try_setting"] || acts["summary"] {
		t.Errorf("the tools and whether they act: %v", acts)
	}
	call := func(name string, args map[string]any) (text string, failed bool) {
		t.Helper()
		r, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return r.Content[0].(*mcp.TextContent).Text, r.IsError
	}
	var sum map[string]any
	if text, failed := call("summary", map[string]any{"session": file}); failed || json.Unmarshal([]byte(text), &sum) != nil || sum["type"] != "summary" || sum["verdict"] == "" {
		t.Errorf("summary: %.300s", text)
	}
	if text, failed := call("report", map[string]any{"session": file}); failed || !strings.HasPrefix(text, "# gpustall report") {
		t.Errorf("report: %.300s", text)
	}
	if text, failed := call("compare", map[string]any{"a": file, "b": file}); failed || !strings.Contains(text, "throughput") {
		t.Errorf("compare: %.300s", text)
	}
	if text, failed := call("summary", map[string]any{"session": "no-such"}); !failed || !strings.Contains(text, "no session of that name") {
		t.Errorf("a session that is not there: %s", text)
	}
	if text, failed := call("try_setting", map[string]any{"session": file, "settings": map[string]any{}}); !failed || !strings.Contains(text, "name a knob") {
		t.Errorf("try nothing: %s", text)
	}
	if text, failed := call("try_setting", map[string]any{"session": file, "settings": map[string]any{"num_workers": 2}}); !failed || !strings.Contains(text, "its run has ended") {
		t.Errorf("try on a run that has ended: %s", text)
	}
}
