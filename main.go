// Command gpustall shows why an accelerator waits during training and lets a
// person fix it live. See README.md.
package main

import (
	"os"

	// First: it spares the start-up a terminal query (see the package).
	_ "dev.gpustall/tui/quiet"

	"dev.gpustall/engine/command"
)

// version is set by the Makefile.
var version = "dev"

func main() { os.Exit(command.Main(version)) }
