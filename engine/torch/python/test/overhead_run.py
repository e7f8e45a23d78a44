"""What being watched costs a whole training, gpustall's own process included: epochs by
PyTorch's own iterator and by the one that is watched, in turns, in one process.

    gpustall torch --plain --interval 3600 -- python overhead_run.py SECONDS

All CPU time counts, of the loop, of its workers from their start to their end and, with the
epochs that are watched, of gpustall. An epoch by PyTorch's own iterator has the hooks too,
which find no loop that is watched.
"""

import os
import random
import resource
import statistics
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, dataloader

BATCH, BATCHES = 32, 60


class Samples(Dataset):
    """About 0.3 ms of a core each."""

    def __len__(self):
        return BATCH * BATCHES

    def __getitem__(self, i):
        x = torch.full((64, 64), float(i))
        for _ in range(60):
            x = x * 1.0001 + 0.1
        return x, i % 10


def gpustall_cpu():
    """ns that gpustall's process had a core for."""
    tasks = "/proc/%d/task" % os.getppid()
    total = 0
    for task in os.listdir(tasks):
        try:
            with open("%s/%s/schedstat" % (tasks, task)) as f:
                total += int(f.read().split()[0])
        except OSError:
            pass
    return total


def cpu():
    """s, of this process and of its workers that have ended."""
    return sum(r.ru_utime + r.ru_stime for r in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def interval(values):
    """The median, and between which two of the sorted values it is with 95 %, by their signs."""
    values, n = sorted(values), len(values)
    k, tail = 0, 0.5**n
    term = tail
    while tail <= 0.025:
        k += 1
        term *= (n - k + 1) / k
        tail += term
    return statistics.median(values), values[max(0, k - 1)], values[n - max(1, k)]


def main():
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4096, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Samples(), batch_size=BATCH, num_workers=1)

    def epoch(watched):
        own, wall, theirs = cpu(), time.perf_counter(), gpustall_cpu()
        for x, y in iter(loader) if watched else dataloader._MultiProcessingDataLoaderIter(loader):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        wall = time.perf_counter() - wall
        time.sleep(0.25)  # gpustall reads what is left
        return cpu() - own, wall, (gpustall_cpu() - theirs) / 1e9

    for watched in (True, False):
        epoch(watched)
    end = time.monotonic() + float(sys.argv[1])
    pairs = []
    while time.monotonic() < end:
        out = {}
        for watched in random.sample((True, False), 2):
            out[watched] = epoch(watched)
        pairs.append((out[True], out[False]))
    print("%d pairs of %d steps, without: %.2f s of CPU time and %.2f s" % (len(pairs), BATCHES, statistics.median(b[0] for _, b in pairs), statistics.median(b[1] for _, b in pairs)))
    for name, ratio in (
        ("CPU time of the script and its workers", lambda a, b: a[0] / b[0]),
        ("with gpustall's own", lambda a, b: (a[0] + a[2]) / b[0]),
        ("wall time", lambda a, b: a[1] / b[1]),
    ):
        print("%-40s %+.2f %% (%+.2f to %+.2f)" % (name, *(100 * (r - 1) for r in interval([ratio(a, b) for a, b in pairs]))))


main()
