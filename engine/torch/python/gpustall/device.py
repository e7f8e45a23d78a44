"""The device's own time, by CUDA events that nobody waits for.

When the loop asks for a batch, an event E is recorded on the current stream, and an event
S when it has it. The device has done the step before at E. If it ran dry, it reaches S
when the host records it, so that from E to S it stood empty for data; else it is at S as
soon as at E. From S to the next E it worked on the step. The events are looked at steps
later, when a query says that they are over; the last ones when the process ends.

Times of events are put on the host's clock by the smallest delay seen between the
recording of an event and the device's reaching it: an idle device reaches it at once.
"""

import collections
import functools
import os
import time

from gpustall import process, ring

now = process.now

# So many steps may be unresolved; of more, the oldest is given up.
MOST = 64
# Events in use at the most: two a step.
POOL = 2 * MOST + 8
# ns that the end of the process waits for the last steps at the most.
PATIENCE = 1_000_000_000


def open(loop):
    """What times the device of a loop's thread; None where there is none."""
    import torch

    try:
        if not torch.cuda.is_initialized():
            return None
    except Exception:
        return None
    return Device(loop, torch.cuda)


def expected():
    """Whether the script may come to compute on a GPU. Its driver is not asked: a process that did may
    have no children by fork that use the GPU, as the script's own may be meant to."""
    import torch

    if getattr(torch.cuda, "gpustall_stand_in", False):
        return torch.cuda.is_available()
    built = torch.version.cuda or torch.version.hip
    return bool(built) and any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")))


# Steps after which times are counted from a new event: the two clocks drift apart.
RENEW = 2000


class _Anchor:
    """An event that times are counted from, and what puts them on the host's clock."""

    def __init__(self, event):
        self.event, self.steps = event, 0
        self.delay = None  # ns to add to the device's time


def _alone(f):
    """Has what fails end the watch over the device, and nothing else."""

    @functools.wraps(f)
    def guarded(self, *args, **kwargs):
        try:
            return f(self, *args, **kwargs)
        except Exception as error:
            self.loop.device = None
            process.complain("the device is watched no more", error)

    return guarded


class Device:
    def __init__(self, loop, cuda):
        self.loop, self.record, self.cuda = loop, loop.record, cuda
        self.free = []
        self.anchor = None
        self.waiting = collections.deque()  # [step, S, host time of S, E, anchor, flags]
        self.open = None
        self.lost = 0

    def _event(self):
        event = self.free.pop() if self.free else self.cuda.Event(enable_timing=True)
        event.record()
        return event

    @_alone
    def begins(self, step):
        """The loop has its batch: the device may begin."""
        if self.anchor is None or self.anchor.steps == RENEW:
            event = self.cuda.Event(enable_timing=True)
            event.record()
            self.anchor = _Anchor(event)
        self.anchor.steps += 1
        start = self._event()
        self.open = [step, start, now(), None, self.anchor, ring.TRAIN]

    def mark(self, step):
        """An event where the loop is now, for ends to be told of later; None where no step is
        open. Nothing else is touched: it may be called in the middle of everything."""
        if self.open is None or self.open[0] != step:
            return None
        event = self.cuda.Event(enable_timing=True)
        event.record()
        return event

    @_alone
    def ends(self, step, event=None, goes_on=False):
        """The loop asks for the next batch: what it enqueued for the step is all, unless that is
        a batch for the same step. Or it was so when the event was recorded."""
        if self.open is None or self.open[0] != step:
            return
        self.open[3] = self._event() if event is None else event
        self.open[5] |= ring.GOES_ON if goes_on else 0
        self.waiting.append(self.open)
        self.open = None
        self.resolve()
        if len(self.waiting) > MOST:
            self._free(self.waiting.popleft())
            self.lost += 1

    @_alone
    def resolve(self):
        """Records the steps that the device is known to have done."""
        while self.waiting:
            step, start, at, end, anchor, flags = self.waiting[0]
            if not (end.query() and start.query()):  # which may be of another stream
                return
            begun = int(anchor.event.elapsed_time(start) * 1e6)
            done = int(anchor.event.elapsed_time(end) * 1e6)
            # The device cannot be at an event before it is recorded: of all that were seen,
            # the largest difference is nearest to none.
            delay = at - begun
            anchor.delay = delay if anchor.delay is None else max(anchor.delay, delay)
            start = begun + anchor.delay
            self.record(ring.DEVICE, start, max(done + anchor.delay, start + 1), step=step, flags=flags)
            self._free(self.waiting.popleft())

    def finish(self):
        """At the end of the process: waits a moment for what the device has still to do."""
        end = now() + PATIENCE
        self.resolve()
        while self.waiting and self.loop.device is self and now() < end:
            time.sleep(0.001)
            self.resolve()

    def _free(self, entry):
        for event in (entry[1], entry[3]):
            if event is not None and len(self.free) < POOL:
                self.free.append(event)
