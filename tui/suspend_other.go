//go:build !unix

package tui

import "os"

func catchStop(chan os.Signal) {}

func (w *watcher) suspend() {}

// HasShell reports false, because there is no job control here.
func HasShell() bool { return false }
