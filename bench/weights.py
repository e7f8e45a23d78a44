#!/usr/bin/env python3
"""Weights to and from PyTorch, through safetensors' own package.

    python bench/weights.py --gpustall bin/gpustall

torchvision's resnet18 is written with the package, and gpustall starts from it
(--init), also with another number of classes. What gpustall writes (--save, and
a checkpoint) is read with the package and loaded by load_state_dict, strictly.
A run whose learning rate is practically 0 must return the same weights. Prints
a line for each check and exits with 1 if one fails.
"""

import argparse
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import torchvision
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

failed = False


def check(what, ok):
    global failed
    failed |= not ok
    print(f"{'ok' if ok else 'FAILED':7s} {what}")


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--gpustall", default="bin/gpustall")
    gpustall = os.path.abspath(args.parse_args().gpustall)
    with tempfile.TemporaryDirectory() as d:
        os.environ["XDG_STATE_HOME"] = os.path.join(d, "state")

        def run(*more):
            p = subprocess.run([gpustall, *more], cwd=d, capture_output=True, text=True)
            if p.returncode:
                print(p.stdout, p.stderr)
            return p

        run("data", "make", "imagefolder", "images", "--samples", "40")
        classes = sum(e.is_dir() for e in os.scandir(os.path.join(d, "images", "train")))
        torch.manual_seed(1)

        def resnet(n):
            m = torchvision.models.resnet18(num_classes=n)
            for name, t in m.state_dict().items():  # statistics that are not 0 and 1
                if "running" in name:
                    t.copy_(torch.rand_like(t) + 0.5)
            save_file(m.state_dict(), os.path.join(d, f"resnet18-{n}.safetensors"))
            return m

        train = ["run", "--device", "cpu", "--model", "resnet18", "--data", "images", "--batch-size", "4", "--steps", "1", "--lr", "1e-45"]
        m = resnet(classes)
        p = run(*train, "--init", f"resnet18-{classes}.safetensors", "--save", "out.safetensors", "--checkpoint", "kept")
        out = load_file(os.path.join(d, "out.safetensors"))
        check("gpustall takes torchvision's resnet18", p.returncode == 0)
        loaded = torchvision.models.resnet18(num_classes=classes).load_state_dict(out, strict=True)
        check("load_state_dict takes what gpustall writes, strictly", loaded is not None)
        same = [k for k, v in m.state_dict().items() if "running" not in k and "tracked" not in k and not torch.equal(v, out[k])]
        check(f"{len(out)} tensors: the weights are those that it began with, bit for bit {same[:3]}", not same)
        moved = [k for k, v in m.state_dict().items() if "running" in k and torch.equal(v, out[k])]
        check("one step moved the running statistics", not moved)
        check("and counted it", int(out["bn1.num_batches_tracked"]) == 1)
        p = run(*train, "--init", "out.safetensors", "--save", "again.safetensors")
        check("gpustall takes what it wrote", p.returncode == 0)
        resnet(1000)
        p = run(*train, "--init", "resnet18-1000.safetensors")
        check("a head for 1000 classes is left out, and that is said", f"is new: the file has 1000 classes, the data {classes}" in p.stderr)
        kept = [f for f in os.listdir(os.path.join(d, "kept"))]
        tensors = load_file(os.path.join(d, "kept", kept[0]))
        momentum = "optimizer.momentum_buffer.fc.weight" in tensors
        check("a checkpoint is a safetensors file too", torch.equal(tensors["fc.weight"], out["fc.weight"]) and momentum)
        half = {k: (v.half() if v.is_floating_point() else v) for k, v in m.state_dict().items()}
        save_file(half, os.path.join(d, "half.safetensors"))
        p = run(*train, "--init", "half.safetensors", "--save", "wide.safetensors")
        wide = load_file(os.path.join(d, "wide.safetensors"))
        check("float16 is widened exactly", p.returncode == 0 and torch.equal(wide["conv1.weight"], half["conv1.weight"].float()))
    sys.exit(failed)


if __name__ == "__main__":
    main()
