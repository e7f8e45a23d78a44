"""Twenty ways to load batches. In each the same samples come in the same order, and the same weights come out."""
# modes: plain json screen plain-KILL-seen plain-STOP-seen json-KILL-imported
import hashlib
import random

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
    random_split,
)

SIZE = 240


class Plain(Dataset):
    def __len__(self):
        return SIZE

    def __getitem__(self, i):
        return torch.full((8,), float(i % 13)), i


class Augmented(Plain):
    def __getitem__(self, i):
        return torch.full((8,), float(i % 13)) + torch.rand(8) + random.random() + float(np.random.rand()), i


class Whole(Plain):
    def __getitems__(self, indices):
        return [self[i] for i in indices]


class Table(Plain):
    def __getitem__(self, indices):
        return torch.tensor([[float(i % 13)] * 8 for i in indices]), indices


class Broken(Plain):
    def __getitem__(self, i):
        if i == 200:
            raise KeyError("sample %d" % i)
        return super().__getitem__(i)


class Stream(IterableDataset):
    def __init__(self, first=0):
        self.first = first

    def __iter__(self):
        info = get_worker_info()
        for i in range(self.first, SIZE):
            if info is None or i % info.num_workers == info.id:
                yield torch.full((8,), float(i % 13)), i


class Endless(Stream):
    def __iter__(self):
        while True:
            yield from super().__iter__()


class Backwards(Sampler):
    def __init__(self):
        pass

    def __iter__(self):
        return iter(range(SIZE - 1, -1, -1))

    def __len__(self):
        return SIZE


class ByLength(Sampler):
    """Batches of 4 to 12."""

    def __init__(self):
        pass

    def __iter__(self):
        left = list(range(SIZE))
        while left:
            n = random.randint(4, 12)
            yield left[:n]
            left = left[n:]


def pad(samples):
    return {"x": torch.stack([x for x, _ in samples]), "i": torch.tensor([i for _, i in samples])}


def seeded(worker):
    random.seed(worker)
    np.random.seed(worker)


def ways():
    plain, own = Plain(), torch.Generator().manual_seed(5)
    yield "in order", DataLoader(plain, 8)
    yield "shuffled", DataLoader(plain, 8, shuffle=True)
    yield "shuffled by workers", DataLoader(plain, 8, shuffle=True, num_workers=2)
    yield "workers that persist", DataLoader(plain, 8, shuffle=True, num_workers=2, persistent_workers=True, prefetch_factor=3)
    yield "a generator", DataLoader(plain, 8, shuffle=True, generator=own)
    yield "no remainder", DataLoader(plain, 7, drop_last=True)
    yield "augmented", DataLoader(Augmented(), 8, shuffle=True)
    yield "augmented by workers", DataLoader(Augmented(), 8, shuffle=True, num_workers=2, worker_init_fn=seeded)
    yield "weighted", DataLoader(plain, 8, sampler=WeightedRandomSampler(torch.arange(1.0, SIZE + 1), 100))
    yield "a random subset", DataLoader(plain, 8, sampler=SubsetRandomSampler(range(0, SIZE, 3)), num_workers=1)
    yield "a sampler", DataLoader(plain, 8, sampler=Backwards())
    yield "batches of a sampler", DataLoader(plain, batch_sampler=ByLength())
    yield "a sampler of samplers", DataLoader(Table(), sampler=BatchSampler(RandomSampler(plain), 8, False), batch_size=None)
    yield "whole batches", DataLoader(Whole(), 8, shuffle=True)
    yield "dictionaries", DataLoader(plain, 8, collate_fn=pad, num_workers=2)
    yield "parts", DataLoader(Subset(plain, range(50, 150)), 8, shuffle=True)
    yield "split", DataLoader(random_split(plain, [200, 40])[0], 8, num_workers=2)
    yield "concatenated", DataLoader(ConcatDataset([plain, Subset(plain, range(40))]), 8, shuffle=True)
    yield "a stream", DataLoader(Stream(), 8)
    yield "a stream by workers", DataLoader(Stream(), 8, num_workers=2)
    yield "chained", DataLoader(ChainDataset([Stream(100), Stream()]), 8)
    yield "single samples", DataLoader(Stream(), None)
    yield "without an end", DataLoader(Endless(), 8, num_workers=1)
    yield "broken", DataLoader(Broken(), 8)
    yield "broken in a worker", DataLoader(Broken(), 8, num_workers=2)


def train(loader):
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    model, seen = torch.nn.Linear(8, 1), []
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    for _ in range(3):
        for step, batch in enumerate(loader):
            x, i = (batch["x"], batch["i"]) if isinstance(batch, dict) else batch
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            seen += torch.as_tensor(i).reshape(-1).tolist()
            if step == 40:
                break
    return model, seen


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, loader in ways():
        try:
            model, seen = train(loader)
        except KeyError as error:
            print(name, "failed:", str(error).splitlines()[-1])
            continue
        drawn = torch.rand(1).item(), random.random(), np.random.rand()  # nobody else drew any
        print(name, len(seen), hashlib.sha256(repr((seen, model.weight.tolist(), drawn)).encode()).hexdigest()[:16])
        torch.save(model.state_dict(), name.replace(" ", "-") + ".pt")
