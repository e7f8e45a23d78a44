"""What being watched costs: a span, a backward pass and an optimizer's step, and a batch by the
same loader with PyTorch's own iterator and with the one that is watched, in turns; each the best
of many rounds. Everything that a worker and the loop do for a batch is in it, since the loop loads inline.

    python overhead.py
"""

import time

import harness
import torch
from torch.utils.data import DataLoader, Dataset, dataloader

from gpustall import parts, ring

ROUNDS, BATCHES = 60, 40
CALLS = 1000


class Samples(Dataset):
    """Samples that take no time; and, as torchvision's do, tell of a transform."""

    def __init__(self, transform=None):
        self.transform = transform

    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        return self.transform(i) if self.transform else i


def calls(f):
    """ns of one, less the call of a function that does nothing."""
    return _calls(f) - _calls(lambda: None)


def _calls(f):
    least = float("inf")
    for _ in range(ROUNDS):
        begin = time.process_time_ns()
        for _ in range(CALLS):
            f()
        least = min(least, (time.process_time_ns() - begin) / CALLS)
    return least


def spans():
    """Tells what spans cost, the clocks of them included."""
    now = time.monotonic_ns
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in DataLoader(torch.ones(1, 4)):  # in a step, of which they are parts
        engine = torch.autograd.Variable._execution_engine
        for name, role in (("a span", ring.LOOP), ("a worker's span", ring.WORKER)):
            record = ring.Ring(harness.FOLDER, role).record
            print("%-28s %6.2f us" % (name, calls(lambda record=record: record(ring.FETCH, now(), now(), 1, 0, 1)) / 1e3))
        print("%-28s %6.2f us" % ("a backward pass", calls(lambda engine=engine: engine.run_backward) / 1e3))
        step = lambda: (parts._stepping(optimizer, (optimizer,), {}), parts._stepped(optimizer, (), {}))  # noqa: E731
        print("%-28s %6.2f us" % ("an optimizer's step", calls(step) / 1e3))


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
    spans()
    for name, size, transform in (("8 samples", 8, None), ("32 samples", 32, None), ("256 samples", 256, None), ("32 samples with a transform", 32, abs)):
        loader = DataLoader(Samples(transform), batch_size=size)
        plain = dataloader._SingleProcessDataLoaderIter(loader)
        iterators = best(plain), best(iter(loader))
        bare = watched = 0.0
        for _ in range(ROUNDS):
            bare, watched = next(iterators[0]), next(iterators[1])
        print("%-28s %6.1f us by PyTorch alone, %6.1f us watched: %5.1f us a batch" % (name, bare / 1e3, watched / 1e3, (watched - bare) / 1e3))


main()
