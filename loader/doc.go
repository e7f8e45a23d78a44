// Package loader turns a data set into batches on host goroutines, as PyTorch's
// DataLoader does and with its words for the knobs. Unlike there, every knob can be
// changed while the loader runs.
//
// # How it works
//
//	Sampler -> Worker: read, decode, transform, collate into a slot -> ready -> Next
//	   ^                                                                         |
//	   +--------------------- free slots <- Release <----------------------------+
//
// One mutex guards the schedule, and is never held for longer than moving a few pointers
// takes. Workers pull: a free worker takes the lock once, hands over the batch it has built
// and takes the next one. That batch is cut from the sampler's order at this moment. So batch
// boundaries are decided at dispatch, and every knob applies from the next dispatch on. The
// position in the epoch moves forward only over samples that a worker was given. Hence each
// sample is delivered exactly once, whatever a knob change does. Everything that costs time
// (shuffling, copying indices, page-locking, building the batch) runs outside the lock.
//
// A slot is in one place at a time:
//
//	free -> loading -> ready -> held (by the caller, until Release) -> free
//	          ^           |
//	          +-- redo <--+  (its load failed: Next returned the error)
//
// All undelivered batches are also on the flight list, in the sampler's order. With in_order
// Next waits for the head of that list; otherwise it takes the batch of the epoch that became
// ready first. An epoch is a barrier for both: the first batch of the next is delivered after
// the last of this one.
//
// There are num_workers x prefetch_factor + Options.Hold slots, which are all the memory for
// batches. When a slot's memory no longer fits the knobs, the worker that takes the slot
// allocates it anew. So each slot pays once after a change of batch_size, device_transforms or
// pin_memory, and nothing in steady state. A worker parks if it has no work or the prefetch
// limit holds it back. Whoever makes work possible wakes a worker.
//
// Beside the slots each worker has scratch memory for the samples it works on: about
// 4 MiB, stored and decoded, or one sample if that is larger.
//
// # Without workers
//
// With num_workers=0 Next asks for its batch and waits until it is built. The device goes on
// with the steps that were enqueued before (train.Depth at most). So a batch that loads faster
// than those steps compute costs nothing. Only a worker can load a second batch at the same
// time, or load while the step loop waits for the device.
//
// # What is promised
//
// The same seed gives the same batches, contents included, whatever num_workers is. The order
// depends on (seed, epoch) alone, and a sample's randomness on (seed, epoch, index).
//
// Data in a few large files (Grouped) is shuffled in parts that lie near to one another, so its
// order also depends on shuffle_buffer. Data that can only be read forwards is a Stream;
// FromStream makes it a Dataset, for which all of this holds too.
//
// When a load fails (an error or a panic in the data set or the transform), Next returns the
// error once, when it is that batch's turn. The error names the sample. The batch keeps its
// place, and is loaded again for the next call of Next. So a caller that goes on after a
// temporary fault loses nothing and gets nothing twice. A caller that gives up calls Close.
//
// With on_error=skip the faulty sample is left out, whether its load returned an error or
// panicked. Its batch is shorter by the sample. An empty batch is left out. Every sample that
// can be loaded is still delivered exactly once. Each epoch tries all samples again. An epoch
// without any loadable sample ends the run.
//
// With reads_in_flight a worker reads that many samples at a time, each in a goroutine of its
// own, and goes on when its whole chunk is read. Meanwhile the host sees the worker as blocked;
// the cores that its reads take count for the process.
//
// With persistent_workers the workers may work one epoch ahead. Without, they end with the
// epoch's last batch, and the first Next of the next epoch starts them again.
//
// shuffle applies to the next epoch that has not been started. drop_last is decided when the last
// full batch is dispatched. A rest that was not dropped then is delivered, even if drop_last is
// switched on later.
//
// # Ceiling
//
// The ceiling knob asks what the run would do if data were free. After it is switched on, the
// first Options.Hold full batches are loaded and kept. From then on Next serves these again and
// again, which costs nothing. Each time they have the next Seq, Index and Pos and FlagCeiling,
// but the kept contents and Samples. So while the ceiling is on, samples are deliberately not
// delivered exactly once. The position in the epoch moves on, and the epoch continues there
// after the ceiling is switched off.
package loader
