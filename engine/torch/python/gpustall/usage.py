"""The usage of a thread: its time on a core, and its time ready to run without one. The constants say how often it is
read."""

import os
import threading
import time
from typing import Any

from gpustall import hook, memory

# For a phase of LONG ns or more, the usage is read as well.
LONG = 2_000_000
# For batches and steps that take less than LONG_BATCH ns, it is read in one of SOME, or in one of SELDOM if
# they are short.
LONG_BATCH = 40_000_000
SELDOM, SOME = 16, 8
# The cost of a step is bounded. Of steps that take less than BRIEF ns, one in FEW has its parts timed, and
# one in RARE its usage read. The rest are only counted and timed. Of batches that the loop itself loads in
# less than INSTANT ns, one in FEW is timed. SPREAD and CHOSEN choose that one at varying distances, because a
# script may do something in each eighth step.
BRIEF, INSTANT, FEW, RARE = 2_000_000, 200_000, 16, 64
SPREAD, CHOSEN = 2654435761, 0xF0000000  # turn * SPREAD & CHOSEN is 0 in one turn of FEW
# If a batch's indices took the sampler DRAWN ns or more, that is recorded.
DRAWN = 50_000
# If a batch took LATE ns or more on its way, the usage of that time is recorded.
LATE = 100_000
# This stands for a usage that was not read: ns on a core, and ns ready without one.
NOT_READ = -1, -1



_here = threading.local()


def of_thread():
    """Returns this thread's Usage, which stays open: if a finalizer closed one for each epoch, an error of a signal's
    handler that comes then would be lost."""
    own: Any = getattr(_here, "own", (0, None))
    if own[0] != os.getpid():  # a forked child's files are those of its parent's threads
        own = _here.own = os.getpid(), Usage()
    return own[1]


class Usage:
    """Reads the usage of the thread that made this object: ns on a core, and ns ready to run without one."""

    def __init__(self):
        self.file: Any = None  # the kernel does not tell
        try:
            self.file = memory.File("/proc/thread-self/schedstat")
        except OSError as error:
            hook.pass_on(error)

    def _counts(self):
        text = self.file.read() if self.file is not None else None
        if text is None:
            self.file = None
        return text and text.split()

    def read(self):
        """Returns the usage so far, read by the thread itself; None where the kernel does not tell."""
        counts = self._counts()
        return (time.thread_time_ns(), int(counts[1])) if counts else None

    def of_sleeper(self):
        """Returns the usage so far, read by another thread. The kernel's own count is up to date only while this thread sleeps."""
        counts = self._counts()
        return tuple(map(int, counts[:2])) if counts else None

    @staticmethod
    def split(before, after):
        """Returns the usage between two readings; NOT_READ where one is missing."""
        if before is None or after is None:
            return NOT_READ
        return after[0] - before[0], after[1] - before[1]

    def since(self, before):
        """Returns the usage from a reading until now."""
        return self.split(before, self.read()) if before else NOT_READ
