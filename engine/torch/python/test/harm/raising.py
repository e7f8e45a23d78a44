"""What the cases train in which num_workers is raised."""
import hashlib
from typing import Any

import torch
from torch.utils.data import DataLoader


def train(data, epochs, **loader):
    """Trains, and prints what has to be the same in each run."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model: Any = None
    seen = []
    for _ in range(epochs):
        for x, i in DataLoader(data, **loader):
            model = model or torch.nn.Linear(x.shape[1], 1)
            optimizer = torch.optim.SGD(model.parameters(), 1e-9)
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            seen += i.tolist()
    print("samples", len(seen), "distinct", len(set(seen)))
    print(hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest())
