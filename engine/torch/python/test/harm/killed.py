"""A script is killed, and its workers live some seconds longer."""
# wrap: $RUN; exit $?
# modes: plain json plain-KILL-seen
import os
import signal
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Kills(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, i):
        time.sleep(0.01)
        return torch.ones(4)


if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    for step, x in enumerate(DataLoader(Kills(), batch_size=4, num_workers=2)):
        model(x).sum().backward()
        if step == 40:
            os.kill(os.getpid(), signal.SIGKILL)
