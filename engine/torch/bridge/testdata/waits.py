"""Prints where its frames lie, and then waits until its input ends for what another thread computes, in the way that its argument
names."""

import json
import os
import queue
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

package = types.ModuleType("gpustall")
package.__path__ = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python/gpustall")]
sys.modules["gpustall"] = package
from gpustall import frames  # noqa: E402


def computes(_=None):
    return sum(i * i for i in range(100000))


def feeds(put):
    while True:
        put(computes())


print(json.dumps(dict(layout=frames.layout(), thread=frames.thread(), pid=os.getpid(), tid=threading.get_native_id())), flush=True)
way = sys.argv[1]
if way == "future":
    pool = ThreadPoolExecutor(1)
    while True:
        pool.submit(computes).result()
if way == "event":
    full, taken = threading.Event(), threading.Event()
    threading.Thread(target=feeds, args=(lambda _: (full.set(), taken.wait(), taken.clear()),), daemon=True).start()
    while True:
        full.wait()
        full.clear()
        taken.set()
items = queue.SimpleQueue() if way == "simple" else queue.Queue(1)
threading.Thread(target=feeds, args=(items.put,), daemon=True).start()
while True:
    items.get()
