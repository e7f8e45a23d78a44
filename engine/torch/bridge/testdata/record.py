"""Records what trainings write for gpustall, for the tests of the bridge: recorded.tar.gz, and
device.tar.gz of one on a stand-in for a GPU. Run it with a Python that has torch:

    python record.py
"""

import os
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "..", "python", "test"))


def recorded():
    """Three epochs, each with a validation after it, while num_workers goes 1, 3, 0, 2."""
    import harness
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = samples(96, 0.003, lambda i: (torch.randn(8), i % 4))
    train, val = DataLoader(data, batch_size=8, shuffle=True, num_workers=1), DataLoader(data, batch_size=32)
    for workers in (3, 0, 2):
        for i, (x, y) in enumerate(train):
            if i == 5:
                harness.ask(num_workers=workers)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            time.sleep(0.002)
        with torch.no_grad():
            for x, _ in val:
                model(x)


def device():
    """Each step is 5 ms of the stand-in's time, and each batch takes 20 ms to load."""
    import harness  # noqa: F401
    import standin
    from torch.utils.data import DataLoader

    cuda = standin.install()
    for _ in DataLoader(samples(160, 0.005, lambda i: i), batch_size=4, num_workers=1):
        cuda.work(5_000_000)


def samples(n, seconds, make):
    from torch.utils.data import Dataset

    class Samples(Dataset):
        def __len__(self):
            return n

        def __getitem__(self, i):
            time.sleep(seconds)
            return make(i)

    return Samples()


if len(sys.argv) > 1:
    globals()[sys.argv[1]]()
else:
    for name in ("recorded", "device"):
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, GPUSTALL_TORCH=folder)
            subprocess.run([sys.executable, "-W", "ignore", __file__, name], check=True, env=env)
            os.environ["GPUSTALL_TORCH"] = folder
            import harness

            harness.keep(os.path.join(here, name + ".tar.gz"), folder)
