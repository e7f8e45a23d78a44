"""The steps of a loop, seen from the iterator that gives it batches: when the loop asks for a batch, when it has the
batch, and what it does in between. """

import collections
import functools
import threading
import time
import weakref
from typing import Any

from gpustall import control, hook, loops, parts, process, ring
from gpustall.exchange import EVERY, FIRST
from gpustall.usage import BRIEF, CHOSEN, FEW, INSTANT, LATE, LONG_BATCH, RARE, SELDOM, SOME, SPREAD

_MOST = 2 * FEW - 3  # the most brief steps that are passed by at once, plus one: with two that are not, FEW at the mean

now = process.now
NEVER = float("inf")


class Watch:
    """One passage through a loader's batches."""

    def __init__(self, plan, iteration):
        self.plan, self.iteration = plan, iteration
        self.alone = False  # its steps are between calls, and no batch shows what they wait for
        self.first = True  # the next batch is the first of its epoch, or the first that is a step
        self.trains = False  # the epoch trains: a loader that trains may be used to evaluate, too
        self.may = False  # the epoch does not train so far, and may do so from any of its batches on
        self.late = False  # nothing was learned with the epoch's first batch before the next one came
        self.held: Any = None  # what is to be recorded of the last batch, once it is known whether something is learned with it
        self.learned = 0  # how often the process had learned when the epoch began
        self.after = False  # it began in another loader's step, after something was learned in that
        self.round = 0  # the epoch
        self.begun: float = now()  # when the epoch began
        self.joins: Any = None  # another loader's step that the next batch belongs to, while the loop waits for that batch
        self.batch = -1  # the number of the last batch, as its worker has it
        self.samples = 0  # of the last batch that was not a step
        self.delivered = 0  # batches
        self.came = None  # what a LiveIter tells of its batch: number, samples, CHANGING or 0
        self.iterator: Any = None  # a weak reference to a DataLoader's iterator; None for other loops
        self.loader: Any = None  # of an iterator that was there before gpustall
        self.ended = ()  # when the iterator was let go, where there is no device
        self.left = None, None  # when the iterator was let go, and the device's event then
        self.dropped = False  # the loop left it, though the iterator may be there
        self.numbered = False  # batches are numbered through all epochs
        self.inline: Any = None  # the task of a loop that loads by itself
        self.brief = 0  # how many brief steps are to be passed by now: they are counted and timed, and recorded together
        self.passed = []  # those: number, when the loop asked for the batch and got it, the samples of all steps so far
        self.since = self.each = 0  # when the step before them got its batch; the samples of each
        self.passes = self.close = False  # steps are passed by; and the parts of the last one were timed, for those

    def gone(self):
        return self.dropped or self.iterator is not None and self.iterator() is None

    def over(self):
        """Returns a function to call when the iterator is let go, in whatever thread. Without a device it runs in C alone, because
        an error of a signal's handler that comes in a finalizer is lost."""
        watches, here = weakref.ref(self), getattr(parts.here, "loop", None)
        if here is not None and here.known and here.device is None:
            self.ended = collections.deque()
            return functools.partial(next, map(self.ended.append, iter(now, None)))

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

        The script runs between two calls, so this code and its data are not in the processor's caches. A Python call
        then costs several times as much as in a tight loop. So all that happens at each batch is written out here, and
        only rarer things are calls. """
        loop = getattr(parts.here, "loop", None)
        if loop is not None:
            if loop.loading:  # an outer loader loads a batch, and this is part of it
                return original(*args)
            if self.brief and loop.passed_by is self:
                state = loop.state
                if state.control.page[control.CAPTURES] == state.captures:
                    return self._pass(loop, original, args)
        try:
            if loop is None:
                loop = loops.current()
            state, opened, start = loop.state, loop.open, now()
            turn = loop.turn = loop.turn + 1
            look = loop.slow or turn < loop.wary or turn % loop.some == 1
            before = loop.usage.read() if look or loop.used is not None else None
            began = 0
            if loop.passed_by is not None:
                loop.catch_up()
            if loop.over:
                parts.settle(loop)
            if self.held is not None:
                self.release(loop)
            if len(opened) == 1 and opened[0][0] is self:  # the open step is this loader's: it ends
                _, step, since, batch, began = opened.pop()
                self.joins = None
                core = waiting = -1
                if loop.used is not None:
                    core, waiting = loop.spent(before)
                    if waiting > (start - since) >> 4 and not loop.short:
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
                self._tell_task(self.inline)
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
            self._came(loop, data, start, now(), began, look, before)
        except Exception as error:
            self._forget(error)
        return data

    def _came(self, loop, data, start, end, began, look, before):
        """Opens the step of a batch, which the loop asked for at start and got at end. The previous step began at
        began. With look, before is the thread's usage at start, and the usage of the step is read too."""
        plan, state, turn, took = self.plan, loop.state, loop.turn, end - began
        loop.slow = took > LONG_BATCH
        loop.short = took < BRIEF
        if loop.short:
            loop.stands, loop.some = 0 if turn * SPREAD & CHOSEN else 1, RARE
        else:
            loop.stands, loop.some = 1, SOME
        loop.used, waited = None, -1
        if look:
            loop.used, waited = before, 0
            if end - start >= LATE:  # the bridge takes a shorter wait for the time of a wake-up
                loop.used = loop.usage.read()
                waited = max(0, loop.usage.split(before, loop.used)[1])
                if waited > took >> 4 and took >= BRIEF:
                    loop.wary = turn + SELDOM
        if not loop.known:
            loops.introduce(state, loop, end)
        if state.exchange is not None and turn & EVERY == FIRST:
            state.exchange.look(state)
        number, samples, flags = self.came or self._look_at(data)
        plain = not flags and not self.first and state.capture is None
        if self.first:
            self._decide(state, data)
            flags |= ring.FIRST
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
            state.steps, state.began = step + 1, end
        else:
            step, self.samples = -1, samples
        if step >= 0:
            state.samples += samples
            totals = loop.totals
            totals[0], totals[1], totals[2] = state.steps, state.samples, end
        if step < 0 and self.may:
            self.held = start, end, number, samples, flags, waited
        else:
            loop.record(ring.NEXT, start, end, self.iteration, self.round, number, step, -1, samples, flags, state.samples, waited)
        if joined:
            if loop.short:
                loop.stand()
            return
        if loop.device is not None:
            if loop.open and loop.open[-1][1] >= 0:
                loop.device.ends(loop.open[-1][1], goes_on=True)
            if step >= 0:
                loop.device.begins(step)
            else:
                loop.device.resolve()  # the last steps of the epoch before
                if self.held is not None:
                    loop.device.begins(step)
        loop.open.append([self, step, end, number, end])
        loop.learned = False
        if loop.short and plain and step >= 0 and loop.device is None and loop.known and self.iterator is not None:
            self._brief(loop, look, samples)
        else:
            self.passes = self.close = False
        if loop.short:
            loop.stand()

    def _decide(self, state, data):
        """Decides, with the first batch of an epoch, whether it trains."""
        import torch

        self.first = False
        loop = parts.here.loop
        within = state.learned and self.joins is None and loop.open and loop.open[-1][1] >= 0  # perhaps an evaluation in a step
        self.trains, self.learned = (not within or self.plan.certain) and self.plan.judge(data) and not self.plan.unsure() or self.trains, state.learned
        self.may, self.after = not self.trains and torch.is_grad_enabled(), loop.learned

    def release(self, loop):
        """Records the last batch, with which nothing was learned."""
        (start, end, number, samples, flags, waited), self.held, self.late = self.held, None, True
        loop.record(ring.NEXT, start, end, self.iteration, self.round, number, -1, -1, samples, flags, loop.state.samples, waited)

    def takes_one(self, came, left):
        """Returns whether it is an evaluation that takes one batch by next(iter(loader)). The iterator is gone as soon as the
        batch has come."""
        return self.delivered == 1 and not self.trains and not self.may and left is not None and left - came < INSTANT

    def until(self, came, t, again):
        """Returns when such an evaluation ended, of which it is known at t: when the loop takes from the same loader again. Else
        it took the shortest time so far, or all of the step where nothing was learned after it."""
        if again is self.plan:
            self.plan.least = min(self.plan.least, t - came)
        elif not self.after:
            t = came + min(t - came, self.plan.least) if self.plan.least < NEVER else came
        return t

    def belongs(self, loop, came):
        """Makes its only batch, taken by next(iter(loader)), one of the step around it, in which something is learned now."""
        (start, end, number, samples, flags, waited), self.held = self.held, None
        loop.resume(self, came)
        entry = loop.open[-1]
        if entry[1] < 0:
            entry[0].learns(loop)
        self.plan.learns()
        loop.state.samples += samples
        loop.record(ring.NEXT, start, end, self.iteration, self.round, number, entry[1], -1, samples, flags | ring.TRAIN, loop.state.samples, waited)

    def _brief(self, loop, look, samples):
        """Times the parts of the step that was just opened, or times none and passes by the steps that follow."""
        self.passes = len(loop.open) == 1 and not self.plan.beside
        if not self.passes:
            return
        loop.some = RARE * 2 // FEW  # two in FEW are not passed by
        if look or not self.close:
            self.close, loop.stands = True, 1
            return
        self.close, loop.stands = False, 0
        self.brief = (loop.turn * SPREAD >> 12) % _MOST  # at no fixed distance
        loop.passed_by, self.since, self.each = self, loop.open[0][4], samples

    def _pass(self, loop, original, args):
        """Calls the iterator for the batch of a step that is passed by: counted and timed, and recorded with others."""
        start = now()
        if self.inline is not None:
            self._tell_task(self.inline)
        try:
            loop.loading = True
            data = original(*args)
        except BaseException as error:
            loop.loading = False
            self._guard(self._close, loop, start)
            self._guard(*(self._end, loop, start) if isinstance(error, StopIteration) else (self._drop, loop))
            raise
        loop.loading = False
        try:
            state, end = loop.state, now()
            entry = loop.open[-1]
            number, samples, flags = self.came or self._look_at(data)
            if end - entry[4] < BRIEF and not flags and number == entry[3] + 1 and samples == self.each and loop.passed_by is self:
                step = state.number()
                state.steps, state.began = step + 1, end
                state.samples = total = state.samples + samples
                totals = loop.totals
                totals[0], totals[1], totals[2] = step + 1, total, end
                entry[1], entry[2], entry[3], entry[4] = step, end, number, end
                self.passed.append((step, start, end, total))
                self.batch, self.came = number, None
                self.delivered += 1
                self.brief -= 1
                loop.learned = False
            else:
                left = self.brief - 1 if self.passed and not flags else 0  # one long step is no reason to stop
                self._close(loop, start)
                self._came(loop, data, start, end, entry[4], False, None)
                if left and not loop.short and self.batch == entry[3] + 1 and len(loop.open) == 1:
                    self.passes, self.brief, loop.stands = True, left, 0
                    loop.untimed += 1
                    loop.passed_by, self.since = self, end
        except Exception as error:
            self._forget(error)
        return data

    def _close(self, loop, t):
        """Ends the open step at t. It is the last of those that were passed by."""
        if loop.passed_by is not None:
            loop.catch_up()
        _, step, since, batch, _ = loop.open.pop()
        loop.record(ring.BODY, since, t, self.iteration, self.round, batch, step, -1, 0, ring.FINAL | ring.TRAIN)

    def _tell_task(self, task):
        """Tells the fetcher that the loop calls which batch it loads."""
        task.index, task.round, task.brief = self.delivered, self.round, self.passing()

    def passing(self):
        """Returns whether the batch that the loop asks for is of a step that is passed by; None where none is."""
        return self.brief > 0 or self.close if self.passes else None

    def _attend(self, loop, start):
        """Does what the screen asks for before the next batch, and returns when that was done."""
        state = loop.state
        captured = state.capture is not None or state.captures != state.control.captures()
        if captured and self.plan.trains and (self.trains or self.first) and self.joins is None:
            from gpustall import capture

            capture.look(state)
            start, begun = now(), start
            loop.record(ring.PAUSE, begun, start, self.iteration)
        while state.control.paused():
            if state.control.page[control.PAUSED] == control.LEAVING:
                from gpustall import attach

                attach.leave()
                raise EOFError("it is watched no more")
            time.sleep(0.02)
            loop.record(ring.PAUSE, start, now(), self.iteration)
            start = now()
        return start

    def _look_at(self, data):
        """Returns the number, samples and flags of a batch whose iterator does not tell them."""
        number = self.delivered
        if self.iterator is not None:  # PyTorch's own has the worker's number
            number = getattr(self.iterator(), "_rcvd_idx", number + 1) - 1
        return number, self.plan.size(data), 0

    def _guard(self, f, *args):
        try:
            f(*args)
        except Exception as error:
            self._forget(error)

    def _forget(self, error):
        loop = getattr(parts.here, "loop", None)
        try:
            if loop is not None:
                loop.loading = False
                if loop.passed_by is self:
                    loop.catch_up()
                self._drop(loop)
        except Exception:  # it is half done
            pass
        self.brief = 0
        hook.pass_on(error)  # the loader stays watched
        process.complain("a DataLoader is watched no more", error)
        iterator = self.iterator and self.iterator()
        if iterator is not None:
            iterator.__dict__.pop("_gpustall", None)

    def _leave(self, loop, t, usage):
        """Stops the open step at t. The step ends if its batch came from this loader."""
        self.joins, self.dropped, loop.ahead = None, False, None
        loop.settle(t)
        if not loop.open:
            return
        if not any(entry[0] is self for entry in loop.open):
            loop.stop(t, False, usage=usage)
            self._join(loop)
            return
        while loop.open[-1][0] is not self:  # loops within this one that were left
            watch = loop.open[-1][0]
            loop.stop(t, True)
            loop.resume(watch, t)
        self.plan.least = min(self.plan.least, t - loop.open[-1][4])
        loop.stop(t, True, usage=usage)
        if loop.open:
            loop.open[-1][2] = t

    def _join(self, loop):
        """Makes the next batch part of the open step, if the loop takes from several loaders in turn, as zip does. In
        this case the iterator began before that step, and nothing was learned in the step yet. A loop within a step
        begins its iterator later."""
        plan, entry = self.plan, loop.open[-1]
        if entry[1] < 0 and entry[0].held is None or loop.learned or not (self.begun < entry[4] or plan.beside):
            return
        if plan.judge():
            if entry[1] < 0:
                entry[0].counts(loop)
            if not plan.beside:
                text = "the loop takes from another DataLoader in turn, over %s with num_workers=%s"
                process.current().tell("note", level="info", text=text % (plan.about.get("dataset"), plan.script.get("num_workers")))
            plan.beside, self.joins = True, entry
            if loop.device is not None:
                loop.device.ends(entry[1], goes_on=True)

    def _joined(self, loop, t):
        """Continues the step that the batch belongs to, at t. Returns whether that step is still open."""
        entry, self.joins = self.joins, None
        if not loop.open or loop.open[-1] is not entry:
            return False
        entry[2] = t
        if loop.device is not None:
            loop.device.begins(entry[1])
        return True

    def _show(self, state, t):
        """Makes the session show this loader's knobs, unless the loop still uses the loader shown so far."""
        before = state.shown
        if before is not None and before.plan.alike != self.plan.alike:
            if not before.gone() and not before.first and not state.idle:
                return
            self.plan.moved(before.plan, t)
        state.shown, state.taker, state.idle = self, threading.get_ident(), False
        self.plan.shows(t)

    def _drop(self, loop):
        if self.held is not None:
            self.release(loop)
        loop.open = [entry for entry in loop.open if entry[0] is not self]
        if not loop.open:
            loop.parts.clear()
            loop.over.clear()
        if self.joins is not None:
            self._joined(loop, now())

    def _end(self, loop, start):
        end = now()
        self._drop(loop)
        loop.record(ring.END, start, end, self.iteration, self.round, self.batch, flags=ring.TRAIN if self.trains else 0)
        if self.trains:
            self.plan.ended(self.learned, loop.learned)
            loop.ahead = self.plan if self.late and loop.learned else None
        self.begin()
        if loop.open:
            loop.resume(self, end)
            loop.used = loop.usage.read()

    def begin(self):
        """Notes that the next batch is of another epoch."""
        self.round += 0 if self.numbered else 1
        self.first, self.trains, self.late = True, False, False

    def learns(self, loop):
        """Notes that the script learns from this iterator's batches, which did not count as steps so far."""
        self.plan.learns()
        self.counts(loop)

    def counts(self, loop):
        """Makes the current batch a step, and later ones."""
        entry, state, held = loop.open[-1], loop.state, self.held
        self.trains, self.held = True, None
        if held is None:  # there were no gradients when the epoch began: the wait is recorded, and no event was
            self.first = True
            if loop.device is not None:
                return
            held = entry[2], entry[2], entry[3], self.samples, 0, 0
        start, end, number, samples, flags, waited = held
        if state.shown is not self:
            self._show(state, start)
        entry[1] = step = state.number()
        state.steps, self.first = step + 1, False
        state.samples += samples
        if loop.device is not None:
            loop.device.counts(step)
        loop.record(ring.NEXT, start, end, self.iteration, self.round, number, step, -1, samples, flags | ring.TRAIN | ring.FIRST, state.samples, waited)
