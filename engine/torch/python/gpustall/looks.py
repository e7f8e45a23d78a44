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

from gpustall import control, ring
from gpustall.usage import Usage

DEEPEST = 96  # frames of a stack, from the innermost one
MOST = 4096  # stacks that are told
IDLE = 1.0  # s between two looks at the page while no looks are asked for
PATIENCE = 1.0  # s that the end of the thread is waited for

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
        self.gap = control.WORKER_LOOKS if works else control.LOOP_LOOKS
        self.draw = random.Random().random  # the script's own draws stay as they are
        self.stacks, self.frames = {}, {}  # their numbers
        self.codes = {}  # by address; no other code object can have that address while it is kept
        self.last, self.turn = {}, 0  # when each thread was looked at
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
        stack = _stack(thread)
        number = self._number(stack)
        if number is not None:
            self.ring.record(ring.LOOK, since, t, arg=number, waiting=waited)

    def _number(self, stack):
        """Returns the number of a stack, and tells the stack if it is a new one; None where there are too many."""
        key = tuple([(id(code), line) for code, line in stack])
        number = self.stacks.get(key)
        if number is not None or not stack or len(self.stacks) >= MOST:
            return number
        fresh = []
        for place, (code, line) in zip(key, stack):
            if place not in self.frames:
                self.frames[place], self.codes[place[0]] = len(self.frames), code
                fresh.append(dict(file=code.co_filename, name=getattr(code, "co_qualname", code.co_name), line=line))
        number = self.stacks[key] = len(self.stacks)
        self.state.tell("stack", fresh=fresh, stack=[self.frames[place] for place in key])
        return number


def _stack(thread):
    """Returns the code objects and lines of a thread, innermost first. It keeps no frame, because a frame keeps what its
    function has."""
    stack, frame = [], sys._current_frames().get(thread)
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
