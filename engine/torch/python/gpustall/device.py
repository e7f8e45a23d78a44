"""The GPU's own time, by CUDA events. Nothing waits for them.

When the loop asks for a batch, it records an event E on the current stream, and when it has the batch, an event S.
At E the GPU has done the step before. If the GPU had run out of work, it reaches S when the host records S, and it
was idle from E to S for lack of data. Otherwise it reaches S right after E. From S to the next E it works on the
step. The events are read some steps later, when a query says that the GPU has reached them. The last events are
read when the process ends.

While the script captures a CUDA graph, nothing is recorded or asked, because a question about an event would end the
capture.

Events that were recorded while the GPU was idle put the times on the host's clock, because the GPU reaches them at
once. The GPU is asked a few times a second whether it is idle, because the two clocks drift apart: by 110 us a second
on an H100 in a virtual machine. """

import collections
import functools
import os
import time
import types

from gpustall import hook, process, ring

now = process.now

# The most steps that may be unresolved. If there are more, the oldest is given up.
MOST = 64
# The most events in use: two for each step, and some more.
POOL = 2 * MOST + 8
# Steps' times are read when so many steps wait for that, or the oldest has waited so long, in ns. Reading
# them one by one costs more.
TOGETHER, SOON = 16, 20_000_000
# How long, in ns, the process waits at most for its last steps when it ends.
PATIENCE = 1_000_000_000


def open(loop):
    """Returns the Device of a loop's thread; None where no GPU is in use."""
    import torch

    try:
        if not torch.cuda.is_initialized():
            return None
    except Exception as error:
        hook.pass_on(error)
        return None
    return Device(loop, torch.cuda)


def expected():
    """Returns whether the script may use a GPU later. This does not ask the driver: once a process has asked it, forked
    children cannot use the GPU, and the script may need them to."""
    import torch

    if getattr(torch.cuda, "gpustall_stand_in", False):
        return torch.cuda.is_available()
    built = torch.version.cuda or torch.version.hip
    return bool(built) and any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")))


def _which_stream():
    """Returns a quick function that tells which stream of which GPU is the current one; None where PyTorch has none."""
    import torch

    device, stream = (getattr(torch._C, name, None) for name in ("_cuda_getDevice", "_cuda_getCurrentStream"))
    return None if device is None or stream is None else lambda: stream(device())


# How often, in ns, times count from a new event: elapsed_time is a float32 of ms, which after 30 s tells 2 us apart.
RENEW = 30_000_000_000
# How often, in ns, the GPU is asked whether it is idle, and ten times as often while it is not. The clocks are
# compared when it is.
LOOK = 250_000_000
# The middle one of so many comparisons counts, because a thread that loses its core between two calls
# spoils one.
COMPARED = 5


