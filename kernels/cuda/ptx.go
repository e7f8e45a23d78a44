package cuda

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// packed holds each file of ptx, compressed with zstd to an eighth of its size. Tests hold
// the two folders equal; go test ./kernels/cuda -run Packed -update packs again.
//
//go:embed packed/*.ptx.zst
var packed embed.FS

// packedName returns the packed file of a module for one architecture: "80", "90a".
func packedName(module, arch string) string {
	return fmt.Sprintf("packed/%s.sm_%s.ptx.zst", module, arch)
}

var unpacker = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
})

func unpack(b []byte) ([]byte, error) {
	d, err := unpacker()
	if err != nil {
		return nil, err
	}
	return d.DecodeAll(b, nil)
}

// PTX returns the text of a module, which the driver compiles for the device. Of several
// texts it takes the newest that a device of compute capability sm can run. PTX for sm_90a
// runs on compute capability 9.0 alone, on no later one. PTX fails below sm_70.
//
// Each call unpacks the module: 0.2 to 1.3 ms on an idle core.
func PTX(name string, sm int) ([]byte, error) {
	arches := make([]string, 0, 4)
	if sm == 90 {
		arches = append(arches, "90a")
	}
	for _, arch := range []int{80, 75, 70} {
		if sm >= arch {
			arches = append(arches, fmt.Sprint(arch))
		}
	}
	for _, arch := range arches {
		b, err := packed.ReadFile(packedName(name, arch))
		if err != nil {
			continue
		}
		text, err := unpack(b)
		if err != nil {
			return nil, fmt.Errorf("cuda kernels: unpack %s: %w", packedName(name, arch), err)
		}
		return text, nil
	}
	return nil, fmt.Errorf("cuda kernels: no PTX of module %q for sm_%d: GPUs from sm_70 (Volta) on are supported", name, sm)
}

// Fingerprint names all PTX together. What was found of the kernels holds only while it
// stays the same.
var Fingerprint = sync.OnceValue(func() string {
	files, _ := fs.Glob(packed, "packed/*") // the pattern is well formed
	all := sha256.New()
	for _, name := range files {
		b, _ := packed.ReadFile(name) // it is embedded
		fmt.Fprintf(all, "%s %d\n", name, len(b))
		all.Write(b)
	}
	return fmt.Sprintf("%.6x", all.Sum(nil))
})
