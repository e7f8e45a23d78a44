"""Looks at the Python frames of this process from a thread of its own, where gpustall may not read them from outside.

The thread gets its turn when others let go of Python's lock (the GIL), so it sees where they let go of it. How long it
waited for the lock is told with each look. It is no thread of Python's threading, it ends with the loop, and it is not
there while the process forks.
"""

import _thread
import os
import random
import sys
import threading
import time

from gpustall import control, memory, ring
from gpustall.usage import Usage

DEEPEST = 512  # frames of a stack, from the innermost one
MOST = 400_000  # frames of all stacks that are told
LATELY = 1_000_000_000  # ns within which a thread that works has been on a core
OTHERS = 32  # threads of the process beside the loop's that are looked at
IDLE = 1.0  # s between two looks at the page while no looks are asked for
PATIENCE = 1.0  # s that the end of the thread is waited for
HELD = 4_800_000  # ns from which a wait for the lock tells that one thread held it meanwhile
WAITERS = "/threading.py", "/queue.py", "/concurrent/futures/_base.py", "/concurrent/futures/thread.py", "/selectors.py"  # as in bridge/lines.go

now = time.monotonic_ns
_looker = None


def settled(state, folder, threads, parent=0, worker=-1):
    """Begins to look if gpustall asks this process for it. Returns whether gpustall has said what it wants. threads
    returns the identifiers of the threads to look at."""
    global _looker
    page = state.control.page
    wanted = page[control.LOOKER]
    if wanted == (parent or state.pid) and _looker is None:
        _looker = _Looker(state, ring.Ring(folder, ring.LOOKER, parent or state.pid, worker), threads, worker >= 0)
        _looker.begin()
    return wanted != 0 or not page[control.GPUSTALL]


def stop():
    """Ends the thread, at the end of the process."""
    global _looker
    looker, _looker = _looker, None
    if looker is not None:
        looker.end()
        looker.ring.close()


