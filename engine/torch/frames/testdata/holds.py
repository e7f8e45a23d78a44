"""Prints where its frames lie, and computes for some seconds while another thread holds the GIL now and then, in C code that
does not let go of it. At last it prints the share of the time in which that thread had it."""

import json
import os
import sys
import threading
import time
import types
from functools import partial

package = types.ModuleType("gpustall")
package.__path__ = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python/gpustall")]
sys.modules["gpustall"] = package
from gpustall import frames  # noqa: E402

held = 0


def holds(numbers):
    global held
    timed = [partial(time.perf_counter), partial(sorted, numbers, reverse=True), partial(time.perf_counter)]
    while True:
        begun, _, ended = map(partial.__call__, timed)  # it lets go of the GIL only after all three
        held += ended - begun
        time.sleep(0.05)


def computes():
    total = 0
    for i in range(20000):
        total += i * i
    return total


free = not getattr(sys, "_is_gil_enabled", lambda: True)()
print(json.dumps(dict(layout=frames.layout(), thread=frames.thread(), pid=os.getpid(), tid=threading.get_native_id(), free=free)), flush=True)
threading.Thread(target=holds, args=([i * 7919 % 1000003 for i in range(400000)],), daemon=True).start()
start, before = time.perf_counter(), held
while time.perf_counter() < start + float(sys.argv[1]):
    computes()
whole = time.perf_counter() - start
print(json.dumps(dict(waits=(held - before) / whole)), flush=True)
os._exit(0)
