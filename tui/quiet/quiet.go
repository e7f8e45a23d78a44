// Package quiet stops bubbletea from asking the terminal for its background
// colour. Import it for its side effect in every binary that shows the screen.
//
// bubbletea v1 queries the colour (OSC 11) when its package is initialised, even for --version. It
// waits five seconds for an answer that some terminals never give. This package sets the answer
// first, so that there is no query. Of the packages that are ready, Go initialises the first in
// the order of import paths. So this package must sort before github.com/charmbracelet/bubbletea,
// and must not import anything that imports bubbletea.
package quiet

import "github.com/charmbracelet/lipgloss"

func init() { lipgloss.SetHasDarkBackground(true) }
