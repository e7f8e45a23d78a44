package prepared

import "dev.gpustall/loader"

// TestHold is how many batches an evaluation holds at the same time, besides its loader's
// own. They are the batches on the device, and the one that comes next.
const TestHold = Slots + 1

// TestKnobs returns the loader's knobs for an evaluation. It loads each sample of the
// split once, in stored order, and holds no more in memory than it has to.
func TestKnobs(k loader.Knobs, samples int) loader.Knobs {
	k.Shuffle, k.DropLast, k.InOrder, k.PersistentWorkers, k.PinMemory = false, false, true, false, false
	k.PrefetchFactor = min(k.PrefetchFactor, 2)
	k.BatchSize = min(k.BatchSize, samples)
	k.Inject = loader.Inject{}
	return k
}
