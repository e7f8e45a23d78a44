#!/usr/bin/env python3
"""Writes the goldens of package nn: what PyTorch computes for each model.

    python make_goldens.py [CASE ...]           # writes them; needs numpy and PyTorch, with torchvision compares names
    python make_goldens.py --search [CASE ...]  # seeds that stay clear of corners

Weights, inputs and labels come from SplitMix64 on both sides, so that none is
stored. Results are computed in float64 and kept as fingerprints: the norm, 32
projections on random signs, and every n-th element. The mean square of the
difference of projections estimates the squared norm of the difference of two
tensors, so a test can check a relative error without the tensor. Field "f32" is
the relative error of PyTorch's own float32 run: the noise to expect.
"""
import json
import os
import sys
from typing import Any

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
SAMPLES = 32  # their distance follows from this number
KEEP = 32     # projections and samples that are kept


def mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Random:
    """SplitMix64; n numbers in [0,1) at a time."""

    def __init__(self, seed):
        self.s = seed & MASK

    def floats(self, n):
        k = np.arange(1, n + 1, dtype=np.uint64)
        with np.errstate(over="ignore"):
            z = np.uint64(self.s) + k * np.uint64(GOLDEN)
            u = mix(z)
        self.s = (self.s + n * GOLDEN) & MASK
        return (u >> np.uint64(11)).astype(np.float64) / (1 << 53)


def uniform(r, n, bound, centre=0.0):
    return ((2 * r.floats(n) - 1) * bound + centre).astype(np.float32)


class Corners:
    """The least distance of any value from a corner, where a rounding error flips
    a gradient on or off: zero before a ReLU, a tie in a max-pool."""

    least = None
    before: Any = None  # what went into the last ReLU

    @classmethod
    def see(cls, distance):
        if cls.least is not None and distance.numel():
            cls.least = min(cls.least, distance.min().item())


def relu(x, pooled=False):
    Corners.before = x.detach()
    if not pooled:  # else max_pool sees those that matter
        Corners.see(x.detach().abs())
    return F.relu(x)


def max_pool3d(x, size):
    """x is a ReLU's output: where the maximum is positive, no other value may be near it."""
    if Corners.least is not None:
        t, h, w = size
        v = x.unfold(2, t, t).unfold(3, h, h).unfold(4, w, w).reshape(*x.shape[:2], -1, t * h * w)
        top = v.topk(2, 3).values
        Corners.see((top[..., 0] - top[..., 1])[top[..., 0] > 0])
        Corners.see(Corners.before.abs())
    return F.max_pool3d(x, size)


def max_pool(x, size, stride, pad=0):
    if Corners.least is not None:
        windows = F.unfold(F.pad(Corners.before, [pad] * 4, value=-1e9), size, stride=stride)
        windows = windows.view(x.shape[0], x.shape[1], size * size, -1)
        top = windows.topk(2, 2).values
        gap = top[:, :, 0] - top[:, :, 1]
        Corners.see(gap[top[:, :, 0] > 0])
        Corners.see(top[:, :, 0].abs())
    return F.max_pool2d(x, size, stride, pad)


def conv(i, o, k, stride=1, pad=0, bias=False):
    return nn.Conv2d(i, o, k, stride, pad, bias=bias)


class CNN(nn.Module):
    def __init__(self, c, classes):
        super().__init__()
        self.conv1 = conv(c, 32, 3, 1, 1, True)
        self.conv2 = conv(32, 64, 3, 1, 1, True)
        self.conv3 = conv(64, 128, 3, 1, 1, True)
        self.fc = nn.Linear(128, classes)

    def forward(self, x, keep):
        x = keep("conv1", relu(self.conv1(x), True))
        x = keep("pool1", max_pool(x, 2, 2))
        x = keep("conv2", relu(self.conv2(x), True))
        x = keep("pool2", max_pool(x, 2, 2))
        x = keep("conv3", relu(self.conv3(x)))
        x = keep("avgpool", x.mean((2, 3)))
        return keep("fc", self.fc(x))


def norm(channels, plain):
    return nn.Identity() if plain else nn.BatchNorm2d(channels)


class CNN3d(nn.Module):
    def __init__(self, c, classes):
        super().__init__()
        self.conv1 = nn.Conv3d(c, 32, 3, 1, 1)
        self.conv2 = nn.Conv3d(32, 64, 3, 1, 1)
        self.conv3 = nn.Conv3d(64, 128, 3, 1, 1)
        self.fc = nn.Linear(128, classes)

    def forward(self, x, keep):
        x = keep("conv1", relu(self.conv1(x), True))
        x = keep("pool1", max_pool3d(x, (1, 2, 2)))
        x = keep("conv2", relu(self.conv2(x), True))
        x = keep("pool2", max_pool3d(x, (2, 2, 2)))
        x = keep("conv3", relu(self.conv3(x)))
        x = keep("avgpool", x.mean((2, 3, 4)))
        return keep("fc", self.fc(x))


