package cuda

import (
	"testing"

	"dev.gpustall/kernels"
	"dev.gpustall/kernels/verify"
)

func testTransforms(check func(op kernels.Op)) {
	for _, op := range kernels.ExampleTransforms() {
		check(op)
	}
}

func TestTransforms(t *testing.T) {
	e := verify.NewEmulator(t)
	testTransforms(func(op kernels.Op) { checkEmulated(t, e, op) })
}
