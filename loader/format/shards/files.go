package shards

import (
	"sync"

	"dev.gpustall/loader/source"
)

// maxOpen is how many shards stay open. A set may have more shards than a process may open
// files.
const maxOpen = 128

// files keeps the last used shards open.
type files struct {
	mu   sync.Mutex
	open map[int]*handle // by shard
	tick int64
}

type handle struct {
	file  source.File
	users int
	used  int64 // the tick of the last use
}

// take returns a shard's file, and opens it with open if it is not open yet. The caller gives
// it back.
func (f *files) take(shard int, open func() (source.File, error)) (*handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[int]*handle{}
	}
	h := f.open[shard]
	if h == nil {
		// Opening with the lock held costs others the time of one open, a few times a shard.
		// Without the lock, each worker would open the shard.
		file, err := open()
		if err != nil {
			return nil, err
		}
		h = &handle{file: file}
		f.open[shard] = h
		f.trim(h)
	}
	f.tick++
	h.used = f.tick
	h.users++
	return h, nil
}

func (f *files) give(h *handle) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h.users--
}

// trim closes the files that were used longest ago, but not fresh, which is about to be used.
func (f *files) trim(fresh *handle) {
	for len(f.open) > maxOpen {
		oldest := -1
		for i, h := range f.open {
			if h != fresh && h.users == 0 && (oldest < 0 || h.used < f.open[oldest].used) {
				oldest = i
			}
		}
		if oldest < 0 {
			return // all are being read
		}
		_ = f.open[oldest].file.Close() // it was only read
		delete(f.open, oldest)
	}
}

func (f *files) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, h := range f.open {
		_ = h.file.Close() // it was only read
		delete(f.open, i)
	}
}
