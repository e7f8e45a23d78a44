//go:build !unix

package tui

import tea "github.com/charmbracelet/bubbletea"

func input(func(light bool)) (options []tea.ProgramOption, asks bool) { return nil, false }
