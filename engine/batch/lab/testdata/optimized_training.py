#!/usr/bin/env python3
"""Trains a CNN with the settings that gpustall lab found.

Measured with: cnn on pretended.
With 5 optimizations: throughput +810 % (+790 to +830 %) against the baseline, 2,000 -> 18,196 samples/s.
Synthetic data: gpustall made it; how fast it is read and what accuracy is reached say nothing about real data.

Needs PyTorch 2.3 or later, and torchvision for a folder of images. What was measured was
gpustall's own engine and loader, not PyTorch: take the settings as a start, and measure.

    python optimized_training.py                    # train on the lab's data
    python optimized_training.py --data DIR         # on CIFAR-10 (binary or python version), or images by class
    python optimized_training.py --fake --steps 20  # on random images: does it run here?
"""
import argparse
import contextlib
import os
import pickle
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

# What the lab found. Of each, the comment says where the baseline was.
BATCH_SIZE = 100
NUM_WORKERS = 8  # baseline: 0
PREFETCH_FACTOR = 2
PIN_MEMORY = False
PERSISTENT_WORKERS = False
IN_ORDER = True
SHUFFLE = True
DROP_LAST = False
TIMEOUT = 0
DEVICE_TRANSFORMS = False
PRECISION = "bf16"  # baseline: "fp32"
GRADIENT_ACCUMULATION = 1
CHECKPOINTING = False
COMPILE = False

# The recipe that the lab trained with.
LR = 0.05
MOMENTUM = 0.9
WEIGHT_DECAY = 0.0005
WARMUP = 50  # optimizer steps
SEED = 1
DATA = "/data/\"cifar\""

CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class CIFAR10(Dataset):
    """CIFAR-10 in memory as uint8, of the binary or the python version in a folder."""

    mean, std, classes = CIFAR_MEAN, CIFAR_STD, 10

    def __init__(self, root, train=True):
        images, labels = [], []
        names = [f"data_batch_{i}" for i in range(1, 6)] if train else ["test_batch"]
        for folder in (root, os.path.join(root, "cifar-10-batches-bin"), os.path.join(root, "cifar-10-batches-py")):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path + ".bin"):
                    rows = np.fromfile(path + ".bin", dtype=np.uint8).reshape(-1, 3073)
                    labels.append(rows[:, 0])
                    images.append(rows[:, 1:])
                elif os.path.isfile(path):
                    with open(path, "rb") as f:
                        batch = pickle.load(f, encoding="bytes")
                    labels.append(np.asarray(batch[b"labels"]))
                    images.append(np.asarray(batch[b"data"]))
        if not images:
            raise FileNotFoundError(root)
        self.images = torch.from_numpy(np.concatenate(images).reshape(-1, 3, 32, 32).copy())
        self.labels = torch.from_numpy(np.concatenate(labels).astype(np.int64))
        self.augment = train

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image, label = self.images[i], self.labels[i]
        if DEVICE_TRANSFORMS:
            return image, label  # uint8: the rest is done on the device, for a whole batch
        if self.augment:
            top, left = torch.randint(0, 9, (2,)).tolist()
            image = F.pad(image, (4, 4, 4, 4))[:, top:top + 32, left:left + 32]
            if torch.rand(()) < 0.5:
                image = image.flip(-1)
        return normalise(image, self.mean, self.std), label


class Fake(CIFAR10):
    """Random images of CIFAR-10's shape."""

    def __init__(self, samples=4096):
        g = torch.Generator().manual_seed(SEED)
        self.images = torch.randint(0, 256, (samples, 3, 32, 32), dtype=torch.uint8, generator=g)
        self.labels = torch.randint(0, 10, (samples,), generator=g)
        self.augment = True


def normalise(images, mean, std):
    shape = (-1, 1, 1)
    mean, std = (torch.tensor(v, device=images.device).view(shape) for v in (mean, std))
    return (images.float() / 255 - mean) / std


def on_device(images, data, augment):
    """Crop, flip and normalise a batch of uint8 images where they are."""
    n, _, h, w = images.shape
    if augment:
        padded = F.pad(images, (4, 4, 4, 4))
        rows = torch.randint(0, 9, (n, 1), device=images.device) + torch.arange(h, device=images.device)
        cols = torch.randint(0, 9, (n, 1), device=images.device) + torch.arange(w, device=images.device)
        flip = torch.rand(n, 1, device=images.device) < 0.5
        cols = torch.where(flip, cols.flip(1), cols)
        at = torch.arange(n, device=images.device)
        images = padded[at[:, None, None], :, rows[:, :, None], cols[:, None, :]].permute(0, 3, 1, 2)
    return normalise(images, data.mean, data.std)


def image_folder(root, train):
    """A folder of images by class, and of train and val if it has them."""
    from torchvision import datasets, transforms as T

    for split in (("train",) if train else ("val", "test")):
        if os.path.isdir(os.path.join(root, split)):
            root = os.path.join(root, split)
            break
    else:
        if not train:
            return None
    last = [T.ToTensor(), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)]
    crop = [T.RandomResizedCrop(224), T.RandomHorizontalFlip()] if train else [T.Resize(256), T.CenterCrop(224)]
    return datasets.ImageFolder(root, T.Compose(crop + last))


def open_data(args):
    """The training set, the test set or None, the number of classes, and the images' size."""
    if args.fake:
        return Fake(), None, 10, 32
    if not args.data or not os.path.exists(args.data):
        raise SystemExit(f"no data at {args.data!r}: give --data DIR, or --fake for random images")
    if os.path.isfile(args.data):
        raise SystemExit(f"{args.data} is a file: unpack it, and give the folder with --data")
    try:
        train = CIFAR10(args.data)
    except FileNotFoundError:
        train = image_folder(args.data, train=True)
        return train, image_folder(args.data, train=False), len(train.classes), 224
    try:
        return train, CIFAR10(args.data, train=False), 10, 32
    except FileNotFoundError:
        return train, None, 10, 32


