package markup

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"strconv"
	"strings"
)

// pageWriter writes a page.
type pageWriter struct{ strings.Builder }

// put writes markup. Its strings are escaped, its other values are numbers.
func (p *pageWriter) put(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = html.EscapeString(s)
		}
	}
	_, _ = fmt.Fprintf(p, format, args...)
}

func (p *pageWriter) page(d *web) {
	sum := sha256.Sum256([]byte(script))
	p.put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-%s'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
`, base64.StdEncoding.EncodeToString(sum[:]), d.Title)
	p.WriteString("<style>\n" + style + "</style>\n</head>\n<body>")
	for _, b := range d.Blocks {
		p.WriteByte('\n')
		p.block(b, d.Parts)
	}
	p.WriteString("\n<script>" + script + "</script>\n</body>\n</html>\n")
}

// block writes one block. The parts are the contents, which follow the title.
func (p *pageWriter) block(b *part, parts []*part) {
	switch {
	case b.Heading > 0:
		level := min(b.Heading, 3)
		p.put(`<h%d id="%s">`, level, b.ID)
		p.spans(b.Spans)
		p.put("</h%d>", level)
		if level == 1 && len(parts) > 0 {
			p.contents(parts)
		}
	case b.Items != nil:
		p.items(b.Items)
	case b.Table != nil:
		p.table(b.Table)
	case b.Lanes != nil:
		p.lanes(b.Lanes)
	case b.Image != "":
		p.put(`<figure><img src="data:image/png;base64,%s" alt="%s"></figure>`, b.Image, b.Alt)
	case b.Pre != "":
		p.put("<pre>%s</pre>", b.Pre)
	default:
		p.WriteString("<p")
		if b.Verdict {
			p.WriteString(` class="verdict"`)
		}
		p.WriteByte('>')
		p.spans(b.Spans)
		p.WriteString("</p>")
	}
}

func (p *pageWriter) contents(parts []*part) {
	p.WriteString("\n<nav><details><summary>Contents</summary><ul>\n")
	for _, part := range parts {
		p.put(`<li><a href="#%s">`, part.ID)
		p.spans(part.Spans)
		p.WriteString("</a></li>\n")
	}
	p.WriteString("</ul></details></nav>")
}

func (p *pageWriter) spans(spans []span) {
	for _, s := range spans {
		format := "%s"
		if s.Code {
			format = "<code>%s</code>"
		}
		if s.Strong {
			format = "<strong>" + format + "</strong>"
		}
		p.put(format, s.Text)
	}
}

func (p *pageWriter) items(items []*item) {
	p.WriteString("<ul>\n")
	for _, i := range items {
		p.WriteString("<li>")
		p.spans(i.Spans)
		if i.Pre != "" {
			p.put("<pre>%s</pre>", i.Pre)
		}
		if i.Items != nil {
			p.WriteByte('\n')
			p.items(i.Items)
		}
		p.WriteString("</li>\n")
	}
	p.WriteString("</ul>\n")
}

func (p *pageWriter) table(t *webTable) {
	p.WriteString(`<div class="wide"><table>` + "\n<thead>")
	p.row(t.Head, "th")
	p.WriteString("</thead>\n<tbody>\n")
	for _, r := range t.Rows {
		p.row(r, "td")
		p.WriteByte('\n')
	}
	p.WriteString("</tbody></table></div>")
}

func (p *pageWriter) row(cells []webCell, tag string) {
	p.WriteString("<tr>")
	for _, c := range cells {
		p.WriteString("<" + tag)
		if c.Right {
			p.WriteString(` class="right"`)
		}
		p.WriteByte('>')
		p.spans(c.Spans)
		p.WriteString("</" + tag + ">")
	}
	p.WriteString("</tr>")
}

func (p *pageWriter) lanes(l *webLanes) {
	ms := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	if l.Caption != "" {
		p.put("<p>%s</p>\n", l.Caption)
	}
	p.WriteString(`<div class="timeline">` + "\n" + `<div class="rows"><ol>`)
	for i := range l.Lanes {
		p.put("<li>%s</li>", l.Lanes[i].Name)
	}
	p.put(`</ol>
<svg viewBox="%s 0 %s %d" preserveAspectRatio="none" style="height:calc(%d * 1.3rem)" tabindex="0" role="img" aria-label="timeline" data-from="%s" data-to="%s">
`, ms(l.From), ms(l.To-l.From), len(l.Lanes), len(l.Lanes), ms(l.All[0]), ms(l.All[1]))
	for row, lane := range l.Lanes {
		for _, b := range lane.Bars {
			p.put(`<rect x="%s" y="%d.1" width="%s" height=".8" fill="%s"><title>%s</title></rect>`+"\n", ms(b.From), row, ms(b.To-b.From), hex(b.Colour), b.Says)
		}
	}
	p.WriteString("</svg>\n<ol>")
	for i := range l.Lanes {
		p.put("<li>%s</li>", l.Lanes[i].Share)
	}
	p.WriteString("</ol>\n" + `<div class="axis"></div></div>` + "\n" + `<div class="keys">`)
	for _, k := range l.Keys {
		p.put(`<span><i style="background:%s"></i>%s</span>`, k.Colour, k.What)
	}
	p.WriteString("</div>\n</div>")
}
