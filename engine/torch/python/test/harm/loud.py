"""A script prints 400 MB while it trains."""
# modes: plain json screen json-KILL-seen json-STOP-seen
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    line = "x" * 999
    for step, (x,) in enumerate(DataLoader(TensorDataset(torch.ones(4000, 8)), batch_size=10)):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        print("step", step)
        for n in range(1000):
            print(n, line)
