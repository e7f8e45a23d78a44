"""A data set reads a file by its position, which forked workers share."""
# keys: 1 RIGHT RIGHT RIGHT ENTER
# says: by a position in the file
# modes: screen tune
# quick
import os
import tempfile
import time

import numpy as np
import raising
import torch
from torch.utils.data import Dataset

PATH, SIZE, WIDTH = os.path.join(tempfile.gettempdir(), "records"), 800, 4096


class Records(Dataset):
    def __init__(self):
        np.repeat(np.arange(SIZE, dtype=np.float32), WIDTH).tofile(PATH)
        self.file = open(PATH, "rb")  # noqa: SIM115 - it stays open

    def __len__(self):
        return SIZE

    def __getitem__(self, i):
        self.file.seek(i * WIDTH * 4)
        time.sleep(0.004)
        x = np.frombuffer(self.file.read(WIDTH * 4), dtype=np.float32).copy()
        assert x[0] == i
        return torch.from_numpy(x / SIZE), i


if __name__ == "__main__":
    raising.train(Records(), 3, batch_size=8, shuffle=True)
    os.remove(PATH)
