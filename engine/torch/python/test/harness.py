"""What the tests share: a folder in the place of gpustall's, with a page of knobs."""

import atexit
import mmap
import multiprocessing
import os
import shutil
import struct
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

if "GPUSTALL_TORCH" not in os.environ:
    os.environ["GPUSTALL_TORCH"] = tempfile.mkdtemp(prefix="gpustall-test-")
    _owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(FOLDER, ignore_errors=True) if os.getpid() == _owner else None)
    os.environ["PYTHONPATH"] = os.path.abspath(sys.path[0])
FOLDER = os.environ["GPUSTALL_TORCH"]
_path = os.path.join(FOLDER, "control")
if not os.path.exists(_path):
    with open(_path, "wb") as f:
        f.write(struct.pack("@14q", 0, -1, -1, -1, -1, -1, 0, os.getpid(), 0, 0, 0, 0, 0, -1).ljust(4096, b"\0"))
with open(_path, "r+b") as f:
    _words = memoryview(mmap.mmap(f.fileno(), 4096)).cast("q")

from gpustall import hook  # noqa: E402
from gpustall.control import NAMES  # noqa: E402

if __name__ != "__mp_main__":
    hook.begin()

# Where workers begin by a fork server, which from Python 3.14 on is the default, it imports PyTorch
# once. By itself it imports a script's main module, but not one that -m names, as unittest is.
multiprocessing.set_forkserver_preload(["torch"])


def ask(**knobs):
    """Asks for knobs as the screen does; None asks for nothing."""
    _words[0] += 1
    for name, value in knobs.items():
        _words[1 + NAMES.index(name)] = -1 if value is None else int(value)
    _words[0] += 1


def ask_nothing():
    ask(**dict.fromkeys(NAMES))


def forget():
    """Has nothing be known of loaders, as when a script begins: those of several tests may look alike."""
    from gpustall import loaders, process

    for known in (loaders._roles, loaders._learners, loaders._ahead, loaders._in_force, loaders._trained, loaders._at_most, loaders._probes, loaders._proven):
        known.clear()
    process.current().shown, process.current().learned, loaders._seen = None, 0, False
    process.current().anew = process.current().elsewhere = False
    process.current().apart = 0
    process._noted.clear()
    process.current().told.clear()


def until(so, seconds=120):
    """Waits until so. Where that comes true at all it does so much sooner, but a busy machine takes its time."""
    late = time.monotonic() + seconds
    while not so() and time.monotonic() < late:
        time.sleep(0.01)


def folder_files(prefix, folder=FOLDER):
    return [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.startswith(prefix)]


def spans(kind=None, folder=FOLDER, pid=""):
    """The spans in a folder's rings: those of one kind, and of one process, or all."""
    from gpustall import ring

    out = []
    for path in folder_files("ring-%s" % pid, folder):
        with open(path, "rb") as f:
            data = f.read()
        (count,) = struct.unpack_from("@Q", data, ring.COUNT)
        for i in range(max(0, count - ring.SLOTS), count):
            for s in _apart(data, ring.HEADER + ring.SLOT.size * (i % ring.SLOTS)):
                if kind is None or s[10] == kind:
                    out.append(dict(zip(("start", "end", "core", "waiting", "iteration", "round", "batch", "step", "sample", "arg", "kind", "_", "flags"), s)))
    return out


def _apart(data, at):
    """A record; those that a BRIEF stands for."""
    from gpustall import ring

    s = ring.SLOT.unpack_from(data, at)
    if s[10] != ring.BRIEF:
        return [s]
    t, third, each, samples, body, wait, iteration, passage, batch, step, body2, wait2, _, many, flags, body3 = ring.BUNDLE.unpack_from(data, at)
    out = []
    for i, (spent, waited) in enumerate(((body, wait), (body2, wait2), (body3, third))[:many]):
        out.append((t, t + spent, -1, -1, iteration, passage, batch + i - 1, step + i - 1, -1, 0, ring.BODY, 0, flags | ring.FINAL))
        asked, t = t + spent, t + spent + waited
        out.append((asked, t, samples - each * (many - 1 - i), -1, iteration, passage, batch + i, step + i, -1, each, ring.NEXT, 0, flags))
    return out


def messages(kind=None, folder=FOLDER):
    import json

    out = []
    for path in folder_files("messages-", folder):
        with open(path) as f:
            out += [json.loads(line) for line in f]
    return [m for m in out if kind is None or m["type"] == kind]


def keep(path, folder=FOLDER):
    """Keeps what was written for gpustall, as the bridge's tests read it."""
    with tarfile.open(path, "w:gz") as tar:
        for name in folder_files("ring-", folder) + folder_files("messages-", folder):
            tar.add(name, os.path.basename(name), filter=lambda t: t.replace(uid=0, gid=0, uname="", gname="", mtime=0, deep=False))
