"""gpustall attach, as a user does it: attach.py GPUSTALL [--quick]. Each training ends as the same one without."""

import contextlib
import fcntl
import glob
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import checks
from checks import check

TRAIN = """\
import hashlib, os, sys, threading, time
kind, epochs = sys.argv[1], int(sys.argv[2])
if sys.version_info >= (3, 14): __import__("multiprocessing").set_start_method("fork")  # a script without a guard
if kind == "importing": print("begun", flush=True)
import torch
import torch._dynamo
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __len__(self): return 80
    def __getitem__(self, i):
        time.sleep(0.004)
        return torch.full((8,), float(i)) + torch.randn(8), i % 4

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.1), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
workers = 0 if kind == "alone" else 2
made = lambda: DataLoader(Samples(), batch_size=4, shuffle=True, num_workers=workers, persistent_workers=kind == "persistent")
loader, steps = made(), 0
if kind != "importing": print("begun", flush=True)
for epoch in range(epochs):
    for x, y in (made() if kind == "anew" else loader):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        steps += 1
        if kind == "asleep" and steps % 40 == 0: time.sleep(2)
        if kind == "in C" and steps % 10 == 0: "a" * 10 in sorted(range(10 ** 6), key=float)
time.sleep(1)  # for threads of queues that end
ours = [m for m in sys.modules if m.startswith("gpustall")] + [p for p in sys.path if "gpustall" in p]
text = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print(hashlib.sha256(text).hexdigest(), steps, threading.active_count(), len(os.listdir("/proc/self/fd")), ours, flush=True)
"""

KINDS = ("workers", "alone", "persistent", "anew", "asleep", "in C", "importing")


def left():
    """Folders of which the gpustall has ended."""
    out = set()
    for path in glob.glob("/tmp/gpustall-torch-*/owner") + glob.glob("/dev/shm/gpustall-torch-*/owner"):
        with contextlib.suppress(OSError), open(path) as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            out.add(path)
    return out


def train(folder, kind, attach=None):
    """Output and exit code of a training, and what attach returned, which is called with its process id."""
    command = [sys.executable, "-W", "ignore", os.path.join(folder, "train.py"), kind, "40" if kind == "persistent" else "16"]  # it outlasts the watching
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert p.stdout is not None
    p.stdout.readline()
    got = attach(p.pid) if attach else ("", 0)
    text = p.communicate(timeout=120)[0]
    return (p.returncode, text), got


def attached(gpustall, kind, wait, watch):
    """Attaches after some seconds, and leaves after some more. Returns what gpustall said."""
    def attach(pid):
        time.sleep(wait)
        p = subprocess.Popen([gpustall, "attach", "--plain", "--interval", "1", str(pid)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(watch)
        p.send_signal(signal.SIGINT)
        return p.communicate(timeout=60)[0], p.returncode

    return attach


def main():
    gpustall, quick = os.path.abspath(sys.argv[1]), "--quick" in sys.argv
    folder = tempfile.mkdtemp()
    os.environ["XDG_STATE_HOME"] = folder
    with open(os.path.join(folder, "train.py"), "w") as f:
        f.write(TRAIN)
    before = left()
    kinds = os.environ.get("KINDS", "").split(",") if "KINDS" in os.environ else KINDS[:1] if quick else KINDS
    for kind in kinds:
        bare, _ = train(folder, kind)
        tries = 1 if quick else int(os.environ.get("TRIES", "3"))
        same, seen, said = [], 0, []
        for _ in range(tries):
            wait = random.uniform(0, 4 if kind == "importing" else 1)
            end, (text, code) = train(folder, kind, attached(gpustall, kind, wait, random.uniform(1.5, 3)))
            same.append(end == bare)
            found = re.search(r"(\d[\d,]*) steps", text)
            seen += bool(found)
            said.append((end, code, text))
        check("%s: %d of %d end as without, to the bit and to the last file" % (kind, sum(same), tries), all(same), bare, *[s for s in said if s[0] != bare])
        check("%s: steps were seen in %d of %d" % (kind, seen, tries), kind == "importing" or seen, said)
    check("no folder is left", not left() - before, left() - before)
    sys.exit(checks.failed > 0)


main()
