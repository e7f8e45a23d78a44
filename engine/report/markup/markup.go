// Package markup holds documents for people: headings, paragraphs, lists, tables and
// pictures. A document is put together once. It is written as markdown, which reads well
// on a terminal, or as one HTML page, which loads nothing from elsewhere.
//
// Texts may use a small part of markdown: **strong**, `code`, and a backslash before
// punctuation that must show as it is. A text from outside goes through [Text] first.
package markup

import (
	"fmt"
	"image/color"
	"strings"
)

// Document is a list of blocks. The zero value is empty.
type Document struct{ blocks []block }

type kind uint8

const (
	heading kind = iota
	paragraph
	line // of a list or of a picture made of characters; an empty line ends either
	fenced
	table
	picture
	timeline
)

type block struct {
	kind    kind
	level   int // of a heading, from 1
	text    string
	rows    [][]string // of a table, the head first
	picture Picture
	lanes   *Timeline
	bare    bool // of a paragraph: not for the page
}

// Picture is an image of the document.
type Picture struct {
	Title string
	File  string // the file beside the document that markdown refers to; empty where there is none
	PNG   []byte // the picture itself, which HTML holds
}

// Timeline is what lanes show over a time, in ms. As text it consists of characters. The page draws
// the bars, which can be zoomed, under a caption of its own.
type Timeline struct {
	Caption  string
	Text     []string
	Lanes    []Lane
	From, To float64 // what is shown at first
	All      [2]float64
}

// Lane is one row of a timeline.
type Lane struct {
	Name, Share string
	Bars        []Bar
}

// Bar is one piece of work.
type Bar struct {
	From, To float64
	Colour   color.Color
	What     string // of all bars of that colour
	Says     string // of this one
}

// Heading begins a section.
func (d *Document) Heading(level int, text string) {
	d.add(block{kind: heading, level: level, text: oneLine(text)})
}

// Para adds a paragraph.
func (d *Document) Para(format string, args ...any) {
	d.add(block{kind: paragraph, text: oneLine(fmt.Sprintf(format, args...))})
}

// Key adds a paragraph on the characters of a timeline. The page, which draws it, does without.
func (d *Document) Key(format string, args ...any) {
	d.add(block{kind: paragraph, text: oneLine(fmt.Sprintf(format, args...)), bare: true})
}

// Sentences adds a paragraph of texts with spaces between them. Unlike Para's, the
// texts are not formats.
func (d *Document) Sentences(sentences ...string) {
	d.add(block{kind: paragraph, text: oneLine(strings.Join(sentences, " "))})
}

// Fact adds an item of a list, "name: value", unless the value is empty.
func (d *Document) Fact(name, value string) {
	if value != "" {
		d.Line("- %s: %s", name, value)
	}
}

// Line adds a line: "- item", " - item of an item", "```" before and after what must
// show as it is, or nothing, after a list.
func (d *Document) Line(format string, args ...any) {
	d.add(block{kind: line, text: oneLine(fmt.Sprintf(format, args...))})
}

// Fenced adds text to copy as it is, under an item of a list.
func (d *Document) Fenced(text string) { d.add(block{kind: fenced, text: oneLine(text)}) }

// Table adds rows, the first of them the head. Columns whose head starts with ">" are
// aligned to the right.
func (d *Document) Table(rows [][]string) { d.add(block{kind: table, rows: rows}) }

// Timeline adds a timeline.
func (d *Document) Timeline(t *Timeline) { d.add(block{kind: timeline, lanes: t}) }

// Picture adds an image.
func (d *Document) Picture(p Picture) { d.add(block{kind: picture, picture: p}) }

func (d *Document) add(b block) { d.blocks = append(d.blocks, b) }

func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }

// Code returns text as code, whatever it holds.
func Code(s string) string {
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// Text returns s as one line that shows as it is. It puts a backslash before what would be
// markup. That is code, emphasis, strikeout, cells of tables, links and HTML anywhere, and
// headings, lists and quotes at the beginning.
func Text(s string) string {
	s = oneLine(s)
	if !strings.ContainsAny(s, "\\`*|~<](") && (s == "" || !strings.ContainsRune("#>+-=", rune(s[0]))) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		next := byte(0)
		if i+1 < len(s) {
			next = s[i+1]
		}
		switch c := s[i]; {
		case strings.IndexByte("\\`*|", c) >= 0,
			c == '~' && i > 0 && s[i-1] != ' ', // one after a space ends no strikeout
			c == ']' && next == '(',
			c == '<' && (next == '/' || next == '!' || next == '?' || next|0x20 >= 'a' && next|0x20 <= 'z'),
			i == 0 && (strings.IndexByte("#>=", c) >= 0 || (c == '+' || c == '-') && (next == ' ' || next == c)):
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Sentence begins a text with a capital letter, unless its first word is a knob's name or
// a setting.
func Sentence(s string) string {
	if word, _, _ := strings.Cut(s, " "); s == "" || strings.ContainsAny(word, "_=") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