class Block(nn.Module):
    """The basic block of ResNet-18."""

    def __init__(self, c, k, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, k, 3, stride, 1, bias=False), nn.BatchNorm2d(k)
        self.conv2, self.bn2 = nn.Conv2d(k, k, 3, 1, 1, bias=False), nn.BatchNorm2d(k)
        self.downsample = None
        if stride != 1 or c != k:
            self.downsample = nn.Sequential(nn.Conv2d(c, k, 1, stride, bias=False), nn.BatchNorm2d(k))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """ResNet-18: for images of up to 64 x 64 in its CIFAR form."""

    def __init__(self, classes, size):
        super().__init__()
        small = size <= 64
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False) if small else nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        blocks, c = [], 64
        for stage, k in enumerate((64, 128, 256, 512)):
            for i in range(2):
                blocks.append(Block(c, k, 2 if stage > 0 and i == 0 else 1))
                c = k
        self.blocks = nn.ModuleList(blocks)
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if CHECKPOINTING and self.training else block(x)
        return self.fc(x.mean((2, 3)))


class CNN(nn.Module):
    """Three convolutions, for a CPU."""

    def __init__(self, classes, size):
        super().__init__()
        self.blocks = nn.ModuleList([
            nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Sequential(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Sequential(nn.Conv2d(64, 128, 3, padding=1), nn.ReLU()),
        ])
        self.fc = nn.Linear(128, classes)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if CHECKPOINTING and self.training else block(x)
        return self.fc(x.mean((2, 3)))


def make_loader(data, train, device):
    workers = dict(prefetch_factor=PREFETCH_FACTOR, persistent_workers=PERSISTENT_WORKERS) if NUM_WORKERS > 0 else {}
    if not IN_ORDER:
        workers["in_order"] = False  # PyTorch 2.6 and later
    return DataLoader(data, batch_size=BATCH_SIZE, shuffle=SHUFFLE and train, drop_last=DROP_LAST and train,
                      num_workers=NUM_WORKERS, pin_memory=PIN_MEMORY and device.type == "cuda", timeout=TIMEOUT if NUM_WORKERS > 0 else 0, **workers)


def main():
    p = argparse.ArgumentParser(description="Train with the settings that gpustall lab found.")
    p.add_argument("--data", default=DATA, help="CIFAR-10, or a folder of images by class (default: the lab's)")
    p.add_argument("--fake", action="store_true", help="train on random images")
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--steps", type=int, default=0, help="end after N batches")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = p.parse_args()

    torch.manual_seed(SEED)
    device = torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = PRECISION != "fp32"
    torch.backends.cudnn.benchmark = True
    train, test, classes, size = open_data(args)
    loader = make_loader(train, True, device)
    raw = DEVICE_TRANSFORMS and isinstance(train, CIFAR10)  # uint8 travels

    model = CNN(classes, size).to(device)
    if device.type == "cuda":
        model = model.to(memory_format=torch.channels_last)
    # A captured step of gpustall is a CUDA graph: PyTorch's is made by this mode.
    run = torch.compile(model, mode="reduce-overhead") if COMPILE and device.type == "cuda" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / max(1, WARMUP)))
    half = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(PRECISION)

    def autocast():
        if half is None or device.type == "cpu" and half is torch.float16:
            return contextlib.nullcontext()
        return torch.autocast(device.type, dtype=half)

    scaler = torch.amp.GradScaler(device.type, enabled=half is torch.float16 and device.type == "cuda")

    def place(images, labels, augment):
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        if raw:
            images = on_device(images, train, augment)
        if device.type == "cuda":
            images = images.contiguous(memory_format=torch.channels_last)
        return images, labels

    steps = 0
    for epoch in range(args.epochs):
        model.train()
        began, samples = time.perf_counter(), 0
        total, right = torch.zeros((), device=device), torch.zeros((), device=device)
        waiting = 0  # batches whose gradients are not in the model yet

        def update():
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)

        for images, labels in loader:
            images, labels = place(images, labels, augment=True)
            with autocast():
                out = run(images)
                loss = F.cross_entropy(out.float(), labels)
            scaler.scale(loss / GRADIENT_ACCUMULATION).backward()
            waiting += 1
            if waiting == GRADIENT_ACCUMULATION:
                update()
                waiting = 0
            total += loss.detach() * len(labels)  # no .item(): it would wait for the device
            right += (out.detach().argmax(1) == labels).sum()
            samples += len(labels)
            steps += 1
            if steps == args.steps:
                break
        if waiting:
            update()
        if device.type == "cuda":
            torch.cuda.synchronize()
        took = time.perf_counter() - began
        line = f"epoch {epoch + 1}/{args.epochs}  {samples / took:,.1f} samples/s  loss {total.item() / samples:.3f}  top1 {right.item() / samples:.1%}"
        if device.type == "cuda":
            line += f"  peak memory {torch.cuda.max_memory_allocated() / 2**20:,.0f} MiB"
        if test is not None and steps != args.steps:
            line += f"  test {evaluate(model, test, device, place, autocast):.1%}"
        print(line, flush=True)
        if steps == args.steps:
            break


@torch.no_grad()
def evaluate(model, data, device, place, autocast):
    model.eval()
    right = 0
    for images, labels in make_loader(data, False, device):
        images, labels = place(images, labels, augment=False)
        with autocast():
            right += (model(images).argmax(1) == labels).sum()
    return (right / len(data)).item()


if __name__ == "__main__":
    main()
