"""What being watched costs a whole training, gpustall's own process included: epochs by
PyTorch's own iterator and by the one that is watched, in turns, in one process.

    gpustall torch --plain --interval 3600 -- python overhead_run.py SECONDS          # short steps, epochs of 1 s
    gpustall torch --plain --interval 3600 -- python overhead_run.py SECONDS long     # short steps, epochs of 4 s
    gpustall torch --plain --interval 3600 -- python overhead_run.py SECONDS images   # ResNet-18 on JPEGs

All CPU time counts, of the loop, of its workers from their start to their end and, as epochs
one after another take it that all are watched, of gpustall. An epoch by PyTorch's own iterator has the hooks too,
which find no loop that is watched.

Where a machine has neighbours, epochs differ by far more than what is looked for. So of short steps it is
told too by how much those differ that nothing disturbed: of steps at the same place among every SEAT in an epoch,
as what watching does for one differs among as many, the faster half, without the fastest twentieth.
"""

import os
import random
import resource
import statistics
import sys
import tempfile
import time

import torch
from torch.utils.data import DataLoader, Dataset, dataloader

from gpustall import loaders, manual

manual.optimized = lambda *_: None  # else epochs by PyTorch's own iterator were a loop without a DataLoader, which is watched

BATCH = 32
SEAT = 16
TURNS = 200  # by which it is told how far chance could have it off


class Samples(Dataset):
    """About 0.3 ms of a core each. The first one of a batch tells what its worker has used of one, in ns."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return BATCH * self.batches

    def __getitem__(self, i):
        x = torch.full((64, 64), float(i))
        for _ in range(60):
            x = x * 1.0001 + 0.1
        return x, i % 10, time.process_time_ns() if i % BATCH == 0 else 0


def short(batches):
    """A model, and a loader whose steps are short, with so many of them an epoch."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4096, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    return model, DataLoader(Samples(batches), batch_size=BATCH, num_workers=1)


def images(folder):
    """ResNet-18 on an ImageFolder: 384 JPEGs of 160x120 in 8 classes, cropped to 64x64."""
    from PIL import Image
    from torchvision import datasets, models, transforms

    rng = random.Random(1)
    for i in range(384):
        where = os.path.join(folder, str(i % 8))
        os.makedirs(where, exist_ok=True)
        rough = Image.frombytes("RGB", (20, 15), bytes(rng.randrange(256) for _ in range(900)))
        rough.resize((160, 120), Image.BICUBIC).save(os.path.join(where, "%d.jpg" % i), quality=90)
    crop = [transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.25] * 3)]
    data = datasets.ImageFolder(folder, transforms.Compose(crop))
    return models.resnet18(num_classes=8), DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=2)


def plain(loader):
    """PyTorch's own iterator over a loader, which nobody watches."""
    kind = dataloader._MultiProcessingDataLoaderIter
    iterator = kind.__new__(kind)
    loaders.plain_init[kind](iterator, loader)
    return iterator


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


def undisturbed(pairs):
    """What a watched step takes more than one that is not, in ns, and how much the other one takes;
    pairs: those of the watched epochs and of the others."""

    def mean(epochs):
        total = 0
        for seat in range(SEAT):
            took = sorted(step for epoch in epochs for step in epoch[seat::SEAT])
            took = took[len(took) // 20 : len(took) // 2]
            total += sum(took) / len(took)
        return total / SEAT

    watched, others = zip(*pairs)
    return mean(watched) - mean(others), mean(others)


def main(seconds, model, loader):
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def epoch(watched):
        own, wall = cpu(), time.perf_counter()
        clocks = []
        for x, y, *used in iter(loader) if watched else plain(loader):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if used:
                clocks.append(time.process_time_ns() + int(used[0][0]))
        wall = time.perf_counter() - wall
        steps = [after - before for before, after in zip(clocks, clocks[1:])]
        return cpu() - own, wall, steps[3:-2]  # while the worker has batches to load

    for watched in (True, False):
        epoch(watched)
    end = time.monotonic() + seconds
    pairs = []
    while time.monotonic() < end:
        out = {}
        for watched in random.sample((True, False), 2):
            out[watched] = epoch(watched)
        pairs.append((out[True], out[False]))
    theirs, epochs, end = gpustall_cpu(), 0, time.monotonic() + seconds / 6
    while time.monotonic() < end or not epochs:
        epoch(True)
        epochs += 1
    theirs = (gpustall_cpu() - theirs) / epochs / 1e9  # it is woken as often beside other epochs, and for less
    used, took = (statistics.median(b[i] for _, b in pairs) for i in (0, 1))
    print("%d pairs of %d steps, without: %.2f s of CPU time and %.2f s" % (len(pairs), len(loader), used, took))
    for name, ratio in (
        ("CPU time of the script and its workers", lambda a, b: a[0] / b[0]),
        ("with gpustall's own", lambda a, b: (a[0] + theirs) / b[0]),
        ("wall time", lambda a, b: a[1] / b[1]),
    ):
        print("%-40s %+.2f %% (%+.2f to %+.2f)" % (name, *(100 * (r - 1) for r in interval([ratio(a, b) for a, b in pairs]))))
    steps = [(a[2], b[2]) for a, b in pairs if len(a[2]) == len(b[2]) >= SEAT]
    if steps:
        more, step = undisturbed(steps)
        spread = 1.96 * statistics.stdev(undisturbed(random.choices(steps, k=len(steps)))[0] for _ in range(TURNS))
        more, spread = 100 * more / step, 100 * spread / step
        print("%-40s %+.2f %% (%+.2f to %+.2f)" % ("CPU time of undisturbed steps of %.1f ms" % (step / 1e6), more, more - spread, more + spread))


if sys.argv[2:] == ["images"]:
    with tempfile.TemporaryDirectory() as folder:
        main(float(sys.argv[1]), *images(folder))
else:
    main(float(sys.argv[1]), *short(300 if sys.argv[2:] == ["long"] else 60))
