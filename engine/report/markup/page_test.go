package markup

import (
	"bytes"
	"context"
	"image/color"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// browser opens a page in a headless Chromium and returns it as it is after its scripts have run.
func browser(t *testing.T, page string, width string) string {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium here")
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), "--window-size="+width, "--dump-dom", "file://"+file)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("Chromium does not run here: %v", err)
	}
	return string(out)
}

// drive does with the page what a reader does. It sorts a column three times, zooms a timeline in and
// out, makes a picture large, and writes down what shows.
const drive = `<script>
const told = [];
const column = () => [...document.querySelector("tbody").rows].map((r) => r.cells[1].textContent).join(" ");
const head = document.querySelectorAll("th")[1], svg = document.querySelector(".timeline svg");
const box = () => svg.getAttribute("viewBox");
for (let i = 0; i < 3; i++) { head.click(); told.push(head.getAttribute("aria-sort") + ": " + column()); }
told.push(box());
for (const b of document.querySelectorAll(".timeline button")) { b.click(); told.push(b.textContent + ": " + box()); }
document.querySelector("figure img").click();
told.push("large: " + document.querySelector("figure img").classList.contains("large"));
told.push("wider than the window: " + (document.documentElement.scrollWidth > innerWidth));
document.title = told.join("; ");
</script>`

// TestPage opens the page in a browser. The page's policy lets its own script run and no other. Tables
// sort by their numbers, timelines zoom, pictures grow, and the page is never wider than the window.
func TestPage(t *testing.T) {
	d := &Document{}
	d.Heading(1, "A report")
	d.Table([][]string{{"name", ">time"}, {"a", "1.5 s"}, {"b", "~900 ms"}, {"c", "-"}, {"d", "12 µs"}, {strings.Repeat("long ", 60), "1,000 s"}})
	d.Timeline(&Timeline{To: 8, All: [2]float64{-4, 12}, Lanes: []Lane{
		{Name: "w0", Share: "50 %", Bars: []Bar{{0, 4, color.Black, "read", "read, 4 ms"}, {4, 5, color.White, "decode", "decode, 1 ms"}}},
		{Name: "compute", Share: "1 %", Bars: []Bar{{1, 2, color.Black, "read", "read, 1 ms"}}},
	}})
	d.Picture(Picture{Title: "Throughput", PNG: []byte("png")})
	var page bytes.Buffer
	if err := d.HTML(&page); err != nil {
		t.Fatal(err)
	}
	withOther := strings.Replace(page.String(), "</body>", drive+"</body>", 1)
	if got := browser(t, withOther, "1200,900"); !strings.Contains(got, "<button>") || !strings.Contains(got, "<title>A report</title>") {
		t.Error("the page's script did not run, or another one did")
	}
	const want = "ascending: 12 µs ~900 ms 1.5 s 1,000 s -; descending: 1,000 s 1.5 s ~900 ms 12 µs -; none: 1.5 s ~900 ms - 12 µs 1,000 s; " +
		"0 0 8 2; +: 2 0 4 2; −: 0 0 8 2; all: -4 0 16 2; reset: 0 0 8 2; large: true; wider than the window: false"
	open := regexp.MustCompile(`script-src '[^']*'`).ReplaceAllString(withOther, "script-src 'unsafe-inline'")
	for _, width := range []string{"1200,900", "700,900", "500,900"} {
		got := browser(t, open, width)
		_, got, _ = strings.Cut(got, "<title>")
		if got, _, _ = strings.Cut(got, "</title>"); got != want {
			t.Errorf("at %s it shows\n%s\nwant\n%s", width, got, want)
		}
	}
}
