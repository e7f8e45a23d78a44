"""Rings of records in files, which gpustall reads through shared memory. One thread writes each ring.

engine/torch/bridge/ring.go reads the layout: a header page, then slots of 64 bytes. All times are CLOCK_MONOTONIC in
ns. The count in the header rises after a slot is complete. The reader looks at the count again after it has copied.
"""

import os
import struct
import threading

from gpustall import frames, memory

MAGIC = b"gpustall"
LAYOUT = 1
HEADER = 4096
SLOTS, FEW = 1 << 13, 1 << 9  # of a ring; and of one where there is little room
SLOT = struct.Struct("@qqqqIIiiiIBBHI")  # start end core waiting iteration round batch step sample arg kind many flags offset
BUNDLE = struct.Struct("@qIIqIIIIiiIIBBHI")  # a BRIEF: in the places of end, waiting, sample, arg and offset are times and samples
HEAD = struct.Struct("@8sIIIIiI")  # magic layout slots pid parent worker iteration
COUNT, CLOSED, ROLE, THREAD, TOTALS, TID, CODES = 64, 72, 80, 88, 96, 120, 128  # offsets in the header

# The role of a writer.
LOOP, WORKER, INLINE, PIN, SENDER, LOOKER = range(6)

# The kind of a record. engine/torch/bridge/record.go has the same numbers.
NEXT, BODY, END, ITER, PAUSE, APPLY, DEVICE, BACKWARD, OPTIMIZER, LAST, BRIEF, SAMPLER = range(1, 13)
START, WAIT, READ, DECODE, TRANSFORM, FETCH, COLLATE, PINNED, BATCH, SENT, LOOK = range(16, 27)

# A BATCH without records of its own for FETCH and COLLATE has an offset. It is the ns from the start of the
# BATCH to the beginning of collation, which lasts to the end of the BATCH.

# A NEXT has, in the place of core, the samples of all steps so far; so has a LAST, the last record of a
# process. So steps and samples are exact even if records were overwritten, because a step's number and that
# sum say how much is missing. The header of a loop's ring also has both, in TOTALS, and when the last step
# began. A killed process writes no LAST.

# A BRIEF is several brief steps in one record: for each, the end of the step before it and its NEXT. It has
# the number of these steps in many, the batch and step of the first one, and the samples of each in the place
# of the end. One after the other, it has how long they took, in ns.

# A BACKWARD or OPTIMIZER has in arg how many steps it stands for, because the parts of short steps are timed
# only in some of them. Of batches that the loop itself loads in next to no time, only some have records.

# A LOOK has the number of the stack that was found in arg. Its times are those of the look before and of this one. In the place of
# sample it has the stack of another thread, which this one may wait for.

# Flags.
FINAL = 1  # of a BODY: the step ends with it
FIRST = 2  # of a NEXT: the first batch of an epoch; of a WAIT: for the worker's first task
TRAIN = 4  # the loop trains
CHANGING = 8  # of a NEXT: a change still shows, because some batches were begun before it
PROFILED = 16  # of a NEXT: its step runs under PyTorch's profiler, for a capture
GOES_ON = 32  # of a DEVICE: its step goes on
WHOLE = 64  # of a FETCH: the phases of its batch were not timed

MANY = 3  # steps of a BRIEF

ROOM = 64 << 20  # a folder with fewer bytes gets small rings

_written = 0


class Ring:
    """A ring. Its function record is fast; nothing else needs to be."""

    def __init__(self, folder, role, parent=0, worker=-1, iteration=0, of=0):
        """of is the process that the ring is about, where this one writes it."""
        global _written
        _written += 1
        name = "ring-%d-%d" % (os.getpid(), _written)
        part = os.path.join(folder, "part-" + name)
        if not folder:
            raise OSError("gpustall's folder is not known")
        fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            room = os.fstatvfs(fd)
            slots = SLOTS if room.f_bavail * room.f_frsize > ROOM and not of else FEW  # most of the room is the script's
            size = HEADER + slots * SLOT.size
            memory.allocate(fd, size)
            self.memory = memory.mapped(fd, size, writable=True)
        except BaseException:
            os.unlink(part)
            raise
        finally:
            os.close(fd)
        HEAD.pack_into(self.memory, 0, MAGIC, LAYOUT, slots, of or os.getpid(), parent, worker, iteration)
        struct.pack_into("@I", self.memory, ROLE, role)
        struct.pack_into("@Q", self.memory, THREAD, frames.thread())
        struct.pack_into("@QQ", self.memory, TID, of or threading.get_native_id(), frames.CODES)
        os.rename(part, os.path.join(folder, name))  # the reader sees it only when it is complete
        self.totals = self.memory[TOTALS : TOTALS + 24].cast("Q")  # steps, samples, and when the last step began
        self.record, self.bundle = _recorder(self.memory, slots)

    def close(self):
        """Tells the reader that no record follows."""
        struct.pack_into("@Q", self.memory, CLOSED, 1)


def _recorder(memory, slots):
    pack, pack_bundle, mask, size = SLOT.pack_into, BUNDLE.pack_into, slots - 1, SLOT.size
    count = memory[COUNT : COUNT + 8].cast("Q")
    n = 0

    def record(kind, start, end, iteration=0, round=0, batch=-1, step=-1, sample=-1, arg=0, flags=0, core=-1, waiting=-1, offset=0):
        nonlocal n
        pack(memory, HEADER + size * (n & mask), start, end, core, waiting, iteration, round, batch, step, sample, arg, kind, 0, flags, offset)
        n += 1
        count[0] = n

    def bundle(since, steps, iteration, round, batch, each):
        """Records up to MANY brief steps, which follow a step that got its batch at since. passed has their numbers,
        when each asked for its batch and got it, and the samples of all steps so far."""
        nonlocal n
        took, at = [], since
        for _, asked, got, _ in steps:
            took += asked - at, got - asked
            at = got
        took += (0, 0) * (MANY - len(steps))
        step, samples, slot = steps[0][0], steps[-1][3], HEADER + size * (n & mask)
        pack_bundle(
            memory, slot, since, took[5], each, samples, took[0], took[1], iteration, round, batch, step, took[2], took[3], BRIEF, len(steps), TRAIN, took[4]
        )
        n += 1
        count[0] = n

    return record, bundle
