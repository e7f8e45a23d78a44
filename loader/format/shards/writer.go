package shards

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"

	"dev.gpustall/loader/source"
)

// Part is a file of a sample: its name after the key, and its content.
type Part struct {
	Ext  string
	Data []byte
}

// Writer writes a shard, which becomes visible as a whole at Close. The same samples make the
// same bytes.
type Writer struct {
	ctx     context.Context // from Create to Close
	to      *source.Files
	path    string
	file    source.Writer
	buf     *bufio.Writer
	tar     *tar.Writer
	sum     hash.Hash
	bytes   int64
	samples int
	index   grouper
}

// Create begins a shard.
func Create(ctx context.Context, to *source.Files, path string) (*Writer, error) {
	f, err := to.Create(ctx, path)
	if err != nil {
		return nil, err
	}
	w := &Writer{ctx: ctx, to: to, path: path, file: f, buf: bufio.NewWriterSize(f, 1<<20), sum: sha256.New(), index: grouper{x: &index{}}}
	w.tar = tar.NewWriter(io.MultiWriter(w.buf, w.sum, (*counter)(&w.bytes)))
	return w, nil
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// Add writes a sample: its files one after the other, each with its checksum (sumName).
func (w *Writer) Add(key string, parts ...Part) error {
	for _, p := range parts {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: key + p.Ext, Size: int64(len(p.Data)), Mode: 0o444, ModTime: time.Unix(0, 0),
			Gname: fmt.Sprintf("%s%08x", sumName, crc32.Checksum(p.Data, castagnoli)),
		}
		if err := w.tar.WriteHeader(h); err != nil {
			return err
		}
		if err := w.index.add(h, w.bytes, bytes.NewReader(p.Data)); err != nil {
			return err
		}
		if _, err := w.tar.Write(p.Data); err != nil {
			return err
		}
	}
	w.samples++
	return nil
}

// Close ends the shard, gives it its name, and writes its index beside it.
func (w *Writer) Close() (Packed, error) {
	err := errors.Join(w.tar.Close(), w.buf.Flush(), w.index.flush())
	if err != nil {
		w.file.Abort()
		return Packed{}, err
	}
	_, name := source.Split(w.path)
	p := Packed{Name: name, Samples: w.samples, Bytes: w.bytes, SHA256: hex.EncodeToString(w.sum.Sum(nil))}
	if err := w.to.WriteAll(w.ctx, w.path+extIndex, w.index.x.marshal(p.Bytes, p.stamp())); err != nil {
		w.file.Abort()
		return Packed{}, err
	}
	return p, w.file.Commit()
}

// Abort removes what was written.
func (w *Writer) Abort() { w.file.Abort() }

// Space returns how many bytes a file of that size takes in a shard, including its
// header.
func Space(size int64) int64 { return 512 + (size+511)/512*512 }

// extIndex is added to a shard's name for the file of its index. It has the form of a kept
// index and belongs to the shard's checksum. Opening a shard in a store reads this file.
const extIndex = ".index"

// stamp returns the stamp of an index that was packed with its shard.
func (p *Packed) stamp() int64 {
	sum, _ := hex.DecodeString(p.SHA256) // none: 0, which is no shard's
	if len(sum) < 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(sum))
}

// beside reads the index that was packed with a shard.
func beside(ctx context.Context, f *source.Files, path string, p *Packed) (*index, error) {
	b, err := f.ReadAll(ctx, path+extIndex, maxCached)
	if err != nil {
		return nil, err
	}
	return unmarshal(b, p.Bytes, p.stamp(), p.Bytes)
}
