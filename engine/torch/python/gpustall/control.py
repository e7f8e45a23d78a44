"""The page of knobs that gpustall writes and the training loop reads before each batch."""

import os

from gpustall import memory

# The 8-byte words of the page, as in engine/torch/bridge/knobs.go. A knob's word is -1 where nobody asked for
# a value.
SEQUENCE, NUM_WORKERS, PREFETCH, PIN, IN_ORDER, PERSISTENT, PAUSED, GPUSTALL, CAPTURES = range(9)
NAMES = ("num_workers", "prefetch_factor", "pin_memory", "in_order", "persistent_workers")


class Control:
    """The page, as the training reads it."""

    def __init__(self, folder):
        self.page = memoryview(bytes(4096)).cast("q")  # an empty page, where there is none
        self.asked = {}  # the knobs that somebody asked for
        self.seen = 0  # the sequence number of asked
        self.folder = folder
        try:
            fd = os.open(os.path.join(folder, "control"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            self.page = memory.mapped(fd, 4096, writable=False).cast("q")
        except OSError:
            pass
        finally:
            os.close(fd)

    def read(self):
        """Returns the knobs asked for, and the page's sequence number when they were read."""
        before = self.page[SEQUENCE]
        if before != self.seen and not before & 1:
            words = self.page[NUM_WORKERS : PERSISTENT + 1].tolist()
            if self.page[SEQUENCE] == before:  # otherwise it is being written, and the next batch reads it
                self.seen = before
                self.asked = {name: value for name, value in zip(NAMES, words) if value >= 0}
        return self.asked, self.seen

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
    except OSError:
        return False
    return True
