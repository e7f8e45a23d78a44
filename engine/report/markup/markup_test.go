package markup

import (
	"bytes"
	"strings"
	"testing"
)

// sample has every kind of block.
func sample() *Document {
	d := &Document{}
	d.Heading(1, "A report: "+Text("a<b> *c*"))
	d.Para("**Less by 5 %%.** It rests on %s.", Code("a`b"))
	d.Heading(2, "Numbers")
	d.Table([][]string{{"name", ">value"}, {Text("x|y") + strings.Repeat(" long", 30), "1,024"}, {Text("<script>alert(1)</script>"), "-"}})
	d.Line("- first")
	d.Line("  - and under it")
	d.Line("- second:")
	d.Fenced("--num-workers=2 '<b>'")
	d.Line("```")
	d.Line("w0 |RRDD <>|")
	d.Line("```")
	d.Line("")
	d.Picture(Picture{Title: "Throughput", File: "throughput.png", PNG: []byte("png")})
	return d
}

// TestSameCells: markdown cuts a table to its width. The page holds the same cells whole.
func TestSameCells(t *testing.T) {
	d := sample()
	var text, page bytes.Buffer
	if err := d.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	if err := d.HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# A report: a\\<b> \\*c\\*\n", "**Less by 5 %.** It rests on `` a`b ``.", "| x\\|y long", "… | 1,024 |",
		"- first\n  - and under it\n- second:\n\n      --num-workers=2 '<b>'\n", "![Throughput](<throughput.png>)",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the markdown lacks %q:\n%s", want, text.String())
		}
	}
	for _, want := range []string{
		"<title>A report: a&lt;b&gt; *c*</title>", "<p class=\"verdict\"><strong>Less by 5 %.</strong> It rests on <code>a`b</code>.",
		"<td>x|y" + strings.Repeat(" long", 30) + "</td><td class=\"right\">1,024</td>", "&lt;script&gt;alert(1)&lt;/script&gt;",
		"<li>first\n<ul>", "<li>and under it</li>", "<pre>--num-workers=2 &#39;&lt;b&gt;&#39;</pre>", "<pre>w0 |RRDD &lt;&gt;|\n</pre>",
		`<a href="#s2">Numbers</a>`, `src="data:image/png;base64,cG5n" alt="Throughput"`,
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
	if strings.Count(page.String(), "<script") != 1 || !strings.Contains(page.String(), "<script>"+script+"</script>") || strings.Contains(page.String(), "ZgotmplZ") {
		t.Errorf("the page holds a script, or what the template refused:\n%s", page.String())
	}
}

func TestSpans(t *testing.T) {
	for in, want := range map[string][]span{
		"":                          nil,
		`a \*\*b\*\* \x`:            {{Text: `a **b** \x`}},
		"**a `b` c** d":             {{Text: "a ", Strong: true}, {Text: "b", Strong: true, Code: true}, {Text: " c", Strong: true}, {Text: " d"}},
		"`` a`b `` c":               {{Text: "a`b", Code: true}, {Text: " c"}},
		"`\\`":                      {{Text: `\`, Code: true}},
		"f(**a), f(b, **c), d ** 2": {{Text: "f(**a), f(b, **c), d ** 2"}},
	} {
		got := spans(in)
		if len(got) != len(want) {
			t.Errorf("%q: %+v, want %+v", in, got, want)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%q: span %d is %+v, want %+v", in, i, got[i], want[i])
			}
		}
	}
}

// FuzzText: a text from outside shows on the page as it is.
func FuzzText(f *testing.F) {
	for _, s := range []string{"plain", "`a` **b** \\ <c> | [d](e)", "- x", "+ y", "# z", "a``b`", "\\`", "~~x~~"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := bare(Text(s)); got != oneLine(s) {
			t.Errorf("%q shows as %q", s, got)
		}
	})
}

func TestMarkup(t *testing.T) {
	if got := Code("a`b"); got != "`` a`b ``" {
		t.Errorf("Code: %q", got)
	}
	if got := cell(`a|b\|c`); got != `a\|b\|c` {
		t.Errorf("cell: %q", got)
	}
}
