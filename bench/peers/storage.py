#!/usr/bin/env python3
"""Clips of float16, from small files and from tar shards, cold: milliseconds a batch of 32.

    bench/peers/storage.py [--rounds 5] [--load bin/load]

compares gpustall's loader (bench/peers/load) with Python that reads the same bytes, inline:
small files with numpy.load, shards with tarfile, one member after the other. Each ends in
a batch of 32-bit floats. Before each measurement the files are dropped from the page
cache, but not from caches below it (a hypervisor's, a disk's).
"""
import argparse
import io
import json
import os
import tarfile
import tempfile
import time

import rounds

SHAPE, SAMPLES, BATCH, SHARDS = (3, 8, 56, 56), 1024, 32, 4  # 150 kB a clip


def make(root):
    import numpy as np

    rng = np.random.default_rng(1)
    for name in ("files", "shards"):
        os.makedirs(os.path.join(root, name))
    for s in range(SHARDS):
        with tarfile.open(os.path.join(root, "shards", f"{s:06}.tar"), "w", format=tarfile.USTAR_FORMAT) as tar:
            for i in range(s * SAMPLES // SHARDS, (s + 1) * SAMPLES // SHARDS):
                out = io.BytesIO()
                np.save(out, rng.standard_normal(SHAPE).astype(np.float16))
                folder = os.path.join(root, "files", f"class{i % 4}")
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, f"{i:06}.npy"), "wb") as f:
                    f.write(out.getvalue())
                for ext, b in ((".npy", out.getvalue()), (".cls", str(i % 4).encode())):
                    member = tarfile.TarInfo(f"{i:06}{ext}")
                    member.size = len(b)
                    tar.addfile(member, io.BytesIO(b))


def forget(root):
    for d, _, names in os.walk(root):
        for name in names:
            fd = os.open(os.path.join(d, name), os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def peer(root):
    """Runs in a process of its own."""
    import numpy as np
    import torch

    torch.set_num_threads(1)

    def files():
        for d, _, names in sorted(os.walk(root)):
            for name in sorted(names):
                yield np.load(os.path.join(d, name))

    def shards():
        for name in sorted(os.listdir(root)):
            with tarfile.open(os.path.join(root, name), "r|") as tar:
                for member in tar:
                    if member.name.endswith(".npy"):
                        yield np.load(io.BytesIO(tar.extractfile(member).read()))

    samples, batch, start = 0, [], time.perf_counter()
    for clip in shards() if os.path.basename(root) == "shards" else files():
        batch.append(torch.from_numpy(clip))
        if len(batch) == BATCH:
            samples += len(torch.stack(batch).float())
            batch = []
    print(json.dumps({"samples": samples, "seconds": time.perf_counter() - start}))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    rounds.arguments(p)
    a = p.parse_args()
    if a.peer:
        peer(a.data)
        return
    try:
        import numpy
        import torch
    except ImportError as e:
        print(f"skipped: storage against numpy and tarfile ({e})")
        return
    with tempfile.TemporaryDirectory(dir=a.data) as scratch:
        make(scratch)
        load = rounds.loads(a, scratch)
        rounds.title(f"torch {torch.__version__}, numpy {numpy.__version__}; {SAMPLES} clips of {'x'.join(map(str, SHAPE))} float16; {a.rounds} rounds")
        for form in ("files", "shards"):
            root = os.path.join(scratch, form)

            def measure(k):
                forget(root)
                if k == "ours":
                    command = [load[k], "--data", root, "--batch", str(BATCH), "--batches", str(SAMPLES // BATCH), "--shuffle=false"]
                else:
                    command = [*rounds.itself(__file__), "--peer", k, "--data", root]
                out = rounds.run(command, 1)
                return 1000 * out["seconds"] * BATCH / out["samples"]

            rounds.compare(f"{form}, cold, inline, a batch of {BATCH}", {"python": "numpy, tarfile", "ours": "gpustall"}, measure, a.rounds, " ms")


if __name__ == "__main__":
    main()
