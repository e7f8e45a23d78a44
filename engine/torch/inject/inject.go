//go:build linux

// Package inject has a running Python process run a piece of code. A debugger only asks for it: the interpreter itself runs
// it later, in its main thread between two instructions, so whatever the process was doing is whole.
package inject

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/torch/frames"
)

// Target is a Python process that code can be run in.
type Target struct {
	PID      int
	Args     []string
	UID, GID int
	minor    int // of its version, Python 3.minor; 0 where that is not known
	exe      string
}

// String names the process for errors.
func (t *Target) String() string { return fmt.Sprintf("process %d", t.PID) }

// Find looks at a process, and says why nothing can be run in it.
func Find(pid int) (*Target, error) {
	t := &Target{PID: pid}
	refuse := func(reason, hint string) (*Target, error) {
		return nil, errs.New("attach to", t.String(), reason, hint)
	}
	proc := fmt.Sprintf("/proc/%d/", pid)
	status := fields(proc + "status")
	switch {
	case status == nil || strings.HasPrefix(status["State"], "Z") || status["Tgid"] != strconv.Itoa(pid):
		return refuse("there is no such process", "pgrep -af python shows which there are")
	case len(strings.Fields(status["NSpid"])) > len(strings.Fields(fields("/proc/self/status")["NSpid"])) || elsewhere(proc):
		return refuse("it runs in a container of its own", "run gpustall in there, as by docker exec or kubectl exec")
	case status["TracerPid"] != "0":
		return refuse("process "+status["TracerPid"]+" traces it already", "end that debugger first")
	case strings.HasPrefix(status["State"], "T"):
		return refuse("it is stopped", fmt.Sprintf("kill -CONT %d lets it go on", pid))
	}
	var info unix.Stat_t
	if err := unix.Stat(proc, &info); err != nil {
		return refuse("it has ended", "attach to one that runs")
	}
	t.UID, t.GID = int(info.Uid), int(info.Gid)
	if args, err := os.ReadFile(proc + "cmdline"); err == nil {
		t.Args = strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")
	}
	maps, err := os.ReadFile(proc + "maps")
	if err == nil {
		err = frames.Allowed(pid) // for which the same permission is needed as to trace it
	}
	if err != nil {
		return nil, errs.New("attach to", t.String(), denied(t.UID), permit(t.UID)).Because(err)
	}
	t.exe, _ = os.Readlink(proc + "exe")
	found := pythons.FindSubmatch(append([]byte(t.exe+"\n"), maps...))
	if found == nil && !strings.HasPrefix(filepath.Base(t.exe), "python") {
		return refuse("it is no Python", children(pid))
	}
	if found != nil {
		t.minor, _ = strconv.Atoi(string(found[1]))
	}
	return t, nil
}

// pythons finds the version in the name of an interpreter or its library.
var pythons = regexp.MustCompile(`(?m)/(?:lib)?python3\.(\d+)[a-z]*(?:\.so[.\d]*)?$`)

// fields reads a file of lines with a name and a value.
func fields(path string) map[string]string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		out[name] = strings.TrimSpace(value)
	}
	return out
}

// elsewhere reports whether a process is known to see other files than we do.
func elsewhere(proc string) bool {
	theirs, err := os.Readlink(proc + "ns/mnt")
	ours, _ := os.Readlink("/proc/self/ns/mnt")
	return err == nil && theirs != ours
}

const scopeFile = "/proc/sys/kernel/yama/ptrace_scope"

func scope() string {
	text, _ := os.ReadFile(scopeFile)
	return strings.TrimSpace(string(text))
}

// mayTrace reports whether this process has the capability CAP_SYS_PTRACE.
func mayTrace() bool {
	caps, err := strconv.ParseUint(fields("/proc/self/status")["CapEff"], 16, 64)
	return err == nil && caps>>unix.CAP_SYS_PTRACE&1 == 1
}

