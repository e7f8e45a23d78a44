"""A stream reads a file that was open before its workers, which share the position in it."""
# keys: 1 RIGHT RIGHT RIGHT ENTER
# says: by a position in the file
# modes: screen tune
import os
import tempfile
import time

import raising
import torch
from torch.utils.data import IterableDataset, get_worker_info

PATH, SIZE = os.path.join(tempfile.gettempdir(), "rows"), 800


class Rows(IterableDataset):
    def __init__(self):
        with open(PATH, "w") as f:
            f.writelines("%d %s\n" % (i, "x" * 500) for i in range(SIZE))
        self.rows = open(PATH)  # noqa: SIM115 - it stays open

    def __iter__(self):
        info = get_worker_info()
        self.rows.seek(0)
        for n, row in enumerate(self.rows):
            if info is None or n % info.num_workers == info.id:
                time.sleep(0.004)
                yield torch.full((64,), float(n % 7)), int(row.split()[0])


if __name__ == "__main__":
    data = Rows()
    raising.train(data, 4, batch_size=8)
    os.remove(PATH)
