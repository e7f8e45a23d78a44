package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"dev.gpustall/engine/command/cli"
)

// terminalUnderTest is a tmux session on a server of its own, with a shell in it.
type terminalUnderTest struct {
	t      *testing.T
	socket string
	dir    string
}

func openTerminal(t *testing.T, w, h int) *terminalUnderTest {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed; .ci/install installs it where it can")
	}
	if testing.Short() {
		t.Skip("end to end")
	}
	tm := &terminalUnderTest{t: t, dir: t.TempDir(), socket: fmt.Sprintf("gpustall-%d-%d", os.Getpid(), time.Now().UnixNano())}
	tm.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(w), "-y", fmt.Sprint(h), "-c", tm.dir, "env PS1='$ ' bash --norc --noprofile")
	t.Cleanup(func() { exec.Command("tmux", "-L", tm.socket, "kill-server").Run() })
	tm.waitFor(`\$`)
	return tm
}

func (tm *terminalUnderTest) tmux(args ...string) string {
	tm.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-L", tm.socket}, args...)...).CombinedOutput()
	if err != nil {
		tm.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (tm *terminalUnderTest) keys(keys ...string) {
	tm.t.Helper()
	tm.tmux(append([]string{"send-keys"}, keys...)...)
}

func (tm *terminalUnderTest) screen() string {
	tm.t.Helper()
	return tm.tmux("capture-pane", "-p")
}

// waitFor waits until the screen matches, and returns it. It waits up to a minute because the machine
// may be loaded.
func (tm *terminalUnderTest) waitFor(pattern string) string {
	tm.t.Helper()
	re := regexp.MustCompile(pattern)
	var s string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if s = tm.screen(); re.MatchString(s) {
			return s
		}
	}
	tm.t.Fatalf("the screen never showed %q; it shows:\n%s", pattern, s)
	return ""
}

// checkRestored fails unless the shell has its terminal back.
func (tm *terminalUnderTest) checkRestored() {
	tm.t.Helper()
	tm.keys("clear; stty -a | tr ' ' '\\n' | grep -x -e -echo -e -icanon -e echo -e icanon; echo restored", "Enter")
	s := tm.waitFor(`(?m)^restored`)
	if !regexp.MustCompile(`(?m)^echo`).MatchString(s) || !regexp.MustCompile(`(?m)^icanon`).MatchString(s) {
		tm.t.Errorf("the terminal is raw:\n%s", s)
	}
	if got := strings.TrimSpace(tm.tmux("display-message", "-p", "#{alternate_on}#{cursor_flag}")); got != "01" {
		tm.t.Errorf("alternate screen and cursor flags are %q, want 01", got)
	}
}

// start types the command line and waits for the first frame with steps in it.
func (tm *terminalUnderTest) start(args string) {
	tm.t.Helper()
	// This is a shell around the program. ctrl+z stops both, and the code is printed once, at
	// the end.
	tm.keys("bash -c '"+binary+" "+args+"; echo code $?'", "Enter")
	tm.waitFor(`Verdict`)
	tm.waitFor(`samples/s`)
}

// starved makes the loader slow enough to starve any device.
func starved(t *testing.T) string {
	return "--device cpu --model cnn --data " + tiny(t) + " --batch-size 32 --inject cpu=1ms"
}

// quit quits the screen, which may ask for confirmation, and expects code 0.
func (tm *terminalUnderTest) quit() {
	tm.t.Helper()
	tm.keys("q")
	if s := tm.waitFor(`Quit\?|(?m)^code \d`); strings.Contains(s, "Quit?") {
		tm.keys("y")
	}
	tm.waitFor(`(?m)^code 0`)
}

// TestEndToEnd is the first minutes of a user: a starved run, the knob that fixes it, the proof
// in table and report, and the way out.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	tm := openTerminal(t, 120, 40)
	tm.start(starved(t))
	s := tm.waitFor(`INPUT-BOUND`)
	for _, label := range []string{"SYNTHETIC", "INJECTED"} {
		if !strings.Contains(s, label) {
			t.Errorf("the screen does not say %s", label)
		}
	}
	tm.waitFor(`transform`)
	tm.keys("2")              // the knobs
	tm.keys("Right", "Right") // num_workers 0 -> 2
	tm.waitFor(`2 staged`)
	tm.keys("Enter")
	tm.waitFor(`(?m)num_workers 0 ?(->|→|>) ?2`) // the experiments table: a segment that the trace confirms
	time.Sleep(2 * time.Second)
	tm.keys("e")
	tm.waitFor(`\.md`)
	for _, size := range [][2]string{{"80", "24"}, {"60", "16"}, {"30", "8"}, {"20", "4"}, {"200", "50"}, {"120", "40"}} {
		tm.tmux("resize-window", "-x", size[0], "-y", size[1])
		time.Sleep(300 * time.Millisecond)
		tm.waitFor(`\S`)
	}
	tm.waitFor(`Verdict`)
	tm.keys("?")
	tm.waitFor(`(?i)help`)
	tm.keys("?")
	tm.waitFor(`Verdict`)
	tm.keys("C-z")
	tm.waitFor(`Stopped`)
	tm.keys("fg", "Enter")
	tm.waitFor(`Verdict`)
	tm.quit()
	tm.checkRestored()
	tm.checkReport()
}

