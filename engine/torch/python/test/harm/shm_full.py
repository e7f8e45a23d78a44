"""/dev/shm fills up for a moment while a training runs."""
# needs: unshare -m true
# wrap: unshare -m bash -c "mount -t tmpfs -o size=300m tmpfs /dev/shm && $RUN"
# modes: plain json plain-KILL-seen plain-STOP-seen
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Plain(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, i):
        time.sleep(0.002)
        return torch.ones(4), i


if __name__ == "__main__":
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 1)
    for workers in 0, 2:
        for k, (x, _) in enumerate(DataLoader(Plain(), batch_size=10, num_workers=workers)):
            model(x).sum().backward()
            if k == 5 and workers == 0:
                with open("/dev/shm/other", "wb", buffering=0) as f:
                    try:
                        while f.write(b"x" * (1 << 20)) == 1 << 20:
                            pass
                    except OSError:
                        pass
                time.sleep(1)
            if k == 20 and workers == 0:
                os.remove("/dev/shm/other")
    print("DONE", k)
