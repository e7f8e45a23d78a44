"""Trainings of several kinds, small enough to be recorded: python train.py KIND."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

kind = sys.argv[1]
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(64, 10)
optimizer = torch.optim.SGD(model.parameters(), 0.01)


def sample(i):
    time.sleep(0.02 if kind == "slow" else 0.004)
    return torch.full((64,), float(i % 7)), i % 10


class Samples(Dataset):
    def __len__(self):
        return {"epochs": 96, "validation": 160}.get(kind, 100_000)

    def __getitem__(self, i):
        return sample(i)


class Stream(IterableDataset):
    def __iter__(self):
        return map(sample, range(100_000))


def step(x, y):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    time.sleep(0.04 if kind == "slow" else 0.01)
    optimizer.step()


def batches(**settings):
    return DataLoader(Stream() if kind == "stream" else Samples(), batch_size=8, **settings)


if kind == "ranks":
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
    for x, y in batches(num_workers=1 + torch.distributed.get_rank()):
        step(x, y)
if kind == "changing":  # a DataLoader, then the same batch over and over
    for i, (x, y) in enumerate(batches(num_workers=1)):
        step(x, y)
        if i == 30:
            break
if kind in ("inline", "changing"):
    x, y = next(iter(batches()))
    while True:
        step(x, y)
if kind in ("map", "slow", "stream"):
    for x, y in batches(num_workers=1):
        step(x, y)
while True:  # epochs, validation
    for x, y in batches(num_workers=1, shuffle=True):
        step(x, y)
    if kind == "validation":
        model.eval()
        with torch.no_grad():
            for x, _ in batches():
                model(x)
        model.train()
