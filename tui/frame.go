package tui

import "dev.gpustall/tui/canvas"

// frame is the drawing of the screen and its looks. It is drawn again only when it is dirty,
// because bubbletea asks for it after every message.
type frame struct {
	c      canvas.Canvas
	themes []canvas.Theme
	theme  int // index into themes
	cached string
	dirty  bool
}

// Themes returns the names of the themes.
func Themes() (names []string) {
	for _, t := range canvas.Themes() {
		names = append(names, t.Name)
	}
	return names
}

// newFrame makes an empty frame with the glyphs and the theme of the options.
func newFrame(o *Options) frame {
	f := frame{themes: canvas.Themes(), dirty: true}
	f.c.Glyphs = &canvas.Unicode
	if o.ASCII {
		f.c.Glyphs = &canvas.ASCII
	}
	name := o.Theme
	if (name == "" || name == "default") && canvas.Light() {
		name = "light"
	}
	for i, t := range f.themes {
		if t.Name == name {
			f.theme = i
		}
	}
	if o.NoColor {
		f.theme = len(f.themes) - 1
	}
	f.c.Theme = &f.themes[f.theme]
	return f
}

// nextTheme goes on to the next theme and returns its name.
func (f *frame) nextTheme() string {
	f.theme = (f.theme + 1) % len(f.themes)
	f.c.Theme = &f.themes[f.theme]
	return f.c.Theme.Name
}
