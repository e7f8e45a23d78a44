// Package verify holds what only tests of the kernels need. The package itself compiles the CUDA sources
// for the host and runs them in a process of their own. Its ptxvm interprets the PTX that was made of
// them. It knows nothing of operations and plans.
package verify

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"dev.gpustall/kernels/verify/ptxvm"
)

// Emulator runs the CUDA kernels on the host, in a process of its own
// (emulation/server.cpp), so that a kernel that crashes fails one test.
type Emulator struct {
	testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	w      *bufio.Writer
	stderr bytes.Buffer
}

// NewEmulator skips the test where there is no C++ compiler.
func NewEmulator(t testing.TB) *Emulator {
	t.Helper()
	path, err := buildEmulator()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("the kernels' host emulation needs a C++ compiler: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	e := &Emulator{TB: t, cmd: exec.Command(path)}
	e.cmd.Stderr = &e.stderr
	if e.in, err = e.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.w, e.out = bufio.NewWriterSize(e.in, 1<<20), bufio.NewReaderSize(out, 1<<20)
	t.Cleanup(func() {
		e.in.Close()
		e.cmd.Wait()
	})
	return e
}

// buildEmulator compiles the emulator once for each state of the sources, and keeps the last one in the
// folder .cache. Its relative paths hold in a package beside this one, whose tests call it.
var buildEmulator = sync.OnceValues(func() (string, error) {
	compiler := os.Getenv("CXX")
	if compiler == "" {
		compiler = "g++"
	}
	compiler, err := exec.LookPath(compiler)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, pattern := range []string{"../cuda/*.cu", "../cuda/*.h", "../verify/emulation/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(hash, "%s %d\n%s", f, len(b), b)
		}
	}
	version, err := exec.Command(compiler, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", compiler, err)
	}
	hash.Write(version)
	io.WriteString(hash, compiler)
	dir, err := filepath.Abs("../../.cache/kernels")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "emulator-"+hex.EncodeToString(hash.Sum(nil)[:8]))
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return path, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	tmp := fmt.Sprintf("%s.%d", path, os.Getpid())
	args := []string{"-std=c++17", "-O2", "-pthread", "-o", tmp, "-I../verify", "../verify/emulation/server.cpp", "../verify/emulation/registry.cpp"}
	if exec.Command(compiler, "-march=native", "-E", "-x", "c", os.DevNull).Run() == nil {
		args = append([]string{"-march=native"}, args...)
	}
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the emulation: %w\n%s", err, out)
	}
	before, err := filepath.Glob(filepath.Join(dir, "emulator-????????????????"))
	for _, old := range before {
		_ = os.Remove(old)
	}
	return path, cmp.Or(err, os.Rename(tmp, path))
})

func (e *Emulator) send(v ...any) {
	for _, x := range v {
		switch x := x.(type) {
		case byte:
			e.w.WriteByte(x)
		case string:
			e.send(len(x))
			e.w.WriteString(x)
		case []byte:
			e.w.Write(x)
		case uint64:
			binary.Write(e.w, binary.NativeEndian, x)
		case int:
			e.send(uint64(x))
		default:
			panic(fmt.Sprintf("emulator: cannot send %T", x))
		}
	}
}

// receive reads an answer. Where the process has ended, it fails the test with what that wrote last.
func (e *Emulator) receive(p []byte) {
	e.Helper()
	e.w.Flush()
	if _, err := io.ReadFull(e.out, p); err != nil {
		e.cmd.Wait()
		e.Fatalf("the emulation ended: %s", bytes.TrimSpace(e.stderr.Bytes()))
	}
}

func (e *Emulator) number() uint64 {
	e.Helper()
	var b [8]byte
	e.receive(b[:])
	return binary.NativeEndian.Uint64(b[:])
}

// Alloc returns the address of n bytes, which start as NaNs. They end where a page begins that cannot be
// touched.
func (e *Emulator) Alloc(n int) uint64 {
	e.Helper()
	e.send(byte('A'), n)
	return e.number()
}

// Write copies b to addr.
func (e *Emulator) Write(addr uint64, b []byte) { e.send(byte('W'), addr, len(b), b) }

// Read copies what is at addr to b.
func (e *Emulator) Read(addr uint64, b []byte) {
	e.Helper()
	e.send(byte('R'), addr, len(b))
	e.receive(b)
}

// Free gives back all memory.
func (e *Emulator) Free() { e.send(byte('F')) }

// BankConflicts returns how many bank conflicts of ldmatrix there were since the last call.
func (e *Emulator) BankConflicts() uint64 {
	e.Helper()
	e.send(byte('C'))
	return e.number()
}

// Inject puts a fault of emulation/fault.h into all later launches.
func (e *Emulator) Inject(fault int) { e.send(byte('X'), fault) }

// Launch runs one kernel.
func (e *Emulator) Launch(l ptxvm.Launch) {
	e.Helper()
	e.send(byte('L'), l.Entry)
	for _, v := range [][3]int{l.Grid, l.Block} {
		e.send(v[0], v[1], v[2])
	}
	reverse := 0
	if l.Reverse {
		reverse = 1
	}
	e.send(l.Shared, reverse, len(l.Params))
	for _, p := range l.Params {
		var value [8]byte
		copy(value[:], p)
		e.send(len(p), binary.NativeEndian.Uint64(value[:]))
	}
	if e.number() == 0 {
		return
	}
	why := make([]byte, e.number())
	e.receive(why)
	e.Fatalf("%s", why)
}
