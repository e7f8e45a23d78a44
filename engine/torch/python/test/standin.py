"""A stand-in for torch.cuda: a stream that works off what is enqueued, and events on it.
Sessions of it are labelled emulated."""

import time

now = time.monotonic_ns


class StandIn:
    def __init__(self):
        self.until = 0  # the host's time at which all is done
        self.drift = 0.0  # by how much its clock is faster than the host's, as a part of one
        self.capturing = False

    def work(self, ns):
        self.until = max(self.until, now()) + ns

    def Event(self, enable_timing=False):
        return _Event(self)

    def current_stream(self):
        return self

    def is_current_stream_capturing(self):
        return self.capturing

    def allows(self):
        """As the driver does, it ends a capture in which an event is asked."""
        if self.capturing:
            raise RuntimeError("operation not permitted when stream is capturing")


class _Event:
    def __init__(self, stream):
        self.stream = stream

    def record(self, stream=None):
        self.stream.allows()
        self.at = max(self.stream.until, now())

    def query(self):
        self.stream.allows()
        return now() >= self.at

    def elapsed_time(self, other):
        self.stream.allows()
        return (other.at - self.at) * (1 + self.stream.drift) / 1e6


def install():
    """Puts one in the place of torch.cuda's events, and returns it."""
    import torch

    it = StandIn()
    torch.cuda.gpustall_stand_in = True
    torch.cuda.is_available = torch.cuda.is_initialized = lambda: True
    torch.cuda.get_device_name = lambda *_: "stand-in"
    torch.cuda.Event, torch.cuda.current_stream = it.Event, it.current_stream
    torch.cuda.is_current_stream_capturing = it.is_current_stream_capturing
    return it
