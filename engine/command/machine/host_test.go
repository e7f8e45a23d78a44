package machine

import (
	"runtime"
	"testing"

	"dev.gpustall/engine/base/host"
)

// TestProcessors: GOMAXPROCS is at least the number of threads that can be ready. It is never
// lowered, and the user's value stays.
func TestProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "1")
	if RaiseProcessors(4); runtime.GOMAXPROCS(0) != 1 {
		t.Errorf("GOMAXPROCS=1 became %d", runtime.GOMAXPROCS(0))
	}
	t.Setenv("GOMAXPROCS", "")
	for _, workers := range []int{0, 4, 64, 2} {
		was := runtime.GOMAXPROCS(0)
		RaiseProcessors(workers)
		if n := runtime.GOMAXPROCS(0); n <= workers+host.Cores() || n < was {
			t.Errorf("%d workers on %d cores: GOMAXPROCS %d, before %d", workers, host.Cores(), n, was)
		}
	}
}
