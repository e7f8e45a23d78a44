// Package bridge makes a session of a PyTorch training while it runs. The training's
// processes write what they do into rings in shared memory (engine/torch/python); the
// bridge reads them and records spans and steps as the engine does for its own runs, so
// that analysis, screen and report need not know the difference. The other way it has
// one page of knobs, which the training looks at before each batch.
//
// It needs Linux: both sides tell time by CLOCK_MONOTONIC, and the wait for a core is
// what /proc says.
package bridge
