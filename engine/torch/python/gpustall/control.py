"""The page of knobs that gpustall writes and the training loop reads before each batch."""

import os
import time

from gpustall import hook, memory

# The 8-byte words of the page, as in engine/torch/bridge/knobs.go. A knob's word is -1 where nobody asked for
# a value.
SEQUENCE, NUM_WORKERS, PREFETCH, PIN, IN_ORDER, PERSISTENT, PAUSED, GPUSTALL, CAPTURES, STEP, LATEST, TRIALS, TRIED = range(13)
LOOKER, LOOP_LOOKS, WORKER_LOOKS = range(13, 16)
LEAVING = 2  # in the word PAUSED: an attached training is let go
NAMES = ("num_workers", "prefetch_factor", "pin_memory", "in_order", "persistent_workers")


class Control:
    """The page, as the training reads it."""

    def __init__(self, folder, steps=lambda: 0):
        self.steps = steps  # returns how many steps of training began
        self.page = memoryview(bytes(4096)).cast("q")  # an empty page, where there is none
        self.asked = {}  # the knobs that somebody asked for
        self.seen = 0  # the sequence number of asked
        self.folder = folder
        try:
            fd = os.open(os.path.join(folder, "control"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            hook.pass_on(error)
            return
        try:
            self.page = memory.mapped(fd, 4096, writable=False).cast("q")
        except OSError as error:
            hook.pass_on(error)
        finally:
            os.close(fd)

    def read(self):
        """Returns the knobs asked for, and the page's sequence number when they were read."""
        before = self.page[SEQUENCE]
        if before != self.seen and not before & 1:
            words = self.page[NUM_WORKERS : PERSISTENT + 1].tolist()
            # All ranks of a job change their knobs at one step; a rank that never comes to it does so when it is late.
            due = self.steps() >= self.page[STEP] or time.monotonic_ns() > self.page[LATEST]
            if due and self.page[SEQUENCE] == before:  # otherwise it is being written, and the next batch reads it
                self.seen = before
                self.asked = {name: value for name, value in zip(NAMES, words) if value >= 0}
        return self.asked, self.seen

    def trial(self):
        """Returns the number of the last trial of workers that the ranks of a job were asked for, and how many workers
        are meant; 0 where none was."""
        return self.page[TRIALS], self.page[TRIED]

    def captures(self):
        """Returns how many captures were asked for so far."""
        return self.page[CAPTURES]

    def watching(self):
        """Returns whether gpustall is there. It may have been killed."""
        pid = self.page[GPUSTALL]
        return there(pid) if pid else os.path.isdir(self.folder)

    def paused(self):
        """Returns whether the loop must pause. It goes on when gpustall is gone, since nobody else could end the pause."""
        if not self.page[PAUSED]:
            return False
        return self.watching()


def there(pid):
    """Returns whether a process is running."""
    try:
        os.kill(pid, 0)
    except PermissionError:  # of another user
        return True
    except OSError as error:
        hook.pass_on(error)
        return False
    return True
