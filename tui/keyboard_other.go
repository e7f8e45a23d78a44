//go:build !unix

package tui

import tea "github.com/charmbracelet/bubbletea"

func input() []tea.ProgramOption { return nil }
