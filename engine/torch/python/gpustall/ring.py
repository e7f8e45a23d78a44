"""A ring of spans in a file that gpustall reads through shared memory. One thread writes each.

The layout is read by engine/torch/bridge/ring.go: a header page, then slots of 64 bytes.
All times are CLOCK_MONOTONIC in ns. A slot is complete before the count in the header
says so; the reader looks at the count again after it has copied.
"""

import mmap
import os
import struct

MAGIC = b"gpustall"
LAYOUT = 1
HEADER = 4096
SLOTS = 1 << 13
SLOT = struct.Struct("@qqqqIIiiiIBBHI")  # start end core waiting iteration round batch step sample arg kind - flags offset
HEAD = struct.Struct("@8sIIIIiI")  # magic layout slots pid parent worker iteration
COUNT, CLOSED, ROLE = 64, 72, 80  # offsets in the header

# What a writer is.
LOOP, WORKER, INLINE, PIN, SENDER = range(5)

# What a span is. The numbers are known to engine/torch/bridge/record.go.
NEXT, BODY, END, ITER, PAUSE, APPLY, DEVICE, BACKWARD, OPTIMIZER = range(1, 10)
START, WAIT, READ, DECODE, TRANSFORM, FETCH, COLLATE, PINNED, BATCH, SENT = range(16, 26)

# Of a BATCH, offset is the ns from its start to where collation began, which lasted to its end, where
# no FETCH and COLLATE of their own tell.

# Flags.
FINAL = 1  # of a BODY: the step ends with it
FIRST = 2  # of a NEXT: the first batch of an epoch
TRAIN = 4  # the loop trains
CHANGING = 8  # of a NEXT: its batch was begun, or others were, before a change that still shows
PROFILED = 16  # of a NEXT: its step runs under PyTorch's profiler, as was asked for
GOES_ON = 32  # of a DEVICE: so does its step
WHOLE = 64  # of a FETCH: the phases of its batch were not timed

_written = 0


class Ring:
    """What records go to. record is the only thing that is fast."""

    def __init__(self, folder, role, parent=0, worker=-1, iteration=0):
        global _written
        _written += 1
        name = "ring-%d-%d" % (os.getpid(), _written)
        part = os.path.join(folder, "part-" + name)
        fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            size = HEADER + SLOTS * SLOT.size
            os.ftruncate(fd, size)
            self.memory = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        HEAD.pack_into(self.memory, 0, MAGIC, LAYOUT, SLOTS, os.getpid(), parent, worker, iteration)
        struct.pack_into("@I", self.memory, ROLE, role)
        os.rename(part, os.path.join(folder, name))  # seen when it is complete
        self.record = _recorder(self.memory)

    def close(self):
        """Tells the reader that nothing follows."""
        struct.pack_into("@Q", self.memory, CLOSED, 1)


def _recorder(memory):
    pack, mask, size = SLOT.pack_into, SLOTS - 1, SLOT.size
    count = memoryview(memory)[COUNT : COUNT + 8].cast("Q")
    n = 0

    def record(kind, start, end, iteration=0, round=0, batch=-1, step=-1, sample=-1, arg=0, flags=0, core=-1, waiting=-1, offset=0):
        nonlocal n
        pack(memory, HEADER + size * (n & mask), start, end, core, waiting, iteration, round, batch, step, sample, arg, kind, 0, flags, offset)
        n += 1
        count[0] = n

    return record
