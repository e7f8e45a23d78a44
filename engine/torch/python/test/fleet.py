"""Distributed trainings under several gpustalls, as a user starts them: fleet.py GPUSTALL [--quick].

Real torchrun launchers and single ranks with gloo, on this machine: each launcher stands for a machine. One
rank loads slowly. Slurm, Ray, Lightning and accelerate over several machines are not in it.
"""

import concurrent.futures
import contextlib
import csv
import glob
import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import checks
from checks import check

LATE = 2  # the rank that loads slowly

AUG = """\
import time
def blur(x, seconds):
    time.sleep(seconds)
    return x + 1
"""

TRAIN = """\
import os, sys, time, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler
import aug

class Samples(Dataset):
    def __len__(self): return 4 * int(sys.argv[1]) * int(os.environ["WORLD_SIZE"]) * (100 if alone else 1)
    def __getitem__(self, i): return aug.blur(torch.ones(64) * i, 0.025 if rank == %d else 0.001), i

alone = "joins" in sys.argv and os.environ["WORLD_SIZE"] == "1"  # until another node joins
store = {}
if "raises" in sys.argv:  # a store for each round: gloo finds ended ranks in the launcher's
    store = dict(init_method="file://" + os.path.abspath("store" + os.environ["TORCHELASTIC_RESTART_COUNT"]), rank=int(os.environ["RANK"]), world_size=4)
dist.init_process_group("gloo", **store)
rank = dist.get_rank()
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = Samples()
seen = []
for n, (x, y) in enumerate(DataLoader(data, batch_size=4, sampler=DistributedSampler(data), num_workers=1)):
    seen += y.tolist()
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x / 1000), y %% 4).backward()
    optimizer.step()
    if "raises" in sys.argv and rank == 1 and n == 30 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise RuntimeError("of the first round")
    if "halts" in sys.argv and rank == %d and n == 30: time.sleep(20)
    if n == 5:
        with open("begun%%d" %% rank, "w") as f: f.write(str(os.getpid()))
with open("seen%%d" %% rank, "w") as f: f.write(" ".join(map(str, seen)))
line = "%%d %%s\\n" %% (rank, [p.double().sum().item().hex() for p in model.parameters()])
print(line, end="", flush=True)  # at once: under python -u other ranks' lines come between the parts of one
if "first" in sys.argv and rank > 0:  # rank 0, which has the store, ends first
    for x, y in DataLoader(data, batch_size=4, sampler=range(160), num_workers=1): pass
dist.destroy_process_group()
""" % (LATE, LATE)

SWEPT = """\
import os, sys, time, torch
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __len__(self): return 4000
    def __getitem__(self, i):
        time.sleep(0.01)
        return torch.ones(64) * i, i % 4

os.makedirs("runs/" + sys.argv[2])
model = torch.nn.Linear(64, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(Samples(), batch_size=int(sys.argv[1])):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""

RAY = """\
import sys, time, numpy as np, ray, ray.train, torch
from ray.train.torch import TorchTrainer, prepare_model

def slow(batch):
    time.sleep(0.05)
    n = len(batch["id"])
    return {"x": np.ones((n, 64), dtype="float32"), "y": np.ones(n, dtype="int64")}

def train(config):
    torch.manual_seed(0)
    model = prepare_model(torch.nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        for batch in ray.train.get_dataset_shard("train").iter_torch_batches(batch_size=4):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch["x"]), batch["y"]).backward()
            optimizer.step()
    with open("%s/seen%d" % (config["folder"], ray.train.get_context().get_world_rank()), "w") as f:
        f.write(" ".join(p.double().sum().item().hex() for p in model.parameters()))

