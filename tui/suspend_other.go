//go:build !unix

package tui

import "os"

func catchStop(chan os.Signal) {}

func (s *signals) suspend() {}

// hasShell: there is no job control here.
func hasShell() bool { return false }
