"""The training loop of a thread: the steps under way in it, and what the thread used for them."""

import collections
import functools
import threading

from gpustall import parts, process, ring
from gpustall.usage import Usage

now = process.now


class Loop:
    """The loop of one thread: the steps under way, the innermost last."""

    def __init__(self, state):
        self.state, self.thread, self.device = state, threading.current_thread(), None
        state.loop(self)
        self.record = state.ring(ring.LOOP).record
        self.rings = state.local.rings  # this thread's
        self.open = []  # [watch, step, start of what is not recorded yet, batch, when its batch came]
        self.loading = False  # a DataLoader's iterator is asked for a batch
        self.learned = False  # a part is on record of the innermost
        self.parts = []  # [kind, start of what is not recorded yet, whole]
        self.over = collections.deque()  # when backward passes were over of which parts has the beginning
        self.passed = functools.partial(next, map(self.over.append, iter(now, None)))  # notes one
        self.known = False
        self.usage = Usage()
        self.used = None  # what the thread had used up when the innermost batch came, or what came after it went on; None where it was not read
        # The usage is read around one wait of SOME, and the step that follows, while neither takes
        # long nor waits much for a core: of the others the bridge takes the same.
        self.turn = 0  # how often a batch was asked for
        self.wary = 0  # the turn until which every one is looked at
        self.slow = True  # since the last step took LONG_BATCH

    def spent(self, usage):
        """ns on a core and ready without one since the innermost went on; -1 where that is not known."""
        used, self.used = self.used, usage
        return self.usage.split(used, usage)

    def stop(self, t, ends, event=None, usage=None):
        """The innermost step stops at t: it ends, or another loop begins within it. event is the
        device's at t, where t has passed, and usage what the thread has used up by t."""
        parts.settle(self)
        watch, step, since, batch, _ = self.open[-1]
        core, waiting = self.spent(usage)
        flags = (ring.FINAL if ends else 0) | (ring.TRAIN if step >= 0 else 0)
        self.record(ring.BODY, since, t, watch.iteration, watch.round, batch, step, -1, 0, flags, core, waiting)
        self.open[-1][2] = t
        if ends:
            self.open.pop()
            self.parts.clear()  # of one that failed
            if self.device is not None and step >= 0:
                self.device.ends(step, event)

    def settle(self, t):
        """Ends the steps of loops that were left with break, when they were."""
        while self.open and self.open[-1][0].gone():
            left, event = self.open[-1][0].left
            self.stop(max(self.open[-1][2], min(left or t, t)), True, event)

    def finish(self):
        """The process ends."""
        self.settle(now())
        if self.device is not None:
            self.device.finish()


def current():
    """This thread's loop."""
    try:
        return parts.here.loop
    except AttributeError:
        loop = parts.here.loop = Loop(process.current())
        return loop


def introduce(state, loop, t):
    """At the first batch, at t: by then most scripts have put the model where it computes. Where
    there is a GPU that is not in use yet, it is looked at again at each batch: a script may look at its data first."""
    state.introduce()
    parts.install()
    loop.known = True
    try:
        from gpustall import device

        loop.device = device.open(loop)
        if loop.device is not None:
            state.on_gpu(t)
        else:
            loop.known = not device.expected()
    except Exception as error:
        process.complain("the device is not watched", error)