class Block(nn.Module):
    """A basic block, or a bottleneck: torchvision's, with names for what its layers make."""

    def __init__(self, i, width, stride, bottleneck, plain):
        super().__init__()
        o = 4 * width if bottleneck else width
        shapes = [(i, width, 1, 1), (width, width, 3, stride), (width, o, 1, 1)] if bottleneck else [(i, width, 3, stride), (width, o, 3, 1)]
        self.last, self.plain = len(shapes), plain
        for n, (c, k, size, s) in enumerate(shapes, 1):
            setattr(self, "conv%d" % n, conv(c, k, size, s, size // 2, plain))
            setattr(self, "bn%d" % n, norm(k, plain))
        if stride != 1 or i != o:
            self.downsample = nn.Sequential(conv(i, o, 1, stride, 0, plain), norm(o, plain))

    def forward(self, x, keep, name):
        y = x
        for n in range(1, self.last + 1):
            y = getattr(self, "conv%d" % n)(y)
            end = n == self.last
            if self.plain:
                y = keep(name + "conv%d" % n, y if end else relu(y))
            else:
                y = keep(name + "conv%d" % n, y)
                y = getattr(self, "bn%d" % n)(y)
                y = y if end else keep(name + "bn%d" % n, relu(y))
        if hasattr(self, "downsample"):
            x = keep(name + "downsample.0", self.downsample[0](x))
            x = x if self.plain else keep(name + "downsample.1", self.downsample[1](x))
        return keep(name + ("add" if self.plain else "bn%d" % self.last), relu(y + x))


RESNETS = {"resnet18": (False, [2, 2, 2, 2]), "resnet34": (False, [3, 4, 6, 3]), "resnet50": (True, [3, 4, 6, 3])}


class ResNet(nn.Module):
    def __init__(self, name, c, classes, imagenet, plain):
        super().__init__()
        self.imagenet, self.plain = imagenet, plain
        bottleneck, stages = RESNETS[name]
        self.conv1 = conv(c, 64, 7, 2, 3, plain) if imagenet else conv(c, 64, 3, 1, 1, plain)
        self.bn1 = norm(64, plain)
        i = 64
        for stage, (width, n) in enumerate(zip([64, 128, 256, 512], stages), 1):
            blocks = nn.Sequential()
            for j in range(n):
                blocks.append(Block(i, width, 2 if stage > 1 and j == 0 else 1, bottleneck, plain))
                i = 4 * width if bottleneck else width
            setattr(self, "layer%d" % stage, blocks)
        self.fc = nn.Linear(i, classes)

    def forward(self, x, keep):
        if self.plain:
            x = keep("conv1", relu(self.conv1(x), self.imagenet))
        else:
            x = keep("conv1", self.conv1(x))
            x = keep("bn1", relu(self.bn1(x), self.imagenet))
        if self.imagenet:
            x = keep("maxpool", max_pool(x, 3, 2, 1))
        for i in range(1, 5):
            for j, block in enumerate(getattr(self, "layer%d" % i)):
                x = block(x, keep, "layer%d.%d." % (i, j))
        x = keep("avgpool", x.mean((2, 3)))
        return keep("fc", self.fc(x))


def build(case):
    if case["model"] in ("cnn", "cnn3d"):
        return {"cnn": CNN, "cnn3d": CNN3d}[case["model"]](case["in"][2], case["classes"])
    imagenet = case.get("stem", "imagenet" if max(case["in"][:2]) > 64 else "cifar") == "imagenet"
    model = ResNet(case["model"], case["in"][2], case["classes"], imagenet, case.get("plain", False))
    check_names(case["model"], model)
    return model


def check_names(name, model):
    """The parameters are named as torchvision's, in its order."""
    try:
        import torchvision
    except ImportError:
        print("no torchvision: the names of", name, "are not compared with its")
        return
    theirs = getattr(torchvision.models, name)().state_dict()
    theirs = [n for n in theirs if not (model.plain and (".bn" in n or n.startswith("bn") or "downsample.1" in n))]
    ours = [n for n in model.state_dict() if not (model.plain and n.endswith("bias") and n != "fc.bias")]
    assert ours == theirs, (ours, theirs)


def initialise(model, seed):
    """nn.NewState's weights; batch norms then get weights that are not 1 and 0.

    Their biases are 2 to 3 in size, so that few values lie near a ReLU's corner:
    a value that rounds to the other side of zero changes a gradient by its whole
    self, and would be no error of anybody's. A plain network's convolutions get such
    biases too, and those that begin as zeros weights that are not.
    """
    plain = getattr(model, "plain", False)
    blocks = sum(isinstance(m, Block) for m in model.modules())
    r = Random(seed)
    for name, p in model.named_parameters():
        if p.dim() > 1:
            gain, fan = 1.0, float(np.prod(p.shape[1:]))
            if plain and p.dim() > 2:
                block = model.get_submodule(name.rsplit(".", 2)[0]) if name.startswith("layer") else None
                gain = np.sqrt(6.0)
                if isinstance(block, Block):
                    if is_last(block, name):
                        gain = 0
                    else:
                        gain *= float(blocks) ** (-1 / (2 * block.last - 2))
            if gain == 0:
                continue
            bound = gain / np.sqrt(fan)
        elif is_norm(model, name) or plain and name != "fc.bias":
            continue
        # else: bias of the convolution or linear layer before it
        v = uniform(r, p.numel(), bound)
        p.data = torch.from_numpy(v.reshape(p.shape)).to(p.dtype)
    r = Random(seed + 1)
    for name, p in model.named_parameters():
        if plain and name.startswith("layer") and p.dim() == 4 and is_last(model.get_submodule(name.rsplit(".", 2)[0]), name):
            v = uniform(r, p.numel(), 1 / np.sqrt(float(np.prod(p.shape[1:]))))
        elif is_norm(model, name) or plain and p.dim() == 1 and name != "fc.bias":
            v = uniform(r, p.numel(), 0.25, 1)
            if name.endswith("bias"):
                v = np.where(r.floats(p.numel()) < 0.5, 2, -2).astype(np.float32) * v
        else:
            continue
        p.data = torch.from_numpy(v.reshape(p.shape)).to(p.dtype)


def is_last(block, name):
    return isinstance(block, Block) and name.endswith("conv%d.weight" % block.last)


def is_norm(model, name):
    return isinstance(model.get_submodule(name.rsplit(".", 1)[0]), nn.BatchNorm2d)


def batch(case, index):
    """Samples NCHW (clips NCTHW) and labels: a fixed pattern for each class, plus noise."""
    h, w, c = case["in"]
    t = case.get("frames", 0)
    h *= t or 1
    n, classes = case["batch"], case["classes"]
    templates = uniform(Random(77), classes * h * w * c, 1.0).reshape(classes, h, w, c)
    r = Random(1000 + index)
    labels = (r.floats(n) * classes).astype(np.int64)
    noise = uniform(r, n * h * w * c, 1.0).reshape(n, h, w, c)
    x = (np.float32(0.5) * templates[labels] + noise).astype(np.float32)
    if t:
        return torch.from_numpy(x.reshape(n, t, h // t, w, c)).permute(0, 4, 1, 2, 3), labels
    return torch.from_numpy(x).permute(0, 3, 1, 2), labels


def fingerprint(name, a, noisy, keep):
    a = a.detach().double().numpy()
    b = noisy.detach().double().numpy()
    if a.ndim > 3 and name.startswith("forward:"):
        a, b = np.moveaxis(a, 1, -1), np.moveaxis(b, 1, -1)
    shape = list(a.shape)
    a, b = a.ravel(), b.ravel()
    with np.errstate(over="ignore"):
        bits = mix(np.arange(1, a.size + 1, dtype=np.uint64) * np.uint64(GOLDEN))
    projections = []
    for j in range(keep):
        sign = 1 - 2 * ((bits >> np.uint64(j)) & np.uint64(1)).astype(np.float64)
        projections.append(float("%.9g" % sign.dot(a)))
    step = max(1, a.size // SAMPLES - 1) | 1  # odd, so that it visits all channels
    norm = float(np.linalg.norm(a))
    return {
        "name": name.split(":", 1)[1],
        "shape": shape,
        "norm": float("%.9g" % norm),
        "f32": float("%.2g" % (np.linalg.norm(a - b) / norm)),
        "projections": projections,
        "samples": [float("%.8g" % v) for v in a[::step][:keep]],
    }


def make(case, dtype):
    torch.set_default_dtype(dtype)
    model = build(case)
    initialise(model, case["seed"])
    model.train()
    return model


def step(model, opt, case, index, dtype, keep=lambda name, x: x, bf16=False):
    x, labels = batch(case, index)
    x = x.to(dtype)
    labels = torch.from_numpy(labels)
    opt.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        out = model(x, keep)
        loss = F.cross_entropy(out, labels)
    loss.backward()
    opt.step()
    return loss.item(), int((out.argmax(1) == labels).sum())


def optimizer(model, case):
    return torch.optim.SGD(model.parameters(), case["lr"], momentum=0.9, weight_decay=5e-4)


def one_step(case, dtype):
    model = make(case, dtype)
    opt = optimizer(model, case)
    tensors = {}

    def keep(name, x):
        tensors["forward:" + name] = x
        return x

    loss, hits = step(model, opt, case, 0, dtype, keep)
    for name, p in model.named_parameters():
        tensors["grads:" + name] = p.grad.clone()
        tensors["weights:" + name] = p.clone()
    for name, b in model.named_buffers():
        if not name.endswith("num_batches_tracked"):
            tensors["stats:" + name] = b.clone()
    model.eval()
    with torch.no_grad():
        x, labels = batch(case, 1)
        out = model(x.to(dtype), lambda name, x: x)
        eval_loss = F.cross_entropy(out, torch.from_numpy(labels)).item()
        tensors["eval:logits"] = out
    return tensors, loss, hits, eval_loss


def losses(case, dtype, bf16=False):
    case = dict(case, batch=case["train_batch"], lr=case["train_lr"])
    model = make(case, dtype)
    opt = optimizer(model, case)
    return [step(model, opt, case, i, dtype, bf16=bf16)[0] for i in range(20)]


def corners(case):
    model = make(case, torch.float64)
    Corners.least = np.inf
    x, _ = batch(case, 0)
    with torch.no_grad():
        model(x.double(), lambda name, x: x)
    least, Corners.least = Corners.least, None
    return least


def search():
    """Prints the seeds whose first batch stays furthest from corners, of the cases asked for."""
    for case in chosen(sys.argv[2:]):
        case.update(classes=10)
        best = sorted((-corners(dict(case, seed=s)), s) for s in range(1, 101))[:3]
        print(case["case"], " ".join("%d: %.1e" % (s, -d) for d, s in best), flush=True)


# The seeds are those that search found.
CASES = [
    {"case": "cnn", "model": "cnn", "in": [32, 32, 3], "batch": 4, "lr": 0.05, "seed": 66,
     "train_batch": 16, "train_lr": 0.05},
    {"case": "resnet18", "model": "resnet18", "in": [32, 32, 3], "batch": 4, "lr": 0.02, "seed": 41,
     "train_batch": 8, "train_lr": 0.001},
    {"case": "resnet18-imagenet", "model": "resnet18", "in": [72, 72, 3], "batch": 2, "lr": 0.02, "seed": 34,
     "train_batch": 8, "train_lr": 0.001},
    {"case": "resnet18-plain", "model": "resnet18", "plain": True, "in": [16, 16, 3], "batch": 2, "lr": 0.001, "seed": 1,
     "train_batch": 8, "train_lr": 0.001, "keep": 8},
    {"case": "cnn3d", "model": "cnn3d", "in": [8, 8, 3], "frames": 5, "batch": 2, "lr": 0.05, "seed": 84,
     "train_batch": 8, "train_lr": 0.05, "keep": 8},
    {"case": "resnet34", "model": "resnet34", "in": [16, 16, 3], "batch": 2, "lr": 0.02, "seed": 77,
     "train_batch": 8, "train_lr": 0.0001, "keep": 4},
    {"case": "resnet50", "model": "resnet50", "stem": "imagenet", "in": [40, 40, 3], "batch": 2, "lr": 0.02, "seed": 52,
     "train_batch": 8, "train_lr": 0.0001, "keep": 8},
]


def chosen(names):
    return [c for c in CASES if not names or c["case"] in names]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    for case in chosen(sys.argv[1:]):
        case.update(classes=10, torch=torch.__version__.split("+")[0])
        case["corner"] = float("%.2g" % corners(case))
        t64, loss, hits, eval_loss = one_step(case, torch.float64)
        t32, loss32, _, _ = one_step(case, torch.float32)
        out: dict = dict(case, loss=loss, hits=hits, eval_loss=eval_loss)
        for group in ["forward", "grads", "weights", "stats", "eval"]:
            names = [n for n in t64 if n.startswith(group + ":")]
            out[group] = [fingerprint(n, t64[n], t32[n], case.get("keep", KEEP)) for n in names]
            worst = max(out[group], key=lambda f: f["f32"]) if out[group] else None
            if worst:
                print(case["case"], group, len(names), "float32 off by at most", worst["f32"], worst["name"])
        out["losses"] = losses(case, torch.float64)
        out["losses_f32"] = losses(case, torch.float32)
        out["losses_bf16"] = losses(case, torch.float32, bf16=True)
        print(case["case"], "losses", " ".join("%.5f" % v for v in out["losses"]))
        print(case["case"], "float32 ", " ".join("%.0e" % abs(b / a - 1) for a, b in zip(out["losses"], out["losses_f32"])))
        path = os.path.join(here, case["case"] + ".json")
        with open(path, "w") as f:
            text = json.dumps(out, separators=(",", ":"))
            f.write(text.replace('{"name"', '\n{"name"') + "\n")
        print(path, os.path.getsize(path))


if __name__ == "__main__":
    search() if sys.argv[1:2] == ["--search"] else main()
