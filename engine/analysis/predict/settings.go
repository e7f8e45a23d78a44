package predict

import (
	"cmp"
	"strconv"

	"dev.gpustall/engine/base/knob"
)

// settings are the knobs that the model knows.
type settings struct {
	workers, prefetch, batch    int
	mean                        float64 // samples of a batch, where batches differ in size; else 0
	inOrder, persistent, pinned bool
	transforms                  bool // on the device
	ceiling                     bool
	dropLast                    bool
}

// Names of the knobs that change what the model says.
const (
	numWorkers       = "num_workers"
	prefetchFactor   = "prefetch_factor"
	batchSize        = "batch_size"
	pinMemory        = "pin_memory"
	persistent       = "persistent_workers"
	inOrder          = "in_order"
	deviceTransforms = "device_transforms"
	ceiling          = "ceiling"
)

// settingsOf reads the knobs. ok is false where workers or batch size are not known.
func settingsOf(knobs []knob.Setting) (k settings, ok bool) {
	k.inOrder = true
	for _, kn := range knobs {
		k.set(kn)
	}
	return k, knob.ValueOf(knobs, numWorkers) != "" && k.batch > 0
}

// set changes one knob. It returns false where the model does not know the knob or the
// value.
func (k *settings) set(change knob.Setting) bool {
	n, err := strconv.Atoi(change.Value)
	number := func(to *int, least int) bool {
		if err != nil || n < least {
			return false
		}
		*to = n
		return true
	}
	on := knob.On(change.Value)
	switch change.Name {
	case numWorkers:
		return number(&k.workers, 0)
	case prefetchFactor:
		return number(&k.prefetch, 0)
	case batchSize:
		k.mean = 0
		return number(&k.batch, 1)
	case pinMemory:
		k.pinned = on
	case persistent:
		k.persistent = on
	case inOrder:
		k.inOrder = on
	case deviceTransforms:
		k.transforms = on
	case ceiling:
		k.ceiling = on
	case "drop_last":
		k.dropLast = on
		return false
	default:
		return false
	}
	return true
}

// size returns how many samples a batch has, on average.
func (k *settings) size() float64 { return cmp.Or(k.mean, float64(k.batch)) }

// ahead returns the prefetch_factor in force: PyTorch's default where it is unset.
func (k *settings) ahead() int {
	if k.prefetch == 0 {
		return 2
	}
	return k.prefetch
}

// queue returns the settings of the workers and of their queue alone.
func (k *settings) queue() settings {
	return settings{workers: k.workers, prefetch: k.ahead(), inOrder: k.inOrder, persistent: k.persistent}
}

// epoch returns the number of batches in an epoch of so many samples; 0 where that is not
// known.
func (k *settings) epoch(samples int64) int {
	if samples <= 0 {
		return 0
	}
	full := int(samples) / k.batch
	if int(samples)%k.batch != 0 && !k.dropLast || full == 0 {
		full++
	}
	return full
}
