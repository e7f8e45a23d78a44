#!/usr/bin/env python3
"""Does a training under gpustall end as it would without?

    harm.py GPUSTALL [CASE ...]      make harm; --quick takes those that say "# quick"

Each case is a script of the folder harm. It runs bare, then under gpustall with --plain, with
--json, with --tune and beside the screen. A mode such as plain-KILL-seen kills gpustall meanwhile, and
json-STOP-begun stops it, until the script has ended. That happens when the script has begun, has
imported PyTorch's loader, is seen to train, or has had its workers changed. What it
prints to standard output, its exit code and the files that it leaves are compared with those of
the bare run; a case with weights prints their hash. Afterwards nothing of gpustall's may lie in
/dev/shm, in TMPDIR or in the current folder. gpustall may take MOST bytes of memory.

The first lines of a case say more: "# wrap: COMMAND" is a shell command in which $RUN stands for
the script's own, "# says: TEXT" is what gpustall has to say, "# not: TEXT" what it may not; beside
the screen, the report has to say it. "# hides: TEXT" is in nothing that gpustall writes or says.
"# needs: COMMAND" leaves the case out where the command fails.
"# keys: SECONDS KEY ..." are keys that are typed there so long after the screen has opened.
"""

import argparse
import fcntl
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
LOOPS = "training.py", "raising.py"  # what several cases train
KEYS = {"RIGHT": "\x1b[C", "ENTER": "\r"}
LIMIT = 120  # seconds that one run may take
LINGER = 15  # seconds that workers of a script that was killed may live on
MOST = 384 << 20  # of which spans are about half
MODES = "plain json tune screen plain-KILL-begun plain-KILL-imported plain-KILL-seen plain-STOP-begun plain-STOP-imported plain-STOP-seen"