ray.init(num_cpus=4, include_dashboard=False, object_store_memory=200_000_000, logging_level="error")
data = ray.data.range(400).map_batches(slow, batch_size=4)
run = ray.train.RunConfig(storage_path=sys.argv[1], worker_runtime_env={"py_executable": sys.argv[2]} if sys.argv[2:] else {})
workers = ray.train.ScalingConfig(num_workers=2)
TorchTrainer(train, train_loop_config={"folder": sys.argv[1]}, scaling_config=workers, datasets={"train": data}, run_config=run).fit()
"""

class Job:
    """A training of four ranks in a folder of its own."""

    def __init__(self, gpustall, port, steps):
        self.folder = tempfile.TemporaryDirectory()
        self.dir, self.gpustall, self.port, self.steps = self.folder.name, gpustall, port, steps
        self.cable: Any = None  # a Cable between two network namespaces
        self.more = []
        for name, text in (("aug.py", AUG), ("train.py", TRAIN)):
            with open(os.path.join(self.dir, name), "w") as f:
                f.write(text)

    def start(self, watch, node, command, **env):
        if watch:
            command = [self.gpustall, "torch", "--json", "--", *command]
        if self.cable:
            command = ["ip", "netns", "exec", self.cable.names[node], *command]
        env = dict(os.environ, XDG_STATE_HOME=self.dir, GLOO_SOCKET_IFNAME=self.cable.dev if self.cable else "lo", OMP_NUM_THREADS="1", **env)
        return subprocess.Popen(command, cwd=self.dir, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def ranks(self, watch=True):
        """One process a rank, as srun starts them."""
        script = [sys.executable, "-W", "ignore", "train.py", str(self.steps), *self.more]
        env = dict(MASTER_ADDR=self.address(), MASTER_PORT=str(self.port), WORLD_SIZE="4", LOCAL_WORLD_SIZE="4")
        return [self.start(watch, rank // 2, script, RANK=str(rank), LOCAL_RANK=str(rank), **env) for rank in range(4)]

    def address(self):
        return "10.77.0.1" if self.cable else "127.0.0.1"

    def launcher(self, node):
        run = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
        run += ["--master-addr", self.address(), "--master-port", str(self.port), "--node-rank", str(node)]
        return [*run, "train.py", str(self.steps), *self.more]

    def nodes(self, watch=True):
        """Two launchers of two ranks each."""
        return [self.start(watch, node, self.launcher(node)) for node in range(2)]

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
    return sorted(re.findall(r"[0-3] \['[^]]*'\]", text))  # two ranks may write one line


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


def halted(gpustall, port):
    """A rank of the other node stops, and all others wait for it."""
    job = Job(gpustall, port, 40)
    job.more = ["halts"]
    out = ended(job.nodes())
    check("launchers whose ranks all waited end with 0", [code for code, *_ in out] == [0, 0], *out)
    late = [re.search(r"no step for [^\n]*rank %d( on [^ ]*)?, which is at train.py" % LATE, text + err) for _, text, err in out]
    check("both nodes say for which rank, and where it is", all(late), *out)


def restarted(gpustall, port):
    """A rank raises, and torchrun starts all of them anew."""
    ends = []
    run = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "--max-restarts", "2"]
    for watch in (False, True):
        job = Job(gpustall, port, 80)
        out = ended([job.start(watch, 0, [*run, "train.py", "80", "raises"])])
        ends.append((out[0][0], job.logs() if watch else results(out[0][1])))
    check("ranks that are started anew end as without gpustall, with the same weights", ends[0] == ends[1] and ends[0][0] == 0, *ends)
    told = summary(out[0][1])
    check("the session has both rounds", told["steps"] > 100, told["steps"])
    text = json.dumps(told)
    check("and names the late rank of the second, with its line",
          "for rank %d" % LATE in text and "aug.py:3" in text and told["segment_table"][-1]["reason"] == "restart", told)
    check("nothing is left beside its stores", not glob.glob(os.path.join(job.dir, "*.gpustall")), os.listdir(job.dir))
    check("each rank is in it, with both rounds", [r["rank"] for r in told["ranks"] if r["steps"] > 90] == [0, 1, 2, 3], told["ranks"])


def joined(gpustall, port):
    """A node joins a training of one rank, and torchrun starts both ranks anew."""
    ends = []
    for watch in (False, True):
        job = Job(gpustall, port + watch, 600)
        job.more = ["joins"]
        run = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "2"]
        run += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:%d" % job.port, "--rdzv-id", "joins", "--local-addr", "127.0.0.1"]

        def node(n, job=job, run=run, watch=watch):
            conf = "is_host=%s,last_call_timeout=4" % (n == 0)
            return job.start(watch, n, [*run, "--rdzv-conf", conf, "train.py", "600", *job.more], TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")

        first = node(0)
        becomes(lambda job=job: os.path.exists(os.path.join(job.dir, "begun0")), 60)
        out = ended([first, node(1)])
        ends.append(([code for code, *_ in out], job.logs() if watch else results("".join(text for _, text, _ in out))))
    check("a node that joins ends as without gpustall, with the same weights", ends[0] == ends[1] and ends[0][0] == [0, 0] and len(ends[0][1]) == 2, *ends)
    told = [summary(text) for _, text, _ in out]
    check("the session of the first goes on with the second rank", told[0]["segment_table"][-1]["reason"] == "restart", told[0])
    check("both sessions have both ranks", all([r["rank"] for r in t["ranks"]] == [0, 1] for t in told), *told)


def workers(pid):
    """How many processes a rank has, which are its workers."""
    found = 0
    for path in glob.glob("/proc/%s/task/*/children" % pid):
        with contextlib.suppress(OSError), open(path) as f:
            found += len(f.read().split())
    return found


class Screen:
    """A terminal in which a launcher runs."""

    def __init__(self, job, name, node):
        self.tmux = ["tmux", "-L", "fleet-%d-%s" % (job.port, name)]
        run = "XDG_STATE_HOME=%s GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 %s torch -- %s" % (job.dir, job.gpustall, " ".join(job.launcher(node)))
        self.did("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "36", "-c", job.dir, "%s; echo ended $?; sleep 60" % run)

    def did(self, *args):
        return subprocess.run([*self.tmux, *args], capture_output=True, text=True).stdout

    def shows(self, *texts):
        screen = " ".join(self.did("capture-pane", "-p").replace("│", " ").split())
        return all(text in screen for text in texts)


def becomes(so, limit):
    """Waits until so() holds. Returns the seconds that it took; None after the limit."""
    begun = time.monotonic()
    while time.monotonic() - begun < limit:
        if so():
            return time.monotonic() - begun
        time.sleep(0.05)
    return None


def on_screen(gpustall, port):
    """Two nodes, each with a screen: who is late, and a knob by its keys."""
    steps = 600
    bare = Job(gpustall, port, steps)
    plain = ended(bare.nodes(watch=False))
    job = Job(gpustall, port + 1, steps)
    screens = [Screen(job, str(node), node) for node in range(2)]
    try:
        begun = [os.path.join(job.dir, "begun%d" % rank) for rank in range(4)]
        becomes(lambda: all(map(os.path.exists, begun)), 60)
        # The other node says for whom it waits, and the late one's own what it waits for.
        first = becomes(lambda: screens[0].shows("rank %d" % LATE, "aug.py:3"), 40)
        second = becomes(lambda: screens[1].shows("INPUT-BOUND", "aug.py:3"), 40)
        took = None if first is None or second is None else first + second
        check("both screens name the late rank and its line within 20 s of the 6th step: %s s" % took, took is not None and took < 20,
              *[s.did("capture-pane", "-p") for s in screens])
        pids = [open(path).read() for path in begun]
        for keys in ("2", "i", "4", "Enter", "Enter"):
            screens[0].did("send-keys", keys)
        took = becomes(lambda: all(workers(pid) == 4 for pid in pids), 30)
        check("all four ranks have 4 workers within 2 s of the key: %s s" % took, took is not None and took < 2,
              screens[0].did("capture-pane", "-p"), list(map(workers, pids)))
        becomes(lambda: all(os.path.exists(os.path.join(job.dir, "seen%d" % rank)) for rank in range(4)), 120)
        becomes(lambda: all(s.shows("FINISHED") for s in screens), 30)
        for s in screens:
            s.did("send-keys", "q")
        becomes(lambda: all(s.shows("ended 0") for s in screens), 30)
        check("both end with 0", all(s.shows("ended 0") for s in screens), *[s.did("capture-pane", "-p") for s in screens])
        seen = [open(os.path.join(d, "seen%d" % rank)).read() for d in (job.dir, bare.dir) for rank in range(4)]
        check("each rank had the same samples in the same order as without gpustall", seen[:4] == seen[4:])
        got = sorted(int(i) for text in seen[:4] for i in text.split())
        check("every sample came once", got == list(range(4 * steps * 4)))
        check("the weights are the same, to the bit", job.logs() == results("".join(text for _, text, _ in plain)), job.logs(), plain)
    finally:
        for s in screens:
            s.did("kill-server")


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


class Cable:
    """Two network namespaces, and the cable between them."""

    def __init__(self, port):
        self.names, self.dev = ["gpustall-%d-%d" % (port, n) for n in range(2)], "cable"

    def __enter__(self):
        for name in self.names:
            self.ip("netns", "add", name)
        self.ip("link", "add", self.dev, "netns", self.names[0], "type", "veth", "peer", "name", self.dev, "netns", self.names[1])
        for n, name in enumerate(self.names):
            self.ip("-n", name, "addr", "add", "10.77.0.%d/24" % (n + 1), "dev", self.dev)
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "link", "set", self.dev, "up")
        return self

    def plugged(self, into):
        self.ip("-n", self.names[1], "link", "set", self.dev, "up" if into else "down")

    def __exit__(self, *_):
        for name in self.names:
            self.ip("netns", "del", name)

    @staticmethod
    def ip(*args):
        subprocess.run(["ip", *args], check=True)


KILLED, STOPPED, DROPPED, LEFT = "a rank is killed", "the store stops for 10 s", "the network drops for 10 s", "the store ends before the ranks"


def upset(job, kind, form, n):
    """Disturbs a job once all its ranks train."""
    begun = [os.path.join(job.dir, "begun%d" % rank) for rank in range(4)]
    if becomes(lambda: all(os.path.exists(path) and os.path.getsize(path) for path in begun), 120) is None:
        return
    time.sleep(random.uniform(0, 3))
    pids = [int(open(path).read()) for path in begun]
    launchers = [int(open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[1]) for pid in pids]
    store = launchers[0] if form == "nodes" else pids[0]
    if kind == DROPPED:
        job.cable.plugged(False)
        time.sleep(10)
        job.cable.plugged(True)
    elif kind == STOPPED:
        os.kill(store, signal.SIGSTOP)
        time.sleep(10)
        os.kill(store, signal.SIGCONT)
    elif kind == KILLED:
        os.kill(pids[n % 4], signal.SIGKILL)
    elif form == "nodes":  # else rank 0 ends first by itself
        os.kill(store, signal.SIGKILL)
        becomes(lambda: len(glob.glob(os.path.join(job.dir, "seen*"))) == 4, 60)  # the ranks outlive it
        time.sleep(1)
        os.kill(launchers[2], signal.SIGKILL)  # it would wait for the first one


def disturbed(gpustall, port, kind, form, n, watch):
    """One try. Returns how it ended: exit codes, the kinds of errors, and results."""
    with contextlib.ExitStack() as stack:
        job = Job(gpustall, port, 50)
        if kind == DROPPED:
            job.cable = stack.enter_context(Cable(port))
        job.more = ["first"] if kind == LEFT and form == "ranks" else []
        processes = getattr(job, form)(watch)
        upset(job, kind, form, n)
        out = ended(processes, 90)
        said = "".join(a + b for _, a, b in out)
        for path in glob.glob(os.path.join(job.dir, "gpustall", "sessions", "*.log")) if watch else ():
            with open(path) as f:
                said += f.read()
        errors = set(re.findall(r"^(?:\[rank\d\]: ?)?([\w.]*(?:Error|Exception|Interrupt))\b", said, re.MULTILINE))
        return [code if code >= 0 else 128 - code for code, *_ in out], sorted(errors), results(said), said[-4000:]


def tried(gpustall, port, kind, form, tries):
    """Whether a disturbed training ends as it does without gpustall, each time."""
    if kind == DROPPED and subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode:
        print("skipped: %s; no network namespace can be made here" % kind)
        return
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        bare = list(pool.map(lambda n: disturbed(gpustall, port + 2 * n, kind, form, n, False), range(4)))
        seen = list(pool.map(lambda n: disturbed(gpustall, port + 2 * n, kind, form, n, True), range(tries)))
    like = [[bare[n % 4][:3]] if kind == KILLED else [b[:3] for b in bare] for n in range(tries)]  # each time another rank is killed
    other = [(got, like[n]) for n, got in enumerate(seen) if got[:3] not in like[n]]
    check("%s, one gpustall for each of the %s: %d of %d end as without, %s" % (kind, form, tries - len(other), tries, bare[0][:2]), not other, *other)


def swept(gpustall):
    """A sweep of a command: by a knob that is set live and by the command's own arguments."""
    job = Job(gpustall, 0, 2000)
    script = os.path.join(job.dir, "one.py")
    with open(script, "w") as f:
        f.write(SWEPT)
    args = ["sweep", "--knob", "num_workers=0,3", "--knob", "batch=2,4", "--steps", "60", "--warmup", "5", "--out", "out", "--"]
    (code, out, err), = ended([job.start(False, 0, [gpustall, *args, sys.executable, "-W", "ignore", script, "{batch}", "{run}"])])
    with open(os.path.join(job.dir, "out", "results.csv")) as f:
        rows = {(row["set_num_workers"], row["set_batch"]): row for row in csv.DictReader(f)}
    check("a command is swept", code == 0 and len(rows) == 4 and all(float(r["samples_per_s"]) > 0 for r in rows.values()), out, err, rows)
    faster = [float(rows["3", batch]["samples_per_s"]) > 1.5 * float(rows["0", batch]["samples_per_s"]) for batch in ("2", "4")]
    check("workers that were set live load faster", faster == [True, True], rows)
    names = sorted(os.listdir(os.path.join(job.dir, "runs")))
    check("each run had its own arguments", len(names) == 4 and sum("batch=2" in n for n in names) == 2, names)


