#!/usr/bin/env python3
"""PyTorch's side of the GPU check: the same ResNet-18 in its CIFAR form.

    python3 torch_peer.py --mode probe|matmul|eager|compile|reduce-overhead|end-to-end [--workers N]

Prints a JSON object on one line after each case; the last has all of them. A case
that fails has an "error" and no numbers; the others are still measured. --device cpu --quick tries the script
itself on a machine without a GPU.
"""
import argparse
import json
import statistics
import sys
import time


def say(v):
    sys.stdout.write(json.dumps(v) + "\n")
    sys.stdout.flush()


def answer(a, rows):
    """What there is so far: a case that hangs or is killed costs itself alone."""
    say({"device": a.device, "rows": rows})


def probe(a):
    out = {"version": "", "cuda": "", "cudnn": 0, "device": "", "usable": False}
    try:
        import torch
    except Exception as e:  # a broken installation is as good as none
        out["why"] = "PyTorch cannot be imported: %s" % e
        return out
    out["version"], out["cuda"] = torch.__version__, torch.version.cuda or ""
    if a.device == "cpu":
        out["device"], out["usable"] = "cpu", True
        return out
    if not torch.cuda.is_available():
        out["why"] = "PyTorch %s sees no GPU" % torch.__version__
        return out
    out["cudnn"] = torch.backends.cudnn.version() or 0
    out["device"], out["usable"] = torch.cuda.get_device_name(0), True
    return out


def resnet18(classes=10):
    """ResNet-18 for 32x32 pictures: a 3x3 stem of stride 1 and no max-pool
    (He et al., "Deep residual learning", 2015, with the usual CIFAR stem)."""
    import torch.nn as nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self, i, o, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(o)
            self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(o)
            self.down = None
            if stride != 1 or i != o:
                self.down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

        def forward(self, x):
            y = F.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            return F.relu(y + (x if self.down is None else self.down(x)))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
            blocks, i = [], 64
            for o, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
                blocks += [Block(i, o, stride), Block(o, o, 1)]
                i = o
            self.blocks = nn.Sequential(*blocks)
            self.fc = nn.Linear(512, classes)

        def forward(self, x):
            x = self.blocks(F.relu(self.bn1(self.conv1(x))))
            return self.fc(x.mean((2, 3)))

    return Net()


def sgd(a, model):
    """SGD in one kernel where this PyTorch has it, else its default."""
    import torch
    args = dict(lr=0.02, momentum=0.9, weight_decay=5e-4)
    try:
        return torch.optim.SGD(model.parameters(), fused=a.device == "cuda", **args), "fused"
    except (TypeError, RuntimeError):  # before PyTorch 2.3
        return torch.optim.SGD(model.parameters(), **args), "default"


def trainer(a, case, row):
    """Returns a function that enqueues one AMP bf16 channels_last training step."""
    import torch
    import torch.nn.functional as F

    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    model = resnet18().to(a.device).to(memory_format=torch.channels_last)
    opt, row["optimizer"] = sgd(a, model)
    net, begin = model, lambda: None
    if case in ("compile", "reduce-overhead"):
        # Each batch size has shapes of its own. Without this the second one is
        # compiled for any size, and is slower for it.
        torch._dynamo.reset()
        if case == "compile":
            net = torch.compile(model, dynamic=False)
        else:  # CUDA graphs, whose memory each step uses again
            net = torch.compile(model, dynamic=False, mode="reduce-overhead")
            begin = getattr(getattr(torch, "compiler", None), "cudagraph_mark_step_begin", begin)

    def step(x, y):
        begin()
        opt.zero_grad(set_to_none=True)
        with torch.autocast(a.device, dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


def sync(a):
    import torch
    if a.device == "cuda":
        torch.cuda.synchronize()


def rounds(a, step, seconds):
    """Seconds of one step, median over rounds of ten without waits between."""
    n = 1 if a.quick else 10
    for _ in range(1 if a.quick else 10):
        step()
    sync(a)
    times, begin = [], time.perf_counter()
    while len(times) < (1 if a.quick else 3) or time.perf_counter() - begin < seconds:
        at = time.perf_counter()
        for _ in range(n):
            step()
        sync(a)
        times.append((time.perf_counter() - at) / n)
        if a.quick:
            break
    return statistics.median(times), n * len(times)


def peak(a):
    import torch
    return torch.cuda.max_memory_allocated() if a.device == "cuda" else 0


def train(a, case):
    import torch
    rows = []
    for batch in ([4] if a.quick else [128, 1024]):
        row = {"case": case, "type": "bf16", "batch": batch}
        try:
            if a.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            step = trainer(a, case, row)
            side = 8 if a.quick else 32
            x = torch.randn(batch, 3, side, side, device=a.device).to(memory_format=torch.channels_last)
            y = torch.randint(0, 10, (batch,), device=a.device)
            t, n = rounds(a, lambda: step(x, y), 3)
            row.update(steps=n, step_ms=1e3 * t, samples_per_s=batch / t, peak_memory_bytes=peak(a))
        except Exception as e:
            row["error"] = "%s: %s" % (type(e).__name__, (str(e).strip().splitlines() or [""])[0])
        rows.append(row)
        answer(a, rows)


def matmul(a):
    """The ceiling: a large matrix product by the vendor's library."""
    import torch
    rows = []
    size = 64 if a.quick else 8192
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("tf32", torch.float32), ("fp32", torch.float32)):
        if name == "fp16" and a.device == "cpu":
            continue  # PyTorch has none there
        row = {"case": "matmul", "type": name, "size": size}
        try:
            torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
            x = torch.randn(size, size, device=a.device, dtype=dtype)
            y = torch.randn(size, size, device=a.device, dtype=dtype)
            out = torch.empty(size, size, device=a.device, dtype=dtype)
            t, n = rounds(a, lambda: torch.mm(x, y, out=out), 1)
            row.update(steps=n, step_ms=1e3 * t, tflops=2 * size ** 3 / t / 1e12)
        except Exception as e:
            row["error"] = "%s: %s" % (type(e).__name__, (str(e).strip().splitlines() or [""])[0])
        rows.append(row)
        answer(a, rows)


