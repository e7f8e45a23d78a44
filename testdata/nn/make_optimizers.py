#!/usr/bin/env python3
"""Writes optimizers.json and devicetest/rules.json: what PyTorch's optimizers do in 50 steps.

optimizers.json: to a small cnn. Its gradients are rounded, and a rule that divides by
their size turns a gradient of rounding errors alone into a step of full length. So the
adaptive ones have an eps that is large beside rounding errors.

devicetest/rules.json: to 67 weights whose gradients follow from them, with PyTorch's defaults too.

    python make_optimizers.py            # needs numpy and PyTorch

Weights and batches are make_goldens.py's; results are computed in float64. "f32" is how
far PyTorch's own float32 run ends from it: the noise to expect.
"""
import json
import os

import torch
from make_goldens import CNN, KEEP, Random, fingerprint, initialise, step, uniform

STEPS = 50
CASE = {"model": "cnn", "in": [8, 8, 3], "batch": 8, "classes": 10, "seed": 5}
# As --optimizer takes them. Settings that are not named are PyTorch's defaults.
OPTIMIZERS = [
    "sgd,lr=0.05,weight_decay=0.01",
    "momentum,lr=0.02,momentum=0.8,weight_decay=0.01",
    "nesterov,lr=0.02,weight_decay=0.01",
    "adagrad,lr=0.02,lr_decay=0.05,weight_decay=0.01,eps=0.01",
    "adadelta,lr=0.5,rho=0.8,weight_decay=0.01,eps=0.001",
    "adam,lr=0.003,beta1=0.8,beta2=0.99,weight_decay=0.01,eps=0.01",
    "adamw,lr=0.01,weight_decay=0.5,eps=0.01,decay=weights",
]
RULES = OPTIMIZERS + ["sgd", "momentum", "nesterov", "adagrad", "adadelta", "adam", "adamw"]
ELEMENTS = 67


def groups(model, decay, weights_only):
    if not weights_only:
        return model.parameters()
    params = list(model.parameters())
    return [
        {"params": [p for p in params if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in params if p.dim() == 1], "weight_decay": 0.0},
    ]


def optimizer(model, text):
    name, *words = text.split(",")
    o = dict(w.split("=") for w in words)
    only = o.pop("decay", "all") == "weights"
    o: dict = {k: float(v) for k, v in o.items()}
    if name in ("sgd", "momentum", "nesterov"):
        make = torch.optim.SGD
        if name != "sgd":
            o.setdefault("momentum", 0.9)
        o["nesterov"] = name == "nesterov"
    else:
        make = {"adagrad": torch.optim.Adagrad, "adadelta": torch.optim.Adadelta,
                "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    if "beta1" in o or "beta2" in o:
        o["betas"] = (o.pop("beta1", 0.9), o.pop("beta2", 0.999))
    return make(groups(model, o.get("weight_decay", 0.0), only), **o)


def train(text, dtype):
    torch.set_default_dtype(dtype)
    model = CNN(CASE["in"][2], CASE["classes"])
    initialise(model, CASE["seed"])
    model.train()
    opt = optimizer(model, text)
    losses = [step(model, opt, CASE, i, dtype)[0] for i in range(STEPS)]
    return losses, dict(model.named_parameters())


def rules():
    """Weights and targets are uniform in [-1,1); the gradient is w - target, plus noise."""
    torch.set_default_dtype(torch.float64)
    runs = []
    for text in RULES:
        if "decay=weights" in text:
            continue
        w = torch.nn.Parameter(torch.from_numpy(uniform(Random(1), ELEMENTS, 1.0)).double())
        target = torch.from_numpy(uniform(Random(2), ELEMENTS, 1.0)).double()
        model = torch.nn.Module()
        model.w = w
        opt = optimizer(model, text)
        for i in range(STEPS):
            noise = torch.from_numpy(uniform(Random(100 + i), ELEMENTS, 0.5)).double()
            w.grad = (w.detach() - target) + noise
            opt.step()
        group = {k: v for k, v in opt.param_groups[0].items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
        if "betas" in opt.param_groups[0]:
            group["beta1"], group["beta2"] = opt.param_groups[0]["betas"]
        runs.append({"rule": text.split(",")[0], "settings": {k: float(v) for k, v in sorted(group.items())},
                     "weights": [float("%.9g" % v) for v in w.detach()]})
    return dict(steps=STEPS, torch=torch.__version__.split("+")[0], runs=runs)


def write(name, out):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    path = os.path.relpath(os.path.normpath(path))
    with open(path, "w") as f:
        text = json.dumps(out, separators=(",", ":"))
        for key in ("name", "optimizer", "rule"):
            text = text.replace('{"%s"' % key, '\n{"%s"' % key)
        f.write(text + "\n")
    print(path, os.path.getsize(path))


def main():
    out = dict(CASE, torch=torch.__version__.split("+")[0], runs=[])
    torch.set_default_dtype(torch.float64)
    start = CNN(CASE["in"][2], CASE["classes"])
    initialise(start, CASE["seed"])
    for text in OPTIMIZERS:
        losses, weights = train(text, torch.float64)
        noisy_losses, noisy = train(text, torch.float32)
        prints = [fingerprint("weights:" + n, weights[n], noisy[n], KEEP) for n in ("conv1.weight", "conv1.bias", "fc.weight")]
        worst = max(abs(b / a - 1) for a, b in zip(losses, noisy_losses))
        print("%-55s loss %.4f -> %.4f; float32 off by %.0e, weights by %s"
              % (text, losses[0], losses[-1], worst, " ".join("%.0e" % f["f32"] for f in prints)))
        before = dict(start.named_parameters())
        for p in prints:
            p["moved"] = float("%.3g" % ((weights[p["name"]] - before[p["name"]]).detach().norm() / weights[p["name"]].detach().norm()))
        out["runs"].append({"optimizer": text, "losses": [float("%.8g" % v) for v in losses], "weights": prints})
    write("optimizers.json", out)
    write("../../engine/device/devicetest/rules.json", rules())


if __name__ == "__main__":
    main()