def rayed(gpustall):
    """Ray Train with two workers and Ray Data: under one gpustall, and with one for each worker."""
    if importlib.util.find_spec("ray") is None:
        print("skipped: this Python has no Ray", flush=True)
        return
    seen, jobs = [], []
    for watch, each in (False, ""), (True, ""), (False, gpustall + " torch --json -- " + sys.executable):
        job = Job(gpustall, 0, 0)
        script = os.path.join(job.dir, "ray_train.py")
        with open(script, "w") as f:
            f.write(RAY)
        command = [sys.executable, "-W", "ignore", script, job.dir, *([each] if each else [])]
        jobs.append((job, ended([job.start(watch, 0, command, RAY_TMPDIR=job.dir)])[0]))
        seen.append([open(path).read() for path in sorted(glob.glob(os.path.join(job.dir, "seen*")))])
    check("Ray Train ends as without gpustall", [out[0] for _, out in jobs] == [0] * 3, *jobs)
    check("and with the same weights, to the bit", len(seen[0]) == 2 and seen[0] == seen[1] == seen[2], *seen)
    s = summary(jobs[1][1][1])
    check("batches of Ray Data are watched", s["steps"] == 100 and s["data_wait_s"] > 0.3 * s["wall_s"], s)
    each = glob.glob(os.path.join(jobs[2][0].dir, "gpustall", "sessions", "*.gpustall"))
    check("a gpustall for each worker has a session for each", len(each) == 2, each)


def main():
    gpustall, quick = os.path.abspath(sys.argv[1]), "--quick" in sys.argv
    port = 20000 + os.getpid() % 20000
    two_nodes(gpustall, port)
    swept(gpustall)
    if not quick:
        rayed(gpustall)
        on_screen(gpustall, port + 4)
        one_each(gpustall, port + 10)
        restarted(gpustall, port + 14)
        halted(gpustall, port + 17)
        joined(gpustall, port + 18)
        tries = int(os.environ.get("TRIES", "3"))
        for n, kind in enumerate((KILLED, STOPPED, DROPPED, LEFT)):
            tried(gpustall, port + 100 * n + 20, kind, "nodes", tries)
            tried(gpustall, port + 100 * n + 60, kind, "ranks", tries)
    sys.exit(checks.failed > 0)


main()
