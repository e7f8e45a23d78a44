"""Tests the thread that looks at this process's frames where gpustall may not read them."""

import json
import os
import queue
import random
import struct
import sys
import threading
import time
import unittest

import harness
import torch
from torch.utils.data import DataLoader, Dataset

from gpustall import control, looks, parts, ring


class Slow(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        self.sleeps()
        return torch.ones(1)

    def sleeps(self):
        time.sleep(0.01)


def trains(workers=0):
    module = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for batch in DataLoader(Slow(), batch_size=1, num_workers=workers):
        module(batch).sum().backward()
        optimizer.step()


earlier = set()  # the rings of tests before


def tasks():
    return list(map(int, os.listdir("/proc/self/task")))


def found(worker, other=False):
    """The functions of this file in the stacks that looks found, by how often they were innermost. other: of another thread's
    stacks, beside them."""
    frames, stacks, out = {}, {}, {}
    rings = {}  # read first: what they name is told before
    for path in set(harness.folder_files("ring-")) - earlier:
        with open(path, "rb") as f:
            rings[path] = f.read()
    for path in harness.folder_files("messages-"):
        pid = int(path.rpartition("-")[2])
        with open(path) as f:
            for m in map(json.loads, f):
                if m["type"] == "stack":
                    if m["stack"] and min(m["stack"]) == 0 and len(m["fresh"]) == len(set(m["stack"])):  # a looker's first one
                        frames[pid], stacks[pid] = [], []
                    frames.setdefault(pid, []).extend(m["fresh"])
                    stacks.setdefault(pid, []).append([frames[pid][i] for i in m["stack"]])
    for data in rings.values():
        _, _, _, pid, _, number, _ = ring.HEAD.unpack_from(data)
        if struct.unpack_from("@I", data, ring.ROLE)[0] != ring.LOOKER or number != worker:
            continue
        for i in range(struct.unpack_from("@Q", data, ring.COUNT)[0]):
            start, end, _, waiting, _, _, _, _, beside, arg, kind, _, _, _ = ring.SLOT.unpack_from(data, ring.HEADER + ring.SLOT.size * i)
            assert kind == ring.LOOK and start < end and waiting >= 0
            if other and beside < 0:
                continue
            name = next((f["name"].rpartition(".")[2] for f in stacks[pid][beside if other else arg] if f["file"] == __file__), "")
            out[name] = out.get(name, 0) + 1
    return out


class LooksTest(unittest.TestCase):
    def setUp(self):
        self.page = harness._words
        self.page[control.LOOKER], self.page[control.LOOP_LOOKS], self.page[control.WORKER_LOOKS] = os.getpid(), 2_000_000, 2_000_000
        parts.here.__dict__.pop("loop", None)

    def tearDown(self):
        self.stop()
        earlier.update(harness.folder_files("ring-"))
        self.page[control.LOOKER], self.page[control.LOOP_LOOKS], self.page[control.WORKER_LOOKS] = -1, 0, 0

    def test_in_the_loop(self):
        """The line is found, and the script sees nothing of the thread."""
        random.seed(1)
        threads, drawn = threading.active_count(), random.getstate()
        self.finds(-1, 20)
        self.assertEqual((threads, drawn), (threading.active_count(), random.getstate()))
        self.stop()

    def stop(self):
        tid = looks._looker.tid if looks._looker else 0
        looks.stop()
        harness.until(lambda: tid not in tasks())  # it says that it ends a moment before it has
        self.assertNotIn(tid, tasks())

    def finds(self, worker, enough):
        """Trains until enough looks have found the line."""
        names = {}

        def trained():
            trains(worker + 1)
            names.update(found(worker))
            return names.get("sleeps", 0) > enough

        harness.until(trained)
        self.assertGreater(names.get("sleeps", 0), enough, names)

    def test_forks(self):
        """The thread is not there while the process forks, and looks again afterwards."""
        trains()
        running = len(tasks())
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                os._exit(len(sys._current_frames()) - 1)
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
        harness.until(lambda: len(tasks()) <= running)
        self.assertLessEqual(len(tasks()), running)
        before = sum(found(-1).values())
        harness.until(lambda: sum(found(-1).values()) > before)
        self.assertGreater(sum(found(-1).values()), before)

    def test_in_a_worker(self):
        self.finds(0, 10)

    def test_another_thread(self):
        """A thread that the loop waits for is found, and one that holds Python's lock for long."""
        jobs, done = queue.Queue(), queue.Queue()

        def computes():
            for _ in iter(jobs.get, None):
                total = 0
                for k in range(400_000):
                    total += k
                done.put(total)

        def holds():
            while jobs.empty():
                sum(range(400_000))

        for work, of in (computes, lambda: [(jobs.put(1), done.get()) for _ in range(20)]), (holds, lambda: [time.sleep(0.0005) for _ in range(40)]):
            thread = threading.Thread(target=work)
            thread.start()
            names = {}

            def waited():
                for _batch in DataLoader(torch.ones(2, 1)):
                    of()  # noqa: B023
                names.update(found(-1, other=True))  # noqa: B023
                return names.get(work.__name__, 0) > 5  # noqa: B023

            harness.until(waited)
            jobs.put(None)
            thread.join()
            if not jobs.empty():
                jobs.get()
            self.assertGreater(names.get(work.__name__, 0), 5, names)

    def test_off(self):
        """Without looks to make, the thread makes none; with gpustall gone it ends."""
        self.page[control.LOOP_LOOKS] = 0
        trains()
        before, tid = sum(found(-1).values()), looks._looker.tid if looks._looker else 0
        pid, self.page[control.GPUSTALL] = self.page[control.GPUSTALL], 0x7FFFFFFF
        self.page[control.LOOP_LOOKS] = 1
        try:
            harness.until(lambda: tid not in tasks())
            self.assertNotIn(tid, tasks(), "the thread goes on")
        finally:
            self.page[control.GPUSTALL] = pid
        self.assertLessEqual(sum(found(-1).values()), before + 1)


if __name__ == "__main__":
    unittest.main()
