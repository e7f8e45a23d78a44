package synth

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"dev.gpustall/loader"
	"dev.gpustall/loader/synth/marker"
)

// CIFAR-10's geometry and defaults.
const (
	cifarSide    = 32
	cifarPlane   = cifarSide * cifarSide
	cifarPixels  = 3 * cifarPlane
	cifarRecord  = 1 + cifarPixels
	cifarBatches = 5
	cifarSamples = 50_000
)

// CIFAR10 writes CIFAR-10's binary version into dir: data_batch_1.bin to data_batch_5.bin,
// test_batch.bin and batches.meta.txt. By default it has as many samples as the real one,
// 50,000 and 10,000. If it fails it leaves dir as it was.
func CIFAR10(ctx context.Context, dir string, o Options) error {
	return writeCIFAR(ctx, dir, "cifar10-binary", o, func(tmp, name string, records []byte) error {
		return os.WriteFile(filepath.Join(tmp, name+".bin"), records, 0o644)
	}, func(tmp string) error {
		var b bytes.Buffer
		for _, n := range ClassNames {
			fmt.Fprintln(&b, n)
		}
		fmt.Fprintln(&b) // as in the real file
		return os.WriteFile(filepath.Join(tmp, "batches.meta.txt"), b.Bytes(), 0o644)
	})
}

// writeCIFAR makes the batches one after the other and passes each to batch, as binary records.
func writeCIFAR(ctx context.Context, dir, format string, o Options, batch func(tmp, name string, records []byte) error, meta func(tmp string) error) error {
	o, err := o.withDefaults("CIFAR-10", cifarSamples)
	if err != nil {
		return err
	}
	m := marker.Marker{Format: format, Name: "CIFAR-10", Samples: o.Samples, Test: o.Test, Seed: o.Seed, Bytes: cifarRecord}
	p := &progress{total: o.Samples + o.Test, fn: o.Progress}
	return publish(dir, m, func(tmp string) error {
		buf := make([]byte, max((o.Samples+cifarBatches-1)/cifarBatches, o.Test)*cifarRecord)
		first := 0
		for i := range cifarBatches {
			n := o.Samples / cifarBatches
			if i < o.Samples%cifarBatches {
				n++
			}
			b := buf[:n*cifarRecord]
			if err := cifarRecords(ctx, b, o.Seed, splitTrain, first, p); err != nil {
				return err
			}
			if err := batch(tmp, fmt.Sprintf("data_batch_%d", i+1), b); err != nil {
				return err
			}
			first += n
		}
		b := buf[:o.Test*cifarRecord]
		if err := cifarRecords(ctx, b, o.Seed, splitTest, 0, p); err != nil {
			return err
		}
		if err := batch(tmp, "test_batch", b); err != nil {
			return err
		}
		return meta(tmp)
	})
}

// cifarRecords fills b with records: the label, then the red, green and blue planes.
func cifarRecords(ctx context.Context, b []byte, seed int64, split, first int, p *progress) error {
	return parallel(ctx, len(b)/cifarRecord, 256, func(from, to int) error {
		var px [cifarPixels]byte
		for i := from; i < to; i++ {
			class := label(seed, split, first+i)
			rng := loader.NewRNG(seed, split, first+i)
			pic := newPicture(class, &rng)
			pic.draw(px[:], cifarSide, cifarSide, &rng)
			r := b[i*cifarRecord : (i+1)*cifarRecord]
			r[0] = byte(class)
			for k := range cifarPlane {
				r[1+k], r[1+cifarPlane+k], r[1+2*cifarPlane+k] = px[3*k], px[3*k+1], px[3*k+2]
			}
		}
		p.add(to - from)
		return nil
	})
}
