package engine

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	quoted = regexp.MustCompile("`((?:engine|loader|tui|kernels|testdata|bench|docs|\\.ci)/[\\w./*-]+)`")
	linked = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// TestPathsInDocs: each path of the project that a page names is there, and so is what it links to.
func TestPathsInDocs(t *testing.T) {
	pages, err := filepath.Glob("../docs/*/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			if found, _ := filepath.Glob(filepath.Join("..", m[1])); len(found) == 0 {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
		for _, m := range linked.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
	}
}
