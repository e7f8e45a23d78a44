package engine

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	quoted   = regexp.MustCompile("`((?:engine|loader|tui|kernels|testdata|bench|docs|\\.ci)/[\\w./*-]+)`")
	linked   = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^):]*))?\)`)
	headings = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```")
	unslug   = regexp.MustCompile(`[^\pL\pN -]`)
)

// pages returns the documents, by name.
func pages(t *testing.T) map[string]string {
	names := []string{"../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "../SECURITY.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no pages %s: %v", pattern, err)
		}
		names = append(names, found...)
	}
	out := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(text)
	}
	return out
}

// anchors returns the names by which a page's headings are linked to.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range headings.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		out[strings.ReplaceAll(unslug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return out
}

// TestPathsInDocs: each path of the project that a page names is there, and so is what it links to.
func TestPathsInDocs(t *testing.T) {
	all := pages(t)
	for page, text := range all {
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			if found, _ := filepath.Glob(filepath.Join("..", m[1])); len(found) == 0 {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
		for _, m := range linked.FindAllStringSubmatch(text, -1) {
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
			if m[2] != "" && !anchors(all[to])[m[2]] {
				t.Errorf("%s links to %s#%s, which is no heading there", page, m[1], m[2])
			}
		}
	}
}

// words counts the words of a text: what stands between spaces and has a letter or a digit.
func words(text string) (n int) {
	for _, w := range strings.Fields(text) {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// TestDoors: the index leads to every page, the README can be read in a few minutes, and all pages in two
// hours.
func TestDoors(t *testing.T) {
	all := pages(t)
	index := all["../docs/README.md"]
	total := 0
	for page, text := range all {
		if strings.HasPrefix(page, "../docs/") {
			total += words(text)
		}
		if name, inside := strings.CutPrefix(page, "../docs/"); inside && name != "README.md" && !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
	if n := len(strings.Fields(fenced.ReplaceAllString(all["../README.md"], ""))); n > 900 {
		t.Errorf("the README has %d words without its examples, over 900", n)
	}
	if total > 25000 {
		t.Errorf("docs has %d words, examples and tables included, over 25,000: say less elsewhere", total)
	}
}
