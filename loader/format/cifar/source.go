package cifar

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader"
	"dev.gpustall/loader/filemap"
)

// These limit the bytes that are read, so that a hostile file cannot exhaust memory. They are
// far above the real files (31 MB each).
const (
	maxFile   = 1 << 29 // one batch file, binary
	maxPickle = 1 << 26 // one batch file, Python
	maxStream = 1 << 32 // one unpacked archive
)

// source is one detected form of the data set.
type source struct {
	path string   // as shown to the user
	dir  string   // the folder of the files; empty for an archive
	v    *version // nil where there is none
}

// content is one parsed file: a batch, or the class names.
type content struct {
	part
	names []string
}

// Hints about a damaged file, and about a path that holds something else.
const (
	hint     = "download or unpack it again"
	hintPath = "give the folder or the tar.gz of CIFAR-10 or CIFAR-100"
)

// check refuses labels that name no class.
func (c *content) check(classes int) error {
	for i, l := range c.labels {
		if int(l) >= classes {
			return errs.Reason(fmt.Sprintf("sample %d has label %d, beyond the %d classes, so the file is damaged or is something else", i, l, classes), hint)
		}
	}
	return nil
}

// detect finds the form of the data set at p.
func detect(p string) (source, error) {
	st, err := os.Stat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return source{}, errs.New("open data", p, "there is no such file or folder", "check the path").Because(err)
	}
	if err != nil {
		return source{}, errs.File(err, "open data", p, "check the path")
	}
	if !st.IsDir() {
		return detectArchive(p)
	}
	for _, sub := range append([]string{""}, dirs()...) {
		dir := filepath.Join(p, sub)
		v, err := folderVersion(dir)
		if err != nil {
			return source{}, errs.File(err, "open data", dir, pickleHint)
		}
		if v != nil {
			return source{path: dir, dir: dir, v: v}, nil
		}
	}
	for _, name := range archives() {
		if a := filepath.Join(p, name); isFile(a) {
			return detectArchive(a)
		}
	}
	return source{}, errs.New("open data", p,
		fmt.Sprintf("%v: looked for data_batch_1.bin, data_batch_1, %s", ErrNotCIFAR, strings.Join(append(dirs(), archives()...), ", ")),
		hintPath).Because(ErrNotCIFAR)
}

// folderVersion recognises a folder by any of its batch files, so that a missing one is
// reported by name. A folder that may not be read is an error.
func folderVersion(dir string) (*version, error) {
	for _, v := range versions {
		if v.plain() && !isFile(filepath.Join(dir, v.names)) {
			continue
		}
		for _, f := range v.files() {
			st, err := os.Stat(filepath.Join(dir, f))
			if errors.Is(err, fs.ErrPermission) {
				return nil, err
			}
			if err == nil && st.Mode().IsRegular() {
				return v, nil
			}
		}
	}
	return nil, nil
}

func isFile(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.Mode().IsRegular()
}

// load parses the wanted files, and the optional one when it is there. What it returns may hold
// open files.
func (s source) load(want []string, optional string) (found map[string]*content, err error) {
	if s.dir == "" {
		return s.loadArchive(want, optional)
	}
	found = make(map[string]*content, len(want)+1)
	defer func() {
		if err != nil {
			closeAll(found)
		}
	}()
	for _, name := range append([]string{optional}, want...) {
		full := filepath.Join(s.dir, name)
		f, st, err := loader.Open(full)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the caller names what is missing
		}
		if err != nil {
			return nil, errs.File(err, "open data", full, pickleHint)
		}
		c, err := s.parseFile(name, f, st.Size())
		if err != nil {
			return nil, errs.Wrap(err, "read", full, "")
		}
		found[name] = c
	}
	return found, nil
}

func closeAll(found map[string]*content) {
	for _, c := range found {
		_ = c.close() // what was read of it was right
	}
}

// parseFile owns f from here on: f stays open if samples are to be read from it.
func (s source) parseFile(name string, f *os.File, size int64) (c *content, err error) {
	if !s.v.python && name != s.v.names && size <= maxFile {
		c, err = parseBinary(s.v, name, f, size)
	} else {
		c, err = parse(name, s.v, f, size)
	}
	if err != nil || c.planes != io.ReaderAt(f) {
		_ = f.Close()
		return c, err
	}
	c.planes = filemap.New(f, size, 0)
	return c, nil
}

