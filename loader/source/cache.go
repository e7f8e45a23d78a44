package source

import (
	"cmp"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"dev.gpustall/engine/base/errs"
)

// Cache keeps blocks of objects in a folder of this machine, each with a checksum. Above a size
// limit it removes the blocks that were used longest ago. The blocks outlive the run, and each
// belongs to one version of its object. If a block cannot be written, the cache keeps nothing
// more (Files.Trouble), and the run goes on.
type Cache struct {
	dir  string
	most int64

	mu    sync.Mutex
	files map[string]*list.Element // of *kept, by name
	order list.List                // the one used last is in front
	bytes int64
	ended error // why nothing more is kept
}

type kept struct {
	name  string
	bytes int64
}

const (
	cacheExt   = ".block"
	cacheTmp   = ".tmp-*"
	hintCache  = "name another --cache-dir, or none"
	cacheExtra = 4 // bytes of the checksum
)

// MinCache is the smallest cache: a block for each of many shards that are read at a time.
const MinCache = 64 << 20

// NewCache opens the cache in a folder, and makes the folder if it is missing. Blocks of
// earlier runs count.
func NewCache(dir string, most int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errs.File(err, "open the cache in", dir, hintCache)
	}
	c := &Cache{dir: dir, most: most, files: map[string]*list.Element{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, errs.File(err, "open the cache in", dir, hintCache)
	}
	type old struct {
		kept
		used int64
	}
	var before []old
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() {
			continue
		}
		if left, _ := filepath.Match(cacheTmp, e.Name()); left {
			_ = os.Remove(filepath.Join(dir, e.Name())) // of a run that was killed
		} else if strings.HasSuffix(e.Name(), cacheExt) {
			before = append(before, old{kept{e.Name(), st.Size()}, st.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(before, func(a, b old) int { return cmp.Compare(a.used, b.used) })
	for i := range before {
		c.add(before[i].kept)
	}
	c.trim()
	return c, nil
}

// add adds a block. The caller holds mu, or the cache is not shared yet.
func (c *Cache) add(k kept) {
	if e := c.files[k.name]; e != nil {
		c.drop(e)
	}
	c.files[k.name] = c.order.PushFront(&k)
	c.bytes += k.bytes
}

func (c *Cache) drop(e *list.Element) {
	k := e.Value.(*kept) // nothing else is in the list
	c.order.Remove(e)
	delete(c.files, k.name)
	c.bytes -= k.bytes
}

// trim removes blocks until the cache is within its limit.
func (c *Cache) trim() {
	for c.bytes > c.most {
		e := c.order.Back()
		_ = os.Remove(filepath.Join(c.dir, e.Value.(*kept).name)) // as above
		c.drop(e)
	}
}

// Bytes returns how much is kept.
func (c *Cache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// get fills b with a block, and reports whether it was kept and intact.
func (c *Cache) get(name string, b []byte) bool {
	c.mu.Lock()
	e := c.files[name]
	if e != nil {
		c.order.MoveToFront(e)
	}
	c.mu.Unlock()
	if e == nil {
		return false
	}
	path := filepath.Join(c.dir, name)
	read, err := os.ReadFile(path)
	if err == nil && len(read) == len(b)+cacheExtra && binary.LittleEndian.Uint32(read[len(b):]) == crc32.Checksum(read[:len(b)], castagnoli) {
		copy(b, read)
		now := time.Now()
		_ = os.Chtimes(path, now, now) // the next run decides by this time
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[name] == e {
		_ = os.Remove(path) // damaged, or gone
		c.drop(e)
	}
	return false
}

// put keeps a block.
func (c *Cache) put(name string, b []byte) {
	c.mu.Lock()
	ended := c.ended
	c.mu.Unlock()
	if ended != nil {
		return
	}
	f, err := os.CreateTemp(c.dir, cacheTmp)
	if err == nil {
		_, err = f.Write(b)
		if err == nil {
			_, err = f.Write(binary.LittleEndian.AppendUint32(nil, crc32.Checksum(b, castagnoli)))
		}
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Rename(f.Name(), filepath.Join(c.dir, name))
		}
		if err != nil {
			_ = os.Remove(f.Name()) // nothing more can be done
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.add(kept{name, int64(len(b) + cacheExtra)})
		c.trim()
		return
	}
	c.ended = cmp.Or(c.ended, err)
}

// trouble says why the cache keeps nothing more. It is empty while the cache works.
func (c *Cache) trouble() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		return ""
	}
	return fmt.Sprintf("nothing more is kept in the cache %s: %v; the run goes on and reads from the store", errs.Path(c.dir), c.ended)
}

// cached does what fetch does through the cache, in whole blocks, for an object whose version
// is known.
func (o *object) cached(ctx context.Context, p []byte, off int64, waited *int64) error {
	cache := o.b.files.options.Cache
	of := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", o.at, o.entry.Version, o.entry.Size))
	for len(p) > 0 {
		i := off / Block
		start, end := i*Block, min((i+1)*Block, o.entry.Size)
		b := p
		whole := off == start && int64(len(p)) >= end-start
		if whole {
			b = p[:end-start]
		} else {
			b = make([]byte, end-start)
		}
		name := fmt.Sprintf("%s-%d%s", hex.EncodeToString(of[:16]), i, cacheExt)
		if cache.get(name, b) {
			o.b.files.counts.cached.Add(int64(len(b)))
		} else {
			if err := o.fetch(ctx, b, start, waited); err != nil {
				return err
			}
			cache.put(name, b)
		}
		n := len(b)
		if !whole {
			n = copy(p, b[off-start:])
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}
