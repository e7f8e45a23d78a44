//go:build linux

package bridge

import (
	"fmt"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
)

// Foresee says what may go wrong if changes were made. Grave is what would end the
// training.
func (b *Bridge) Foresee(changes []trace.Knob) (text string, grave bool) {
	b.Control.mu.Lock()
	k := b.Control.wanted
	b.Control.mu.Unlock()
	for _, c := range changes {
		_ = KnobTable.Set(&k, c.Name, c.Value) // Set refuses it with a reason
	}
	b.mu.Lock()
	size := b.main.batchSize
	b.mu.Unlock()
	for _, text := range []string{shared(&k, freeOf(memoryFiles), size.Bytes), descriptors(&k, &size)} {
		if text != "" {
			return text, true
		}
	}
	return "", false
}

// shared warns of a /dev/shm that batches under way would fill: a worker that finds it
// full dies by SIGBUS ("bus error").
func shared(k *Knobs, free, batch int64) string {
	need := int64(k.queueLimit()) * batch
	if k.Workers == 0 || batch == 0 || free < 0 || need < free {
		return ""
	}
	return fmt.Sprintf("%d batches of %s are under way in /dev/shm, which has %s left: a worker that finds it full dies of a bus error; enlarge it (docker run --shm-size), or load fewer ahead",
		k.queueLimit(), figures.Prose.Bytes(batch), figures.Prose.Bytes(free))
}

// descriptors warns of the limit of open files: each tensor under way is one, where they
// are shared by descriptor.
func descriptors(k *Knobs, size *Batch) string {
	need := int64(k.queueLimit())*size.Tensors + 128 // and what a Python process has open besides
	if k.Workers == 0 || size.Sharing != "file_descriptor" || size.Files <= 0 || need < size.Files {
		return ""
	}
	return fmt.Sprintf("~%d files are open with %d batches of %d tensors under way, and the limit is %d (\"too many open files\"): raise it (ulimit -n), load fewer ahead, or call torch.multiprocessing.set_sharing_strategy('file_system')",
		need, k.queueLimit(), size.Tensors, size.Files)
}

// freeOf is the room in a folder, in bytes; -1 where that is not known.
func freeOf(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return -1
	}
	return int64(s.Bavail) * s.Bsize
}
