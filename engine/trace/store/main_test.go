package store

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv makes the test binary a run that is waiting to be killed: its value is
// the file to write.
const childEnv = "GPUSTALL_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		childRun(path)
		return
	}
	goleak.VerifyTestMain(m)
}

// manual is a clock that a test moves.
type manual struct{ t int64 }

func (m *manual) Now() int64 { return m.t }
