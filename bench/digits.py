#!/usr/bin/env python3
"""Does gpustall learn what PyTorch learns? scikit-learn's digits, test top-1 over seeds.

    bench/digits.py [--gpustall bin/gpustall] [--seeds 3] [--epochs 10]

writes the 1,797 digits (8x8, enlarged to 32x32 in three channels, without loss) as an image
folder, every fourth for testing, and trains the small CNN on it with Adam: gpustall, and the
same model in PyTorch on the same files with the same settings. Orders and first weights are
drawn by each as it does, so what is compared are means over seeds.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

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


def theirs(root, seed, epochs):
    import torch
    from torch import nn
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    torch.manual_seed(seed)
    steps = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])

    def load(split):  # once, into memory
        data = [x for x in datasets.ImageFolder(os.path.join(root, split), steps)]
        return [(x, y) for x, y in data]

    layers = []
    for i, o, pool in ((3, 32, True), (32, 64, True), (64, 128, False)):
        c = nn.Conv2d(i, o, 3, 1, 1)
        nn.init.kaiming_normal_(c.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(c.bias)
        layers += [c, nn.ReLU()] + ([nn.MaxPool2d(2)] if pool else [])
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    train, test = load("train"), load("test")
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
    return right / len(test)


def ours(gpustall, root, seed, epochs, scratch):
    out = subprocess.run(
        [gpustall, "run", "--json", "--device", "cpu", "--model", "cnn", "--data", root, "--batch-size", str(BATCH),
         "--transform", f"resize({SIDE})|centercrop({SIDE})|normalize", "--epochs", str(epochs), "--seed", str(seed),
         "--optimizer", f"adam,lr={LR}", "--schedule", "constant", "--session", os.path.join(scratch, f"{seed}.gpustall")],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    summary = json.loads(out.strip().splitlines()[-1])
    return summary["epoch_times"][-1]["test_top1"]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--gpustall", default="bin/gpustall")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--epochs", type=int, default=10)
    a = p.parse_args()
    try:
        import sklearn
        import torch
        import torchvision
    except ImportError as e:
        print(f"skipped: digits ({e})")
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = os.path.join(scratch, "digits")
        make(root)
        rows = {"gpustall": [], "PyTorch": []}
        for seed in range(1, a.seeds + 1):
            rows["gpustall"].append(100 * ours(a.gpustall, root, seed, a.epochs, scratch))
            rows["PyTorch"].append(100 * theirs(root, seed, a.epochs))
        print(f"digits of scikit-learn {sklearn.__version__}, small CNN, Adam {LR}, batch {BATCH}, {a.epochs} epochs; torch {torch.__version__}")
        for name, v in rows.items():
            print(f"  {name:9} test top-1 {statistics.mean(v):6.2f} %   ({', '.join(f'{x:.2f}' for x in v)})")
        if abs(statistics.mean(rows["gpustall"]) - statistics.mean(rows["PyTorch"])) > 1:
            sys.exit("they differ by more than a point")


if __name__ == "__main__":
    main()