def make_dataset(n):
    """uint8 pictures in memory; each sample is cropped, flipped and normalised by
    itself, as a training script does it."""
    import numpy as np
    import torch

    class Pictures(torch.utils.data.Dataset):
        def __init__(self):
            rng = np.random.default_rng(1)
            self.x = rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)
            self.y = rng.integers(0, 10, n)
            self.mean = np.array([0.4914, 0.4822, 0.4465], np.float32)
            self.scale = 1 / np.array([0.2470, 0.2435, 0.2616], np.float32)

        def __len__(self):
            return n

        def __getitem__(self, i):
            dy, dx, flip = (int(v) for v in torch.randint(0, 18, (3,)))
            picture = np.pad(self.x[i], ((4, 4), (4, 4), (0, 0)))[dy // 2:dy // 2 + 32, dx // 2:dx // 2 + 32]
            if flip % 2:
                picture = picture[:, ::-1]
            f = (picture.astype(np.float32) * (1 / 255) - self.mean) * self.scale
            return torch.from_numpy(np.ascontiguousarray(f.transpose(2, 0, 1))), int(self.y[i])

    return Pictures()


def end_to_end(a):
    import torch
    batch = 4 if a.quick else 128
    row = {"case": "end-to-end", "type": "bf16", "batch": batch, "workers": a.workers}
    try:
        data = torch.utils.data.DataLoader(
            make_dataset(16 if a.quick else 50000), batch_size=batch, shuffle=True, drop_last=True,
            num_workers=0 if a.quick else a.workers, pin_memory=a.device == "cuda", persistent_workers=not a.quick)
        step, steps, begin, warm = trainer(a, "eager", row), 0, None, 1 if a.quick else 20
        while begin is None or time.perf_counter() - begin < (0 if a.quick else 8):
            for x, y in data:
                x = x.to(a.device, non_blocking=True).to(memory_format=torch.channels_last)
                step(x, y.to(a.device, non_blocking=True))
                steps += 1
                if steps == warm:
                    sync(a)
                    begin = time.perf_counter()
                elif begin is not None and time.perf_counter() - begin > 8:
                    break
        sync(a)
        t = (time.perf_counter() - begin) / (steps - warm)
        row.update(steps=steps - warm, step_ms=1e3 * t, samples_per_s=batch / t)
    except Exception as e:
        row["error"] = "%s: %s" % (type(e).__name__, (str(e).strip().splitlines() or [""])[0])
    answer(a, [row])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--mode", required=True, choices=["probe", "matmul", "eager", "compile", "reduce-overhead", "end-to-end"])
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--quick", action="store_true")
    a = p.parse_args()
    if a.mode == "probe":
        say(probe(a))
        return
    if a.mode in ("compile", "reduce-overhead"):
        import torch
        if not hasattr(torch, "compile"):
            say({"rows": [], "skipped": "PyTorch %s has no torch.compile" % torch.__version__})
            return
    if a.mode == "matmul":
        matmul(a)
    elif a.mode == "end-to-end":
        end_to_end(a)
    else:
        train(a, a.mode)


if __name__ == "__main__":
    main()