// denied says why a process of that user cannot be traced.
func denied(uid int) string {
	switch s := scope(); {
	case uid != os.Getuid() && os.Getuid() != 0:
		name := strconv.Itoa(uid)
		if u, err := user.LookupId(name); err == nil {
			name = u.Username
		}
		return "it belongs to the user " + name
	case s == "3":
		return "this machine lets nobody trace a process (ptrace_scope is 3)"
	case s != "" && s != "0" && !mayTrace():
		return "this machine lets only root trace a process that it did not start (ptrace_scope is " + s + ")"
	case !mayTrace():
		return "the system does not let it be traced, as in a container without CAP_SYS_PTRACE"
	}
	return "the system does not let it be traced, as where a seccomp profile forbids it"
}

// permit says what helps.
func permit(uid int) string {
	switch s := scope(); {
	case uid != os.Getuid() && os.Getuid() != 0:
		return "run gpustall as that user, or as root"
	case s == "3":
		return "start the training by gpustall torch"
	case s != "" && s != "0" && !mayTrace():
		return "run gpustall by sudo, or sysctl kernel.yama.ptrace_scope=0"
	}
	return "start the container with --cap-add=SYS_PTRACE, or the training by gpustall torch"
}

// children names the Python processes below a process, for a hint.
func children(pid int) string {
	var found []string
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(text)) {
			if exe, err := os.Readlink("/proc/" + child + "/exe"); err == nil && strings.Contains(filepath.Base(exe), "python") {
				found = append(found, child)
			}
		}
	}
	if len(found) == 0 {
		return "name the process that trains; pgrep -af python shows which there are"
	}
	return "it started " + strings.Join(found, ", ") + ": attach to the one that trains"
}

// remoteExec is the first version of Python with sys.remote_exec.
const remoteExec = 14

// asks is how long a debugger may take to ask the interpreter. It is ended only then, whoever waits for it: gdb that gets a SIGTERM
// while it attaches has left a process stopped, and once sent it a SIGINT.
const asks = time.Minute

// Run asks the process to run code, which must raise nothing. It returns once that is asked for. folder is where files for it
// may lie, which the process must be able to read.
func (t *Target) Run(ctx context.Context, folder, code string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asks)
	defer cancel()
	path := filepath.Join(folder, "asked")
	if err := os.WriteFile(path, append([]byte(code), 0), 0o600); err != nil {
		return err
	}
	if err := os.Chown(path, t.UID, t.GID); err != nil {
		return err
	}
	defer func() { _ = os.Remove(path) }() // the folder goes with the watching
	var failed error
	if t.minor >= remoteExec {
		script := filepath.Join(folder, "asked.py") // Python reads it later, so nothing here removes it
		err := os.WriteFile(script, []byte(code), 0o644)
		if err == nil {
			var text []byte
			text, err = output(ctx, t.exe, "-I", "-S", "-c", fmt.Sprintf("import sys; sys.remote_exec(%d, %q)", t.PID, script))
			if err == nil {
				return nil
			}
			failed = errors.New(last(text))
		}
	}
	for _, d := range debuggers {
		run, err := d.find()
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if run == "" {
			continue
		}
		args, script := d.with(t.PID, path, len(code)+1)
		if err := os.WriteFile(path+".script", []byte(script), 0o600); err != nil {
			return err
		}
		text, err := output(ctx, run, append(args, path+".script")...)
		if asked.Match(text) {
			return nil
		}
		t.goesOn()
		failed = errors.Join(failed, fmt.Errorf("%s could not: %s", filepath.Base(run), strings.TrimRight(why(text, err), ".")))
	}
	reason := "there is neither gdb nor lldb"
	if failed != nil {
		reason = strings.ReplaceAll(failed.Error(), "\n", ", and ")
	}
	return errs.New("attach to", t.String(), reason, "install gdb 14 or newer, or lldb, or start the training by gpustall torch")
}

