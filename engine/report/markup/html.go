package markup

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed page.gohtml
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// HTML writes the document as one page: its pictures are in it, it has no scripts and
// loads nothing.
func (d *Document) HTML(w io.Writer) error { return page.Execute(w, d.web()) }

// web is what the template of the page shows.
type web struct {
	Title  string
	Parts  []*part // headings of level 2, for the contents
	Blocks []*part
}

// part is one block of the page. Only the fields of its kind are set.
type part struct {
	Heading int // level
	ID      string
	Spans   []span
	Items   []*item
	Pre     string
	Table   *webTable
	Image   template.URL
	Alt     string
	Verdict bool // the paragraph below the title: what the report comes to
}

// item is an item of a list.
type item struct {
	Spans []span
	Pre   string
	Items []*item
}

type webTable struct {
	Head []webCell
	Rows [][]webCell
}

type webCell struct {
	Spans []span
	Right bool
}

// web returns the blocks of the page: lines become lists and preformatted text.
func (d *Document) web() *web {
	out := &web{Title: "gpustall report"}
	add := func(p *part) *part { out.Blocks = append(out.Blocks, p); return p }
	var list *part // the list that is open
	var pre *part  // the text that is open
	for i := range d.blocks {
		b := &d.blocks[i]
		if b.kind != line && b.kind != fenced {
			list, pre = nil, nil
		}
		switch b.kind {
		case heading:
			p := add(&part{Heading: b.level, ID: fmt.Sprintf("s%d", i), Spans: spans(b.text)})
			switch b.level {
			case 1:
				out.Title = bare(b.text)
			case 2:
				out.Parts = append(out.Parts, p)
			}
		case paragraph:
			p := add(&part{Spans: spans(b.text)})
			p.Verdict = len(out.Blocks) == 2 && out.Blocks[0].Heading == 1
		case fenced:
			if list == nil {
				add(&part{Pre: b.text})
				continue
			}
			list.Items[len(list.Items)-1].Pre = b.text
		case table:
			add(&part{Table: tableOf(b.rows)})
		case picture:
			data := base64.StdEncoding.EncodeToString(b.picture.PNG)
			add(&part{Image: template.URL("data:image/png;base64," + data), Alt: bare(b.picture.Title)})
		case line:
			outer, isItem := strings.CutPrefix(b.text, "- ")
			inner, isInner := strings.CutPrefix(b.text, "  - ")
			switch {
			case b.text == "```" && pre == nil:
				pre, list = add(&part{}), nil
			case b.text == "```":
				pre = nil
			case pre != nil:
				pre.Pre += b.text + "\n"
			case isInner && list != nil:
				last := list.Items[len(list.Items)-1]
				last.Items = append(last.Items, &item{Spans: spans(inner)})
			case isItem, isInner:
				if isInner {
					outer = inner
				}
				if list == nil {
					list = add(&part{})
				}
				list.Items = append(list.Items, &item{Spans: spans(outer)})
			case b.text == "":
				list = nil
			default:
				list = nil
				add(&part{Spans: spans(b.text)})
			}
		}
	}
	return out
}

func tableOf(rows [][]string) *webTable {
	t := &webTable{}
	for _, h := range rows[0] {
		text, right := align(h)
		t.Head = append(t.Head, webCell{spans(text), right})
	}
	for _, r := range rows[1:] {
		cells := make([]webCell, len(r))
		for c, v := range r {
			cells[c] = webCell{spans(v), t.Head[c].Right}
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}
