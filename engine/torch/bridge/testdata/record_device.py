"""Records a training on a stand-in for a GPU: device.tar.gz, which the tests of the
bridge read. Each step is 5 ms of the stand-in's time, each batch takes 20 ms to load.
"""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "..", "python", "test"))
import harness  # noqa: E402
import standin  # noqa: E402
import time  # noqa: E402

from torch.utils.data import DataLoader, Dataset  # noqa: E402


class Samples(Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, i):
        time.sleep(0.005)
        return i


cuda = standin.install()
for batch in DataLoader(Samples(), batch_size=4, num_workers=1):
    cuda.work(5_000_000)
time.sleep(0.05)
for batch in DataLoader(Samples(), batch_size=4):  # what resolves the last steps
    break
harness.keep(os.path.join(here, "device.tar.gz"))
