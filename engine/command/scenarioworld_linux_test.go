package command

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dev.gpustall/loader"
	"dev.gpustall/loader/synth"
)

// compete starts a process that computes until stop is called.
func compete(t *testing.T) (stop func()) {
	t.Helper()
	c := exec.Command("sh", "-c", "while :; do :; done")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// folders makes data sets, each once.
type folders struct {
	t    *testing.T
	dir  string
	made map[dataKind]string
}

func (f *folders) of(k dataKind) string {
	f.t.Helper()
	dir, ok := f.made[k]
	if ok {
		return dir
	}
	dir = filepath.Join(f.dir, strconv.Itoa(len(f.made)))
	f.made[k] = dir
	var err error
	switch k.kind {
	case "records":
		err = synth.Records(f.t.Context(), dir, k.size, synth.Options{Samples: k.samples})
	case "cifar":
		err = synth.CIFAR10(f.t.Context(), dir, synth.Options{Samples: k.samples})
	case "jpeg":
		err = writeJPEGs(dir, k.samples, func(int) int { return k.size })
	case "bursts":
		err = writeJPEGs(dir, k.samples, func(i int) int {
			if i/4%16 < 12 {
				return 64
			}
			return k.size
		})
	default:
		err = errors.New("no such data")
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return dir
}

// writeJPEGs writes n square images of one class; side returns the side of each. They are noise,
// which keeps a decoder as busy as photographs do.
func writeJPEGs(dir string, n int, side func(i int) int) error {
	dir = filepath.Join(dir, "class")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	coded := map[int][]byte{}
	for i := range n {
		px := side(i)
		if coded[px] == nil {
			img := image.NewYCbCr(image.Rect(0, 0, px, px), image.YCbCrSubsampleRatio420)
			rng := loader.NewRNG(1, 0, px)
			for k := range img.Y {
				img.Y[k] = byte(k/px) + byte(rng.IntN(32))
			}
			for k := range img.Cb {
				img.Cb[k], img.Cr[k] = byte(k), byte(128+rng.IntN(16))
			}
			var b bytes.Buffer
			if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 85}); err != nil {
				return err
			}
			coded[px] = b.Bytes()
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%06d.jpg", i)), coded[px], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// chill keeps the files of a folder out of the page cache, as far as the kernel follows the
// advice, so that reads go to the disk.
func chill(t *testing.T, dir string) (stop func()) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	unix.Sync() // the kernel keeps dirty pages
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, name := range names {
				if f, err := os.Open(name); err == nil {
					_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
					_ = f.Close()
				}
			}
			select {
			case <-quit:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