// parse reads one file of the data set. size is its length, -1 when unknown.
func parse(name string, v *version, r io.Reader, size int64) (*content, error) {
	if size > maxFile {
		return nil, errs.Reason(fmt.Sprintf("%d bytes, more than the %d that a CIFAR file may have", size, maxFile), "check that it is one")
	}
	var buf bytes.Buffer
	if size > 0 {
		buf.Grow(int(min(size, 32<<20)) + bytes.MinRead) // an archive may lie about it
	}
	n, err := buf.ReadFrom(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, unreadable(err)
	}
	if n > maxFile {
		return nil, errs.Reason(fmt.Sprintf("more than the %d bytes that a CIFAR file may have", maxFile), "check that it is one")
	}
	switch {
	case name == v.names && !v.python:
		return &content{names: parseNames(v, buf.Bytes())}, nil
	case name == v.names:
		return parsePythonMeta(v, buf.Bytes())
	case !v.python:
		return parseBinary(v, name, bytes.NewReader(buf.Bytes()), n)
	}
	return parsePython(v, name, buf.Bytes())
}

// parseBinary reads the labels of a file of records: a label byte, or two, then the red, the
// green and the blue plane, row by row. The planes stay where they are.
func parseBinary(v *version, name string, r io.ReaderAt, size int64) (*content, error) {
	if size == 0 {
		return nil, errs.Reason("the file is empty", hint)
	}
	record := int64(v.record())
	if rest := size % record; rest != 0 {
		return nil, errs.Reason(fmt.Sprintf("%d bytes is not a whole number of %d-byte records (%d left over), so it is truncated or damaged",
			size, record, rest), hint)
	}
	labels := make([]byte, size/record)
	in := bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<20)
	for i := range labels {
		_, err := in.Discard(v.labels - 1)
		if err == nil {
			labels[i], err = in.ReadByte()
		}
		if err == nil {
			_, err = in.Discard(Pixels)
		}
		if err != nil {
			return nil, unreadable(err)
		}
	}
	return &content{part: part{file: name, n: len(labels), labels: labels, planes: r, off: v.labels, stride: int(record)}}, nil
}

func unreadable(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return errs.Reason(err.Error()+", so it may be truncated or damaged", errs.Hint(err, hint)).Because(err)
}

// parseNames reads one class name a line. It returns nil unless there is one for each class.
func parseNames(v *version, b []byte) []string {
	var names []string
	for _, l := range bytes.Split(b, []byte{'\n'}) {
		if l = bytes.TrimSpace(l); len(l) > 0 {
			names = append(names, string(l))
		}
	}
	if len(names) != v.classes {
		return nil
	}
	return names
}

// detectArchive recognises a tar.gz by the first batch file in it.
func detectArchive(p string) (source, error) {
	s := source{path: p}
	err := walkArchive(p, func(name string, h *tar.Header, _ io.Reader) (bool, error) {
		folder := path.Base(path.Dir(h.Name))
		for _, v := range versions {
			if v.has(name) && (!v.plain() || folder == v.dir) {
				s.v = v
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return source{}, err
	}
	if s.v == nil {
		return source{}, errs.New("open data", p, fmt.Sprintf("%v: the archive holds no file of it", ErrNotCIFAR),
			"give "+strings.Join(archives(), ", ")).Because(ErrNotCIFAR)
	}
	return s, nil
}

// loadArchive streams the archive once and parses the files it needs.
func (s source) loadArchive(want []string, optional string) (map[string]*content, error) {
	needed := map[string]bool{optional: true}
	for _, f := range want {
		needed[f] = true
	}
	found := make(map[string]*content, len(needed))
	err := walkArchive(s.path, func(name string, h *tar.Header, r io.Reader) (bool, error) {
		if !needed[name] || found[name] != nil {
			return false, nil
		}
		c, err := parse(name, s.v, r, h.Size)
		if err != nil {
			return false, errs.Wrap(err, "read", name+" in "+s.path, "")
		}
		found[name] = c
		return len(found) == len(needed), nil
	})
	return found, err
}

// walkArchive calls fn for each regular file of a tar.gz, by its base name, until
// fn says that it is done.
func walkArchive(p string, fn func(name string, h *tar.Header, r io.Reader) (done bool, err error)) error {
	f, _, err := loader.Open(p)
	if err != nil {
		return errs.File(err, "open data", p, pickleHint)
	}
	defer f.Close()
	return walkTar(p, f, fn)
}

func walkTar(p string, r io.Reader, fn func(name string, h *tar.Header, r io.Reader) (done bool, err error)) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return errs.New("open data", p, fmt.Sprintf("%v: not a gzip file (%v)", ErrNotCIFAR, err), hintPath).Because(ErrNotCIFAR)
	}
	t := tar.NewReader(io.LimitReader(z, maxStream))
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errs.New("read", p, fmt.Sprintf("%v, so the archive is truncated or damaged", err), "download it again").Because(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		done, err := fn(path.Base(h.Name), h, t)
		if done || err != nil {
			return err
		}
	}
}
