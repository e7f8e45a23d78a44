"""Batches that are kept hold descriptors until there are too many. What PyTorch says of it is PyTorch's own."""
# modes: plain json
import resource
import time

import torch
from torch.utils.data import DataLoader, Dataset

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


class Kept(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, i):
        time.sleep(0.001)
        return {"i": i, "x": torch.ones(8)}


if __name__ == "__main__":
    model, kept = torch.nn.Linear(8, 1), []
    try:
        for batch in DataLoader(Kept(), batch_size=4, num_workers=2):
            model(batch["x"]).sum().backward()
            kept.append(batch["i"])
        print("done")
    except RuntimeError as error:
        print(str(error)[:60], "..." + str(error)[-80:])
