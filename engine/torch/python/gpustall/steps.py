"""The steps of a loop, as what it takes its batches from sees them: when the loop asks for a batch,
when it has it, and what it does in between.
"""

import threading
import time
import weakref
from typing import Any

from gpustall import control, loops, parts, process, ring
from gpustall.usage import LATE, LONG_BATCH, SELDOM, SOME

now = process.now


class Watch:
    """One passage through a loader's batches."""

    def __init__(self, plan, iteration):
        self.plan, self.iteration = plan, iteration
        self.first = True  # the next batch is the first of its epoch, or of those of it that are steps
        self.trains = False  # its epoch: a loader that trains may be gone through to evaluate, too
        self.learned = 0  # what the process had learned when its epoch began
        self.round = 0
        self.begun: float = now()  # its epoch
        self.joins: Any = None  # the step of another loader's batch, while a batch for it is waited for
        self.batch = -1  # the last one delivered, as its worker calls it
        self.samples = 0  # of the last one that was no step
        self.delivered = 0
        self.came = None  # what the iterator tells of the batch that it delivers: number, samples, CHANGING or 0
        self.iterator: Any = None  # a weak reference, where it is a DataLoader's
        self.left = None, None  # when that was let go, and the device's event then
        self.dropped = False  # a generator of gpustall.watch was let go
        self.numbered = False  # its batches are numbered through all epochs
        self.inline: Any = None  # the task of a loop that loads by itself

    def gone(self):
        return self.dropped or self.iterator is not None and self.iterator() is None

    def over(self):
        """What is called when the iterator is let go, in whatever thread that is."""
        watches = weakref.ref(self)

        def left(_):
            watch, loop = watches(), getattr(parts.here, "loop", None)
            if watch is None or watch.left[0] is not None:
                return
            event = None
            try:
                if loop is not None and loop.device is not None and loop.open and loop.open[-1][0] is watch:
                    event = loop.device.mark(loop.open[-1][1])
            except Exception:
                pass
            watch.left = now(), event

        return left

    def next(self, original, *args):
        """Calls the iterator for a batch, between a step that ends and one that begins.

        Between two batches this finds its code and all it touches gone from the processor's
        caches, where a call costs several times what it does in a loop: so what happens at
        each batch is written out here, and the rest is called.
        """
        loop = getattr(parts.here, "loop", None)
        if loop is not None and loop.loading:  # another's batch, of which this is part
            return original(*args)
        try:
            if loop is None:
                loop = loops.current()
            state, opened, start = loop.state, loop.open, now()
            turn = loop.turn = loop.turn + 1
            look = loop.slow or turn < loop.wary or turn % SOME == 1
            before = loop.usage.read() if look or loop.used is not None else None
            began = 0
            if loop.over:
                parts.settle(loop)
            if len(opened) == 1 and opened[0][0] is self:  # the step under way is ours: it ends
                _, step, since, batch, began = opened.pop()
                self.joins = None
                core = waiting = -1
                if loop.used is not None:
                    core, waiting = loop.spent(before)
                    if waiting > (start - since) >> 4:
                        loop.wary = turn + SELDOM
                flags = ring.FINAL | (ring.TRAIN if step >= 0 else 0)
                loop.record(ring.BODY, since, start, self.iteration, self.round, batch, step, -1, 0, flags, core, waiting)
                if loop.parts:
                    loop.parts.clear()
                if loop.device is not None and step >= 0:
                    loop.device.ends(step)
            else:
                self._leave(loop, start, before)
            page = state.control.page
            if page[control.PAUSED] or page[control.CAPTURES] != state.captures or state.capture is not None:
                start = self._attend(loop, start)
            if self.inline is not None:
                self.inline.index, self.inline.round = self.delivered, self.round
        except Exception as error:
            self._forget(error)
            return original(*args)
        try:
            loop.loading = self.iterator is not None
            data = original(*args)
        except StopIteration:
            loop.loading = False
            self._guard(self._end, loop, start)
            raise
        except BaseException:
            loop.loading = False
            self._guard(self._drop, loop)
            raise
        loop.loading = False
        try:
            plan, end = self.plan, now()
            loop.slow = end - began > LONG_BATCH
            loop.used, waited = None, -1
            if look:
                loop.used, waited = before, 0
                if end - start >= LATE:  # of what takes less, the bridge takes all for what a wake-up takes
                    loop.used = loop.usage.read()
                    waited = max(0, loop.usage.split(before, loop.used)[1])
                    if waited > (end - began) >> 4:
                        loop.wary = turn + SELDOM
            if not loop.known:
                loops.introduce(state, loop, end)
            number, samples, flags = self.came or self._look_at(data)
            if self.first:
                self.trains, self.learned = plan.judge(data) or self.trains, state.learned
                flags |= ring.FIRST
                self.first = False
            if self.trains:
                flags |= ring.TRAIN
                if not plan.weighed:
                    plan.weigh(data)
            if state.capture is not None:
                flags |= ring.PROFILED
            self.batch, self.came = number, None
            self.delivered += 1
            joined = self.joins is not None and self._joined(loop, end)
            if joined:
                step = loop.open[-1][1]
            elif self.trains:
                if state.shown is not self:
                    self._show(state, start)
                step = state.number()
                state.steps = step + 1
            else:
                step, self.samples = -1, samples
            loop.record(ring.NEXT, start, end, self.iteration, self.round, number, step, -1, samples, flags, -1, waited)
            if not joined:
                if loop.device is not None:
                    if step >= 0:
                        loop.device.begins(step)
                    else:
                        loop.device.resolve()  # the last steps of the epoch before
                loop.open.append([self, step, end, number, end])
                loop.learned = False
        except Exception as error:
            self._forget(error)
        return data

    def _attend(self, loop, start):
        """Does what the screen asks for before the next batch, and says when that was done."""
        state = loop.state
        captured = state.capture is not None or state.captures != state.control.captures()
        if captured and self.plan.trains and (self.trains or self.first) and self.joins is None:
            from gpustall import capture

            capture.look(state)
            start, begun = now(), start
            loop.record(ring.PAUSE, begun, start, self.iteration)
        while state.control.paused():
            time.sleep(0.02)
            loop.record(ring.PAUSE, start, now(), self.iteration)
            start = now()
        return start

    def _look_at(self, data):
        """What came is, where the iterator tells nothing."""
        number = self.delivered
        if self.iterator is not None:  # PyTorch's own knows it as its worker does
            number = getattr(self.iterator(), "_rcvd_idx", number + 1) - 1
        return number, self.plan.size(data), 0

    def _guard(self, f, *args):
        try:
            f(*args)
        except Exception as error:
            self._forget(error)

    def _forget(self, error):
        process.complain("a DataLoader is watched no more", error)
        iterator = self.iterator and self.iterator()
        if iterator is not None:
            iterator.__dict__.pop("_gpustall", None)

    def _leave(self, loop, t, usage):
        """The step under way stops at t. It ends, if the batch was ours."""
        self.joins = None
        loop.settle(t)
        if not loop.open:
            return
        if not any(entry[0] is self for entry in loop.open):
            loop.stop(t, False, usage=usage)
            self._join(loop)  # or ours is a loop within that step
            return
        while loop.open[-1][0] is not self:  # loops within ours that were left
            loop.stop(t, True)
        loop.stop(t, True, usage=usage)

    def _join(self, loop):
        """Has the batch that is asked for belong to the step under way, if it does: what is taken
        from several loaders in turn, as by zip, is one step. Their iterators were there before
        it began, while a loop within a step begins one, and nothing was learned in it so far."""
        plan, entry = self.plan, loop.open[-1]
        if entry[1] < 0 or loop.learned or not (self.begun < entry[4] or plan.beside):
            return
        if plan.judge():
            if not plan.beside:
                text = "the loop takes from another DataLoader in turn, over %s with num_workers=%s"
                process.current().tell("note", level="info", text=text % (plan.about.get("dataset"), plan.script.get("num_workers")))
            plan.beside, self.joins = True, entry
            if loop.device is not None:
                loop.device.ends(entry[1], goes_on=True)

    def _joined(self, loop, t):
        """The step that the batch belongs to goes on at t, with it or without; whether it does."""
        entry, self.joins = self.joins, None
        if not loop.open or loop.open[-1] is not entry:
            return False
        entry[2] = t
        if loop.device is not None:
            loop.device.begins(entry[1])
        return True

    def _show(self, state, t):
        """Has the session's knobs be those of this loader. It has those of the first one until
        the loop has done with it, and takes its steps from another."""
        before = state.shown
        if before is not None and before.plan.alike != self.plan.alike:
            if not before.gone() and not before.first:
                return
            self.plan.moved(before.plan, t)
        state.shown, state.taker = self, threading.get_ident()

    def _drop(self, loop):
        loop.open = [entry for entry in loop.open if entry[0] is not self]
        if self.joins is not None:
            self._joined(loop, now())

    def _end(self, loop, start):
        end = now()
        self._drop(loop)
        loop.record(ring.END, start, end, self.iteration, self.round, self.batch, flags=ring.TRAIN if self.trains else 0)
        if self.trains:
            self.plan.ended(self.learned)
        self.begin()
        if loop.open:  # the step around this loop goes on
            loop.open[-1][2], loop.used = end, loop.usage.read()

    def begin(self):
        """The next batch is of another epoch."""
        self.round += 0 if self.numbered else 1
        self.first, self.trains = True, False

    def learns(self, loop):
        """Something is learned with a batch that was taken for no step: those that follow are steps. So is
        this one, whose wait was none of a step's, but on a GPU, whose work since there is nothing on record of."""
        self.first = self.trains = True
        self.plan.learns()
        if loop.device is not None:
            return
        entry, state = loop.open[-1], loop.state
        since, batch = entry[2:4]
        if state.shown is not self:
            self._show(state, since)
        entry[1] = state.number()
        state.steps, self.first = entry[1] + 1, False
        loop.record(ring.NEXT, since, since, self.iteration, self.round, batch, entry[1], -1, self.samples, ring.TRAIN | ring.FIRST, -1, 0)
