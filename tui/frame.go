package tui

import (
	"os"
	"slices"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"dev.gpustall/tui/canvas"
)

// frame is the drawing of the screen and its looks. It is drawn again only when it is dirty,
// because bubbletea asks for it after every message.
type frame struct {
	c      canvas.Canvas
	themes []canvas.Theme
	theme  int  // index into themes
	asks   bool // the theme goes by what the terminal says of its background
	cached string
	dirty  bool
}

// backgroundMsg is what the terminal said of its background: it is light.
type backgroundMsg bool

// askBackground asks the terminal. The answer comes among the keys, where there is one.
func askBackground() tea.Msg {
	_, _ = os.Stdout.WriteString(ansi.RequestBackgroundColor) // without it, the theme stays
	return nil
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
	light, told := canvas.Light()
	switch byTerminal := o.Theme == "" || o.Theme == "default"; {
	case o.NoColor:
		f.theme = len(f.themes) - 1
	case byTerminal:
		f.asks = !told
		f.background(light)
	default:
		f.theme = max(0, f.named(o.Theme))
	}
	f.c.Theme = &f.themes[f.theme]
	return f
}

// named returns the index of a theme, -1 if there is none of that name.
func (f *frame) named(name string) int {
	return slices.IndexFunc(f.themes, func(t canvas.Theme) bool { return t.Name == name })
}

// background chooses the theme for a light background, unless the user has chosen another by now.
func (f *frame) background(light bool) {
	if light && f.theme == 0 {
		f.theme = f.named("light")
		f.c.Theme = &f.themes[f.theme]
	}
}

// nextTheme goes on to the next theme and returns its name.
func (f *frame) nextTheme() string {
	f.theme = (f.theme + 1) % len(f.themes)
	f.c.Theme = &f.themes[f.theme]
	return f.c.Theme.Name
}
