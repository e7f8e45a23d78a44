#!/usr/bin/env python3
"""Does gpustall learn what PyTorch learns? scikit-learn's digits, test top-1 over seeds.

    bench/digits.py [--gpustall bin/gpustall] [--seeds 3] [--epochs 10]

writes the 1,797 digits (8x8, enlarged to 32x32 in three channels, without loss) as an image
folder, every fourth for testing, and trains the small CNN on it with Adam: gpustall, and the
same model in PyTorch on the same files with the same settings. A seed's first weights are the
same for both (PyTorch's defaults, passed as safetensors). Each draws its own order of samples,
so means over seeds are compared.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import OrderedDict

LR, BATCH, SIDE = 1e-3, 32, 32
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def make(root):
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    for i, (pixels, label) in enumerate(zip(digits.images, digits.target)):
        folder = os.path.join(root, "test" if i % 4 == 0 else "train", f"digit{label}")
        os.makedirs(folder, exist_ok=True)
        grey = np.kron(np.rint(pixels / 16 * 255).astype(np.uint8), np.ones((SIDE // 8, SIDE // 8), np.uint8))
        Image.fromarray(grey).convert("RGB").save(os.path.join(folder, f"{i:04}.png"))


def theirs(root, seed, epochs, first):
    """The test split's top-1 in % after each epoch; the first weights are left in a file."""
    import torch
    from safetensors.torch import save_file
    from torch import nn
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    torch.manual_seed(seed)
    steps = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])

    def load(split):  # once, into memory
        data = [x for x in datasets.ImageFolder(os.path.join(root, split), steps)]
        return [(x, y) for x, y in data]

    model = nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(3, 32, 3, 1, 1), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(32, 64, 3, 1, 1), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2),
        conv3=nn.Conv2d(64, 128, 3, 1, 1), relu3=nn.ReLU(),
        avgpool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten(), fc=nn.Linear(128, 10)))
    save_file(model.state_dict(), first)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    train, test = load("train"), load("test")
    curve = []
    for _ in range(epochs):
        model.train()
        for x, y in DataLoader(train, batch_size=BATCH, shuffle=True):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(test, batch_size=256))
        curve.append(100 * right / len(test))
    return curve


def ours(gpustall, root, seed, epochs, first, scratch):
    out = subprocess.run(
        [gpustall, "run", "--json", "--device", "cpu", "--model", "cnn", "--data", root, "--batch-size", str(BATCH),
         "--transform", f"resize({SIDE})|centercrop({SIDE})|normalize", "--epochs", str(epochs), "--seed", str(seed), "--init", first,
         "--optimizer", f"adam,lr={LR}", "--schedule", "constant", "--session", os.path.join(scratch, f"{seed}.gpustall")],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    summary = json.loads(out.strip().splitlines()[-1])
    return [100 * e["test_top1"] for e in summary["epoch_times"]]


def main():
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("--gpustall", default="bin/gpustall")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--epochs", type=int, default=10)
    a = p.parse_args()
    try:
        import safetensors  # noqa: F401 - what runs below imports it
        import sklearn
        import torch
        import torchvision  # noqa: F401 - what runs below imports it
    except ImportError as e:
        print(f"skipped: digits ({e})")
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = os.path.join(scratch, "digits")
        make(root)
        rows = {"gpustall": [], "PyTorch": []}
        for seed in range(1, a.seeds + 1):
            first = os.path.join(scratch, f"{seed}.safetensors")
            rows["PyTorch"].append(theirs(root, seed, a.epochs, first))
            rows["gpustall"].append(ours(a.gpustall, root, seed, a.epochs, first, scratch))
        print(f"digits of scikit-learn {sklearn.__version__}, small CNN, Adam {LR}, batch {BATCH}, {a.epochs} epochs; torch {torch.__version__}")
        print(f"test top-1 in %, mean over {a.seeds} seeds; in brackets each seed after the last epoch")
        print("  epoch     " + "".join(f"{e + 1:7}" for e in range(a.epochs)))
        mean = {}
        for name, curves in rows.items():
            mean[name] = [statistics.mean(at) for at in zip(*curves)]
            print(f"  {name:9} " + "".join(f"{x:7.2f}" for x in mean[name]) + f"   ({', '.join(f'{c[-1]:.2f}' for c in curves)})")
        if abs(mean["gpustall"][-1] - mean["PyTorch"][-1]) > 1:
            sys.exit("they differ by more than a point")


if __name__ == "__main__":
    main()