class Run:
    """One run of a case, in folders of its own."""

    def __init__(self, case, mode, gpustall):
        self.case, self.gpustall, self.most = case, gpustall, 0
        self.mode, self.signal, self.stage = (mode.split("-") + ["", ""])[:3]
        self.home = tempfile.mkdtemp(prefix="harm-")
        self.cwd, self.tmp = os.path.join(self.home, "cwd"), os.path.join(self.home, "tmp")
        for folder in self.cwd, self.tmp:
            os.mkdir(folder)
        for path in [case.path] + [os.path.join(os.path.dirname(case.path), name) for name in LOOPS]:
            shutil.copy(path, self.cwd)
        self.env = dict(os.environ, HOME=self.home, TMPDIR=self.tmp, OMP_NUM_THREADS="1", PYTHONHASHSEED="0", TERM="xterm-256color")
        self.env.pop("XDG_STATE_HOME", None)
        self.env["PYTHON"] = sys.executable

    def command(self):
        script = [sys.executable, "-W", "ignore", os.path.basename(self.case.path)]
        mode = {"bare": None, "screen": []}.get(self.mode, ["--" + self.mode] if self.mode in ("json", "tune") else ["--plain"])
        run = script if mode is None else [self.gpustall, "torch", *mode, "--", *script]
        if self.case.wrap:
            inner = " ".join("'%s'" % a for a in run)
            return ["bash", "-c", self.case.wrap.replace("$RUN", inner)]
        return run

    def go(self):
        folder = ""  # of the rings
        terminal, tty = None, -1
        kwargs: dict[str, Any] = {}
        if self.mode == "screen":
            terminal, tty = pty.openpty()
            fcntl.ioctl(tty, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
            kwargs = dict(stdin=tty, stdout=tty, stderr=tty, start_new_session=True)
        out, err = open(os.path.join(self.home, "out"), "w+b"), open(os.path.join(self.home, "err"), "w+b")
        if not kwargs:
            kwargs = dict(stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        child = subprocess.Popen(self.command(), cwd=self.cwd, env=self.env, **kwargs)
        if terminal is not None:
            os.close(tty)
        began, opened, seen, hurt, typed, ran = time.time(), 0.0, b"", False, False, False
        while child.poll() is None:
            if time.time() - began > LIMIT:
                os.killpg(child.pid, signal.SIGKILL)
                self.code = "no end in %d s" % LIMIT
                break
            if terminal is not None and select.select([terminal], [], [], 0.05)[0]:
                try:
                    seen += os.read(terminal, 1 << 16)
                except OSError:
                    pass
            else:
                time.sleep(0.02)
            if terminal is not None and not opened and b"num_workers" in seen:
                opened = time.time()  # on a busy host that takes a while
            if terminal is not None and self.case.keys and not typed and opened and time.time() - opened > self.case.after:
                typed = True
                os.write(terminal, self.case.keys)
            ran = ran or bool(self.trains())
            if terminal is not None and ran and not self.trains():
                os.write(terminal, b"q")  # the screen stays when the training has ended
                time.sleep(0.5)
            folder = folder or self.shared()
            for pid in running(self.gpustall, self.cwd):
                self.most = max(self.most, peak(pid))
                if not hurt and self.signal and self.reached() and pid not in self.trains():  # it was the script's, which had not begun then
                    hurt = True
                    os.kill(pid, getattr(signal, "SIG" + self.signal))
                elif hurt and not self.trains():
                    os.kill(pid, signal.SIGCONT)
        else:
            self.code = child.returncode
        self.outlive(began if self.signal else time.time() - LIMIT + LINGER)
        if self.signal:
            if not hurt:
                self.code = "gpustall was not hurt"
            for pid in running(self.gpustall, self.cwd):
                os.kill(pid, signal.SIGKILL)
        for f in out, err:
            f.seek(0)
        self.out, self.err = out.read().decode(errors="replace"), err.read().decode(errors="replace")
        if self.mode in ("json", "screen"):  # the script's output is in the log beside the session
            self.said = self.out + self.err if self.mode == "json" else " ".join(seen.decode(errors="replace").split()) + self.report()
            self.out = "".join(open(p, errors="replace").read() for p in found(self.home, ".log"))
        else:
            self.said = self.err
        self.told = "".join(self.everything()) + self.said + self.err if self.case.hides else ""
        self.files = {os.path.relpath(p, self.cwd): digest(p) for p in found(self.cwd, "") if "gpustall" not in os.path.basename(p)}
        self.left = [folder] * os.path.isdir(folder) + [os.path.relpath(p, self.home) for p in glob_all(self.tmp) if "gpustall-torch" in p]
        shutil.rmtree(self.home, ignore_errors=True)
        return self

    def report(self):
        """The session's report, without line breaks."""
        sessions = found(self.home, ".gpustall")
        if not sessions:
            return ""
        return " ".join(subprocess.run([self.gpustall, "report", sessions[-1]], capture_output=True, text=True, env=self.env).stdout.split())

    def everything(self):
        """All that can be had of the session."""
        for path in found(self.home, ".gpustall"):
            yield open(path, "rb").read().decode("latin-1")
            yield json.dumps(self.agent(os.path.basename(path)[: -len(".gpustall")]))
            for form in "markdown", "html", "csv", "chrome", "folded", "lab":
                out = os.path.join(self.home, "report-" + form)
                subprocess.run([self.gpustall, "report", path, "--format", form, "-o", out], capture_output=True, env=self.env)
                for name in glob_all(out) if os.path.isdir(out) else [out] if os.path.isfile(out) else []:
                    yield open(name, "rb").read().decode("latin-1") if os.path.isfile(name) else ""

    def agent(self, session):
        """What an agent is told of the session."""
        calls = [("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "harm", "version": "1"}})]
        calls += [("tools/call", {"name": name, "arguments": {"session": session}}) for name in ("summary", "report")]
        lines = "".join(json.dumps({"jsonrpc": "2.0", "id": i, "method": m, "params": p}) + "\n" for i, (m, p) in enumerate(calls))
        return subprocess.run([self.gpustall, "mcp"], input=lines, capture_output=True, text=True, env=self.env).stdout

    def reached(self):
        """Whether the script is where gpustall is to be killed or stopped."""
        pids = self.trains()
        if not pids or self.stage == "begun":
            return bool(pids)
        try:
            folder = "/proc/%d/root%s" % (pids[0], self.shared())  # its /dev/shm may be one of its own
            names = os.listdir(folder)
            if self.stage != "changed":
                return any(n.startswith("ring" if self.stage == "seen" else "imported") for n in names)
            return any('"applied"' in open(os.path.join(folder, n)).read() for n in names if n.startswith("messages"))
        except OSError:  # it has just begun, or ended
            return False

    def shared(self):
        """The folder that the script shares with gpustall; empty where it is not known."""
        for pid in self.trains():
            try:
                found = re.findall("\0GPUSTALL_TORCH=([^\0]*)", "\0" + open("/proc/%d/environ" % pid).read())
            except OSError:
                continue
            if found:
                return found[0]
        return ""

    def trains(self):
        """Whether the script runs."""
        return running(os.path.basename(self.case.path), self.cwd)

    def outlive(self, began):
        """Waits for the script, which is alone now."""
        while time.time() - began < LIMIT and self.trains():
            time.sleep(0.1)


def glob_all(folder):
    return [os.path.join(d, n) for d, folders, names in os.walk(folder) for n in folders + names]


def found(folder, ending):
    return sorted(os.path.join(d, n) for d, _, names in os.walk(folder) for n in names if n.endswith(ending))


def digest(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()[:12]


def peak(pid):
    """The most memory that a process had, in bytes."""
    try:
        return int(re.findall("VmHWM:\\s*(\\d+) kB", open("/proc/%d/status" % pid).read())[0]) << 10
    except (OSError, IndexError):
        return 0


def running(program, cwd):
    """The processes that run a program in a folder: gpustall, or a Python with a script."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink("/proc/%s/cwd" % pid) != cwd:
                continue
            line = open("/proc/%s/cmdline" % pid, "rb").read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if line[0] == program or program.endswith(".py") and line[0] == sys.executable and program in line[1:]:
            out.append(int(pid))
    return out


class Case:
    def __init__(self, path):
        self.path, self.name = path, os.path.splitext(os.path.basename(path))[0]
        text = open(path).read()

        def said(name, default=""):
            return (re.findall("^# %s: (.*)$" % name, text, re.M) or [default])[0]

        self.wrap, self.needs, self.quick = said("wrap"), said("needs"), "# quick\n" in text
        self.says, self.nots = re.findall("^# says: (.*)$", text, re.M), re.findall("^# not: (.*)$", text, re.M)
        self.hides = re.findall("^# hides: (.*)$", text, re.M)
        after, *keys = said("keys", "0").split()
        self.keys, self.after = "".join(str(KEYS.get(k, k)) for k in keys).encode(), float(after)
        self.modes = said("modes", MODES).split()


def stable(text):
    """Output without what differs from run to run, and without gpustall's own lines."""
    return re.sub(r"harm-\w+", "harm-", "".join(line for line in text.splitlines(True) if not line.startswith("gpustall:")))


def alike(out, bare):
    """Whether outputs are the same. A log has the first and the last of a long one."""
    first, left_out, last = out.partition("\n... gpustall left out ")
    if not left_out:
        return stable(out) == stable(bare)
    last = last.partition(" ...\n")[2]
    return bare.startswith(first) and bare.endswith(last) and len(first) + len(last) > 8 << 20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpustall")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--quick", action="store_true")
    a = parser.parse_args()
    names = {os.path.splitext(os.path.basename(p))[0]: p for p in found(os.path.join(HERE, "harm"), ".py") if os.path.basename(p) not in LOOPS}
    paths = [names[n] for n in a.cases or names]
    failed = ran = 0
    for case in map(Case, paths):
        if a.quick and not case.quick:
            continue
        if case.needs and subprocess.run(case.needs, shell=True, capture_output=True).returncode:
            print("skipped: %s needs %s" % (case.name, case.needs), flush=True)
            continue
        bare = Run(case, "bare", a.gpustall).go()
        for mode in [m for m in case.modes if not a.quick or "-" not in m]:
            ran += 1
            run = Run(case, mode, os.path.abspath(a.gpustall)).go()
            wrong = []
            hurt = run.signal
            if run.code != bare.code and (hurt != "KILL" or isinstance(run.code, str)):
                wrong.append("exit code %s, bare %s" % (run.code, bare.code))
            if not alike(run.out, bare.out):
                wrong.append("it printed %r, bare %r" % (run.out[-300:], bare.out[-300:]))
            if run.files != bare.files:
                wrong.append("it left %s, bare %s" % (sorted(run.files), sorted(bare.files)))
            if run.left and not hurt:
                wrong.append("gpustall left %s" % run.left)
            if not hurt:
                wrong += ["gpustall does not say %r" % t for t in case.says if t not in run.said]
            if run.most > MOST:
                wrong.append("gpustall had %d MB of memory" % (run.most >> 20))
            wrong += ["gpustall says %r" % t for t in case.nots if t in run.said]
            wrong += ["gpustall tells %r" % t for t in case.hides if t in run.told]
            if "Traceback" in run.err and "Traceback" not in bare.err:
                wrong.append("a traceback: %s" % run.err[-600:])
            result = "%-4s %-14s %-20s %3d MB" % ("FAIL" if wrong else "ok", case.name, mode, run.most >> 20)
            print(result, *wrong, sep="\n       " if wrong else " ", flush=True)
            failed += bool(wrong)
    print("%d passed, %d failed" % (ran - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