class _Anchor:
    """An event from which times are counted, and the host's time at which the GPU reached it."""

    def __init__(self, event, since, before):
        self.event, self.since = event, since
        self.before = before  # the anchor before; None where its times are not known
        self.delay = None  # ns to add to the GPU's time
        self.compared = collections.deque(maxlen=COMPARED)

    def place(self, at, begun, idle):
        """Compares the clocks by an event that the host recorded at the time at, and the GPU reached after begun ns."""
        if self.before is not None:
            self.delay = self.before.delay + int(self.before.event.elapsed_time(self.event) * 1e6)
            self.before = None
        delay = at - begun
        if idle:
            self.compared.append(delay)
            self.delay = sorted(self.compared)[len(self.compared) // 2]
        elif self.delay is None or delay > self.delay:  # the GPU cannot reach an event before the host records it
            self.delay = delay


def _alone(f):
    """Wraps a method so that an error ends only the watch over the device."""

    @functools.wraps(f)
    def guarded(self, *args, **kwargs):
        try:
            return f(self, *args, **kwargs)
        except Exception as error:
            self.loop.device = None
            process.complain("the device is watched no more", error)
            process.current().off_gpu()

    return guarded


class Device:
    """The GPU of a loop's thread, and the steps whose time on it is not known yet."""

    def __init__(self, loop, cuda):
        self.loop, self.record, self.cuda = loop, loop.record, cuda
        self.free = []
        self.anchor = None
        self.look = 0  # the host's time, in ns, at which it is next asked whether the GPU is idle
        self.waiting = collections.deque()  # [step, S, host time of S, E, anchor, flags, whether the GPU was idle at S]
        self.open = None
        self.lost = 0
        self.which = self.stream = None
        self.ask = _which_stream() if isinstance(cuda, types.ModuleType) and not hasattr(cuda, "gpustall_stand_in") else None

    def _current(self):
        """Returns the current stream; None while it is captured. PyTorch's own call takes twice as long as recording an
        event. So it is made only if another stream became the current one."""
        if self.cuda.is_current_stream_capturing():
            return None
        which = self.ask and self.ask()
        if which is None or which != self.which:
            self.which, self.stream = which, self.cuda.current_stream()
        return self.stream

    def _event(self, stream):
        event = self.free.pop() if self.free else self.cuda.Event(enable_timing=True)
        event.record(stream)
        return event

    def drop(self):
        """Gives up the open step."""
        entry, self.open = self.open, None
        if entry is not None:
            self._free(entry)

    @_alone
    def begins(self, step):
        """Notes that the loop has its batch: the GPU may begin."""
        stream = self._current()
        self.drop()  # a batch with which nothing was learned, or a step whose beginning did not tell
        if stream is None:
            return
        at, anchor, idle = now(), self.anchor, False
        if at >= self.look:
            idle = not self.waiting or self.waiting[-1][3].query()
            self.look = at + (LOOK if idle else LOOK // 10)
        if anchor is None or at - anchor.since >= RENEW:
            event = self.cuda.Event(enable_timing=True)
            event.record(stream)
            before = anchor if anchor is not None and anchor.delay is not None else None
            self.anchor = anchor = _Anchor(event, at, before)
        start = self._event(stream)
        self.open = [step, start, now(), None, anchor, ring.TRAIN, idle]

    def counts(self, step):
        """Notes that the open batch, of which it was not known, is that of a step."""
        if self.open is not None:
            self.open[0] = step

    @_alone
    def resumes(self):
        """Notes the first backward pass of an open step whose beginning does not tell when the GPU had work. If the GPU
        is not done with the work before it, the GPU never ran out of work. Otherwise the step counts from here on."""
        if self.open is not None and self._current() is not None and self.open[1].query():
            self.begins(self.open[0])

    def mark(self, step):
        """Returns an event of this moment, for a later call of ends; None where the step is not open. It changes
        nothing else, because a finalizer may call it at any point."""
        if self.open is None or self.open[0] != step or self.cuda.is_current_stream_capturing():
            return None
        event = self.cuda.Event(enable_timing=True)
        event.record()
        return event

    @_alone
    def ends(self, step, event=None, goes_on=False):
        """Notes that the loop asks for the next batch, or asked for it when the event was recorded. The GPU then has
        all work of the step, unless that batch is for the same step (goes_on)."""
        if self.open is None or self.open[0] != step:
            return
        if event is None:
            stream = self._current()
            if stream is None:
                self.drop()
                return
            event = self._event(stream)
        self.open[3] = event
        self.open[5] |= ring.GOES_ON if goes_on else 0
        self.waiting.append(self.open)
        self.open = None
        if len(self.waiting) >= TOGETHER or now() - self.waiting[0][2] >= SOON:
            self.resolve()
        if len(self.waiting) > MOST:
            self._free(self.waiting.popleft())
            self.lost += 1

    @_alone
    def resolve(self):
        """Records the steps that the GPU has done."""
        if self.waiting and self.cuda.is_current_stream_capturing():
            return
        while self.waiting:
            step, start, at, end, anchor, flags, idle = self.waiting[0]
            if not (end.query() and start.query()):  # start may be on another stream
                return
            begun = int(anchor.event.elapsed_time(start) * 1e6)
            done = int(anchor.event.elapsed_time(end) * 1e6)
            anchor.place(at, begun, idle)
            start = begun + anchor.delay
            self.record(ring.DEVICE, start, max(done + anchor.delay, start + 1), step=step, flags=flags)
            self._free(self.waiting.popleft())

    def finish(self):
        """Waits a moment for the GPU's last steps, at the end of the process."""
        end = now() + PATIENCE
        self.resolve()
        while self.waiting and self.loop.device is self and now() < end:
            time.sleep(0.001)
            self.resolve()

    def _free(self, entry):
        for event in (entry[1], entry[3]):
            if event is not None and len(self.free) < POOL:
                self.free.append(event)
