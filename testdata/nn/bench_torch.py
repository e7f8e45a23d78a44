#!/usr/bin/env python3
"""Times PyTorch's training step, for comparison with BenchmarkTrain of package nn.

    python bench_torch.py [--threads 2] [--seconds 10] [CASE ...]

The models are make_goldens.py's; a step is forward, backward and SGD with
momentum on one batch in memory. Prints the median and the best. CASE is e.g. cnn/32/128:
model, side of the image, batch size. --channels-last uses PyTorch's NHWC, --bf16 its
autocast to bfloat16.
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from make_goldens import build


def measure(case, seconds, channels_last, compiled=False, bf16=False):
    name, side, batch = case.split("/")
    side, batch = int(side), int(batch)
    model = build({"model": name, "in": [side, side, 3], "classes": 10})
    layout = torch.channels_last if channels_last else torch.contiguous_format
    if name != "cnn3d":
        model = model.to(memory_format=layout)
    if name == "cnn3d":
        layout = torch.channels_last_3d if channels_last else torch.contiguous_format
        model = model.to(memory_format=layout)
        x = torch.randn(batch, 3, 16, side, side).contiguous(memory_format=layout)
    else:
        x = torch.randn(batch, 3, side, side).contiguous(memory_format=layout)
    y = torch.randint(0, 10, (batch,))
    opt = torch.optim.SGD(model.parameters(), 0.001, momentum=0.9, weight_decay=5e-4)

    def keep(name, v):
        return v

    run = torch.compile(lambda x: model(x, keep)) if compiled else lambda x: model(x, keep)
    times = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < seconds:
        t = time.perf_counter()
        opt.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = F.cross_entropy(run(x), y)
        loss.backward()
        opt.step()
        loss.item()
        times.append(time.perf_counter() - t)
    median = statistics.median(times[1:])
    how = ("NHWC" if channels_last else "NCHW") + (" compiled" if compiled else "") + (" bf16" if bf16 else "")
    print("%-18s %s %8.1f ms  %8.1f images/s (median of %d)  best %.1f"
          % (case, how, 1e3 * median, batch / median, len(times) - 1, batch / min(times[1:])), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--channels-last", action="store_true")
    p.add_argument("--compile", action="store_true", help="torch.compile the model")
    p.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    p.add_argument("cases", nargs="*", default=["cnn/32/128", "resnet18/32/128", "cnn/224/16", "resnet18/224/16"])
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    print("PyTorch", torch.__version__, "with", a.threads, "threads")
    for case in a.cases:
        measure(case, a.seconds, a.channels_last, a.compile, a.bf16)


if __name__ == "__main__":
    main()
