"""A script closes descriptors that it does not know, and opens files of its own, which get the numbers."""
# quick
# modes: plain json plain-KILL-begun plain-KILL-imported plain-KILL-seen plain-STOP-begun plain-STOP-imported plain-STOP-seen
import os

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
step = 0
for _ in range(3):
    for (x,) in DataLoader(TensorDataset(torch.randn(100, 4)), batch_size=10):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        step += 1
        if step == 3:
            os.closerange(3, 65536)
            own = [open("checkpoint%d" % n, "wb", buffering=0) for n in range(12)]
print("sizes", [os.path.getsize(f.name) for f in own])
