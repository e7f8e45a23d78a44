// Package bridge makes a session of a PyTorch training while it runs. The training's processes write
// what they do into rings in shared memory (engine/torch/python). The bridge reads the rings and records
// spans and steps, as package train does for its own runs. So analysis, screen and report treat both
// alike. In the other direction there is one page of knobs, which the training reads before each batch.
//
// It needs Linux: both sides read CLOCK_MONOTONIC, and /proc tells the wait for a core.
package bridge

// Live are the knobs that can be changed while a training runs, in the order that the page of knobs has.
// engine/torch/python/gpustall/control.py has the same.
var Live = []string{"num_workers", "prefetch_factor", "pin_memory", "in_order", "persistent_workers"}
