package source

import (
	"path"
	"path/filepath"
	"strings"

	"dev.gpustall/engine/base/errs"
)

// Schemes of addresses.
const (
	schemeFile  = "file"
	schemeS3    = "s3"
	schemeAzure = "azblob"
	schemeABFSS = "abfss" // Azure's own: abfss://container@account.dfs.core.windows.net/path
)

// address is a place in an object store.
type address struct {
	scheme  string
	account string // of Azure, where it is named
	bucket  string // or container
	key     string // without a slash at either end; empty: the bucket itself
}

// bucketOf returns the part that all addresses in a bucket share.
func (a address) bucketOf() address { a.key = ""; return a }

func (a address) String() string {
	s := a.scheme + "://" + a.bucket
	if a.scheme == schemeABFSS {
		s += "@" + a.account + azureSuffix
	}
	if a.key != "" {
		s += "/" + a.key
	}
	return s
}

const azureSuffix = ".dfs.core.windows.net"

// Remote reports whether a path is the address of something in an object store.
func Remote(p string) bool {
	scheme, _, ok := strings.Cut(p, "://")
	return ok && scheme != schemeFile && !strings.ContainsAny(scheme, "/.")
}

// local returns the path that a file:// address names. It returns any other path as it is.
func local(p string) string {
	if rest, ok := strings.CutPrefix(p, schemeFile+"://"); ok {
		return strings.TrimPrefix(rest, "localhost")
	}
	return p
}

const hintAddress = "give s3://bucket/prefix, azblob://container/prefix or abfss://container@account" + azureSuffix + "/prefix"

// parse splits an address into its parts. It refuses an address that may hold credentials,
// without showing it.
func parse(s string) (a address, err error) {
	scheme, rest, _ := strings.Cut(s, "://")
	refuse := func(reason, hint string) (address, error) {
		return a, errs.New("open", scheme+"://…", reason, hint)
	}
	a.scheme = scheme
	a.bucket, a.key, _ = strings.Cut(rest, "/")
	if user, host, ok := strings.Cut(a.bucket, "@"); ok && scheme == schemeABFSS {
		a.bucket, a.account = user, strings.TrimSuffix(host, azureSuffix)
		if a.account == host || strings.ContainsAny(a.account, ".:@/?") {
			return refuse("its host is no account of Azure's", hintAddress)
		}
	} else if ok {
		return refuse("there are credentials in the address", hintKeys)
	} else if scheme == schemeABFSS {
		return refuse("it names no account", hintAddress)
	}
	switch {
	case scheme != schemeS3 && scheme != schemeAzure && scheme != schemeABFSS:
		return refuse("there is no source of that kind", hintAddress)
	case strings.ContainsAny(s, "?#"):
		return refuse("there is a query in the address, which may hold a signature", hintKeys)
	case a.bucket == "" || strings.Contains(a.bucket, ":"):
		return refuse("it names no bucket", hintAddress)
	}
	a.key = strings.Trim(path.Clean("/"+a.key), "/")
	return a, nil
}

const hintKeys = "leave them out: they come from the environment or from the files of the service's own tools"

// Clean returns a path in its usual form; a file:// address becomes the path that it names.
func Clean(p string) (string, error) {
	if !Remote(p) {
		return local(p), nil
	}
	a, err := parse(p)
	if err != nil {
		return "", err
	}
	return a.String(), nil
}

// Absolute does what Clean does, and returns a path from the root on.
func Absolute(p string) (string, error) {
	if Remote(p) {
		return Clean(p)
	}
	return filepath.Abs(local(p))
}

// Join is filepath.Join for paths and addresses.
func Join(p string, names ...string) string {
	if !Remote(p) {
		return filepath.Join(append([]string{local(p)}, names...)...)
	}
	for _, n := range names {
		if n != "" {
			p = strings.TrimRight(p, "/") + "/" + filepath.ToSlash(n)
		}
	}
	return p
}

// Split returns a path's folder and the name in it.
func Split(p string) (dir, name string) {
	if !Remote(p) {
		p = local(p)
		return filepath.Dir(p), filepath.Base(p)
	}
	a, err := parse(p)
	if err != nil {
		return p, ""
	}
	dir, name = path.Split(a.key)
	a.key = strings.Trim(dir, "/")
	return a.String(), name
}

// Name returns the last part of a path, for people to read.
func Name(p string) string {
	if !Remote(p) {
		if abs, err := filepath.Abs(local(p)); err == nil {
			p = abs
		}
		return filepath.Base(p)
	}
	a, err := parse(p)
	if err != nil {
		return ""
	}
	if a.key == "" {
		return a.bucket
	}
	return path.Base(a.key)
}
