package imagefolder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dev.gpustall/engine/base/errs"
)

// These are bounds on a class: how deep its folders are nested, and how many folders
// are reached through links. A dozen folders that link to one another make millions of
// paths.
const (
	maxDepth  = 64
	maxLinked = 1 << 14
)

const hintFolder = "start again if the folder has changed"

func isDir(p string) bool {
	st, err := os.Stat(p) // follows links
	return err == nil && st.IsDir()
}

const hintClasses = "give a folder with a folder of images for each class"

// classesOf returns the folders of root in the order of their names' bytes, as
// torchvision's find_classes does: hidden ones and links to folders included.
func classesOf(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, errs.File(err, "open data", root, hintClasses)
	}
	var classes []string
	for _, e := range entries {
		if e.IsDir() || (e.Type()&fs.ModeSymlink != 0 && isDir(filepath.Join(root, e.Name()))) {
			classes = append(classes, e.Name())
		}
	}
	if len(classes) == 0 {
		return nil, errs.New("open data", root, ErrNotFolder.Error(), hintClasses).Because(ErrNotFolder)
	}
	slices.Sort(classes)
	return classes, nil
}

// list finds the files of all classes: images, or arrays if there are no images. It returns the
// classes.
func (d *Dataset) list(root string) (classes []string, err error) {
	classes, err = classesOf(root)
	if err != nil {
		d.arrays = true
		if d.addFlat(root) && errors.Is(err, ErrNotFolder) {
			return nil, nil
		}
		return nil, err
	}
	if err = d.addAll(root, classes); !errors.Is(err, errNoImage) {
		return classes, err
	}
	d.arrays, d.files = true, nil
	if d.addAll(root, classes) == nil {
		return classes, nil
	}
	return nil, err
}

// errNoImage is what the error of a class without an image wraps.
var errNoImage = errors.New("no image")

func (d *Dataset) addAll(root string, classes []string) error {
	for i, c := range classes {
		before := len(d.files)
		if err := d.add(root, c, int32(i)); err != nil {
			return err
		}
		if len(d.files) == before {
			return noImage(root, c)
		}
	}
	return nil
}

func noImage(root, class string) error {
	return errs.New("open data", root, fmt.Sprintf("the class folder %s holds no image (%s) and no %s", errs.Path(class), strings.Join(extensions, " "), extArray),
		"put some there or remove it").Because(errNoImage)
}

// addFlat lists the arrays that lie in root itself, and reports whether there are any.
func (d *Dataset) addFlat(root string) bool {
	entries, err := os.ReadDir(root) // sorted by name
	if err != nil {
		return false
	}
	for _, e := range entries {
		if d.wants(e.Name()) && !e.IsDir() {
			d.files = append(d.files, file{path: e.Name()})
		}
	}
	return len(d.files) > 0
}

// add lists the files of a class in torchvision's order: the folders by path,
// in each the files by name.
func (d *Dataset) add(root, class string, index int32) error {
	var w walker
	if err := w.walk(filepath.Join(root, class), nil, false); err != nil {
		return err
	}
	dirs := w.dirs
	slices.Sort(dirs)
	for _, dir := range dirs {
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return errs.Wrap(err, "list", dir, hintFolder)
		}
		entries, err := os.ReadDir(dir) // sorted by name
		if err != nil {
			return errs.File(err, "list", dir, hintFolder)
		}
		for _, e := range entries {
			if !d.wants(e.Name()) {
				continue
			}
			if e.Type().IsRegular() || (e.Type()&fs.ModeSymlink != 0 && !isDir(filepath.Join(dir, e.Name()))) {
				d.files = append(d.files, file{path: filepath.Join(rel, e.Name()), class: index})
			}
		}
	}
	return nil
}

// walker collects folders.
type walker struct {
	dirs   []string
	linked int // how many of them were reached through a link
}

// walk collects dir and the folders below it. It follows links, except a link back to a folder
// above. Python's os.walk would follow that until the path is too long.
func (w *walker) walk(dir string, above []fs.FileInfo, linked bool) error {
	st, err := os.Stat(dir)
	if err != nil {
		return errs.File(err, "list", dir, hintFolder)
	}
	for _, a := range above {
		if os.SameFile(a, st) {
			return nil
		}
	}
	if len(above) == maxDepth {
		return errs.New("list", dir, fmt.Sprintf("folders are nested more than %d deep", maxDepth), "flatten them")
	}
	if linked {
		if w.linked++; w.linked > maxLinked {
			return errs.New("list", dir, fmt.Sprintf("links lead to more than %d folders", maxLinked), "remove links that lead to one another")
		}
	}
	w.dirs = append(w.dirs, dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return errs.File(err, "list", dir, hintFolder)
	}
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		link := e.Type()&fs.ModeSymlink != 0
		if e.IsDir() || link && isDir(sub) {
			if err := w.walk(sub, append(above[:len(above):len(above)], st), linked || link); err != nil {
				return err
			}
		}
	}
	return nil
}

// extensions are torchvision's IMG_EXTENSIONS.
var extensions = []string{".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}

// extArray is the extension of arrays.
const extArray = ".npy"

// wants decides by the extension, in upper or lower case.
func (d *Dataset) wants(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	if d.arrays {
		return ext == extArray
	}
	return slices.Contains(extensions, ext)
}
