package synth

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"dev.gpustall/engine/base/errs"
)

// CIFAR10Python writes CIFAR-10's Python version into dir: data_batch_1 to
// data_batch_5, test_batch and batches.meta, pickled as Python 2 pickled the
// published files (protocol 2).
func CIFAR10Python(ctx context.Context, dir string, o Options) error {
	if max(o.Samples, o.Test) > maxPickled {
		return errs.New("make data", dir, fmt.Sprintf("%d samples are more than the %d of the Python version", max(o.Samples, o.Test), maxPickled), "make the binary version")
	}
	return writeCIFAR(ctx, dir, "cifar10-python", o, func(tmp, name string, records []byte) error {
		return os.WriteFile(filepath.Join(tmp, name), pickleBatch(name, records), 0o644)
	}, func(tmp string) error {
		return os.WriteFile(filepath.Join(tmp, "batches.meta"), pickleMeta(), 0o644)
	})
}

// maxPickled keeps a batch below the reader's limit.
const maxPickled = 20_000

// pickler writes the few operations needed; see Python's pickletools.
type pickler struct{ bytes.Buffer }

func (p *pickler) str(s string) { // SHORT_BINSTRING: Python 2's str
	p.WriteByte('U')
	p.WriteByte(byte(len(s)))
	p.WriteString(s)
}

func (p *pickler) int(n int) { // BININT
	p.WriteByte('J')
	_ = binary.Write(p, binary.LittleEndian, int32(n))
}

// pickleBatch turns binary records into {batch_label, labels, data, filenames}.
func pickleBatch(name string, records []byte) []byte {
	n := len(records) / cifarRecord
	var p pickler
	p.Grow(len(records) + n*32 + 512)
	p.WriteString("\x80\x02}(")
	p.str("batch_label")
	p.str("synthetic " + name)
	p.str("labels")
	p.WriteString("](")
	for i := range n {
		p.WriteString("K" + string(rune(records[i*cifarRecord])))
	}
	p.WriteByte('e')
	p.str("data")
	// numpy's array: _reconstruct(ndarray, (0,), 'b'), then its state.
	p.WriteString("cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01")
	p.int(n)
	p.int(cifarPixels)
	p.WriteString("\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T")
	_ = binary.Write(&p, binary.LittleEndian, int32(n*cifarPixels))
	for i := range n {
		p.Write(records[i*cifarRecord+1 : (i+1)*cifarRecord])
	}
	p.WriteString("tb")
	p.str("filenames")
	p.WriteString("](")
	for i := range n {
		p.str(fmt.Sprintf("%s_%06d.png", ClassNames[records[i*cifarRecord]], i))
	}
	p.WriteString("eu.")
	return p.Bytes()
}

// pickleMeta returns {num_cases_per_batch, label_names, num_vis}.
func pickleMeta() []byte {
	var p pickler
	p.WriteString("\x80\x02}(")
	p.str("num_cases_per_batch")
	p.int(cifarSamples / cifarBatches)
	p.str("label_names")
	p.WriteString("](")
	for _, n := range ClassNames {
		p.str(n)
	}
	p.WriteByte('e')
	p.str("num_vis")
	p.int(cifarPixels)
	p.WriteString("u.")
	return p.Bytes()
}
