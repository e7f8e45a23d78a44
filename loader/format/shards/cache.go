package shards

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"dev.gpustall/loader/source"
)

// An index is kept in a file of the cache folder, named by the shard's path, so that a shard is
// walked once. It is valid for a shard of the same size and stamp (source.Entry): its time of
// change, or its version in a store.
//
//	magic, size int64, stamp int64, kind, samples uint32, bytes of keys uint32,
//	for each sample off int64, size uint32, label int32, sum uint32, key uint32,
//	keys, CRC-32C of all before
const (
	cacheMagic  = "gpustall-index-1"
	cacheHead   = len(cacheMagic) + 8 + 8 + 1 + 4 + 4
	cacheEntry  = 8 + 4*4
	maxCached   = 1 << 32 // bytes of a kept index
	cacheFolder = "shards"
)

var errCache = errors.New("the kept index is damaged or another shard's")

// marshal returns the kept form of an index.
func (x *index) marshal(size, stamp int64) []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, cacheHead+len(x.entries)*cacheEntry+len(x.keys))
	b = append(b, cacheMagic...)
	b = le.AppendUint64(b, uint64(size))
	b = le.AppendUint64(b, uint64(stamp))
	b = append(b, byte(x.kind))
	b = le.AppendUint32(b, uint32(len(x.entries)))
	b = le.AppendUint32(b, uint32(len(x.keys)))
	for i := range x.entries {
		e := &x.entries[i]
		b = le.AppendUint64(b, uint64(e.off))
		b = le.AppendUint32(b, e.size)
		b = le.AppendUint32(b, uint32(e.label))
		b = le.AppendUint32(b, e.sum)
		b = le.AppendUint32(b, e.key)
	}
	return sealed(append(b, x.keys...))
}

// sealed returns b with its checksum.
func sealed(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b[:len(b):len(b)], crc32.Checksum(b, castagnoli))
}

// unmarshal is the inverse of marshal. It refuses an index of a shard of another size or
// stamp, and an index that would lead a read beyond the shard's first within bytes.
func unmarshal(b []byte, size, stamp, within int64) (*index, error) {
	le := binary.LittleEndian
	if len(b) < cacheHead+4 || string(b[:len(cacheMagic)]) != cacheMagic {
		return nil, errCache
	}
	body, sum := b[:len(b)-4], le.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, errCache
	}
	head := body[len(cacheMagic):cacheHead]
	if int64(le.Uint64(head)) != size || int64(le.Uint64(head[8:])) != stamp {
		return nil, errCache
	}
	x := &index{kind: kind(head[16])}
	n, keys := int(le.Uint32(head[17:])), int(le.Uint32(head[21:]))
	if x.kind > arrays || len(body) != cacheHead+n*cacheEntry+keys {
		return nil, errCache
	}
	x.keys = body[len(body)-keys:]
	x.entries = make([]entry, n)
	last := uint32(0)
	for i := range x.entries {
		at := body[cacheHead+i*cacheEntry:]
		e := entry{int64(le.Uint64(at)), le.Uint32(at[8:]), int32(le.Uint32(at[12:])), le.Uint32(at[16:]), le.Uint32(at[20:])}
		if e.off < 0 || e.off > within || int64(e.size) > within-e.off || e.size > maxSample ||
			e.label < none || e.label > maxLabel || e.key < last || int(e.key) > keys {
			return nil, errCache
		}
		x.entries[i], last = e, e.key
	}
	return x, nil
}

// cacheFile returns the file in a cache folder that keeps a shard's index.
func cacheFile(dir, shard string) (string, error) {
	abs, err := source.Absolute(shard)
	if err != nil {
		return "", err
	}
	name := sha256.Sum256([]byte(abs))
	return filepath.Join(dir, cacheFolder, hex.EncodeToString(name[:16])+".index"), nil
}

// load returns the kept index of a shard, or an error if there is no valid one.
func load(dir, shard string, e *source.Entry) (*index, error) {
	if dir == "" {
		return nil, fs.ErrNotExist
	}
	path, err := cacheFile(dir, shard)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCached))
	if err != nil {
		return nil, err
	}
	within := e.Size
	if compressed(shard) {
		within = math.MaxInt64
	}
	return unmarshal(b, e.Size, e.Stamp(), within)
}

// keep keeps an index. It ignores errors: the next run then walks the shard again.
func keep(dir, shard string, e *source.Entry, x *index) {
	if dir == "" {
		return
	}
	path, err := cacheFile(dir, shard)
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".index-*")
	if err != nil {
		return
	}
	_, err = f.Write(x.marshal(e.Size, e.Stamp()))
	if errors.Join(err, f.Close()) != nil || os.Rename(f.Name(), path) != nil {
		_ = os.Remove(f.Name()) // nothing more can be done
	}
}
