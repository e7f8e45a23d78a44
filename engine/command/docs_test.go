package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	fence = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```")
	words = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)
)

// commandsIn returns the lines that call gpustall, without what follows them as a remark.
func commandsIn(text string) (lines []string) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "  #")
		line, _, _ = strings.Cut(line, "   ")
		line = strings.TrimPrefix(line, "ssh -t HOST ")
		line = strings.TrimPrefix(line, "srun --pty ")
		if strings.HasPrefix(line, "gpustall ") && !strings.Contains(line, "►") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// TestCommandsInDocs: each command and each flag in an example exists, in the pages for users
// and in the help itself.
func TestCommandsInDocs(t *testing.T) {
	names, err := filepath.Glob("../../docs/*/*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	texts := map[string]string{}
	for _, name := range append(names, "../../README.md", "../../packaging/wheel/README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
			texts[name] += m[1] + "\n"
		}
	}
	each(newRoot("test"), func(c *cobra.Command) { texts[c.CommandPath()+" --help"] = c.Example })
	seen := 0
	for name, text := range texts {
		for _, line := range commandsIn(text) {
			seen++
			args := words.FindAllString(line, -1)[1:]
			for i := range args {
				args[i] = strings.Trim(args[i], `'"`)
			}
			cmd, rest, err := newRoot("test").Find(args)
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", name, line, err)
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d commands were found, fewer than there are", seen)
	}
}

// each calls f for every command that users see.
func each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" {
			each(sub, f)
		}
	}
}

// TestHelp: the help of each command begins with a sentence and has up to three examples. Flags that the
// root's help leaves out are among those of run.
func TestHelp(t *testing.T) {
	root := newRoot("test")
	each(root, func(c *cobra.Command) {
		if c.Name() != "data" && c.Name() != "help" && c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		var help strings.Builder
		c.SetOut(&help)
		if _ = c.Help(); !strings.HasPrefix(help.String(), c.Short+".\n\nUsage:\n") || strings.Count(c.Example, "\n") > 2 {
			t.Errorf("the help of %s does not begin with its sentence, or has over three examples", c.CommandPath())
		}
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if len(line) > 96 {
				t.Errorf("%s: %q is wider than 95 columns", c.CommandPath(), line)
			}
		}
	})
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	shown := root.UsageString()
	root.Flags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(shown, "--"+f.Name) && run.Flags().Lookup(f.Name) == nil {
			t.Errorf("--%s is in no help", f.Name)
		}
	})
}

// TestCommandsPage: docs/reference/commands.md has the commands and their examples as the help has them.
func TestCommandsPage(t *testing.T) {
	const page, begin, end = "../../docs/reference/commands.md", "<!-- from here on: go test ./engine/command -run TestCommandsPage -update -->\n", "<!-- to here -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the commands", page)
	}
	root := newRoot("test")
	var b strings.Builder
	for _, g := range root.Groups() {
		b.WriteString("\n## " + strings.TrimSuffix(g.Title, ":") + "\n")
		each(root, func(c *cobra.Command) {
			top := c
			for top.HasParent() && top.Parent() != root {
				top = top.Parent()
			}
			if top.GroupID != g.ID || c.Example == "" {
				return
			}
			b.WriteString("\n`" + strings.Replace(c.UseLine(), " [flags]", "", 1) + "`: " + c.Short + ".\n\n```\n")
			for line := range strings.Lines(c.Example + "\n") {
				b.WriteString(strings.TrimPrefix(line, "  "))
			}
			b.WriteString("```\n")
		})
	}
	want := before + begin + b.String() + "\n" + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not what the help says; renew it with -update", page)
	}
}
