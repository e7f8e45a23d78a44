"""An iterable data set that no worker splits: each yields all samples, and more workers multiply them."""
# says: num_workers 4 -> 1
# not: num_workers 4 -> 16
# modes: plain screen
import time

import raising
import torch
from torch.utils.data import IterableDataset


class Whole(IterableDataset):
    def __iter__(self):
        for i in range(200):
            time.sleep(0.01)
            yield torch.full((64,), float(i % 7)), i


if __name__ == "__main__":
    raising.train(Whole(), 2, batch_size=8, num_workers=4)
