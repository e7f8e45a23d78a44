"""What being watched costs a batch: the same loader by PyTorch's own iterator and by the
one that is watched, in turns, the best of many rounds of each. Everything that a worker and
the loop do for a batch is in it, since the loop loads inline.

    python overhead.py
"""

import time

import harness  # noqa: F401
import torch
from torch.utils.data import DataLoader, Dataset, dataloader

ROUNDS, BATCHES = 60, 40


class Samples(Dataset):
    """Samples that take no time; and, as torchvision's do, tell of a transform."""

    def __init__(self, transform=None):
        self.transform = transform

    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        return self.transform(i) if self.transform else i


def best(batches):
    """ns of this process a batch, where nothing disturbed it."""
    for _ in range(4):
        next(batches)
    least = float("inf")
    while True:
        begin = time.process_time_ns()
        for _ in range(BATCHES):
            next(batches)
        least = min(least, (time.process_time_ns() - begin) / BATCHES)
        yield least


def main():
    torch.set_num_threads(1)
    for name, size, transform in (("8 samples", 8, None), ("32 samples", 32, None), ("256 samples", 256, None), ("32 samples with a transform", 32, abs)):
        loader = DataLoader(Samples(transform), batch_size=size)
        plain = dataloader._SingleProcessDataLoaderIter(loader)
        iterators = best(plain), best(iter(loader))
        for _ in range(ROUNDS):
            bare, watched = next(iterators[0]), next(iterators[1])
        print("%-28s %6.1f us by PyTorch alone, %6.1f us watched: %5.1f us a batch" % (name, bare / 1e3, watched / 1e3, (watched - bare) / 1e3))


main()
