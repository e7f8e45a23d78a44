"""A stream that its workers divide, and whose file each of them opens: three load it from the next epoch on."""
# keys: 1 RIGHT RIGHT RIGHT ENTER
# says: num_workers 0 -> 3
# modes: screen
import os
import tempfile
import time

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

PATH, SIZE = os.path.join(tempfile.gettempdir(), "rows"), 800


class Rows(IterableDataset):
    def __init__(self):
        with open(PATH, "w") as f:
            f.writelines("%d %s\n" % (i, "x" * 500) for i in range(SIZE))

    def __iter__(self):
        info = get_worker_info()
        with open(PATH) as rows:
            for n, row in enumerate(rows):
                if info is None or n % info.num_workers == info.id:
                    time.sleep(0.004)
                    yield torch.full((64,), float(n % 7)), int(row.split()[0])


if __name__ == "__main__":
    torch.set_num_threads(1)
    data, model = Rows(), torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)
    for _ in range(4):
        seen = []
        for x, i in DataLoader(data, batch_size=8):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            seen += i.tolist()
        print("samples", len(seen), "distinct", len(set(seen)))  # their order follows from num_workers
    os.remove(PATH)
