package imagefolder

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader/source"
)

// listStore is list for a folder in a store, which lists everything below it at once.
func (d *Dataset) listStore(ctx context.Context, root string) (classes []string, err error) {
	all, err := d.from.Walk(ctx, root)
	if err != nil {
		return nil, errs.File(err, "open data", root, hintClasses)
	}
	// torchvision's order: the folders by path, in each the files by name.
	slices.SortStableFunc(all, func(a, b source.Entry) int {
		return cmp.Or(cmp.Compare(folderOf(a.Name), folderOf(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	for i := range all {
		class, _, ok := strings.Cut(all[i].Name, "/")
		if n := len(classes); ok && (n == 0 || classes[n-1] != class) {
			classes = append(classes, class)
		}
	}
	slices.Sort(classes)
	classes = slices.Compact(classes)
	if err = d.take(root, classes, all); err == nil {
		return classes, nil
	}
	d.arrays = true
	if d.take(root, classes, all) == nil {
		return classes, nil
	}
	if len(classes) == 0 {
		return nil, errs.New("open data", root, ErrNotFolder.Error(), hintClasses).Because(ErrNotFolder)
	}
	return nil, err
}

// folderOf returns the part of a name before its last slash.
func folderOf(name string) string { return name[:max(0, strings.LastIndexByte(name, '/'))] }

// take makes samples of the objects of a kind. Each class must have at least one. Arrays need
// no classes.
func (d *Dataset) take(root string, classes []string, all []source.Entry) error {
	d.files = d.files[:0]
	seen := make([]bool, len(classes))
	for i := range all {
		e := &all[i]
		class, _, ok := strings.Cut(e.Name, "/")
		if !d.wants(path.Base(e.Name)) || !ok && len(classes) > 0 {
			continue
		}
		at, _ := slices.BinarySearch(classes, class)
		if ok {
			seen[at] = true
		} else if at = 0; !d.arrays {
			continue
		}
		d.files = append(d.files, file{e.Name, int32(at), e})
	}
	if at := slices.Index(seen, false); at >= 0 {
		return noImage(root, classes[at])
	}
	if len(d.files) == 0 {
		return noImage(root, "")
	}
	return nil
}
