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

	"dev.gpustall/engine/fault"
	"dev.gpustall/loader"
)

// Limits on what is taken in, far above the real files (31 MB each), so that a
// hostile file cannot exhaust memory.
const (
	maxFile   = 1 << 29 // one batch file, binary
	maxPickle = 1 << 26 // one batch file, Python
	maxStream = 1 << 32 // one unpacked archive
)

// source is one detected form of the data set.
type source struct {
	path   string // as shown to the user
	dir    string // the folder of the files; empty for an archive
	format string
}

// content is one parsed file: a batch, or the class names.
type content struct {
	part
	names []string
}

// What to do about a file that is not whole, and about a path that is something else.
const (
	mend     = "download or unpack it again"
	mendPath = "give the folder or the tar.gz of CIFAR-10"
)

// check refuses labels that name no class.
func (c *content) check(classes int) error {
	for i, l := range c.labels {
		if int(l) >= classes {
			return fault.Reason(fmt.Sprintf("sample %d has label %d, beyond the %d classes, so the file is damaged or is not CIFAR-10", i, l, classes), mend)
		}
	}
	return nil
}

func trainFiles(format string) []string {
	names := make([]string, Batches)
	for i := range names {
		names[i] = fmt.Sprintf("data_batch_%d", i+1)
		if format == FormatBinary {
			names[i] += ".bin"
		}
	}
	return names
}

func testFiles(format string) []string {
	if format == FormatBinary {
		return []string{"test_batch.bin"}
	}
	return []string{"test_batch"}
}

func metaFile(format string) string {
	if format == FormatBinary {
		return "batches.meta.txt"
	}
	return "batches.meta"
}

// detect finds the form of the data set at p.
func detect(p string) (source, error) {
	st, err := os.Stat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return source{}, fault.New("open data", p, "there is no such file or folder", "check the path").Because(err)
	}
	if err != nil {
		return source{}, fault.File(err, "open data", p, "check the path")
	}
	if !st.IsDir() {
		return detectArchive(p)
	}
	for _, dir := range []string{p, filepath.Join(p, DirBinary), filepath.Join(p, DirPython)} {
		format, err := folderFormat(dir)
		if err != nil {
			return source{}, fault.File(err, "open data", dir, pickleMend)
		}
		if format != "" {
			return source{path: dir, dir: dir, format: format}, nil
		}
	}
	for _, name := range []string{ArchiveBinary, ArchivePython} {
		if a := filepath.Join(p, name); isFile(a) {
			return detectArchive(a)
		}
	}
	return source{}, fault.New("open data", p,
		fmt.Sprintf("%v: looked for data_batch_1.bin, data_batch_1, %s, %s, %s and %s", ErrNotCIFAR, DirBinary, DirPython, ArchiveBinary, ArchivePython),
		mendPath).Because(ErrNotCIFAR)
}

// folderFormat recognises a folder by any of its batch files, so that a missing
// one is reported by name. One that may not be looked into is an error.
func folderFormat(dir string) (string, error) {
	for _, format := range []string{FormatBinary, FormatPython} {
		for _, f := range append(trainFiles(format), testFiles(format)...) {
			st, err := os.Stat(filepath.Join(dir, f))
			if errors.Is(err, fs.ErrPermission) {
				return "", err
			}
			if err == nil && st.Mode().IsRegular() {
				return format, nil
			}
		}
	}
	return "", nil
}

func isFile(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.Mode().IsRegular()
}

