package shards

import (
	"archive/tar"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/errs"
)

// entry is one sample of a shard.
type entry struct {
	off   int64  // of its image or array in the shard
	size  uint32 // of that, in bytes
	label int32  // none: it has no class
	sum   uint32 // of the image or array, CRC-32C; 0: none was written
	key   uint32 // where its key ends in index.keys; it begins at the end of the key before
}

const none = -1 // label of a sample without a class

// kind says what the samples of a shard hold.
type kind uint8

const (
	images kind = iota + 1
	arrays
)

func (k kind) String() string {
	return map[kind]string{images: "images", arrays: ".npy arrays"}[k]
}

// index is the result of a walk over a shard's headers.
type index struct {
	kind    kind
	keys    []byte
	entries []entry
}

func (x *index) key(i int) string {
	from := uint32(0)
	if i > 0 {
		from = x.entries[i-1].key
	}
	return string(x.keys[from:x.entries[i].key])
}

// extensions are those of samples, by kind.
var extensions = map[string]kind{
	"jpg": images, "jpeg": images, "png": images, "ppm": images, "bmp": images, "pgm": images,
	"tif": images, "tiff": images, "webp": images, "npy": arrays,
}

// Bounds on what a shard may hold.
const (
	maxSample  = 1 << 30   // bytes of an image or array
	maxLabel   = 1 << 20   // the largest class
	maxJSON    = 1 << 20   // bytes of a .json that is looked into
	maxKeys    = 1<<32 - 1 // bytes of all keys of a shard
	maxSamples = 1 << 28   // of a shard
)

const (
	hintShard = "copy or pack the shard again"
	hintClass = "give each sample a .cls with the number of its class, or a .json with a number named label, cls or class"
)

// split splits a name as WebDataset does. The key is the path up to the first dot of the file's
// name; the extension is the rest, in lower case. ok is false if either is missing.
func split(name string) (key, ext string, ok bool) {
	base := strings.LastIndexByte(name, '/') + 1
	dot := strings.IndexByte(name[base:], '.')
	if dot <= 0 {
		return "", "", false
	}
	return name[:base+dot], strings.ToLower(name[base+dot+1:]), true
}

// archive is a tar that can be walked over.
type archive interface {
	io.Reader
	at() int64    // the byte that is read next
	stuck() error // why reading failed, if the tar is not the cause
	// rest refuses an archive with a wrong end after the last file.
	rest() error
}

// walk reads the headers of a tar, and the classes.
func walk(r archive) (*index, error) {
	t := tar.NewReader(r)
	g := grouper{x: &index{}}
	for {
		at := r.at()
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			if err := r.rest(); err != nil {
				return nil, g.fault(r.at(), err.Error(), errs.Hint(r.stuck(), hintShard))
			}
			if err := g.flush(); err != nil {
				return nil, err
			}
			return g.x, nil
		}
		if err != nil {
			return nil, g.broken(err, r, at)
		}
		if h.Typeflag == tar.TypeGNUSparse || slices.ContainsFunc(keysOf(h.PAXRecords), func(k string) bool { return strings.HasPrefix(k, "GNU.sparse.") }) {
			return nil, g.fault(r.at(), fmt.Sprintf("%s is a sparse file", errs.Path(h.Name)), "write the shard without --sparse")
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := g.add(h, r.at(), t); err != nil {
			return nil, err
		}
	}
}

func keysOf(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// grouper makes samples of the files of a shard: successive files with the same key.
type grouper struct {
	x     *index
	key   string
	begun bool // there is a current sample
	at    int64
	exts  []string
	e     entry
	kind  kind
	cls   bool // its label comes from a .cls, which wins over a .json
}

// add adds the next file, whose content begins at off and can be read from r.
func (g *grouper) add(h *tar.Header, off int64, r io.Reader) error {
	key, ext, ok := split(h.Name)
	if !ok {
		return nil // WebDataset skips it too
	}
	if !g.begun || key != g.key {
		if err := g.flush(); err != nil {
			return err
		}
		g.begun, g.key, g.at, g.exts, g.kind, g.cls = true, key, off, g.exts[:0], 0, false
		g.e = entry{label: none}
	}
	if slices.Contains(g.exts, ext) {
		return g.fault(off, fmt.Sprintf("the sample has two files .%s", errs.Path(ext)), "give each sample a key of its own")
	}
	g.exts = append(g.exts, ext)
	sum, summed := checksum(h)
	switch k := extensions[ext]; {
	case k != 0 && g.kind == 0:
		if h.Size > maxSample {
			return g.fault(off, fmt.Sprintf("%d bytes, more than the %d that a sample may have", h.Size, maxSample), "leave it out")
		}
		g.kind, g.e.off, g.e.size, g.e.sum = k, off, uint32(h.Size), sum
	case k != 0:
		return g.fault(off, fmt.Sprintf("the sample has two images or arrays, .%s the second", errs.Path(ext)), "name what is no input otherwise: mask.png is one, .png the input")
	case ext == "cls" || ext == "json" && !g.cls && h.Size <= maxJSON:
		b, err := io.ReadAll(io.LimitReader(r, min(h.Size, maxJSON)))
		if err == nil && int64(len(b)) < min(h.Size, maxJSON) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return g.fault(off, fmt.Sprintf("%v in .%s: the shard is truncated or damaged", err, ext), errs.Hint(err, hintShard))
		}
		if summed && crc32.Checksum(b, castagnoli) != sum {
			return g.fault(off, fmt.Sprintf("its .%s does not have the checksum that was written: it is damaged", ext), hintShard)
		}
		return g.class(ext, b, off)
	}
	return nil
}

