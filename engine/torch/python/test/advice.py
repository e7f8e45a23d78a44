"""Scores what gpustall advises for small PyTorch scripts whose trouble is known, because it was made.

    python advice.py --gpustall bin/gpustall                      the host as it is
    python advice.py --gpustall bin/gpustall --burners own        beside four burners in a session of their own
    python advice.py --gpustall bin/gpustall --burners same       beside four burners in the training's own session
    python advice.py --gpustall bin/gpustall --tune 45s           what a tune leaves, in place of advice

Each case runs until it was judged. Its verdict and advice are read while it runs, and a knob that is
advised is tried by an A/B test of gpustall's, which is the truth that the prediction is held
against. What is expected was written before the first run. What a tune leaves is held against the
settings at the start by the script alone, without gpustall, in turns. The table is markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import json
import math
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, NamedTuple


class Case(NamedTuple):
    """A script: what a sample, a batch and a step take, in ms, and what gpustall should say."""

    verdict: str  # classes that are right; | separates
    knob: str  # knobs that are right to advise; "-" is none
    says: str = ""  # words one of which the advice must have where no knob is advised
    wait: float = 0  # a sample waits so long
    work: float = 0  # a sample computes so long
    batch: int = 8
    batches: int = 400
    step: float = 0  # the step waits so long, as for a device
    compute: float = 0  # the step computes so long on a core
    special: str = ""  # what else there is, by name
    loader: dict = {}


def _workers(n, **more):
    return dict(num_workers=n, **more)


BUSY, DATA = "script-bound|device-bound", "input-bound|moderately input-bound"

CASES = {
    # What the loop loads by itself.
    "inline, reads wait": Case("input-bound", "num_workers", wait=2, step=10, loader=_workers(0)),
    "inline, transforms compute, the step waits": Case("input-bound", "num_workers", work=3, step=10, loader=_workers(0)),
    "inline, hidden by nothing, small": Case(BUSY + "|moderately input-bound", "-|num_workers", "nothing|wait", wait=0.1, step=40, loader=_workers(0)),
    "inline, short epochs": Case("input-bound", "num_workers|persistent_workers", wait=3, step=8, batches=24, loader=_workers(0)),
    # Workers that wait.
    "one worker, reads wait": Case("input-bound", "num_workers", wait=2, step=5, loader=_workers(1)),
    "four workers, reads wait long": Case("input-bound", "num_workers", wait=12, step=6, loader=_workers(4)),
    "sixteen workers that suffice": Case(BUSY, "-", "nothing|wait", wait=5, step=20, loader=_workers(16)),
    "an iterable data set, one worker": Case("input-bound", "num_workers", wait=2, step=5, special="iterable", loader=_workers(1)),
    "half waiting, half computing": Case("input-bound", "num_workers", wait=2, work=1, step=6, loader=_workers(2)),
    # Workers that compute.
    "one worker, transforms compute, the step waits": Case("input-bound", "num_workers", work=3, step=10, loader=_workers(1)),
    "a worker a core, transforms compute": Case("input-bound", "-|num_workers", "core|cheaper", work=3, step=4, loader=_workers(2)),
    "many workers a core, transforms compute": Case("input-bound", "-|num_workers", "core|cheaper", work=3, step=4, loader=_workers(12)),
    "slow collate, one worker": Case("input-bound", "num_workers", work=0.3, step=10, special="collate", loader=_workers(1)),
    "copies of memory, one worker": Case("input-bound", "num_workers|-", "core|memory|cheaper|copies", batch=4, step=4, special="memory", loader=_workers(1)),
    # Batches and workers that differ.
    "a straggler, in order": Case("input-bound", "in_order|num_workers", wait=0.5, step=4, special="straggler", loader=_workers(4)),
    "a slow sample now and then": Case("input-bound", "in_order|num_workers|prefetch_factor", wait=0.5, step=6, special="rare", loader=_workers(2)),
    "uneven batches, a short queue": Case(
        "input-bound", "prefetch_factor|num_workers|in_order", step=12, special="uneven", loader=_workers(2, prefetch_factor=1)
    ),
    "uneven batches that compute, one worker": Case("input-bound", "num_workers|prefetch_factor", step=12, special="uneven work", loader=_workers(1)),
    # Epochs.
    "short epochs, workers start anew": Case(DATA, "persistent_workers", wait=0.5, step=10, batches=24, loader=_workers(2)),
    "worker_init_fn sleeps": Case(DATA, "persistent_workers", wait=0.5, step=10, batches=60, special="init", loader=_workers(2)),
    # What no knob mends.
    "a lock that workers share": Case("input-bound", "-", "lock", step=4, special="lock", loader=_workers(2)),
    "a slow sampler": Case("input-bound", "-", "sampler", step=10, special="sampler", loader=_workers(2)),
    "an iterator a step": Case("input-bound", "-|persistent_workers", "iter", wait=0.5, step=10, special="iter", loader=_workers(2)),
    "validation, nearly half the time": Case(BUSY, "-", "validat|evaluat", wait=0.2, step=10, batches=60, special="validation", loader=_workers(2)),
    "a step that sleeps": Case(BUSY, "-", "nothing|wait", step=50, loader=_workers(0)),
    "a log that is synced each step": Case(BUSY, "-", "wait|log|fsync|line|advice.py", step=2, special="fsync", loader=_workers(1)),
    "metrics that compute": Case(BUSY, "-", "metric|advice.py", compute=3, special="metrics", loader=_workers(1)),
    # Nothing wrong.
    "the step computes, nothing wrong": Case(BUSY + "|host-bound", "-", "", wait=0.2, compute=30, loader=_workers(2)),
    "the step waits, nothing wrong": Case(BUSY, "-", "nothing|wait", wait=0.5, step=15, loader=_workers(2)),
    "cheap samples, workers cost more than they save": Case(BUSY + "|" + DATA, "-|num_workers", "", step=1, loader=_workers(4)),
}


# The script of a case.


def _spin(ms):
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        pass


def _script(c: Case, arguments: dict | None, seconds: float):
    """Trains without end, or for so long, and then prints its samples a second without the first quarter."""
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, get_worker_info

    torch.set_num_threads(1)
    if os.environ.get(BURNERS):
        subprocess.run(["sh", "-c", BURN, sys.executable, os.environ[BURNERS]], check=True)
    lock = multiprocessing.Lock()
    large = torch.zeros(6 << 20) if c.special == "memory" else None

    def sample(i):
        n, late = i // c.batch, 0.0
        if c.special == "straggler" and (w := get_worker_info()) is not None and w.id == 1:
            late = 8
        if c.special == "rare" and i % 256 == 7:
            late = 250
        if c.special.startswith("uneven"):
            late = 12 if n % 16 >= 12 else 0.3
        if c.special == "lock":
            with lock:
                time.sleep(0.0015)
        if c.special == "uneven work":
            _spin(late / 2)
        elif c.wait + late:
            time.sleep((c.wait + late) / 1e3)
        if c.work:
            _spin(c.work)
        return large.clone() + 1 if large is not None else torch.full((64,), float(i))

    class Data(Dataset):
        def __len__(self):
            return c.batch * c.batches

        def __getitem__(self, i):
            return sample(i)

    class Stream(IterableDataset):
        def __iter__(self):
            w = get_worker_info()
            first, step = (w.id, w.num_workers) if w else (0, 1)
            return (sample(i) for i in range(first, c.batch * c.batches, step))

    class Slow(Sampler):
        def __iter__(self):
            for i in range(c.batch * c.batches):
                _spin(2.5)
                yield i

        def __len__(self):
            return c.batch * c.batches

    def collate(samples):
        if c.special == "collate":
            _spin(20)
        return torch.stack(samples)

    def begin(_):
        time.sleep(1)

    data = Stream() if c.special == "iterable" else Data()
    more: dict[str, Any] = dict(c.loader if arguments is None else arguments)
    if c.special == "sampler":
        more["sampler"] = Slow()
    if c.special == "init":
        more["worker_init_fn"] = begin
    loader = DataLoader(data, batch_size=c.batch, collate_fn=collate, **more)
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)
    log = tempfile.TemporaryFile("w")

    ended: list[float] = []  # when each step did

    def rate():
        first = sum(t < ended[0] + seconds / 4 for t in ended)
        return c.batch * (len(ended) - first) / (ended[-1] - ended[first - 1])

    def train(x):
        ended.append(time.monotonic())
        if seconds and ended[-1] > ended[0] + seconds:
            print(rate())
            sys.exit()
        optimizer.zero_grad()
        model(x.reshape(-1)[:64]).sum().backward()
        if c.compute:
            _spin(c.compute)
        if c.step:
            time.sleep(c.step / 1e3)  # the device
        optimizer.step()
        if c.special == "fsync":
            log.write("step\n")
            log.flush()
            os.fsync(log.fileno())
            time.sleep(0.02)
        if c.special == "metrics":
            metrics(x)

    def metrics(x):
        _spin(15)

    def validate():
        with torch.no_grad():
            for i, x in enumerate(DataLoader(data, batch_size=c.batch, num_workers=2)):
                model(x.reshape(-1)[:64])
                time.sleep(0.008)
                if i == 50:
                    break

    while True:
        if c.special == "iter":
            train(next(iter(loader)))
            continue
        for x in loader:
            train(x)
        if c.special == "validation":
            validate()


# The runner.


class _Agent:
    """gpustall's server for programs."""

    def __init__(self, gpustall: str):
        p = self._p = subprocess.Popen([gpustall, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert p.stdin and p.stdout
        self._to, self._of = p.stdin, p.stdout
        self._ids = itertools.count(1)
        hello = dict(protocolVersion="2025-03-26", capabilities={}, clientInfo=dict(name="advice", version="1"))
        self._ask("initialize", hello)
        self._send(dict(jsonrpc="2.0", method="notifications/initialized"))

    def _send(self, message):
        self._to.write(json.dumps(message) + "\n")
        self._to.flush()

    def _ask(self, method, params):
        n = next(self._ids)
        self._send(dict(jsonrpc="2.0", id=n, method=method, params=params))
        for line in self._of:
            m = json.loads(line)
            if m.get("id") == n:
                return m["result"]
        raise EOFError("gpustall mcp ended")

    def call(self, tool: str, **arguments) -> Any:
        r = self._ask("tools/call", dict(name=tool, arguments=arguments))
        text = r["content"][0]["text"]
        if r.get("isError"):
            raise RuntimeError(text)
        return json.loads(text)

    def end(self):
        self._to.close()
        self._p.wait(10)


def _trial(gpustall: str, session: str, knob: str, value: str, most: float):
    """What an A/B test measured; one that is not certain after `most` seconds is broken off."""
    p = subprocess.Popen([gpustall, "try", session, f"{knob}={value}", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    timer = threading.Timer(most, p.send_signal, [signal.SIGTERM])
    timer.daemon = True
    timer.start()
    out, err = p.communicate()
    timer.cancel()
    lines = [x for x in out.splitlines() if x.startswith("{")]
    return json.loads(lines[-1]) if lines else dict(error=err.strip())


class Score(NamedTuple):
    name: str
    verdict: str
    verdict_right: bool
    advice: str
    mark: str  # "helps", "told", "no use", "wrong" or "harms"
    predicted: str
    measured: str
    inside: str  # "yes", "no", or empty where nothing was predicted or measured
    half_width: float
    load: float  # of the host when it began


def _ratio(trial: dict) -> float | None:
    """Of the rates of both sides, where there was too little time for an interval."""
    a, b = ((trial.get(k) or {}).get("samples_per_s") or 0 for k in ("side_a", "side_b"))
    return b / a if a and b else None


def _score(name: str, c: Case, s: dict, trial: dict, load: float) -> Score:
    verdict_right = s["verdict"] in c.verdict.split("|")
    knob, advice = s["knob"], (s.get("findings") or [dict(remedy=s["advice"])])[0]["remedy"]
    predicted = measured = inside = ""
    half = 0.0
    mark = "told"
    gain = s.get("expected_gain") or {}
    change = trial.get("throughput") or {}
    ratio = change.get("ratio") or _ratio(trial)
    if knob:
        advice = f"{knob}={s['value']}"
        made = gain.get("gain_low") is not None
        most = gain.get("gain_high")  # null where only the least of the gain is certain
        if made:
            predicted = f"{100 * gain['gain_low']:+.0f}" + (" % or more" if most is None else f"..{100 * most:+.0f} %")
        elif gain:
            predicted = "not made"
        if ratio is None:
            mark = "not measured" if knob in c.knob.split("|") else "wrong"
            measured = trial.get("error", "")[:60]
        else:
            measured = f"{100 * (ratio - 1):+.0f} %"
            if change.get("lo") and change.get("hi"):
                measured += f" ({100 * (change['lo'] - 1):+.0f} to {100 * (change['hi'] - 1):+.0f})"
            mark = "helps" if ratio >= 1.05 else "harms" if ratio < 0.95 else "no use"
            if made:
                lo, hi = 1 + gain["gain_low"], math.inf if most is None else 1 + most
                half = 0 if most is None else (hi - lo) / (hi + lo)
                inside = "yes" if lo <= ratio <= hi else "no"
    elif "-" not in c.knob.split("|"):
        mark = "no use"
    elif c.says and not any(w in (advice + " " + s["verdict_text"]).lower() for w in c.says.split("|")):
        mark = "no use"
    return Score(name, s["verdict"], verdict_right, advice, mark, predicted, measured, inside, half, load)


BURNERS = "ADVICE_BURNERS"  # names the file that a script writes its burners' processes to
BURN = """for i in 1 2 3 4; do "$0" -c 'while True: pass' >/dev/null 2>&1 & echo $! >>"$1"; done"""


@contextlib.contextmanager
def _burners(where: str):
    """Four processes that compute. A session is a group for the kernel: they have one of their own, or the script begins
    them in the one that gpustall gives it. The shell ends at once, so they are not the script's children."""
    with tempfile.NamedTemporaryFile("r") as pids:
        if where == "own":
            subprocess.run(["sh", "-c", BURN, sys.executable, pids.name], check=True, start_new_session=True)
        if where == "same":
            os.environ[BURNERS] = pids.name
        try:
            yield
        finally:
            os.environ.pop(BURNERS, None)
            for pid in pids.read().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)


def _run(gpustall: str, name: str, c: Case, watch: float, test: float, keep: str) -> Score:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        session = os.path.join(keep or folder, name.replace(" ", "-").replace(",", "") + ".gpustall")
        with contextlib.suppress(FileNotFoundError):
            os.remove(session)
        env = dict(os.environ, XDG_STATE_HOME=folder)
        with open(os.path.join(folder, "log"), "w") as log:
            p = subprocess.Popen(
                [gpustall, "torch", "--plain", "--session", session, "--", sys.executable, __file__, "--case", name],
                stdout=log, stderr=log, env=env, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        agent = _Agent(gpustall)
        try:
            began, last = time.time(), time.time() + 60
            while time.time() < last:
                time.sleep(4)
                with contextlib.suppress(RuntimeError):
                    s = agent.call("summary", session=session)
                    if s["steps"] > 0 and last > time.time() + watch:
                        last = time.time() + watch
                if p.poll() is not None:
                    with open(os.path.join(folder, "log")) as f:
                        raise RuntimeError(f"{name} ended: {f.read()[-500:]}")
            trial: dict[str, Any] = {}
            s = agent.call("summary", session=session)
            if s["knob"]:
                trial = _trial(gpustall, session, s["knob"], s["value"], test)
            score = _score(name, c, s, trial, load)
            print(f"{name}: {time.time() - began:.0f} s\n  {s['verdict_text']}\n  {s['advice']}\n  {score.mark} {score.measured}", file=sys.stderr)
            return score
        finally:
            agent.end()
            p.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                p.wait(20)
            p.kill()


class Tuned(NamedTuple):
    name: str
    left: dict[str, str]  # the settings that the tune changed
    before: float  # samples a second of the script alone
    after: float
    load: float  # of the host when it began


# Most of what can be mended, what cannot, and where nothing is wrong.
TUNED = (
    "inline, reads wait", "inline, short epochs", "an iterable data set, one worker", "half waiting, half computing",
    "one worker, transforms compute, the step waits", "many workers a core, transforms compute", "a straggler, in order",
    "validation, nearly half the time", "sixteen workers that suffice", "cheap samples, workers cost more than they save",
)  # fmt: skip


def _tune(gpustall: str, name: str, c: Case, budget: str) -> Tuned:
    load = os.getloadavg()[0]
    script = [sys.executable, __file__, "--case", name]
    left: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        command = [gpustall, "torch", "--json", "--tune", "--budget", budget, "--", *script]
        env = dict(os.environ, XDG_STATE_HOME=folder)
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True, env=env)
        assert p.stdout
        decided, over = False, 0
        for line in p.stdout:
            e = json.loads(line)
            decided = decided or e["type"] == "decision"
            if e["type"] == "decision" and e["verdict"] == "confirmed":
                left = e["knobs"]
            if e["type"] == "progress" and decided:
                over = 0 if e.get("experiment") else over + 1
            if over == 2:  # lines of progress since the tune ended
                p.send_signal(signal.SIGTERM)
        p.wait()
    value = lambda v: {"on": True, "off": False}[v] if v in ("on", "off") else int(v)  # noqa: E731
    more = dict(c.loader, **{k: value(v) for k, v in left.items()})
    if not more.get("num_workers"):
        more = {k: v for k, v in more.items() if k in ("num_workers", "pin_memory")}

    def alone(loader):
        return float(subprocess.run([*script, "--seconds", "12", "--loader", json.dumps(loader)], capture_output=True, text=True, check=True).stdout)

    rates = [alone(x) for x in (c.loader, more, more, c.loader)] if left else []
    print(f"{name}: {left}, {rates}", file=sys.stderr)
    return Tuned(name, left, sum(rates[::3]) / 2, sum(rates[1:3]) / 2, load)


def _tuned_table(all: list[Tuned], budget: str):
    _where(f"{len(all)} tunes of {budget} at the most", [t.load for t in all])
    print("| script | the tune left | alone, before | alone, after | |\n|---|---|--:|--:|--:|")
    for t in all:
        left = " ".join(f"{k}={v}" for k, v in t.left.items())
        rates = f"{t.before:.0f} | {t.after:.0f} | {100 * (t.after / t.before - 1):+.0f} %" if left else " | | "
        print(f"| {t.name} | {left or 'the settings at the start'} | {rates} |")


def _where(what: str, loads: list[float]):
    print(f"## {what}\n")
    loads = sorted(loads)
    span = f"load {loads[0]:.0f} to {loads[-1]:.0f} (median {statistics.median(loads):.0f}) when a script began"
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, {span}.\n")


def _table(scores: list[Score], burners: str):
    host = {"none": "nothing beside it of ours", "own": "four burners in a session of their own", "same": "four burners in the same session"}[burners]
    _where(f"{len(scores)} scripts, {host}", [s.load for s in scores])
    told = [s for s in scores if s.mark == "told" and s.verdict_right]
    print("| script | advice | it | predicted | measured | inside |\n|---|---|---|--:|--:|---|")
    for s in scores:
        if s not in told:
            advice = " ".join(re.split(r": |;| \(|\|", s.advice)[0].split()[:6])
            name = s.name + ("" if s.verdict_right else f" ({s.verdict}!)")
            print(f"| {name} | {advice} | {s.mark} | {s.predicted} | {s.measured} | {s.inside} |")
    print(f"\nThe other {len(told)} are told rightly that no knob helps, and what does.")
    made = [s for s in scores if s.inside]
    inside = sum(s.inside == "yes" for s in made)
    right: Callable[[str], int] = lambda *m: sum(s.mark in m for s in scores)  # noqa: E731
    half = 100 * statistics.median([s.half_width for s in made if s.half_width] or [0])
    print(
        f"\nVerdict right in {sum(s.verdict_right for s in scores)} of {len(scores)}; advice helps or tells in {right('helps', 'told')}, "
        f"harms in {right('harms')}. Predictions inside: {inside} of {len(made)} made, median half-width {half:.0f} %.\n"
    )


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gpustall", default="gpustall")
    p.add_argument("--case", help="be this script")
    p.add_argument("--loader", type=json.loads, help="with these arguments of its DataLoader, as JSON")
    p.add_argument("--seconds", type=float, default=0, help="for so long, and print its samples a second")
    p.add_argument("--names", action="store_true", help="print the names")
    p.add_argument("--only", help="names of cases, separated by semicolons")
    p.add_argument("--burners", choices=("none", "own", "same"), default="none")
    p.add_argument("--tune", metavar="BUDGET", help="tune for so long at the most")
    p.add_argument("--watch", type=float, default=12, help="seconds before it is judged")
    p.add_argument("--test", type=float, default=40, help="seconds of an A/B test at the most")
    p.add_argument("--scores", help="a file of scores, which are added to; cases that it has are not run again")
    p.add_argument("--keep", default="", help="keep the sessions in this folder")
    a = p.parse_args()
    if a.case:
        _script(CASES[a.case], a.loader, a.seconds)
    if a.names:
        print("\n".join(CASES))
        return
    if a.tune:
        names = a.only.split(";") if a.only else TUNED
        _tuned_table([_tune(os.path.abspath(a.gpustall), name, CASES[name], a.tune) for name in names], a.tune)
        return
    scores: list[Score] = []
    if a.scores and os.path.exists(a.scores):
        with open(a.scores) as f:
            scores = [Score(**json.loads(line)) for line in f]
    had = {s.name for s in scores}
    for name, c in CASES.items():
        if name in had or a.only is not None and name not in a.only.split(";"):
            continue
        with _burners(a.burners):
            try:
                scores.append(_run(os.path.abspath(a.gpustall), name, c, a.watch, a.test, a.keep))
            except RuntimeError as e:
                print(f"{name}: {e}", file=sys.stderr)
                continue
        if a.scores:
            with open(a.scores, "a") as f:
                f.write(json.dumps(scores[-1]._asdict()) + "\n")
    if scores:
        scores.sort(key=lambda s: list(CASES).index(s.name))
        _table(scores, a.burners)


if __name__ == "__main__":
    main()
