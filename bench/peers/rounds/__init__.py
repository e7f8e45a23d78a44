"""What the comparisons with other loaders share. Rounds are interleaved, so that other load
on the machine affects all loaders alike, and ratios are taken within a round."""
import json
import os
import platform
import statistics
import subprocess
import sys
import time


def arguments(p, rounds=5, seconds=4.0):
    p.add_argument("--rounds", type=int, default=rounds)
    p.add_argument("--seconds", type=float, default=seconds)
    p.add_argument("--load", help="the built bench/peers/load; it is built if this is missing")
    p.add_argument("--before", help="the same program of an earlier version, to compare with")
    p.add_argument("--peer", help="(how the script runs itself)")
    p.add_argument("--data", help="your own data set; one is made if this is missing")
    p.add_argument("--workers", type=int, help="(of --peer)")


def loads(a, scratch):
    """The built loaders by their names."""
    load = {"ours": a.load or os.path.join(scratch, "load")}
    if a.before:
        load["before"] = a.before
    if not a.load:
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        subprocess.run(["go", "build", "-o", load["ours"], "./load"], check=True, cwd=here)
    return load


def processor():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())


def title(what):
    print(f"{processor()}, {len(os.sched_getaffinity(0))} cores, {time.strftime('%Y-%m-%d')}; {what}")


def run(command, cores):
    """What a command prints as JSON, run on so many cores."""
    mine = sorted(os.sched_getaffinity(0))[:max(cores, 1)]
    command = ["taskset", "-c", ",".join(map(str, mine)), *command]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def itself(script):
    return [sys.executable, os.path.abspath(script)]


def rate(out, workers):
    """Samples a second. Inline, a process is alone on its core, and what it computed tells
    more where others want the core too; workers are processes of their own."""
    return out["samples"] / (out["seconds"] if workers else out["cpu"])


def timed(batches, seconds):
    """Draws batches for so long, after two that do not count, and prints how many."""
    for _ in range(2):
        next(batches)
    samples, start, worked = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        samples += len(next(batches)[1])
    print(json.dumps({"samples": samples, "seconds": time.perf_counter() - start, "cpu": time.process_time() - worked}))


def forever(loader):
    while True:
        yield from loader


def compare(heading, names, measure, rounds, unit="/s", ours="ours"):
    """Measures each of names (key to words) in turns and prints medians and ratios."""
    got = {k: [] for k in names}
    keys = list(names)
    for n in range(rounds):
        first = n % len(keys)
        for k in keys[first:] + keys[:first]:
            got[k].append(measure(k))
    print(f"{heading}:")
    for k, v in got.items():
        ratios = [o / r if unit == "/s" else r / o for o, r in zip(got[ours], v)]
        versus = "" if k == ours else f"   gpustall is {statistics.median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"  {names[k]:28} {statistics.median(v):10,.{0 if unit == '/s' else 2}f}{unit}{versus}")


def loaders(script, a, root, load, names, ours=()):
    """Compares loaders inline and with two workers: gpustall's, given the flags ours besides,
    and the script's own peers."""
    for workers, heading in ((0, "inline, a second of one core's time"), (2, "two workers, two cores")):
        def measure(k):
            command = [load[k], *ours] if k in load else [*itself(script), "--peer", k]
            args = ["--data", root, "--workers", str(workers), "--seconds", str(a.seconds)]
            return rate(run([*command, *args], workers), workers)

        compare(heading, {k: w for k, w in names.items() if k != "before" or a.before}, measure, a.rounds)
