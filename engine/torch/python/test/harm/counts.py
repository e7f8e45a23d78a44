"""As many batches as a loop can take: all are counted."""
# modes: plain json STOP3
# says: 60,000 batches
import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 30000

    def __getitem__(self, i):
        return i


model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-9)
x = torch.ones(1, 4)
n = 0
for epoch in range(2):
    for i in DataLoader(Numbers(), batch_size=1, collate_fn=lambda b: b[0]):
        n += 1
        if n % 1000 == 1:
            model(x).mean().backward()
            optimizer.step()
print("batches", n)
