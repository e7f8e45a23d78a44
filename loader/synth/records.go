package synth

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader/format/records"
	"dev.gpustall/loader/synth/marker"
)

// Records writes o.Samples files of size random bytes each into dir (package
// records reads them). o.Test is ignored.
func Records(ctx context.Context, dir string, size int, o Options) error {
	if o.Samples < 1 || o.Samples > maxSamples || size < 1 {
		return errs.New("make data", dir, fmt.Sprintf("%d records of %d bytes", o.Samples, size), fmt.Sprintf("ask for 1 to %d of at least a byte", maxSamples))
	}
	m := marker.Marker{Format: records.Format, Name: "records", Samples: o.Samples, Seed: o.Seed, Bytes: int64(size)}
	p := &progress{total: o.Samples, fn: o.Progress}
	return publish(dir, m, func(tmp string) error {
		b := make([]byte, size)
		for i := range o.Samples {
			if err := ctx.Err(); err != nil {
				return err
			}
			records.Fill(b, o.Seed, i)
			if err := os.WriteFile(filepath.Join(tmp, fmt.Sprintf("%07d%s", i, records.Ext)), b, 0o644); err != nil {
				return err
			}
			p.add(1)
		}
		return nil
	})
}
