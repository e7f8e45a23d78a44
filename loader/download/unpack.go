package download

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"dev.gpustall/engine/base/errs"
)

// maxUnpacked bounds what an archive may unpack to.
const maxUnpacked = 1 << 33

const hintArchive = "download it again"

// Unpack unpacks the folder of a tar.gz into dir. The folder gets its name when it is complete.
// Until then it is a hidden folder beside that name. Only regular files and folders inside it
// are unpacked.
func Unpack(ctx context.Context, archive, folder, dir string) (err error) {
	refuse := func(err error) error {
		return errs.New("unpack", archive, err.Error(), hintArchive).Because(err)
	}
	f, err := os.Open(archive)
	if err != nil {
		return errs.File(err, "unpack", archive, hintArchive)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return refuse(fmt.Errorf("it is no gzip file: %w", err))
	}
	tmp, err := os.MkdirTemp(dir, "."+folder+".tmp-*")
	if err != nil {
		return errs.File(err, "unpack into", dir, "choose a folder that can be written to")
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	files, left := 0, int64(maxUnpacked)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return refuse(fmt.Errorf("%w, so it is truncated or damaged", err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !filepath.IsLocal(h.Name) {
			return refuse(fmt.Errorf("it holds %q, which lies elsewhere", h.Name))
		}
		to := filepath.Join(tmp, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(to, 0o755)
		case tar.TypeReg:
			if left -= h.Size; left < 0 {
				return refuse(fmt.Errorf("it unpacks to more than %d bytes", int64(maxUnpacked)))
			}
			files++
			err = extract(r, to)
		}
		if err != nil {
			return errs.File(err, "unpack into", dir, "free some space: the same command goes on")
		}
	}
	if st, err := os.Stat(filepath.Join(tmp, folder)); err != nil || !st.IsDir() || files == 0 {
		return refuse(fmt.Errorf("it holds no folder %s", folder))
	}
	if err := os.Rename(filepath.Join(tmp, folder), filepath.Join(dir, folder)); err != nil {
		return errs.File(err, "unpack into", dir, "choose a folder that can be written to")
	}
	return nil
}

// extract writes one file and syncs it to the disk.
func extract(r io.Reader, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) // data
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}
