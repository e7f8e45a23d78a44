"""A data set begins processes, which workers may not."""
# keys: 1 RIGHT RIGHT RIGHT ENTER
# says: have the data set begin no processes
# modes: screen
import multiprocessing
import time

import raising
import torch
from torch.utils.data import Dataset


def part(i):
    time.sleep(0.01)
    return float(i)


class Parts(Dataset):
    def __len__(self):
        return 120

    def __getitem__(self, i):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return torch.tensor(pool.map(part, [i, i + 1])), i


if __name__ == "__main__":
    raising.train(Parts(), 2, batch_size=4, shuffle=True)
