#!/usr/bin/env python3
"""Writes schedules.json: the learning rate and momentum that PyTorch's schedulers give.

    python make_schedules.py             # needs PyTorch
"""
import json
import os
import warnings

import torch
from torch.optim import lr_scheduler as s

warnings.simplefilter("ignore")
LR, EPOCHS, PER_EPOCH = 0.2, 5, 8
TOTAL = EPOCHS * PER_EPOCH


def onecycle(o, **more):
    return s.OneCycleLR(o, total_steps=TOTAL, **more)


def cosine(o, warmup, low):
    down = s.CosineAnnealingLR(o, T_max=TOTAL - warmup, eta_min=low)
    if not warmup:
        return down
    up = s.LinearLR(o, start_factor=1 / warmup, total_iters=warmup - 1)
    return s.SequentialLR(o, [up, down], [warmup])


# The text that --schedule takes, the scheduler, and what it steps by.
CASES = [
    ("constant", lambda o: s.ConstantLR(o, factor=1.0), "update"),
    ("step,step_size=2,gamma=0.5", lambda o: s.StepLR(o, 2, 0.5), "epoch"),
    ("cosine", lambda o: cosine(o, 0, 0), "update"),
    ("cosine,warmup=6,min_lr=0.01", lambda o: cosine(o, 6, 0.01), "update"),
    ("onecycle,max_lr=0.1", lambda o: onecycle(o, max_lr=0.1), "update"),
    ("onecycle,max_lr=0.5,pct_start=0.2,div_factor=10,final_div_factor=100,base_momentum=0.8,max_momentum=0.9",
     lambda o: onecycle(o, max_lr=0.5, pct_start=0.2, div_factor=10, final_div_factor=100, base_momentum=0.8, max_momentum=0.9), "update"),
]


def run(make, by):
    o = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR, momentum=0.9)
    scheduler = make(o)
    out = []
    for _ in range(EPOCHS):
        for _ in range(PER_EPOCH):
            g = o.param_groups[0]
            out.append([float("%.9g" % g["lr"]), float("%.9g" % g["momentum"])])
            o.step()
            if by == "update" and len(out) < TOTAL:
                scheduler.step()
        if by == "epoch":
            scheduler.step()
    return out


def main():
    out = {"torch": torch.__version__.split("+")[0], "lr": LR, "momentum": 0.9, "epochs": EPOCHS, "per_epoch": PER_EPOCH,
           "runs": [{"schedule": text, "values": run(make, by)} for text, make, by in CASES]}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schedules.json")
    with open(path, "w") as f:
        f.write(json.dumps(out, separators=(",", ":")).replace('{"schedule"', '\n{"schedule"') + "\n")
    print(os.path.getsize(path))


if __name__ == "__main__":
    main()
