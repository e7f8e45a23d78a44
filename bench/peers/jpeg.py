#!/usr/bin/env python3
"""JPEG, 500x375, quality 90 -> RandomResizedCrop(224), flip, normalised: samples a second.

    bench/peers/jpeg.py [--rounds 5] [--seconds 4] [--load bin/load]

compares gpustall's loader (bench/peers/load) with a PyTorch DataLoader that decodes with
PIL, and one that decodes with torchvision's decode_jpeg and transforms with its v2: inline
(num_workers=0, by the CPU time of one core) and with two workers. Rounds are interleaved,
so that other load on the machine affects all alike; the ratios within a round count. The
images are synthetic: noise whose spectrum falls off like that of photographs.
"""
import argparse
import os
import tempfile

import rounds

NAMES = {"pil": "PIL", "v2": "torchvision v2", "before": "gpustall before", "ours": "gpustall"}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def make(root, count=256):
    """Writes the images, of 500x375 pixels and about 70 kB each."""
    import numpy as np
    from PIL import Image

    h, w = 375, 500
    rng = np.random.default_rng(1)
    fall = 1 / np.maximum(np.hypot(np.fft.fftfreq(h)[:, None], np.fft.rfftfreq(w)[None]), 1 / w) ** 1.35
    for i in range(count):
        def field():
            f = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((h, w))) * fall, (h, w))
            return (f - f.mean()) / f.std()

        grey = field()
        rgb = np.stack([128 + 48 * grey + 14 * field() for _ in range(3)], -1)
        folder = os.path.join(root, f"class{i % 4}")
        os.makedirs(folder, exist_ok=True)
        Image.fromarray(np.clip(rgb, 0, 255).astype(np.uint8)).save(os.path.join(folder, f"{i:04}.jpg"), quality=90)


def dataset(kind, root):
    import torch
    from PIL import Image
    from torch.utils.data import Dataset
    from torchvision import transforms as v1
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    from torchvision.transforms import v2

    files = sorted(os.path.join(d, f) for d, _, fs in os.walk(root) for f in fs)
    if kind == "pil":
        steps = v1.Compose([v1.RandomResizedCrop(224), v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Normalize(MEAN, STD)])
    else:
        steps = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
                            v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    class Images(Dataset):
        def __len__(self):
            return len(files)

        def __getitem__(self, i):
            if kind == "pil":
                with open(files[i], "rb") as f:
                    image = Image.open(f).convert("RGB")
            else:
                image = decode_jpeg(read_file(files[i]), mode=ImageReadMode.RGB)
            return steps(image), i % 4

    return Images()


def peer(kind, root, workers, seconds):
    """Runs in a process of its own."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    rounds.timed(rounds.forever(DataLoader(
        dataset(kind, root), batch_size=64, shuffle=True, drop_last=True, num_workers=workers,
        prefetch_factor=2 if workers else None, persistent_workers=workers > 0)), seconds)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    rounds.arguments(p)
    a = p.parse_args()
    if a.peer:
        peer(a.peer, a.data, a.workers, a.seconds)
        return
    try:
        import PIL
        import torch
        import torchvision
    except ImportError as e:
        print(f"skipped: JPEG against PIL and torchvision ({e})")
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = a.data
        if not root:
            root = os.path.join(scratch, "data")
            make(root)
        load = rounds.loads(a, scratch)
        rounds.title(f"torch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}; "
                     f"{'images of ' + a.data if a.data else 'synthetic images'}; {a.rounds} rounds of {a.seconds:g} s")
        rounds.loaders(__file__, a, root, load, NAMES)


if __name__ == "__main__":
    main()
