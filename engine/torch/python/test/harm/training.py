"""A stock loop with workers, for the cases that differ only in what is around it."""
import hashlib

import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, i):
        return torch.full((8,), float(i % 13)), float(i % 7)


def run():
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    for epoch in range(4):
        for x, y in DataLoader(Squares(), batch_size=10, shuffle=True, num_workers=2):
            optimizer.zero_grad()
            (model(x)[:, 0] - y).pow(2).mean().backward()
            optimizer.step()
        print("epoch", epoch)
    torch.save(model.state_dict(), "model.pt")
    print(hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest())
