package shards

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Part is a file of a sample: what follows the key in its name, and its content.
type Part struct {
	Ext  string
	Data []byte
}

// Writer writes a shard. The file gets its name when it is whole and on the disk; until
// then it is a hidden one beside it. The same samples make the same bytes.
type Writer struct {
	path    string
	file    *os.File
	buf     *bufio.Writer
	tar     *tar.Writer
	sum     hash.Hash
	bytes   int64
	samples int
}

// tmpPattern is the name of a shard that is not whole, whose own name is put in.
const tmpPattern = ".%s.tmp-*"

// Create begins a shard.
func Create(path string) (*Writer, error) {
	f, err := os.CreateTemp(filepath.Dir(path), fmt.Sprintf(tmpPattern, filepath.Base(path)))
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, file: f, buf: bufio.NewWriterSize(f, 1<<20), sum: sha256.New()}
	w.tar = tar.NewWriter(io.MultiWriter(w.buf, w.sum, (*counter)(&w.bytes)))
	return w, nil
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// Add writes a sample: its files, one after the other, each with its checksum (sumName).
func (w *Writer) Add(key string, parts ...Part) error {
	for _, p := range parts {
		err := w.tar.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: key + p.Ext, Size: int64(len(p.Data)), Mode: 0o444, ModTime: time.Unix(0, 0),
			Gname: fmt.Sprintf("%s%08x", sumName, crc32.Checksum(p.Data, castagnoli)),
		})
		if err != nil {
			return err
		}
		if _, err := w.tar.Write(p.Data); err != nil {
			return err
		}
	}
	w.samples++
	return nil
}

// Close ends the shard, brings it to the disk and names it.
func (w *Writer) Close() (Packed, error) {
	err := errors.Join(w.tar.Close(), w.buf.Flush())
	if err == nil {
		err = errors.Join(w.file.Chmod(0o644), w.file.Sync())
	}
	err = errors.Join(err, w.file.Close())
	if err == nil {
		err = os.Rename(w.file.Name(), w.path)
	}
	if err != nil {
		return Packed{}, errors.Join(err, os.Remove(w.file.Name()))
	}
	return Packed{Name: filepath.Base(w.path), Samples: w.samples, Bytes: w.bytes, SHA256: hex.EncodeToString(w.sum.Sum(nil))}, nil
}

// Abort removes what was written.
func (w *Writer) Abort() {
	_ = w.file.Close() // it goes
	_ = os.Remove(w.file.Name())
}

// Space is how many bytes a file of so many takes in a shard, its header included.
func Space(size int64) int64 { return 512 + (size+511)/512*512 }