class _Looker:
    def __init__(self, state, ring, threads, works):
        self.state, self.ring, self.threads = state, ring, threads
        self.works, self.gap = works, control.WORKER_LOOKS if works else control.LOOP_LOOKS
        self.draw = random.Random().random  # the script's own draws stay as they are
        self.stacks, self.frames, self.said = {}, {}, 0  # their numbers, and how many frames stacks have in all
        self.codes = {}  # by address; no other code object can have that address while it is kept
        self.last, self.turn = {}, 0  # when each thread was looked at
        self.used = {}  # what threads used of a core, by their identifiers
        self.runs = False
        self.tid = self.since = 0  # since when threads without a look are looked at

    def begin(self):
        if self.runs:  # two threads of the script forked at the same time
            return
        self.runs = True
        self.told, self.over = _thread.allocate_lock(), _thread.allocate_lock()
        self.told.acquire()
        self.over.acquire()
        try:
            _thread.start_new_thread(self._run, (self.told, self.over))
        except RuntimeError:  # there may be no more threads
            self.over.release()

    def end(self):
        """Ends the thread, and returns when it has ended."""
        if not self.runs:
            return
        self.runs = False
        self.told.release()
        if self.over.acquire(timeout=PATIENCE):
            for _ in range(100):  # the system needs a moment more; a fork beside a thread may be warned of
                if not os.path.exists("/proc/self/task/%d" % self.tid):
                    break
                time.sleep(0.0002)

    def _run(self, told, over):
        self.tid, self.since = threading.get_native_id(), now()
        try:
            usage = Usage()
            while self.state.control.watching():
                mean = self.state.control.page[self.gap]  # ns
                pause = mean * (0.5 + self.draw()) / 1e9 if mean > 0 else IDLE
                before, due = usage.of_sleeper(), now() + int(pause * 1e9)
                if told.acquire(timeout=pause):
                    return
                if mean > 0:
                    t = now()
                    _, ready = usage.split(before, usage.of_sleeper())
                    self._look(t, max(0, t - due - max(0, ready)))
                else:
                    self.last.clear()  # the time until then is charged to no line
                    self.since = now()
        except Exception:  # the folder is gone, or the disk is full
            pass
        finally:
            over.release()

    def _look(self, t, waited):
        threads = self.threads()
        if not threads:
            return
        thread = threads[self.turn % len(threads)]
        self.turn += 1
        since, self.last[thread] = self.last.get(thread, self.since), t
        frames = sys._current_frames()
        stacks = {i: _stack(frames[i]) for i in (thread, *self._others(frames, threads)) if i in frames}
        del frames  # a frame keeps what its function has
        number = self._number(stacks.get(thread, ()))
        if number is not None:
            other = self._awaited(thread, stacks, t, waited) if len(stacks) > 1 else None
            other = None if other is None else self._number(stacks[other])
            self.ring.record(ring.LOOK, since, t, arg=number, sample=-1 if other is None else other, waiting=waited)

    def _others(self, frames, threads):
        return [] if self.works else [i for i in frames if i not in threads and i != _thread.get_ident()][:OTHERS]

    def _awaited(self, thread, stacks, t, waited):
        """Returns the thread that another one may wait for: one that works while the other waits for a thread, or the one that
        was on a core longest while the lock was waited for. None where there is none."""
        used = self._used(stacks, t)
        working = [i for i, stack in stacks.items() if stack and not stack[0][0].co_filename.endswith(WAITERS)]
        if thread not in working:
            working = [i for i in working if i in used and t - self.used[i].ran < LATELY]
            return working[self.turn % len(working)] if working else None
        most = max(used, key=used.__getitem__, default=thread) if waited > HELD else thread
        return most if most != thread else None

    def _used(self, threads, t):
        """Returns how long each of these threads was on a core since the last look, in ns, as far as Python knows the thread."""
        before, self.used, used = self.used, {}, {}
        for thread in threads:
            tid = getattr(getattr(threading, "_active", {}).get(thread), "native_id", None)
            last = before.get(thread)
            try:
                if tid is None:
                    continue
                if last is None or last.tid != tid:
                    last = _Use(tid)
                used[thread] = last.since(t)
            except OSError:  # it has ended
                continue
            self.used[thread] = last
        return used

    def _number(self, stack):
        """Returns the number of a stack, and tells the stack if it is a new one; None where there are too many."""
        key = tuple([(id(code), line) for code, line in stack])
        number = self.stacks.get(key)
        if number is not None or not stack or self.said >= MOST:
            return number
        fresh, self.said = [], self.said + len(stack)
        for place, (code, line) in zip(key, stack):
            if place not in self.frames:
                self.frames[place], self.codes[place[0]] = len(self.frames), code
                fresh.append(dict(file=code.co_filename, name=getattr(code, "co_qualname", code.co_name), line=line))
        number = self.stacks[key] = len(self.stacks)
        self.state.tell("stack", fresh=fresh, stack=[self.frames[place] for place in key])
        return number


class _Use:
    def __init__(self, tid):
        self.tid, self.file = tid, memory.File("/proc/self/task/%d/schedstat" % tid)
        self.total = self.ran = None

    def since(self, t):
        """Returns how long the thread was on a core since the last call, in ns; 0 at the first one. ran is when it last was."""
        last, self.total = self.total, int((self.file.read() or b"0").split()[0])
        if last is None:
            self.ran, last = t - LATELY, self.total
        elif self.total != last:
            self.ran = t
        return self.total - last


def _stack(frame):
    """Returns the code objects and lines of a frame and its callers, innermost first."""
    stack = []
    while frame is not None and len(stack) < DEEPEST:
        stack.append((frame.f_code, frame.f_lineno or 0))
        frame = frame.f_back
    return stack


def _forks():
    if _looker is not None:
        _looker.end()


def _forked():
    if _looker is not None:
        _looker.begin()


def _is_child():
    global _looker
    _looker = None


os.register_at_fork(before=_forks, after_in_parent=_forked, after_in_child=_is_child)
