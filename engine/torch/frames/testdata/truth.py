"""Prints where its frames lie, and then does known work until its input ends. At last it prints how the time of that
work divided, by line."""

import json
import os
import sys
import time
import types

package = types.ModuleType("gpustall")
package.__path__ = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python/gpustall")]
sys.modules["gpustall"] = package
from gpustall import frames  # noqa: E402

spent = {}


def timed(f, *args):
    start = time.perf_counter()
    result = f(*args)
    spent[f.__name__] = spent.get(f.__name__, 0) + time.perf_counter() - start
    return result


def sleeps():
    time.sleep(0.004)


def parses(text=json.dumps([{"a": i} for i in range(3000)])):  # noqa: B008
    return json.loads(text)


def computes():
    total = 0
    for i in range(20000):
        total += i * i
    return total


def yields():
    return sum(i % 7 for i in range(15000))


def deep(n=60):
    return deep(n - 1) if n else sorted(range(30000), key=lambda x: -x)


def schläft():
    time.sleep(0.002)


WORK = sleeps, parses, computes, yields, deep, schläft
print(json.dumps(dict(layout=frames.layout(), thread=frames.thread(), pid=os.getpid())), flush=True)
end = time.perf_counter() + float(sys.argv[1])
while time.perf_counter() < end:
    for work in WORK:
        timed(work)
whole = sum(spent.values())
print(json.dumps({name: took / whole for name, took in spent.items()}), flush=True)
