#!/usr/bin/env python3
"""Times training steps on the CPU beside PyTorch's, in turns, in one run.

    python bench/peers/train.py [--rounds 2] [--threads 2] [--seconds 10] [--modes eager,channels_last,compile] [--types fp32,bf16] [CASE ...]

Ours is BenchmarkTrain of engine/train/nn, PyTorch's testdata/nn/bench_torch.py: the same model,
batch and optimizer (SGD with momentum), one batch in memory, in float32 and in bf16, which is
autocast in PyTorch. CASE is model/side/batch; a clip of cnn3d has 16 frames. Each round times
ours and each of PyTorch's modes once in each type, one after the other. The ratio is ours over
PyTorch's best mode, by the best step of all rounds, and in brackets by medians. The load that
is printed shows what else the machine was doing.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODES = {"eager": [], "channels_last": ["--channels-last"], "compile": ["--compile"]}


def ours(binary, case, a, typ):
    name, side, batch = case.split("/")
    pattern = "BenchmarkTrain/%s/%sx%s/batch=%s$" % (name, side, side, batch)
    flags = ["-test.benchtime", "%gs" % a.seconds, "-threads", str(a.threads), "-bf16=%s" % ("true" if typ == "bf16" else "false")]
    out = subprocess.run([binary, "-test.run", "^$", "-test.bench", pattern, *flags],
                         capture_output=True, text=True, check=True, cwd=os.path.join(ROOT, "engine", "train", "nn")).stdout
    found = {k: float(v) for v, k in re.findall(r"([\d.]+) images/s\((\w+)\)", out)}
    if not found:
        sys.exit("no benchmark of that name: " + pattern)
    return found["median"], found["best"]


def torchs(mode, case, a, typ):
    script = os.path.join(ROOT, "testdata", "nn", "bench_torch.py")
    flags = ["--threads", str(a.threads), "--seconds", str(a.seconds), *MODES[mode], *(["--bf16"] if typ == "bf16" else [])]
    out = subprocess.run([sys.executable, script, *flags, case], capture_output=True, text=True)
    m = re.search(r"([\d.]+) images/s \(median of \d+\)  best ([\d.]+)", out.stdout)
    if not m:
        print("  %-14s %s failed: %s" % (mode, typ, out.stderr.strip().splitlines()[-1:]), flush=True)
        return None
    return float(m[1]), float(m[2])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--modes", default=",".join(MODES))
    p.add_argument("--types", default="fp32,bf16")
    p.add_argument("--load", help="unused: what the other scripts here time")
    p.add_argument("cases", nargs="*", default=["resnet18/32/128", "cnn/32/128", "resnet50/224/8", "cnn3d/64/4"])
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as d:
        binary = os.path.join(d, "nn.test")
        subprocess.run(["go", "test", "-c", "-o", binary, "./engine/train/nn"], check=True, cwd=ROOT)
        for case in a.cases:
            got = {}
            types = a.types.split(",")
            for _ in range(a.rounds):
                for typ in types:
                    for mode in ["gpustall", *a.modes.split(",")]:
                        r = ours(binary, case, a, typ) if mode == "gpustall" else torchs(mode, case, a, typ)
                        if r:
                            got.setdefault((typ, mode), []).append(r)
            print("%s, %d threads, %d rounds, load %s" % (case, a.threads, a.rounds, " ".join("%.1f" % v for v in os.getloadavg())))
            summed = {m: (statistics.median(v[0] for v in r), max(v[1] for v in r)) for m, r in got.items()}
            for typ in types:
                of = {m: v for (t, m), v in summed.items() if t == typ}
                for mode, (median, best) in of.items():
                    print("  %s %-14s %9.1f samples/s best, %9.1f median" % (typ, mode, best, median))
                us = of.pop("gpustall")
                if of:
                    print("  ratio in %s to PyTorch's best mode: %.2f (%.2f by medians)" % (typ, us[1] / max(v[1] for v in of.values()),
                                                                                 us[0] / max(v[0] for v in of.values())), flush=True)


if __name__ == "__main__":
    main()
