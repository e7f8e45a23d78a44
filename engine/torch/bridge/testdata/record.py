"""Records what a training writes for gpustall: recorded.tar.gz, which the tests of the
bridge read. Run it with a Python that has torch: python record.py
"""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "..", "python", "test"))
import harness  # noqa: E402
import time  # noqa: E402

import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402


class Samples(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, i):
        time.sleep(0.003)
        return torch.randn(8), i % 4


def main():
    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train, val = DataLoader(Samples(), batch_size=8, shuffle=True, num_workers=1), DataLoader(Samples(), batch_size=32)
    for epoch, workers in enumerate((3, 0, 2)):
        for i, (x, y) in enumerate(train):
            if i == 5:
                harness.ask(num_workers=workers)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            time.sleep(0.002)
        with torch.no_grad():
            for x, y in val:
                model(x)


main()
harness.keep(os.path.join(here, "recorded.tar.gz"))
