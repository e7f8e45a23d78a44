"""Distributed trainings under several gpustalls, as a user starts them: fleet.py GPUSTALL [--quick].

Real torchrun launchers and single ranks with gloo, on this machine: each launcher stands for a machine. One
rank loads slowly. Slurm, Ray, Lightning and accelerate over several machines are not in it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

LATE = 2  # the rank that loads slowly

AUG = """\
import time
def blur(x, seconds):
    time.sleep(seconds)
    return x + 1
"""

TRAIN = """\
import os, sys, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler
import aug

class Samples(Dataset):
    def __len__(self): return 4 * int(sys.argv[1]) * int(os.environ["WORLD_SIZE"])
    def __getitem__(self, i): return aug.blur(torch.ones(64), 0.025 if rank == %d else 0.001), i %% 4

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = Samples()
for n, (x, y) in enumerate(DataLoader(data, batch_size=4, sampler=DistributedSampler(data), num_workers=1)):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    if n == 5:
        open("begun%%d" %% rank, "w").close()
print(rank, [p.double().sum().item().hex() for p in model.parameters()], flush=True)
dist.destroy_process_group()
""" % LATE

failed = 0


def check(what, so, *shown):
    global failed
    print("%s  %s" % ("ok    " if so else "FAILED", what), flush=True)
    if not so:
        failed += 1
        for text in shown:
            print(text)


class Job:
    """A training of four ranks in a folder of its own."""

    def __init__(self, gpustall, port, steps):
        self.folder = tempfile.TemporaryDirectory()
        self.dir, self.gpustall, self.port, self.steps = self.folder.name, gpustall, port, steps
        for name, text in (("aug.py", AUG), ("train.py", TRAIN)):
            with open(os.path.join(self.dir, name), "w") as f:
                f.write(text)

    def start(self, watch, command, **env):
        if watch:
            command = [self.gpustall, "torch", "--json", "--", *command]
        env = dict(os.environ, XDG_STATE_HOME=self.dir, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", **env)
        return subprocess.Popen(command, cwd=self.dir, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def ranks(self, watch=True):
        """One process a rank, as srun starts them."""
        script = [sys.executable, "-W", "ignore", "train.py", str(self.steps)]
        env = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port), WORLD_SIZE="4", LOCAL_WORLD_SIZE="4")
        return [self.start(watch, script, RANK=str(rank), LOCAL_RANK=str(rank), **env) for rank in range(4)]

    def nodes(self, watch=True):
        """Two launchers of two ranks each."""
        run = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
        run += ["--master-addr", "127.0.0.1", "--master-port", str(self.port)]
        return [self.start(watch, [*run, "--node-rank", str(node), "train.py", str(self.steps)]) for node in range(2)]

    def report(self):
        sessions = os.path.join(self.dir, "gpustall", "sessions")
        done = subprocess.run([self.gpustall, "report", sessions], capture_output=True, text=True)
        return " ".join(done.stdout.split()) + done.stderr

    def logs(self):
        """What the ranks printed, under gpustall."""
        sessions = os.path.join(self.dir, "gpustall", "sessions")
        text = ""
        for name in sorted(os.listdir(sessions)):
            if name.endswith(".log"):
                with open(os.path.join(sessions, name)) as f:
                    text += f.read()
        return results(text)


def results(text):
    return sorted(line for line in text.splitlines() if line[:2] in ("0 ", "1 ", "2 ", "3 "))


def ended(processes, limit=180):
    """Exit codes and outputs."""
    out = []
    for p in processes:
        try:
            text = p.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            text = p.communicate()
        out.append((p.returncode, *text))
    return out


def summary(text):
    return json.loads(text.strip().splitlines()[-1])


def two_nodes(gpustall, port):
    job = Job(gpustall, port, 80)
    out = ended(job.nodes())
    check("two launchers end with 0", [code for code, *_ in out] == [0, 0], *[err for _, _, err in out])
    if any(code for code, *_ in out):
        return
    first, second = (summary(text) for _, text, _ in out)
    text = json.dumps(first)
    check("the node that waits is communication-bound", first["verdict"] == "communication-bound", first["verdict"])
    check("and names the rank of the other node, and the line that it waits for", "for rank %d" % LATE in text and "aug.py:3" in text, text)
    check("the node of the slow rank is input-bound", second["verdict"] == "input-bound", second["verdict"])
    text = job.report()
    check("the report of both sessions names the rank", "The others wait for rank %d" % LATE in text and "aug.py:3" in text, text)
    check("all four ranks have the same weights", len({line[2:] for line in job.logs()}) == 1 and len(job.logs()) == 4, job.logs())


def one_each(gpustall, port):
    bare = Job(gpustall, port, 100)
    plain = ended(bare.ranks(watch=False))
    job = Job(gpustall, port + 1, 100)
    out = ended(job.ranks())
    check("four ranks end as without gpustall", [code for code, *_ in out] == [code for code, *_ in plain] == [0] * 4, out)
    check("and with the same weights, to the bit", job.logs() == results("".join(text for _, text, _ in plain)), job.logs(), plain)
    text = job.report()
    check("the report names the rank and its line", "The others wait for rank %d" % LATE in text and "aug.py:3" in text, text)
    check("and misses no rank", "No session tells" not in text, text)


def killed(gpustall, port, tries):
    """Rank 0, which has the store, is killed: the others end as they do without gpustall."""
    codes = {}
    for watch in (False, True):
        codes[watch] = []
        for n in range(tries):
            job = Job(gpustall, port + 2 * n + watch, 600)
            processes = job.ranks(watch)
            begun = time.monotonic()
            while len([f for f in os.listdir(job.dir) if f.startswith("begun")]) < 4 and time.monotonic() - begun < 90:
                time.sleep(0.1)
            time.sleep(1.5)  # rows are exchanged by now
            victim = processes[0].pid
            if watch:
                children = subprocess.run(["pgrep", "-P", str(victim)], capture_output=True, text=True).stdout.split()
                victim = int(children[0])
            os.kill(victim, signal.SIGKILL)
            out = ended(processes, 90)
            codes[watch].append([abs(code) for code, *_ in out[1:]])
    check("ranks end alike after the rank with the store was killed (%d times)" % tries, codes[True] == codes[False], codes)


def main():
    gpustall, quick = os.path.abspath(sys.argv[1]), "--quick" in sys.argv
    port = 20000 + os.getpid() % 20000
    two_nodes(gpustall, port)
    if not quick:
        one_each(gpustall, port + 10)
        killed(gpustall, port + 20, int(os.environ.get("TRIES", "3")))
    sys.exit(failed > 0)


main()
