package shards

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"dev.gpustall/engine/base/errs"
)

// FuzzWalk: nothing panics, and every sample that is found lies in the shard and has a key.
func FuzzWalk(f *testing.F) {
	golden, err := os.ReadFile("testdata/webdataset-0.tar")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(tarOf(f, file{"k0.png", "no picture"}, file{"k0.cls", "0"}, file{"k1.png", ""}, file{"k1.json", `{"cls":3}`}))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := walk(&window{r: bytes.NewReader(b), size: int64(len(b))})
		if err != nil {
			if errs.Explain(err).Hint == "" || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		for i, e := range x.entries {
			if e.off < 0 || e.off+int64(e.size) > int64(len(b)) || x.key(i) == "" || e.label < none || x.kind == 0 {
				t.Errorf("sample %d of %d bytes: %+v", i, len(b), e)
			}
		}
	})
}

// FuzzUnmarshal: nothing panics, and nothing that is accepted leads out of the shard.
func FuzzUnmarshal(f *testing.F) {
	b := tarOf(f, file{"k0.png", "no picture"}, file{"k0.cls", "0"})
	x, err := walk(&window{r: bytes.NewReader(b), size: int64(len(b))})
	if err != nil {
		f.Fatal(err)
	}
	const size = 4096
	const stamp = 12
	kept := x.marshal(size, stamp)
	f.Add(kept[:len(kept)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		x, err := unmarshal(sealed(body), size, stamp, size)
		if err != nil {
			return
		}
		for i, e := range x.entries {
			if e.off < 0 || e.off+int64(e.size) > size || len(x.key(i)) > len(x.keys) {
				t.Errorf("sample %d: %+v", i, e)
			}
		}
	})
}
