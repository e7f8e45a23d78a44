"""The training loop of a thread: its open steps, and what the thread used for them."""

import collections
import functools
import threading
from typing import Any

from gpustall import frames, hook, looks, parts, process, ring
from gpustall.usage import SOME, Usage

now = process.now

# How long, in ns, the first steps ask whether gpustall can read this process's frames.
PATIENCE = 10_000_000_000


class Loop:
    """The loop of one thread, with its open steps. A loop within a step has a step of its own."""

    def __init__(self, state):
        self.state, self.thread, self.device = state, threading.current_thread(), None
        state.loop(self)
        mine = state.ring(ring.LOOP)
        self.record, self.bundle, self.totals = mine.record, mine.bundle, mine.totals
        self.rings = state.local.rings  # of this thread
        self.open = []  # the innermost last: [watch, step, start of what is not recorded yet, batch, when its batch came]
        self.loading = False  # an iterator of a DataLoader loads a batch
        self.learned = False  # a part of the innermost step is recorded
        self.stands = 1  # how many steps the timed parts of the innermost step stand for; 0: none is timed
        self.untimed = 0  # brief steps since the last one whose parts were timed
        self.short = False  # the step before the open one was brief
        self.parts = []  # under way: [kind, start of what is not recorded yet, whole]
        self.over = collections.deque()  # when backward passes in parts ended
        self.passed = functools.partial(next, map(self.over.append, iter(now, None)))  # appends to over
        self.ahead: Any = None  # the plan of the loop that just ended, where the script may still learn from its last batch
        self.known = False  # the device is found, or there is none to wait for
        self.usage = Usage()
        self.used = None  # the thread's usage when the innermost step began or went on; None where it was not read
        # The usage is read around one wait in some, and the step that follows. While steps take long or wait
        # much for a core, it is read around each. The bridge takes the others to be like those that were
        # read.
        self.some = SOME
        self.turn = 0  # how often a batch was asked for
        # Of the last step in which an optimizer stepped: its number, how often that one did, when it first had, which one it is, and
        # how often one did at most in the steps before.
        self.again = [-1, 0, 0, 0, 0]
        self.wary = 0  # the turn until which the usage is read each time
        self.slow = True  # the last step took LONG_BATCH or more
        self.passed_by: Any = None  # the watch over the only open step, while its steps are brief and not recorded one by one

    def spent(self, usage):
        """Returns the ns on a core, and the ns ready without one, since the innermost step began or went on; -1 where
        not known."""
        used, self.used = self.used, usage
        return self.usage.split(used, usage)

    def stop(self, t, ends, event=None, usage=None):
        """Stops the innermost step at t: it ends, or another loop begins within it. If t has passed, event is the
        device's event of t. usage is the thread's usage at t."""
        parts.settle(self)
        watch, step, since, batch, _ = self.open[-1]
        core, waiting = self.spent(usage)
        flags = (ring.FINAL if ends else 0) | (ring.TRAIN if step >= 0 else 0)
        self.record(ring.BODY, since, t, watch.iteration, watch.round, batch, step, -1, 0, flags, core, waiting)
        self.open[-1][2] = t
        if ends:
            self.open.pop()
            self.parts.clear()  # parts that failed
            if self.device is not None and step >= 0:
                self.device.ends(step, event)

    def catch_up(self):
        """Records the brief steps that were passed by. From here on, steps are recorded one by one."""
        watch, self.passed_by = self.passed_by, None
        steps, watch.passed, watch.brief = watch.passed, [], 0
        self.untimed += len(steps)
        since, first = watch.since, watch.batch - len(steps) + 1
        at = 0
        while at < len(steps):
            some = steps[at : at + ring.MANY]
            while some[-1][0] - some[0][0] != len(some) - 1:  # another thread had steps between them
                some.pop()
            self.bundle(since, some, watch.iteration, watch.round, first + at, watch.each)
            since, at = some[-1][2], at + len(some)

    def stand(self):
        """Makes the parts of a brief step, if they are timed, stand for those of earlier steps that were not."""
        if self.stands:
            self.stands, self.untimed = 1 + self.untimed, 0
        else:
            self.untimed += 1

    def settle(self, t, again=None):
        """Ends the steps of loops that were left with break, at the time they were left. again is the plan of the loader from
        which the loop begins to take at t."""
        if self.passed_by is not None:
            self.catch_up()
        while self.open and self.open[-1][0].gone():
            self._left(t, again)

    def _left(self, t, again=None):
        watch, _, since, _, came = self.open[-1]
        left, event = (watch.ended[0], None) if watch.ended else watch.left
        if len(self.open) > 1 and watch.takes_one(came, left):
            left, event = watch.until(came, t, again), None
        end = max(since, min(left or t, t))
        if watch.held is not None:
            watch.release(self)
        self.stop(end, True, event)
        self.resume(watch, end)

    def resume(self, watch, t):
        """Goes on at t with the step around a loop that ended, if there is one."""
        if not self.open:
            return
        entry = self.open[-1]
        entry[2] = max(entry[2], t)
        self.learned = self.learned or watch.after
        if self.device is not None and entry[1] >= 0:
            self.device.begins(entry[1])

    def back(self):
        """Ends the loops within a step that do not train, as something is learned now: they are an evaluation in the step, and
        were left. When, nothing tells where the script keeps the iterator; the last batch is then taken to be as long as the
        shortest one before."""
        t = now()
        while len(self.open) > 1:
            (watch, step, since, _, came), outer = self.open[-1], self.open[-2]
            if step >= 0 or outer[1] < 0 and outer[0].held is None:
                return
            if watch.gone() and watch.held is not None and watch.delivered == 1:
                self.open.pop()
                watch.belongs(self, came)
            elif watch.gone():
                self._left(t)
            elif not watch.may or watch.late and not watch.plan.learned() and self.state.learned > outer[0].learned:
                end = max(since, min(t, came + watch.plan.least))
                self.stop(end, True)
                self.resume(watch, end)
            else:
                return

    def finish(self):
        """Ends all steps, when the process ends. A step that the script still holds counts, but its time is not
        known."""
        if self.open and self.open[-1][0].alone:
            self.open.pop()
        self.settle(now())
        if self.device is not None:
            self.device.finish()


def current():
    """Returns the loop of this thread."""
    try:
        return parts.here.loop
    except AttributeError:
        loop = parts.here.loop = Loop(process.current())
        return loop


def introduce(state, loop, t):
    """Tells about the process at its first batch, at t. By then most scripts have moved the model to its device. If
    there is a GPU that is not in use yet, this is called at each batch, because a script may look at its data first. So
    it is until gpustall has said whether it can read this process's frames."""
    if not state.introduced:
        state.introduce()
        _show_frames(state)
    parts.install()
    loop.known = _settled(state, t)
    if loop.device is not None:
        return
    try:
        from gpustall import device

        loop.device = device.open(loop)
        if loop.device is not None:
            state.on_gpu(t)
        elif device.expected():
            loop.known = False
    except Exception as error:
        process.complain("the device is not watched", error)


def _settled(state, t):
    """Returns whether it is known at t if this process looks at its own frames."""
    try:
        return looks.settled(state, process.FOLDER, state.threads) or t - state.introduced > PATIENCE
    except Exception as error:
        process.complain("lines of code are not told", error)
        return True


def _show_frames(state):
    """Tells how gpustall reads the frames of this process's threads, or why it cannot."""
    try:
        state.tell("frames", layout=frames.layout())
    except Exception as error:
        hook.pass_on(error)
        state.tell("frames", reason=str(error), library=frames.library())
