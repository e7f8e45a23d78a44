"""A data set has a pool of threads, which forked workers lack."""
# keys: 1 RIGHT RIGHT RIGHT ENTER
# says: ThreadPoolExecutor
# modes: screen tune
import time
from concurrent.futures import ThreadPoolExecutor

import raising
import torch
from torch.utils.data import Dataset


def read(i):
    time.sleep(0.01)
    return torch.full((64,), float(i % 7))


class Stored(Dataset):
    def __init__(self):
        self.pool = ThreadPoolExecutor(2)

    def __len__(self):
        return 400

    def __getitem__(self, i):
        return self.pool.submit(read, i).result(), i


if __name__ == "__main__":
    raising.train(Stored(), 3, batch_size=8, shuffle=True)
