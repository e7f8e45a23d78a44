"""The way in: whatever starts Python, the script runs as it would without us."""

import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PACKAGE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

LOADS = """
import torch
from torch.utils.data import DataLoader
if __name__ == "__main__":
    for epoch in range(2):
        for batch in DataLoader(list(range(40)), batch_size=4, num_workers=%d):
            pass
    print("loaded", __name__)
"""


UNSAFE = """
import multiprocessing, time, torch
from torch.utils.data import DataLoader
print("begun", __name__)
if True:
    class Here(list): pass
    loader = DataLoader(Here(range(40)), batch_size=4, collate_fn=lambda batch: batch)
    multiprocessing.set_start_method("forkserver")
    print(len([time.sleep(0.02) for batch in loader]), "batches")
    from gpustall import loaders
    for probe in loaders._probes.values():
        probe.process.join()
        print(len([time.sleep(0.02) for batch in loader]), "batches")
"""


KILLED = """
import time, torch
from torch.utils.data import DataLoader, _utils
_utils.worker.MP_STATUS_CHECK_INTERVAL = 0.5
if __name__ == "__main__":
    loader = iter(DataLoader(list(range(400)), batch_size=4, num_workers=2, multiprocessing_context="%s"))
    next(loader), next(loader)
    print(*[worker.pid for worker in loader._workers], flush=True)
    time.sleep(600)
"""


RAY = """
import torch
class Made:
    def __init__(self, gen): self.iterator_gen = gen
    def __iter__(self): return self.iterator_gen()
class DataIterator:
    def iter_torch_batches(self, *, batch_size=1):
        '''Documented.'''
        def batches():
            try:
                for n in range(10):
                    yield {"x": torch.ones(batch_size, 3) * n}
            finally:
                print("closed")
        return Made(batches)
"""

TAKES = """
import torch, ray.data.iterator
model = torch.nn.Linear(3, 1)
data = ray.data.iterator.DataIterator()
assert data.iter_torch_batches.__doc__ == "Documented."
for epoch in range(2):
    for n, batch in enumerate(data.iter_torch_batches(batch_size=4)):
        if n == 5 and epoch:
            break
        model(batch["x"]).sum().backward()
    with torch.no_grad():
        for batch in data.iter_torch_batches(batch_size=2):
            model(batch["x"])
print(model.weight.grad.sum())
"""


WARNS = """
import os, sys, warnings, torch
from torch.utils.data import DataLoader, IterableDataset
class Longer(IterableDataset):
    def __len__(self): return 2
    def __iter__(self): return iter(range(3))
    def __repr__(self): return "data"
warnings.simplefilter("default")
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for epoch in range(2):
    for data in (list(range(6)), Longer()):
        for workers in (0, 2):
            loader = DataLoader(data, num_workers=workers, pin_memory=True)
            for batch in loader:
                len(loader)
            list(loader)
for _ in range(2):
    try:
        iter(DataLoader(range(4), num_workers=1, multiprocessing_context="spawn", collate_fn=lambda batch: batch))
    except Exception as error:
        print(str(error).split(" at ")[0], file=sys.stderr)
"""


# What PyTorch says of tensors of a data set that /dev/shm has no room for.
FULL = """
        def __reduce__(self): raise RuntimeError("unable to allocate shared memory(shm) for file </torch_1_2_0>: No space left on device (28)")"""


class HookTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.dir.name, "rings")
        os.mkdir(self.folder)

    def tearDown(self):
        self.dir.cleanup()

    def run_python(self, *args, path="", package=PACKAGE, folder=None, **env):
        env = dict(os.environ, GPUSTALL_TORCH=folder or self.folder, PYTHONPATH=os.pathsep.join(p for p in (package, path) if p), **env)
        return subprocess.run([sys.executable, *args], capture_output=True, text=True, env=env, cwd=self.dir.name, timeout=300)

    def write(self, name, text):
        path = os.path.join(self.dir.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        return path

    def told(self, kind):
        out = []
        for name in os.listdir(self.folder):
            if name.startswith("messages-"):
                with open(os.path.join(self.folder, name)) as f:
                    out += [m for m in map(json.loads, f) if m["type"] == kind]
        return out

    def test_script_module_and_command(self):
        self.write("script.py", LOADS % 1)
        for args in (["script.py"], ["-m", "script"], ["-c", LOADS % 0]):
            before = len(self.told("loader"))
            done = self.run_python(*args)
            self.assertEqual((done.returncode, done.stdout), (0, "loaded __main__\n"), done.stderr)
            self.assertNotIn("gpustall", done.stderr)
            self.assertGreater(len(self.told("loader")), before)

    def test_warnings(self):
        """What PyTorch warns of is the same: the text, the line that it names, and how often."""
        self.write("script.py", WARNS)
        plain, watched = (self.run_python("script.py", package=package).stderr for package in ("", PACKAGE))
        self.assertIn("suggested max number of worker", plain)
        self.assertIn("ickl", plain)
        self.assertEqual(watched.splitlines(), plain.splitlines())

    def test_no_file_for_coverage(self):
        """coverage reports on the files that ran, and ours are gone by then."""
        ours = "import sys\nprint({m.__file__[:11] for n, m in sys.modules.items() if n.split('.')[0] == 'gpustall'})\n"
        done = self.run_python("-c", LOADS % 0 + ours)
        self.assertEqual(done.stdout, "loaded __main__\n{'<gpustall>/'}\n", done.stderr)

    def test_importing_leaves_a_mark(self):
        self.assertEqual(self.run_python("-c", "import json").returncode, 0)
        self.assertEqual(os.listdir(self.folder), [])
        self.assertEqual(self.run_python("-c", "import torch.utils.data").returncode, 0)
        self.assertEqual(os.listdir(self.folder), ["imported"])

    def test_another_sitecustomize_runs(self):
        self.write("site/sitecustomize.py", "print('theirs')\n")
        done = self.run_python("-c", LOADS % 0, path=os.path.join(self.dir.name, "site"))
        self.assertEqual(done.stdout, "theirs\nloaded __main__\n", done.stderr)
        self.assertTrue(self.told("loader"))

    def test_others_that_run_what_they_hide(self):
        """As other tools do, and gpustall under gpustall: each runs once, and the loop is watched once."""
        import shutil

        self.write("theirs/sitecustomize.py", """
import importlib.machinery, importlib.util, os, sys
print("theirs")
spec = importlib.machinery.PathFinder.find_spec("sitecustomize", [p for p in sys.path if p != os.path.dirname(__file__)])
if spec is not None:
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
""")
        theirs, again = (os.path.join(self.dir.name, name) for name in ("theirs", "again"))
        shutil.copytree(PACKAGE, again, ignore=shutil.ignore_patterns("test", "__pycache__"))
        for package, path in ((PACKAGE, theirs), (theirs, PACKAGE), (PACKAGE, os.pathsep.join((again, theirs)))):
            with self.subTest(package=package, path=path):
                done = self.run_python("-c", LOADS % 0 + "from gpustall import process\nprint(process.current().steps)\n", package=package, path=path)
                self.assertEqual((done.stdout, done.stderr), ("theirs\nloaded __main__\n20\n", ""))

    def test_a_broken_hook_is_one_line(self):
        import shutil

        broken = os.path.join(self.dir.name, "broken")
        shutil.copytree(PACKAGE, broken, ignore=shutil.ignore_patterns("test", "__pycache__"))
        for name in ("hook.py", "observe.py", "loops.py", "steps.py", "loaders.py", "live.py", "worker.py", "fetching.py"):
            with open(os.path.join(broken, "gpustall", name), "a") as f:
                f.write("\nraise OSError('as planned')\n")
            done = self.run_python("-c", LOADS % 1, package=broken)
            self.assertEqual((done.returncode, done.stdout), (0, "loaded __main__\n"), done.stderr)
            lines = [line for line in done.stderr.splitlines() if "gpustall" in line]
            self.assertEqual(len(lines), 1, done.stderr)
            self.assertIn("as planned", lines[0])
            shutil.copy(os.path.join(PACKAGE, "gpustall", name), os.path.join(broken, "gpustall", name))

    def test_a_folder_that_is_gone(self):
        done = self.run_python("-c", LOADS % 1, folder=os.path.join(self.dir.name, "nowhere"))
        self.assertEqual((done.returncode, done.stdout), (0, "loaded __main__\n"), done.stderr)

    def test_unknown_pytorch_is_observed(self):
        """A worker loop with another parameter is left alone, and the loop is watched."""
        self.write("script.py", """
from torch.utils.data._utils import worker
from torch.utils.data import dataloader
from gpustall import observe
known = worker._worker_loop
def unknown(dataset_kind, *args, surprise=None):
    return known(dataset_kind, *args)
worker._worker_loop = unknown
dataloader.DataLoader.__iter__ = dataloader.DataLoader.__iter__.__wrapped__
dataloader._BaseDataLoaderIter.__next__ = dataloader._BaseDataLoaderIter.__next__.__wrapped__
del dataloader._BaseDataLoaderIter._gpustall
observe.install(dataloader)
""" + LOADS % 1)
        done = self.run_python("script.py")
        self.assertEqual((done.returncode, done.stdout), (0, "loaded __main__\n"), done.stderr)
        (loader, *_) = self.told("loader")
        self.assertFalse(loader["live"])
        self.assertIn("not known", loader["why"])

    def test_workers_that_cannot_begin(self):
        """Where they are asked for from outside, the training goes on without."""
        with open(os.path.join(self.folder, "control"), "wb") as f:
            f.write(struct.pack("@8q", 2, 2, -1, -1, -1, -1, 0, os.getpid()).ljust(4096, b"\0"))
        guarded = UNSAFE.replace("if True", "if __name__ == '__main__'")
        for text, why, hint in (
            (UNSAFE, "would run the script again", "if __name__ =="),  # known beforehand: nobody need try
            (guarded, "ickl", "no lambdas"),
            (guarded.replace("pass", FULL), "cannot be sent the data set: .*No space left", "/dev/shm"),
            (guarded.replace("lambda batch: batch", "None"), "ended at once, with exit code 1", "importing the script"),  # it has no Here
        ):
            done = self.run_python(self.write("script.py", text))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(set(done.stdout.splitlines()) - {"begun __mp_main__"}, {"begun __main__", "10 batches"}, done.stderr)
            refused = max(self.told("refused"), key=lambda m: m["t"])
            self.assertRegex(refused["reason"] + ";" + refused["hint"], "%s.*;.*%s" % (why, hint))
            self.assertEqual(text is not UNSAFE, "gpustall: num_workers stays at 0: " in done.stderr, done.stderr)

    def test_killed_training(self):
        """Its workers end with it, also those whose parent is a fork server."""
        from gpustall.control import there

        for method in ("fork", "forkserver", "spawn"):
            env = dict(os.environ, GPUSTALL_TORCH=self.folder, PYTHONPATH=PACKAGE)
            command = [sys.executable, self.write("script.py", KILLED % method)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as training:
                workers = [int(pid) for pid in (training.stdout or io.StringIO()).readline().split()]
                training.kill()
                training.wait()
                late = time.monotonic() + 120
                while (left := [pid for pid in workers if there(pid)]) and time.monotonic() < late:
                    time.sleep(0.1)
                for pid in left:
                    os.kill(pid, 9)
            self.assertEqual((len(workers), left), (2, []), method)

    def test_watch_and_step(self):
        done = self.run_python("-c", """
import torch.utils.data
import gpustall
assert list(gpustall.watch(range(5))) == list(range(5))
for _ in range(4):
    gpustall.step(3)
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.told("loader")), 2)

    def test_batches_of_ray(self):
        """Batches of Ray Data are watched without a word in the script, and evaluations among them are no steps. The
        module stands in for Ray's, which test fleet.py has."""
        self.write("ray/__init__.py", "")
        self.write("ray/data/__init__.py", "")
        self.write("ray/data/iterator.py", RAY)
        self.write("script.py", TAKES)
        plain, watched = (self.run_python("script.py", path=self.dir.name, package=package) for package in ("", PACKAGE))
        self.assertEqual((plain.returncode, plain.stderr, watched.stderr), (0, "", ""), plain)
        self.assertEqual(watched.stdout, plain.stdout)
        told = self.told("loader")
        self.assertEqual([(m["dataset"], m["batch_size"]) for m in told], [("Ray Data", 4)], told)
        done = self.run_python("-c", TAKES + "\nfrom gpustall import process\nprint(process.current().steps, process.current().samples)", path=self.dir.name)
        self.assertEqual(done.stdout.split()[-2:], ["16", "64"], done)

    def test_slowest_sample(self):
        from unittest import mock

        from gpustall import fetching, ring

        clock, told = [0], []

        def now():
            clock[0] += 1000
            return clock[0]

        class Fetcher:
            dataset, first = None, False

            def fetch(self, indices):
                list(indices) if self.first else None  # as a Subset does, before it loads any
                return self.collate_fn([self.load(i) for i in (list(indices) if self.first else indices)])

            def load(self, i):
                clock[0] += 50_000 if i == 7 else 0
                return i

            def collate_fn(self, samples):
                return samples

        class Ring:
            record = staticmethod(lambda *what: told.append(what))

        with mock.patch.object(fetching, "now", now):
            for first, indices, sample, micros in (
                (False, [3, 7, 9], 7, 51), (False, [3, 9, 7], 7, 51), (False, ["a", 9], -1, 1), (False, [], -1, 0), (True, [9, 7], 9, 1),
            ):
                fetcher = Fetcher()
                fetcher.first = first
                fetching.Observer(Ring, 1, fetching.Task()).watch(fetcher)
                self.assertEqual(fetcher.fetch(indices), indices)
                batch = told[-1]
                self.assertEqual((batch[0], batch[7], batch[8]), (ring.BATCH, sample, micros), indices)

    def test_seldom_and_at_once(self):
        """Of short samples one batch in eight is looked at, and all after one that took long; a batch
        tells of when its collation began."""
        from unittest import mock

        from gpustall import fetching, ring
        from gpustall.usage import Usage

        told, clock = [], [0]

        def now():
            return clock[0]

        class Fetcher:
            dataset, took = None, 100_000

            def fetch(self, indices):
                for _ in indices:
                    clock[0] += self.took
                return self.collate_fn(list(indices))

            def collate_fn(self, samples):
                clock[0] += 7
                return samples

        class Ring:
            record = staticmethod(lambda *what: told.append(what))

        with mock.patch.object(fetching, "now", now):
            fetcher, task = Fetcher(), fetching.Task()
            observer = fetching.Observer(Ring, 1, task)
            observer.usage = Usage()
            observer.usage.file = None  # of what the kernel counts nothing is asked
            observer.watch(fetcher)
            for i in range(120):
                clock[0] += 5
                task.got = clock[0]
                fetcher.took = 200_000 if i == 50 else 100_000
                fetcher.fetch([i] * 8)
        self.assertEqual({what[0] for what in told}, {ring.BATCH})
        self.assertEqual([what[2] - what[1] - what[12] for what in told], [7] * 120)  # collation
        looked = [i for i, what in enumerate(told) if what[7] >= 0]
        expected = {i for i in range(120) if 50 < i < 50 + fetching.ALERT or (i + 1) % fetching.SOME == 0 or (i + 1) % 16 == 1}
        self.assertEqual(set(looked), expected)

    def test_phases(self):
        """Short phases of samples are recorded together, long ones at once, also of a batch that fails;
        where they are many and short, they are timed in few batches."""
        from unittest import mock

        from gpustall import fetching, ring

        told, clock, seen = [], [0], []

        class Data:
            took: int
            dataset: "Data"

            def __init__(self):
                self.loader, self.transform = self.load, self.change

            def load(self, i):
                seen.append(len(told))
                clock[0] += self.took
                return i

            def change(self, i):
                clock[0] += 1_000
                return 1 // i

        class Fetcher:
            between: int

            def __init__(self):
                self.dataset, self.collate_fn = Data(), list

            def fetch(self, indices):
                samples = []
                for i in indices:
                    image = self.dataset.loader(i)
                    clock[0] += self.between
                    samples.append(self.dataset.transform(image))
                return self.collate_fn(samples)

        class Ring:
            record = staticmethod(lambda *what: told.append(what))

        def batch(indices, took, between=0):
            told.clear()
            seen.clear()
            fetcher.dataset.took, fetcher.between = took, between
            fetcher.fetch(indices)
            return [(what[0], what[2] - what[1]) for what in told]

        with mock.patch.object(fetching, "now", lambda: clock[0]):
            fetcher = Fetcher()
            observer = fetching.Observer(Ring, 1, fetching.Task())
            observer.watch(fetcher)
            d, t, f, rest = ring.DECODE, ring.TRANSFORM, ring.FETCH, [(ring.COLLATE, 0)]
            self.assertEqual(batch([1, 2], 999_000), [(d, 999_000), (t, 1_000)] * 2 + rest + [(ring.BATCH, 2_000_000)])
            self.assertEqual(([what[7] for what in told], seen), ([1, 1, 2, 2, -1, 1], [0, 0]))
            self.assertEqual(batch([1, 2], 2_000_000, 60_000)[:6], [(d, 2_000_000), (f, 60_000), (t, 1_000)] * 2)
            self.assertEqual(seen, [0, 1])  # the first sample's, but for what followed when the second began
            with self.assertRaises(ZeroDivisionError):
                batch([1, 0], 999_000)
            self.assertEqual([(what[0], what[2] - what[1]) for what in told], [(d, 999_000), (t, 1_000)] * 2 + [(ring.BATCH, 2_000_000)])
            self.assertEqual(observer.every, 1)
            batch([1, 2], 9_000)
            self.assertEqual(observer.every, 160)  # 4 phases in 20 us
            self.assertEqual({len(batch([1, 2], 9_000)) for _ in range(40)}, {1})
            inner, outer = Data(), Data()  # an image folder, and what has a transform of its own for a part of it
            vars(inner)["_transforms"] = vars(inner).pop("transform")
            outer.dataset, vars(outer)["transforms"] = inner, vars(outer).pop("transform")
            del outer.loader
            found = [(own is vars(inner), name) for own, name, _, _ in fetching.Stages(outer, observer).found]
            self.assertEqual(found, [(False, "transforms"), (True, "loader"), (True, "_transforms")])


sys.path.insert(0, PACKAGE)

if __name__ == "__main__":
    unittest.main()
