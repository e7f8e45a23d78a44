package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/command/cli"
)

// TestGet: a published data set is downloaded from a server, checked, unpacked and found.
func TestGet(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := w.AddFS(os.DirFS(filepath.Dir(tarable(t))))
	if err = errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(b.Bytes()))
	}))
	defer s.Close()
	dir := filepath.Join(t.TempDir(), "sets")
	sum := sha256.Sum256(b.Bytes())
	r := gpustall(t, "data", "get", "cifar10", dir, "--url", s.URL+"/x.tar.gz")
	if r.code != cli.ExitRuntime || !strings.Contains(r.stderr, "should be md5:c32a1d4ab5d03f1284b67883e8d87530") {
		t.Error(r.code, r.stderr)
	}
	get := []string{"data", "get", "cifar10", dir, "--url", s.URL + "/x.tar.gz", "--checksum", "sha256:" + hex.EncodeToString(sum[:])}
	if r = gpustall(t, get...); r.code != 0 || !strings.Contains(r.stdout, "cifar10-binary, 10 samples") || !strings.Contains(r.stdout, "gpustall run --data "+dir) {
		t.Fatal(r.stdout, r.stderr)
	}
	if r = gpustall(t, get...); r.code != 0 || !strings.Contains(r.stderr, "is there already") {
		t.Error(r.code, r.stderr)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
	if r = gpustall(t, "data", "get", "mnist", dir); r.code != cli.ExitUsage || !strings.Contains(r.stderr, "choose cifar10 or cifar100") {
		t.Error(r.stderr)
	}
}

// tarable returns a small data set in a folder of its published name, which has a parent folder
// of its own.
func tarable(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "in", "cifar-10-batches-bin")
	if err := os.CopyFS(dir, os.DirFS("../../loader/format/cifar/testdata/bin")); err != nil {
		t.Fatal(err)
	}
	return dir
}
