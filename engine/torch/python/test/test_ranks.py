"""Distributed training: every rank reports. Two ranks on gloo, under torchrun and spawned."""

import os
import subprocess
import sys
import tempfile
import unittest

import harness
import torch

from gpustall import ring

COMMON = """
import os, time, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

class Samples(Dataset):
    def __len__(self): return 96
    def __getitem__(self, i):
        if dist_rank == 1: time.sleep(0.02)
        return torch.randn(8), i %% 4

def train():
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = Samples()
    sampler = DistributedSampler(data)
    for epoch in range(%d):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=4, sampler=sampler, num_workers=%d):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()
"""

UNDER_TORCHRUN = COMMON + """
dist_rank = int(os.environ["RANK"])
if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
"""

SPAWNED = COMMON + """
def main(rank, path):
    global dist_rank
    dist_rank = rank
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
    train()

if __name__ == "__main__":
    import sys, torch.multiprocessing as mp
    mp.spawn(main, (sys.argv[1],), nprocs=2)
"""


# What a rank of PyTorch 2.15.0 with gloo dies of at its end, also without gpustall, in one run of some 25.
DIED = "terminate called without an active exception"


class RanksTest(unittest.TestCase):
    def ranks(self, text, *launcher):
        """What each rank of a training waited for data: the median of its steps, in ns."""
        for _ in range(3):
            died, out = self.once(text, launcher)
            if not died:
                return out
        raise AssertionError("died three times: %s" % DIED)

    def once(self, text, launcher):
        """Runs a training. Returns whether it DIED, and what each rank waited for data."""
        with tempfile.TemporaryDirectory() as dir:
            folder = os.path.join(dir, "rings")
            os.mkdir(folder)
            script = os.path.join(dir, "train.py")
            with open(script, "w") as f:
                f.write(text)
            env = dict(os.environ, GPUSTALL_TORCH=folder, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
            done = subprocess.run([sys.executable, *launcher, script, os.path.join(dir, "store")], capture_output=True, text=True, env=env, timeout=240)
            if done.returncode and DIED in done.stderr:
                return True, {}
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("gpustall", done.stderr)
            hello = {m["rank"]: m for m in harness.messages("hello", folder)}
            self.assertEqual(sorted(hello), [0, 1])
            out = {}
            for rank, m in hello.items():
                self.assertEqual((m["world"], m["here"]), (2, 2 if launcher else -1))
                waits = [s for s in harness.spans(ring.NEXT, folder, m["pid"]) if s["step"] >= 0]
                self.assertEqual([s["step"] for s in waits], list(range(24)))
                out[rank] = sorted(s["end"] - s["start"] for s in waits)[12]
            return False, out

    @unittest.skipIf(torch.__version__ < "2" and sys.version_info >= (3, 11), "torchrun of PyTorch 1.13 fails on Python 3.11 by itself")
    def test_torchrun(self):
        waits = self.ranks(UNDER_TORCHRUN % (2, 1), "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
        self.assertGreater(waits[1], waits[0])

    def test_spawned(self):
        """Ranks that no environment tells of."""
        waits = self.ranks(SPAWNED % (2, 0))
        self.assertGreater(waits[1], waits[0])


if __name__ == "__main__":
    unittest.main()
