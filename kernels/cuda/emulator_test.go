package cuda

import (
	"bufio"
	"bytes"
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

	"dev.gpustall/kernels"
)

// emulator runs the CUDA kernels on the host, in a process of its own
// (../verify/emulation/server.cpp), so that one that goes astray fails one test.
type emulator struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	w      *bufio.Writer
	stderr bytes.Buffer
}

// newEmulator skips the test where there is no C++ compiler.
func newEmulator(t testing.TB) *emulator {
	t.Helper()
	path, err := buildEmulator()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("the kernels' host emulation needs a C++ compiler: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	e := &emulator{t: t, cmd: exec.Command(path)}
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

// buildEmulator compiles the emulator once for a state of the sources, and keeps
// it in the temporary directory.
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
	for _, pattern := range []string{"*.cu", "*.h", "../verify/emulation/*"} {
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
	path := filepath.Join(os.TempDir(), fmt.Sprintf("gpustall-kernels-%d-%s", os.Getuid(), hex.EncodeToString(hash.Sum(nil)[:8])))
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
	return path, os.Rename(tmp, path)
})

func (e *emulator) send(v ...any) {
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
		case uint32:
			e.send(uint64(x))
		default:
			panic(fmt.Sprintf("emulator: cannot send %T", x))
		}
	}
}

// receive fails the test with the process's last words when it ended.
func (e *emulator) receive(p []byte) {
	e.t.Helper()
	e.w.Flush()
	if _, err := io.ReadFull(e.out, p); err != nil {
		e.cmd.Wait()
		e.t.Fatalf("the emulation ended: %s", bytes.TrimSpace(e.stderr.Bytes()))
	}
}

func (e *emulator) number() uint64 {
	e.t.Helper()
	var b [8]byte
	e.receive(b[:])
	return binary.NativeEndian.Uint64(b[:])
}

func (e *emulator) alloc(n int) uint64 {
	e.t.Helper()
	e.send(byte('A'), n)
	return e.number()
}

func (e *emulator) write(addr uint64, b []byte) { e.send(byte('W'), addr, len(b), b) }

func (e *emulator) read(addr uint64, b []byte) {
	e.t.Helper()
	e.send(byte('R'), addr, len(b))
	e.receive(b)
}

func (e *emulator) free() { e.send(byte('F')) }

// launch runs one kernel; bufs, scratch and counters are addresses.
func (e *emulator) launch(l Launch, reverse bool, bufs []uint64, scratch, counters uint64) {
	e.t.Helper()
	e.send(byte('L'), l.Entry)
	for _, v := range [][3]uint32{l.Grid, l.Block} {
		e.send(v[0], v[1], v[2])
	}
	e.send(l.Shared, boolean(reverse).Value, len(l.Args))
	for _, a := range l.Args {
		switch a.Kind {
		case Buffer:
			e.send(8, bufs[a.Index]+a.Value)
		case Scratch:
			e.send(8, scratch+a.Value)
		case Counter:
			e.send(8, counters+a.Value)
		case Null:
			e.send(8, 0)
		case Scalar:
			e.send(4, a.Value)
		}
	}
	if e.number() == 0 {
		return
	}
	why := make([]byte, e.number())
	e.receive(why)
	e.t.Fatalf("%s", why)
}

// run computes op as the plan says. bufs hold the operation's buffers, alias says
// which other buffer's memory a buffer shares (itself otherwise). Outputs start
// poisoned. The results replace the contents of bufs.
func (e *emulator) run(op kernels.Op, plan Plan, bufs [][]byte, alias []int, reverse bool) {
	e.t.Helper()
	args := op.Args()
	addr := make([]uint64, len(args))
	for i, a := range args {
		if alias[i] != i {
			addr[i] = addr[alias[i]]
			continue
		}
		addr[i] = e.alloc(a.Size())
		if a.Role != kernels.Out {
			e.write(addr[i], bufs[i])
		}
	}
	scratch, counters := e.alloc(plan.Scratch), e.alloc(CounterBytes)
	e.write(counters, make([]byte, CounterBytes))
	for _, l := range plan.Launches {
		e.launch(l, reverse, addr, scratch, counters)
	}
	for i, a := range args {
		if a.Role != kernels.In {
			e.read(addr[i], bufs[i])
		}
	}
	left := make([]byte, CounterBytes)
	e.read(counters, left)
	for i, b := range left {
		if b != 0 {
			e.t.Fatalf("%s leaves counter byte %d at %d", op.Name(), i, b)
		}
	}
	e.free()
}
