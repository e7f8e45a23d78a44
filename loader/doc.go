// Package loader turns a data set into batches on host goroutines, the way
// PyTorch's DataLoader does and with its words for the knobs, except that every
// knob can be changed while it runs.
//
// # How it works
//
//	Sampler -> Worker: read, decode, transform, collate into a slot -> ready -> Next
//	   ^                                                                         |
//	   +--------------------- free slots <- Release <----------------------------+
//
// One mutex guards the schedule; nothing under it takes longer than moving a few
// pointers. Workers pull: a worker that is free takes the lock once, hands over
// the batch it has built and takes the next one, which is cut from the sampler's
// order at that moment. Hence batch boundaries are decided at dispatch, and every
// knob applies from the next dispatch on. Whatever a knob change does, the position in
// the epoch moves forward only over samples that a worker was given, so each sample is
// delivered exactly once. Everything that costs time
// (shuffling, copying indices, page-locking, building the batch) runs outside
// the lock.
//
// A slot is in one place at a time:
//
//	free -> loading -> ready -> held (by the caller, until Release) -> free
//	          ^           |
//	          +-- redo <--+  (its load failed: Next returned the error)
//
// All undelivered batches are also on the flight list in the sampler's order. With
// in_order Next waits for the head of that list, otherwise it takes whichever
// batch of the epoch became ready first. An epoch is a barrier for both: the
// first batch of the next is delivered after the last of this one.
//
// There are num_workers x prefetch_factor + Options.Hold slots; that is all the
// memory. Their bytes are (re)allocated by the worker that takes a slot whose
// memory does not fit the knobs any more, so each slot pays once after a change
// of batch_size, device_transforms or pin_memory, and nothing in steady state.
// A worker without work, or held back by the prefetch limit, parks; whoever makes
// work possible wakes one.
//
// Beside the slots each worker has scratch memory for the samples it works on: about
// 4 MiB, stored and decoded, or one sample if that is larger.
//
// # Without workers
//
// With num_workers=0 Next has its batch built and waits for it. The device goes on with
// the steps that were enqueued before (engine.Depth of them at the most), so loading
// hides behind computing as far as that reaches: a batch that loads faster than the
// device computes costs nothing. What is missing is a second batch at the same time, and
// loading while the step loop waits for the device; a worker does both.
//
// # What is promised
//
// The same seed gives the same batches, contents included, whatever num_workers
// is: the order is a function of (seed, epoch) and a sample's randomness one of
// (seed, epoch, index).
//
// Data that lies in a few large files (Grouped) is shuffled near to where it lies: the
// order depends on shuffle_buffer as well then. Data that can only be read forwards is a
// Stream; FromStream makes it a Dataset, so that all of this holds for it too.
//
// When a load fails (an error or a panic in the data set or the transform), Next
// returns the error once, when it is that batch's turn; it names the sample. The batch
// keeps its place, and the next call of Next has it loaded again. So a caller that goes
// on after a passing fault loses nothing and gets nothing twice; one that gives up
// calls Close.
//
// With on_error=skip the sample that is to blame is left out, whether its load returned
// an error or panicked: its batch is that much shorter, and is left out itself where
// nothing of it remains. Every sample that can be loaded is still delivered exactly once. Each epoch
// tries them all again; one of which nothing can be loaded ends the run.
//
// With reads_in_flight a worker reads that many samples at a time, each in a goroutine of
// its own, and goes on when all of its chunk are there. It is then blocked, to the host,
// whatever its reads do; the cores that they take are the process's.
//
// With persistent_workers the workers may work one epoch ahead; without, they end
// with the epoch's last batch and are started again by the first Next of the next.
//
// shuffle applies to the next epoch that has not been started. drop_last is
// decided when the batch before the rest is dispatched; a rest that was not
// dropped then is delivered, even if drop_last comes on later.
//
// # Ceiling
//
// The ceiling knob asks what the run would do if data were free. The first
// Options.Hold full batches after it is switched on are loaded and kept. From then on
// Next serves these again and again, which costs nothing: each time with the next Seq,
// Index and Pos, but with the kept contents and Samples, and with FlagCeiling. While the
// ceiling is on, samples are not delivered exactly once, on purpose. The position in
// the epoch moves on all the same; after the ceiling is switched off the epoch continues
// there.
package loader
