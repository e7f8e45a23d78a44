package command

import (
	"os"
	"runtime"

	"dev.gpustall/engine/host"
)

// raiseProcessors has the Go runtime let as many threads run as may be ready at the
// same time with so many workers. With fewer, the step loop stands in a queue of Go's
// scheduler behind workers that compute: up to 10 ms each, which nothing measures, and
// which would be charged to the copy that it did not start. With more, it is the kernel
// that shares out the cores, by turns of about 3 ms, and counts who waits. It is never
// lowered, because each change stops all goroutines for a moment; a number that the
// user chose (GOMAXPROCS in the environment) stays.
func raiseProcessors(workers int) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	if n := host.Processors(workers); n > runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(n)
	}
}