// class reads the class from a .cls or .json file.
func (g *grouper) class(ext string, b []byte, off int64) error {
	var label int64
	var err error
	if ext == "cls" {
		text := strings.TrimSpace(string(b[:min(len(b), 32)]))
		if label, err = strconv.ParseInt(text, 10, 64); err != nil || len(b) > 32 {
			return g.fault(off, fmt.Sprintf("its .cls is %q, not a number", text), hintClass)
		}
		g.cls = true
	} else {
		var found bool
		if label, found = labelOf(b); !found {
			return nil // it holds something else
		}
	}
	if label < 0 || label > maxLabel {
		return g.fault(off, fmt.Sprintf("its class is %d, not one of 0 to %d", label, maxLabel), hintClass)
	}
	g.e.label = int32(label)
	return nil
}

// labelOf finds the class in a .json: a number named label, cls or class.
func labelOf(b []byte) (int64, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(b, &fields) != nil {
		return 0, false
	}
	for _, name := range []string{"label", "cls", "class"} {
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(fields[name])), 10, 64); err == nil {
			return n, true
		}
	}
	return 0, false
}

// flush ends the current sample.
func (g *grouper) flush() error {
	if !g.begun {
		return nil
	}
	if g.begun = false; g.kind == 0 {
		return g.fault(g.at, fmt.Sprintf("the sample holds neither an image nor a .npy array, only .%s", errs.Path(strings.Join(g.exts, " ."))),
			"name the input .jpg, .png or .npy, with the sample's other files right behind it (tar --sort=name)")
	}
	if g.x.kind == 0 {
		g.x.kind = g.kind
	}
	if g.kind != g.x.kind {
		return g.fault(g.at, fmt.Sprintf("the sample is one of %s among %s", g.kind, g.x.kind), "give images and arrays folders of their own")
	}
	if len(g.x.keys)+len(g.key) > maxKeys || len(g.x.entries) >= maxSamples {
		return g.fault(g.at, "the shard has too many samples", "pack it into smaller shards")
	}
	g.x.keys = append(g.x.keys, g.key...)
	g.e.key = uint32(len(g.x.keys))
	g.x.entries = append(g.x.entries, g.e)
	return nil
}

// fault returns an error at a byte of the shard, which the caller names.
func (g *grouper) fault(at int64, reason, hint string) error {
	where := fmt.Sprintf("at byte %d", at)
	if g.key != "" {
		where = fmt.Sprintf("sample %s at byte %d", errs.Path(g.key), at)
	}
	return errs.Reason(where+": "+reason, hint)
}

// broken returns the error of a file that archive/tar finds damaged.
func (g *grouper) broken(err error, r archive, at int64) error {
	var m interface{ magic() bool } // it can be looked at once more
	m, _ = r.(interface{ magic() bool })
	stuck := r.stuck()
	switch {
	case stuck != nil && !errors.Is(stuck, io.ErrUnexpectedEOF):
		return errs.Reason(fmt.Sprintf("%sat byte %d: %v", g.after(), r.at(), stuck), errs.Hint(stuck, hintShard)).Because(stuck)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errs.Reason(fmt.Sprintf("%sthe shard ends at byte %d in the middle of a file: it is truncated", g.after(), r.at()), hintShard).Because(err)
	case errors.Is(err, tar.ErrHeader) && at == 0 && m != nil && !m.magic():
		return errs.Reason("it is not a tar file", "name a folder of "+Ext+" files").Because(errNotTar)
	case errors.Is(err, tar.ErrHeader):
		return errs.Reason(fmt.Sprintf("%sthe header before byte %d is damaged: its checksum does not match", g.after(), r.at()), hintShard).Because(err)
	}
	return errs.Reason(fmt.Sprintf("%s%v, before byte %d", g.after(), err, r.at()), hintShard).Because(err)
}

// after says after which sample something is wrong.
func (g *grouper) after() string {
	if g.key == "" {
		return ""
	}
	return fmt.Sprintf("after sample %s: ", errs.Path(g.key))
}

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errNotTar  = errors.New("not a tar file")
)

// sumName begins the owning group of a file in a shard, which holds the file's CRC-32C. The tar
// format itself has checksums of headers only, and readers of WebDataset do not look at the
// group. The header's checksum covers the group.
const sumName = "crc32c-"

func checksum(h *tar.Header) (uint32, bool) {
	text, ok := strings.CutPrefix(h.Gname, sumName)
	if !ok || len(text) != 8 {
		return 0, false
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		return 0, false
	}
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]), true
}
