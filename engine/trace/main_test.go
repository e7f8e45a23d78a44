package trace

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manual is a clock that a test moves.
type manual struct{ t int64 }

func (m *manual) Now() int64 { return m.t }
