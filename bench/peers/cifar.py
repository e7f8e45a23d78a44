#!/usr/bin/env python3
"""CIFAR-10 -> RandomCrop(32, padding=4), flip, normalised: samples a second.

    bench/peers/cifar.py [--rounds 5] [--seconds 4] [--load bin/load]

compares gpustall's loader (bench/peers/load) with a PyTorch DataLoader that does what
torchvision's CIFAR10 and the transforms of its examples do: inline (num_workers=0, by the
CPU time of one core) and with two workers. The pixels are random.
"""
import argparse
import os
import tempfile

import rounds

NAMES = {"stock": "torchvision, DataLoader", "before": "gpustall before", "ours": "gpustall"}
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
FOLDER, FILES, SAMPLES = "cifar-10-batches-bin", 5, 10_000


def make(root):
    """Writes the binary version."""
    import numpy as np

    rng = np.random.default_rng(1)
    folder = os.path.join(root, FOLDER)
    os.makedirs(folder)
    for i in [f"data_batch_{n + 1}" for n in range(FILES)] + ["test_batch"]:
        records = rng.integers(0, 256, (SAMPLES, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        records.tofile(os.path.join(folder, i + ".bin"))
    with open(os.path.join(folder, "batches.meta.txt"), "w") as f:
        f.write("\n".join(f"class{i}" for i in range(10)) + "\n")


def peer(root, workers, seconds):
    """Runs in a process of its own."""
    import numpy as np
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
    from torchvision import transforms

    steps = transforms.Compose([
        transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(), transforms.Normalize(MEAN, STD)])

    class Cifar(Dataset):  # as torchvision.datasets.CIFAR10: the images in memory, HWC
        def __init__(self):
            records = np.concatenate([
                np.fromfile(os.path.join(root, FOLDER, f"data_batch_{n + 1}.bin"), dtype=np.uint8).reshape(-1, 3073)
                for n in range(FILES)])
            self.labels = records[:, 0].tolist()
            self.images = np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))

        def __len__(self):
            return len(self.labels)

        def __getitem__(self, i):
            return steps(Image.fromarray(self.images[i])), self.labels[i]

    torch.set_num_threads(1)
    rounds.timed(rounds.forever(DataLoader(
        Cifar(), batch_size=128, shuffle=True, drop_last=True, num_workers=workers,
        prefetch_factor=2 if workers else None, persistent_workers=workers > 0)), seconds)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    rounds.arguments(p)
    a = p.parse_args()
    if a.peer:
        peer(a.data, a.workers, a.seconds)
        return
    try:
        import numpy
        import torch
        import torchvision
    except ImportError as e:
        print(f"skipped: CIFAR-10 against torchvision ({e})")
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = a.data
        if not root:
            root = os.path.join(scratch, "data")
            make(root)
        load = rounds.loads(a, scratch)
        rounds.title(f"torch {torch.__version__}, torchvision {torchvision.__version__}, numpy {numpy.__version__}; {a.rounds} rounds of {a.seconds:g} s")
        rounds.loaders(__file__, a, root, load, NAMES, ("--batch", "128"))


if __name__ == "__main__":
    main()
