package safetensors

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"dev.gpustall/engine/base/errs"
)

// Tensor is a tensor to write: numbers, or one integer.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32 // of F32
	Count *int64    // the only element of a tensor of I64; Data is not used then
}

func (t *Tensor) place(at int64) place {
	p := place{Type: "F32", Shape: []int64{}, At: [2]int64{at, at + 4*int64(len(t.Data))}}
	for _, d := range t.Shape {
		p.Shape = append(p.Shape, int64(d))
	}
	if t.Count != nil {
		p.Type, p.At[1] = "I64", at+8
	}
	return p
}

// Write writes tensors into a file. On success the file is complete and on the disk.
// After an error it is as it was before.
func Write(path string, tensors []Tensor, about map[string]string) (err error) {
	header, err := encode(tensors, about)
	if err != nil {
		return err
	}
	const hint = "free some space, or name a file in a folder that can be written to"
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return errs.File(err, "write weights", path, hint)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	_, err = w.Write(header)
	for i := range tensors {
		err = errors.Join(err, tensors[i].write(w))
	}
	if err = errors.Join(err, w.Flush()); err == nil {
		err = errors.Join(f.Chmod(0o644), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errs.File(errors.Join(err, os.Remove(f.Name())), "write weights", path, hint)
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder writes the name of a new file to the disk, where the system can do that.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return nil //nolint:nilerr // the file is there; a folder that may not be read is no failure
	}
	_ = d.Sync() // some file systems cannot
	return d.Close()
}

// encode makes the header, padded so that the tensors lie at a multiple of 8 bytes.
func encode(tensors []Tensor, about map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{")
	comma := ""
	put := func(name string, v any) error {
		key, err := json.Marshal(name)
		if err != nil {
			return err
		}
		value, err := json.Marshal(v)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s%s:%s", comma, key, value)
		comma = ","
		return nil
	}
	if len(about) > 0 {
		if err := put(metadata, about); err != nil {
			return nil, err
		}
	}
	at, seen := int64(0), map[string]bool{metadata: true}
	for i := range tensors {
		t := &tensors[i]
		if n := elements(t.Shape); seen[t.Name] || t.Count == nil && n != len(t.Data) || t.Count != nil && n != 1 {
			return nil, fmt.Errorf("safetensors: tensor %s is there twice, or its shape %s is not that of %d numbers", strconv.Quote(t.Name), Shape(t.Shape), len(t.Data))
		}
		seen[t.Name] = true
		p := t.place(at)
		if err := put(t.Name, p); err != nil {
			return nil, err
		}
		at = p.At[1]
	}
	b.WriteString("}")
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(b.Len())), b.Bytes()...), nil
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func (t *Tensor) write(w io.Writer) error {
	if t.Count != nil {
		_, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(*t.Count)))
		return err
	}
	var b [4096]byte
	for v := t.Data; len(v) > 0; {
		n := min(len(v), len(b)/4)
		for i, x := range v[:n] {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x))
		}
		if _, err := w.Write(b[:4*n]); err != nil {
			return err
		}
		v = v[n:]
	}
	return nil
}
