"""What a script lets go is gone at once: its data set, loader, iterator and batch. Nothing waits for Python to look for cycles."""
# modes: plain plain-KILL-seen
import gc
import weakref

import torch
from torch.utils.data import DataLoader, Dataset

gc.disable()


class Ones(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.ones(1)


if __name__ == "__main__":
    model = torch.nn.Linear(1, 1)
    for workers in 0, 2:
        data = Ones()
        loader = DataLoader(data, 4, num_workers=workers)
        for x in loader:
            model(x).sum().backward()
        iterator = iter(loader)
        next(iterator)
        held = [weakref.ref(thing) for thing in (x, data, loader, iterator)]
        del x, data, loader, iterator
        print(workers, [ref() is None for ref in held])
