"""A data set that can be forked: three workers load it, and each sample once."""
# keys: 1 RIGHT RIGHT RIGHT ENTER
# says: num_workers 0 -> 3
# modes: screen screen-KILL-changed screen-STOP-changed
import time

import raising
import torch
from torch.utils.data import Dataset


class Plain(Dataset):
    def __len__(self):
        return 800

    def __getitem__(self, i):
        time.sleep(0.004)
        return torch.full((64,), float(i % 7)), i


if __name__ == "__main__":
    raising.train(Plain(), 4, batch_size=8, shuffle=True)
