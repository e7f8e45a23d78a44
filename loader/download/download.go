// Package download fetches one file over HTTP and unpacks archives. It resumes an interrupted
// download. A file gets its name only when it is complete and its checksum is right.
package download

import (
	"cmp"
	"context"
	"crypto/md5" // the checksum that the data's authors publish
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"dev.gpustall/engine/base/errs"
)

// Options of a download.
type Options struct {
	Sum      string                  // "sha256:HEX" or "md5:HEX"; empty checks nothing
	Progress func(done, total int64) // bytes; total is 0 where it is not known; may be nil
	Retry    func(why error)         // is told of each attempt that failed; may be nil
	Pause    time.Duration           // before the first retry, and twice as long before each next; 0 is half a second
}

const (
	attempts = 6 // of one download that makes no progress
	partial  = ".part"
	tagged   = ".part-of" // the server's name for the version of the part
	idle     = 60 * time.Second
)

const hintServer = "try again later: what is there is gone on with; or name a mirror with --url"

// errFinal is an error that another attempt would not change.
type errFinal struct{ error }

func (e errFinal) Unwrap() error { return e.error }

// File downloads url to path. If an earlier call left a part of it, File resumes there, unless
// the server has a new version.
func File(ctx context.Context, url, path string, o Options) error {
	sum, want, err := checksum(o.Sum)
	if err != nil {
		return err
	}
	pause := o.Pause
	if pause == 0 {
		pause = time.Second / 2
	}
	for left := attempts; ; {
		before := size(path + partial)
		err := attempt(ctx, url, path, &o)
		if err == nil {
			break
		}
		var final errFinal
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if size(path+partial) > before {
			left = attempts // this attempt got further
		}
		if left--; errors.As(err, &final) || left == 0 {
			why := errs.Explain(err)
			return errs.New("download", url, why.Reason, cmp.Or(why.Hint, hintServer)).Because(err)
		}
		if o.Retry != nil {
			o.Retry(err)
		}
		select {
		case <-time.After(pause << (attempts - 1 - left)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if sum != nil {
		got, err := hashOf(path+partial, sum)
		if err != nil {
			return errs.File(err, "check", path+partial, hintServer)
		}
		if got != want {
			forget(path)
			return errs.New("download", url, fmt.Sprintf("its checksum is %s and should be %s: it is damaged or another file", got, want),
				"try again, or another --url; --checksum says what another file should have")
		}
	}
	if err := os.Rename(path+partial, path); err != nil {
		return errs.File(err, "download to", path, "choose a folder that can be written to")
	}
	_ = os.Remove(path + tagged)
	return nil
}

func size(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// forget removes the part that was downloaded.
func forget(path string) {
	_ = os.Remove(path + partial) // a part that cannot be removed will fail its checksum again
	_ = os.Remove(path + tagged)
}

// attempt resumes the download after the part that is there.
func attempt(ctx context.Context, from, path string, o *Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return errFinal{errs.Reason("it is no address", "write it as https://host/file")}
	}
	req.Header.Set("Accept-Encoding", "identity") // the bytes as they are stored: those of the checksum
	have := size(path + partial)
	tag, _ := os.ReadFile(path + tagged)
	if have > 0 && len(tag) == 0 { // the version of the part is unknown
		forget(path)
		have = 0
	}
	if have > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(have, 10)+"-")
		req.Header.Set("If-Range", string(tag))
	}
	stuck := time.AfterFunc(idle, func() { cancel(fmt.Errorf("nothing came for %v", idle)) })
	defer stuck.Stop()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address, which the error already has
		}
		return fmt.Errorf("the server cannot be reached: %w", ended(ctx, err))
	}
	defer resp.Body.Close()
	total := int64(0)
	switch {
	case resp.StatusCode == http.StatusPartialContent:
		var first int64
		if first, total = contentRange(resp.Header.Get("Content-Range")); first != have {
			forget(path)
			return fmt.Errorf("the server sent bytes from %d on where %d were asked for", first, have)
		}
	case resp.StatusCode == http.StatusOK:
		have, total = 0, max(resp.ContentLength, 0)
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		if _, total = contentRange(resp.Header.Get("Content-Range")); total == have {
			return nil // an earlier call has downloaded all of it
		}
		forget(path)
		return errors.New("the server has less than was fetched before")
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout:
		return fmt.Errorf("the server answers %s", resp.Status)
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return errFinal{errs.Reason("the server answers "+resp.Status, "check the address, or name another with --url")}
	default:
		return errFinal{errs.Reason("the server answers "+resp.Status, hintServer)}
	}
	return ended(ctx, receive(resp, path, have, total, o, stuck))
}

// ended returns err, or what ended the context.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// receive appends the body to the part that is there.
func receive(resp *http.Response, path string, have, total int64, o *Options, stuck *time.Timer) error {
	flags := os.O_CREATE | os.O_WRONLY
	if have == 0 {
		flags |= os.O_TRUNC
		tag := resp.Header.Get("ETag")
		if tag == "" || strings.HasPrefix(tag, "W/") {
			tag = resp.Header.Get("Last-Modified")
		}
		if err := os.WriteFile(path+tagged, []byte(tag), 0o644); err != nil { // no secret
			return errFinal{errs.File(err, "download to", path, "choose a folder that can be written to")}
		}
	}
	f, err := os.OpenFile(path+partial, flags, 0o644) // no secret
	if err != nil {
		return errFinal{errs.File(err, "download to", path, "choose a folder that can be written to")}
	}
	_, err = f.Seek(have, io.SeekStart)
	buf := make([]byte, 256<<10)
	for err == nil {
		n, rerr := resp.Body.Read(buf)
		stuck.Reset(idle)
		if n > 0 {
			if _, werr := f.Write(buf[:n]); werr != nil {
				_ = f.Close() // the first error is the one to tell
				return errFinal{errs.File(werr, "download to", path, "free some space: the same command goes on")}
			}
			if have += int64(n); o.Progress != nil {
				o.Progress(have, total)
			}
		}
		err = rerr
	}
	if errors.Is(err, io.EOF) && (total == 0 || have == total) {
		return errors.Join(f.Sync(), f.Close())
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w after %d of %d bytes", errors.Join(err, f.Close()), have, total)
}

// contentRange reads "bytes 5-9/10": where the part begins, and the whole size, 0 if it is
// unknown.
func contentRange(text string) (from, total int64) {
	text = strings.TrimPrefix(text, "bytes ")
	span, all, _ := strings.Cut(text, "/")
	first, _, _ := strings.Cut(span, "-")
	total, _ = strconv.ParseInt(all, 10, 64) // "*" is 0
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		from = -1 // "*": there is no such part
	}
	return from, total
}

// checksum parses a checksum.
func checksum(text string) (hash.Hash, string, error) {
	kind, want, _ := strings.Cut(strings.ToLower(text), ":")
	h := map[string]hash.Hash{"sha256": sha256.New(), "md5": md5.New()}[kind] // as above
	if text == "" {
		return nil, "", nil
	}
	if b, err := hex.DecodeString(want); h == nil || err != nil || len(b) != h.Size() {
		return nil, "", errs.New("read checksum", strconv.Quote(text), "it is none", "write it as sha256:HEX or md5:HEX")
	}
	return h, kind + ":" + want, nil
}

// hashOf returns the checksum of a file.
func hashOf(path string, h hash.Hash) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	kind := "sha256:"
	if h.Size() == md5.Size {
		kind = "md5:"
	}
	return kind + hex.EncodeToString(h.Sum(nil)), nil
}