// output runs a command and returns what it prints. It gets no signal of the terminal, because it must not be ended half-way. Where
// gpustall is killed meanwhile, the kernel ends it after asks on a core: lldb went on for good.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	var text bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &text, &text
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append(os.Environ(), "DEBUGINFOD_URLS=", "LC_ALL=C")
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	seconds := uint64(asks / time.Second)
	_ = unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: seconds}, nil)
	err := cmd.Wait()
	return text.Bytes(), err
}

// goesOn has the process go on where a debugger that failed left it stopped.
func (t *Target) goesOn() {
	for begun := time.Now(); time.Since(begun) < time.Second/2; time.Sleep(time.Second / 50) { // its last signal may still come
		if strings.HasPrefix(fields(fmt.Sprintf("/proc/%d/status", t.PID))["State"], "T (") {
			_ = unix.Kill(t.PID, unix.SIGCONT)
		}
	}
}

// asked finds that the interpreter was asked, in what a debugger prints.
var asked = regexp.MustCompile(`(?m)^(?:\(int\) )?\$\w+ = 0$`)

// why returns what a debugger says of its failure.
func why(text []byte, err error) string {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.Contains(line, "rror") || strings.Contains(line, "not permitted") || strings.Contains(line, "No symbol") {
			return line
		}
	}
	if err != nil {
		return err.Error()
	}
	return "the interpreter is about to end"
}

func last(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}

// debuggers, in the order in which they are tried. Py_AddPendingCall may be called in any thread at any time, but for an
// interpreter that ends. Nothing else that is called takes a lock or allocates from the process's heap.
var debuggers = []struct {
	find func() (path string, err error)
	with func(pid int, code string, size int) (args []string, script string) // args end with the flag before the script's file
}{
	{gdb, func(pid int, code string, size int) ([]string, string) {
		return []string{"-q", "-nx", "-batch", "-x"}, fmt.Sprintf(`set auto-load off
set auto-solib-add off
set unwindonsignal on
attach %d
handle all nostop noprint pass
sharedlibrary libpython
sharedlibrary libc[.-]
if (int)Py_IsInitialized()
set $at = ((char*(*)(long,long,int,int,int,long))mmap)(0,%d,3,0x22,-1,0)
restore %s binary $at
print ((int(*)(void*,void*))Py_AddPendingCall)((void*)PyRun_SimpleString,$at)
end
detach
`, pid, size, code)
	}},
	{lldb, func(pid int, code string, size int) ([]string, string) {
		return []string{"--batch", "--no-lldbinit", "--source"}, fmt.Sprintf(`process attach --pid %d
expression -- void *$run = (void*)PyRun_SimpleString, *$add = (void*)Py_AddPendingCall, *$is = (void*)Py_IsInitialized
expression -- char *$at = ((char*(*)(long,long,int,int,int,long))mmap)(0,%d,3,0x22,-1,0)
memory write --infile %s $at
expression --unwind-on-error true -- ((int(*)())$is)() ? ((int(*)(void*,void*))$add)($run,$at) : -1
process detach
`, pid, size, code)
	}},
}

var versions = regexp.MustCompile(`(?m)^GNU gdb .*?(\d+)\.\d+`)

// fixed is the version of gdb from which on it can restore the registers of processors with AMX.
const fixed = 14

// gdb returns where gdb is; empty where there is none.
func gdb() (string, error) {
	path, _ := exec.LookPath("gdb")
	if path == "" {
		return "", nil
	}
	cpu, _ := os.ReadFile("/proc/cpuinfo")
	if !bytes.Contains(cpu, []byte(" amx_tile")) {
		return path, nil
	}
	text, _ := exec.Command(path, "--version").Output()
	if v := versions.FindSubmatch(text); v != nil {
		if n, _ := strconv.Atoi(string(v[1])); n < fixed {
			return "", fmt.Errorf("gdb %d cannot call functions on a processor with AMX", n)
		}
	}
	return path, nil
}

// lldb returns where lldb is; empty where there is none.
func lldb() (string, error) {
	path, _ := exec.LookPath("lldb")
	return path, nil
}
