package markup

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"image/color"
	"io"
	"slices"
	"strings"
)

//go:embed page.css
var style string

//go:embed page.js
var script string

// hex writes a colour as HTML does.
func hex(c color.Color) string {
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

// HTML writes the document as one page. The page contains its pictures and loads nothing. Its only
// script is [script], which sorts tables and zooms.
//
// It is written without html/template, which would keep every exported method of the whole program,
// 10 MB, in the binary. So each text goes through [html.EscapeString], in quotes where it is an attribute.
func (d *Document) HTML(w io.Writer) error {
	p := &pageWriter{}
	p.page(d.web())
	_, err := io.WriteString(w, p.String())
	return err
}

// web is what the page shows.
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
	Lanes   *webLanes
	Image   string // a picture as base64
	Alt     string
	Verdict bool // the paragraph below the title, with the result of the report
}

// item is an item of a list.
type item struct {
	Spans []span
	Pre   string
	Items []*item
}

// webLanes is a timeline as the page draws it.
type webLanes struct {
	*Timeline
	Keys []webKey
}

// webKey says what the bars of a colour are.
type webKey struct{ Colour, What string }

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
			if b.bare {
				continue
			}
			p := add(&part{Spans: spans(b.text)})
			p.Verdict = len(out.Blocks) == 2 && out.Blocks[0].Heading == 1
		case fenced:
			if list == nil {
				add(&part{Pre: b.text})
				continue
			}
			list.Items[len(list.Items)-1].Pre = b.text
		case timeline:
			add(&part{Lanes: lanesOf(b.lanes)})
		case table:
			add(&part{Table: tableOf(b.rows)})
		case picture:
			data := base64.StdEncoding.EncodeToString(b.picture.PNG)
			add(&part{Image: data, Alt: bare(b.picture.Title)})
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

// lanesOf collects what colours a timeline has, those that show at first before the others.
func lanesOf(t *Timeline) *webLanes {
	out := &webLanes{Timeline: t}
	for _, shown := range []bool{true, false} {
		for _, l := range t.Lanes {
			for _, b := range l.Bars {
				key := webKey{hex(b.Colour), b.What}
				if shows := b.To > t.From && b.From < t.To; shows == shown && !slices.Contains(out.Keys, key) {
					out.Keys = append(out.Keys, key)
				}
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
