package synth

import (
	"context"
	"os"
	"path/filepath"

	"dev.gpustall/loader/synth/marker"
)

// splits makes dir with a folder for each split, which fill fills with n samples. It marks
// each folder, because a split may be opened on its own. kind is the name of the data in
// errors, and samples is its default number of samples.
func splits(dir, kind string, samples int, m marker.Marker, o Options, fill func(root string, split, n int, p *progress) error) error {
	o, err := o.withDefaults(kind, samples)
	if err != nil {
		return err
	}
	m.Samples, m.Test, m.Seed = o.Samples, o.Test, o.Seed
	p := &progress{total: o.Samples + o.Test, fn: o.Progress}
	return publish(dir, m, func(tmp string) error {
		for _, s := range []struct {
			name     string
			split, n int
		}{{"train", splitTrain, o.Samples}, {"val", splitTest, o.Test}} {
			root := filepath.Join(tmp, s.name)
			if err := os.MkdirAll(root, 0o755); err != nil {
				return err
			}
			if err := marker.Write(root, m); err != nil {
				return err
			}
			if err := fill(root, s.split, s.n, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// classFolders makes a folder for each class.
func classFolders(root string) error {
	for _, c := range ClassNames {
		if err := os.MkdirAll(filepath.Join(root, c), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// each calls fn for the n samples on all cores, and counts them.
func (p *progress) each(ctx context.Context, n int, fn func(i int) error) error {
	return parallel(ctx, n, 4, func(from, to int) error {
		for i := from; i < to; i++ {
			if err := fn(i); err != nil {
				return err
			}
		}
		p.add(to - from)
		return nil
	})
}
