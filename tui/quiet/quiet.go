// Package quiet stops bubbletea from asking the terminal for its background
// colour. Import it for its side effect in every binary that shows the screen.
//
// bubbletea v1 queries the colour (OSC 11) in a package init and waits five
// seconds where nothing answers, even for --version. Setting the answer first
// removes the query. Go initialises packages that are ready in the order of
// their import paths, so this package must sort before
// github.com/charmbracelet/bubbletea and must import nothing that imports it.
package quiet

import "github.com/charmbracelet/lipgloss"

func init() { lipgloss.SetHasDarkBackground(true) }
