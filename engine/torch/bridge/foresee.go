//go:build linux

package bridge

import (
	"fmt"
	"strconv"

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
	if text := shared(&k, freeOf(memoryFiles), b.batchBytes()); text != "" {
		return text, true
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
	return fmt.Sprintf("%s batches of %s are under way in /dev/shm, which has %s left: a worker that finds it full dies of a bus error; enlarge it (docker run --shm-size), or load fewer ahead",
		strconv.Itoa(k.queueLimit()), figures.Prose.Bytes(batch), figures.Prose.Bytes(free))
}

// freeOf is the room in a folder, in bytes; -1 where that is not known.
func freeOf(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return -1
	}
	return int64(s.Bavail) * s.Bsize
}

// batchBytes is the size of a batch; 0 while none was seen.
func (b *Bridge) batchBytes() int64 { return b.main.bytes.Load() }