// load parses the wanted files, and the optional one when it is there. What it returns
// may hold files open.
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
			return nil, fault.File(err, "open data", full, pickleMend)
		}
		c, err := s.parseFile(name, f, st.Size())
		if err != nil {
			return nil, fault.Wrap(err, "read", full, "")
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

// parseFile takes f over: it stays open if samples are to be read from it.
func (s source) parseFile(name string, f *os.File, size int64) (c *content, err error) {
	if s.format == FormatBinary && name != metaFile(s.format) && size <= maxFile {
		c, err = parseBinary(name, f, size)
	} else {
		c, err = parse(name, s.format, f, size)
	}
	if err != nil || c.planes != io.ReaderAt(f) {
		_ = f.Close()
	}
	return c, err
}

// parse reads one file of the data set. size is its length, -1 when unknown.
func parse(name, format string, r io.Reader, size int64) (*content, error) {
	if size > maxFile {
		return nil, fault.Reason(fmt.Sprintf("%d bytes, more than the %d that a CIFAR-10 file may have", size, maxFile), "check that it is one")
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
		return nil, fault.Reason(fmt.Sprintf("more than the %d bytes that a CIFAR-10 file may have", maxFile), "check that it is one")
	}
	switch {
	case name == metaFile(format) && format == FormatBinary:
		return &content{names: parseNames(buf.Bytes())}, nil
	case name == metaFile(format):
		return parsePythonMeta(buf.Bytes())
	case format == FormatBinary:
		return parseBinary(name, bytes.NewReader(buf.Bytes()), n)
	}
	return parsePython(name, buf.Bytes())
}

// parseBinary reads the labels of a file of records: a label byte, then the red, the
// green and the blue plane, row by row. The planes stay where they are.
func parseBinary(name string, r io.ReaderAt, size int64) (*content, error) {
	if size == 0 {
		return nil, fault.Reason("the file is empty", mend)
	}
	if rest := size % Record; rest != 0 {
		return nil, fault.Reason(fmt.Sprintf("%d bytes is not a whole number of %d-byte records (%d left over), so it is truncated or damaged",
			size, Record, rest), mend)
	}
	labels := make([]byte, size/Record)
	in := bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<20)
	for i := range labels {
		var err error
		if labels[i], err = in.ReadByte(); err == nil {
			_, err = in.Discard(Pixels)
		}
		if err != nil {
			return nil, unreadable(err)
		}
	}
	return &content{part: part{file: name, n: len(labels), labels: labels, planes: r, off: 1, stride: Record}}, nil
}

func unreadable(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fault.Reason(err.Error()+", so it may be truncated or damaged", fault.Mend(err, mend)).Because(err)
}

// parseNames reads batches.meta.txt: a class name a line. It returns nil when
// there are not ten.
func parseNames(b []byte) []string {
	var names []string
	for _, l := range bytes.Split(b, []byte{'\n'}) {
		if l = bytes.TrimSpace(l); len(l) > 0 {
			names = append(names, string(l))
		}
	}
	if len(names) != Classes {
		return nil
	}
	return names
}

// detectArchive recognises a tar.gz by the first batch file in it.
func detectArchive(p string) (source, error) {
	s := source{path: p}
	err := walkArchive(p, func(name string, _ *tar.Header, _ io.Reader) (bool, error) {
		for _, format := range []string{FormatBinary, FormatPython} {
			for _, f := range append(trainFiles(format), testFiles(format)...) {
				if f == name {
					s.format = format
					return true, nil
				}
			}
		}
		return false, nil
	})
	if err != nil {
		return source{}, err
	}
	if s.format == "" {
		return source{}, fault.New("open data", p, fmt.Sprintf("%v: the archive holds no data_batch file", ErrNotCIFAR),
			fmt.Sprintf("give %s or %s", ArchiveBinary, ArchivePython)).Because(ErrNotCIFAR)
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
		c, err := parse(name, s.format, r, h.Size)
		if err != nil {
			return false, fault.Wrap(err, "read", name+" in "+s.path, "")
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
		return fault.File(err, "open data", p, pickleMend)
	}
	defer f.Close()
	return walkTar(p, f, fn)
}

func walkTar(p string, r io.Reader, fn func(name string, h *tar.Header, r io.Reader) (done bool, err error)) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return fault.New("open data", p, fmt.Sprintf("%v: not a gzip file (%v)", ErrNotCIFAR, err), mendPath).Because(ErrNotCIFAR)
	}
	t := tar.NewReader(io.LimitReader(z, maxStream))
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.New("read", p, fmt.Sprintf("%v, so the archive is truncated or damaged", err), "download it again").Because(err)
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
