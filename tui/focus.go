package tui

import (
	"slices"

	"dev.gpustall/tui/panel"
)

// focus is the list of panels, and which of them has the keys.
type focus struct {
	panels   []panel.Panel // in the order of tab, and from left to right where they stand side by side
	now      panel.Panel   // it has the keys
	side     panel.Panel   // the side panel looked at last
	start    panel.Panel   // it has the keys at first
	expanded bool          // the panel in focus has the whole body
}

// newFocus gives the panel of a name the keys.
func newFocus(panels []panel.Panel, start string) focus {
	f := focus{panels: panels}
	f.start = f.named(start)
	f.now, f.side = f.start, f.home()
	return f
}

// named returns the panel of a name.
func (f *focus) named(name string) panel.Panel {
	return f.panels[slices.IndexFunc(f.panels, func(p panel.Panel) bool { return p.Describe().Name == name })]
}

// home returns the side panel that is shown when no other was asked for.
func (f *focus) home() panel.Panel {
	return f.panels[slices.IndexFunc(f.panels, func(p panel.Panel) bool { return p.Describe().Side })]
}

// set gives a panel the keys.
func (f *focus) set(p panel.Panel) {
	f.now = p
	if p.Describe().Side {
		f.side = p
	}
}

// back restores the start: it gives the first panel the keys and shows the first side
// panel.
func (f *focus) back() {
	f.side = f.home()
	f.set(f.start)
}

// next goes on by d among the panels that can have the focus.
func (f *focus) next(d int) {
	i := slices.Index(f.panels, f.now)
	for {
		i = (i + d + len(f.panels)) % len(f.panels)
		if f.panels[i].Describe().Key != "" {
			f.set(f.panels[i])
			return
		}
	}
}

// keys returns what keys do while the panel in focus has them.
func (f *focus) keys() []panel.Binding { return f.now.Describe().Keys }