func (tm *terminalUnderTest) checkReport() {
	tm.t.Helper()
	files, _ := filepath.Glob(filepath.Join(tm.dir, "*.md"))
	if len(files) != 1 {
		tm.t.Fatalf("%d reports exported", len(files))
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		tm.t.Fatal(err)
	}
	for _, want := range []string{"synthetic", "injected", "num_workers", "transform"} {
		if !strings.Contains(string(b), want) {
			tm.t.Errorf("the report does not mention %q", want)
		}
	}
}

// TestSignalsOnScreen: a signal ends the screen with code 128 plus its number. The summary is
// written, and the terminal is restored.
func TestSignalsOnScreen(t *testing.T) {
	t.Parallel()
	tm := openTerminal(t, 120, 40)
	data := starved(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT} {
		tm.start(data)
		if out, err := exec.Command("pkill", fmt.Sprintf("-%d", sig), "-f", "^"+binary+" "+data).CombinedOutput(); err != nil {
			t.Fatalf("pkill: %v %s", err, out)
		}
		s := tm.waitFor(`(?m)^code \d+`) // not "decode 4 ms"
		if !strings.Contains(s, fmt.Sprintf("code %d", cli.ExitSignal+int(sig))) || !strings.Contains(s, "stopped: ") || !strings.Contains(s, "session ") || strings.Contains(s, "goroutine ") {
			t.Errorf("after %v:\n%s", sig, s)
		}
		tm.checkRestored()
	}
}

// TestTerminalGone: the screen ends when its terminal is gone. The kernel tells only the first
// process of the terminal's session, which here is a shell that passes nothing on.
func TestTerminalGone(t *testing.T) {
	t.Parallel()
	tm := openTerminal(t, 120, 40)
	code := filepath.Join(tm.dir, "code")
	shell := fmt.Sprintf("trap : HUP; %s %s; echo code $? >%s", binary, starved(t), code)
	tm.tmux("new-window", "sh", "-c", shell)
	tm.waitFor(`samples/s`)
	tm.tmux("kill-window")
	var got []byte
	for end := time.Now().Add(time.Minute); len(got) == 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		got, _ = os.ReadFile(code)
	}
	if want := fmt.Sprintf("code %d\n", cli.ExitSignal+int(syscall.SIGHUP)); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReplayScreen: replay opens the screen on a session's file.
func TestReplayScreen(t *testing.T) {
	if r := gpustall(t, strings.Fields("run --steps 20 "+starved(t))...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	tm := openTerminal(t, 120, 40)
	tm.keys(binary+" replay latest; echo code $?", "Enter")
	tm.waitFor(`REPLAY`)
	tm.quit()
	tm.checkRestored()
}
