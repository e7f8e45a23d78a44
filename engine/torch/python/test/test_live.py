"""Whatever changes while a DataLoader runs: every sample once, and in the sampler's order."""

import functools
import gc
import inspect
import itertools
import multiprocessing
import os
import random
import struct
import sys
import threading
import time
import unittest
from unittest import mock

import harness
import torch
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
    random_split,
)
from torch.utils.data import dataloader as stock
from torch.utils.data.datapipes.iter import IterableWrapper
from torch.utils.data.datapipes.map import SequenceWrapper

from gpustall import given, loaders, pinning, shards, worker

CHANGES = int(os.environ.get("GPUSTALL_CHANGES", "150"))  # in each of the property's variants
# With spawned workers, of which each imports PyTorch anew: 1 to 2 s of a core.
SPAWNED = int(os.environ.get("GPUSTALL_SPAWNED", "24"))
HAS_IN_ORDER = hasattr(DataLoader(range(1)), "in_order")


class Numbers(Dataset):
    def __init__(self, n=1501, slow=97):
        self.n, self.slow = n, slow

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i % self.slow == 0:
            time.sleep(0.003)
        return torch.tensor([i])


class Wrapped(Subset):
    """The script's own, which may do more than hold another."""


class Noise(Dataset):
    """Samples with random augmentation."""

    def __len__(self):
        return 120

    def __getitem__(self, i):
        return torch.tensor([float(i), torch.rand(()).item(), random.random()])


class Straggler(Dataset):
    """Samples that tell which worker loaded them. One worker takes longer."""

    def __len__(self):
        return 200

    def __getitem__(self, i):
        w = get_worker_info().id
        time.sleep(0.02 if w == 1 else 0.001)
        return w


class Faulty(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        if i == 33:
            raise KeyError("sample 33 is broken")
        return i


class Deadly(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        if i == 33:
            os._exit(7)
        return i


class Lethal(Dataset):
    """Ends the worker that loads one of its samples."""

    def __len__(self):
        return 64

    def __getitem__(self, i):
        if i == 33 and get_worker_info() is not None:
            os.kill(os.getpid(), 9)
        return torch.full((20000,), i)


class Shards(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(first, 200, step))


class Few(Shards):
    """Four shards, and an error of a worker that has none: in its first batch, or before it."""

    def __init__(self, early):
        self.early = early

    def __iter__(self):
        info = get_worker_info()
        mine = range(info.id if info else 0, 4, info.num_workers if info else 1)
        if self.early and not mine:
            raise ValueError("no shard\nat all")
        return self.load(mine)

    def load(self, mine):
        for shard in mine:
            yield from range(shard, 200, 4)
        if not mine:
            raise ValueError("no shard\nat all")


class Inline(Shards):
    def __iter__(self):
        if get_worker_info():
            raise ValueError("not in a worker")
        return super().__iter__()


def _local():
    """Returns a data set whose class knows get_worker_info by a name of the function around it."""
    from torch.utils.data import get_worker_info as mine

    class Local(Shards):
        def __iter__(self):
            return super().__iter__() if mine() else iter(())

    return Local()


class Whole(IterableDataset):
    """Every worker would yield all of it."""

    def __init__(self, *parts):
        self.parts = parts

    def __iter__(self):
        return iter(range(200))


class Helped(Whole):
    def __iter__(self):
        return itertools.islice(super().__iter__(), *_mine())


class Mine(BatchSampler):
    """Draws batches as nobody knows."""


class Odd(Whole):
    @property
    def __dict__(self):
        raise RuntimeError("none of your business")


def _mine():
    info = get_worker_info()
    return (info.id, None, info.num_workers) if info else (0, None, 1)


class Known(Shards):
    """As Hugging Face's tell."""

    num_shards = 3


Known.__module__ = "datasets.iterable_dataset"


class Order(Sampler):
    """A new order for each epoch, which it remembers."""

    def __init__(self, n):
        self.rng, self.n = random.Random(n), n

    def __len__(self):
        return self.n

    def __iter__(self):
        self.order = self.rng.sample(range(self.n), self.n)
        return iter(self.order)


class Telling(Order):
    shuffle = False


def _workers():
    """The rings of workers so far."""
    from gpustall import ring

    return [path for path in harness.folder_files("ring-") if _role(path) == ring.WORKER]


def _role(path):
    from gpustall import ring

    with open(path, "rb") as f:
        return struct.unpack_from("@I", f.read(ring.HEADER), ring.ROLE)[0]


class Changes:
    """Counts the changes that are put in force on iterators while they run."""

    def __init__(self, test):
        from gpustall.live import LiveIter

        self.number = self.workers = 0
        plain = LiveIter._apply

        def counted(it, knobs):
            before = it._knobs
            plain(it, knobs)
            if before is not None:
                self.number += 1
                self.workers += before["num_workers"] != knobs["num_workers"]

        setattr(LiveIter, "_apply", counted)  # noqa: B010 - it is no method by its parameters
        test.addCleanup(setattr, LiveIter, "_apply", plain)


def tuples(samples):
    return [int(s) for s in samples]


def seeded(n):
    g = torch.Generator()
    g.manual_seed(n)
    return g


def plainly(loader):
    """The loader's batches as PyTorch's own loop in this process has them."""
    from torch.utils.data import dataloader

    workers, loader.num_workers, loader.timeout = loader.num_workers, 0, 0
    try:
        return [b for b in dataloader._SingleProcessDataLoaderIter(loader)]
    finally:
        loader.num_workers = workers


class LiveTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        harness.ask_nothing()
        harness.forget()  # what others learned: nothing is in these loops
        os.environ.pop("GPUSTALL_TOLD", None)

    def tearDown(self):
        harness.ask_nothing()
        gc.collect()
        self.assertNotIn("GPUSTALL_TOLD", os.environ, "something was not watched")
        harness.until(lambda: not multiprocessing.active_children())
        self.assertEqual(multiprocessing.active_children(), [], "children are left")

    def changed_at_random(self, make, changes, often=0.15, orders=True):
        """Epochs of a loader, with changes at random; each sample once, in order."""
        rng = random.Random(1)
        done = epoch = 0
        while done < changes:
            loader = make(seeded(epoch))
            unordered = False
            got = []
            for batch in loader:
                got.append(batch if isinstance(batch, list) else batch.flatten().tolist())
                if rng.random() < often:
                    done += 1
                    in_order = rng.random() < 0.8 or not orders or not HAS_IN_ORDER
                    unordered = unordered or not in_order
                    harness.ask(num_workers=rng.choice([0, 1, 2, 3, 5]), prefetch_factor=rng.choice([1, 2, 4]), pin_memory=rng.random() < 0.3,
                                persistent_workers=rng.random() < 0.5, in_order=in_order)
            harness.ask(in_order=None)
            want = plainly(make(seeded(epoch)))
            want = [b if isinstance(b, list) else b.flatten().tolist() for b in want]
            if unordered:
                got, want = sorted(got), sorted(want)
            self.assertEqual(got, want, "epoch %d" % epoch)
            epoch += 1
        return done

    def test_each_once_in_order(self):
        data = Numbers()
        self.changed_at_random(lambda g: DataLoader(data, batch_size=8, shuffle=True, num_workers=2, generator=g), CHANGES)

    def test_batch_sampler_and_collate(self):
        data = Numbers(701)

        def make(g):
            sampler = BatchSampler(RandomSampler(data, generator=g), 5, drop_last=True)
            return DataLoader(data, batch_sampler=sampler, collate_fn=tuples, num_workers=1)

        self.changed_at_random(make, CHANGES // 3)

    def test_pinned_by_a_thread(self):
        """The thread that page-locks begins and ends with pin_memory, on the device of the thread
        that trains. What page-locks is a stand-in, which takes some time: there is no GPU."""
        devices, pinned = threading.local(), []
        devices.index = 3
        current, choose = lambda: getattr(devices, "index", 0), lambda index: setattr(devices, "index", index)

        def pin(data, device):
            time.sleep(0.0005)
            pinned.append((threading.current_thread() is threading.main_thread(), current()))
            return data

        data, before = Numbers(), threading.active_count()
        with mock.patch.multiple(pinning, possible=lambda: True, pin=pin, _device_calls=lambda: (current, choose)):
            self.changed_at_random(lambda g: DataLoader(data, batch_size=8, shuffle=True, num_workers=2, generator=g), CHANGES // 2, often=0.5)
            harness.ask_nothing()
            for workers in (0, 2):
                for i, _ in enumerate(DataLoader(data, batch_size=8, num_workers=workers)):
                    harness.ask(pin_memory=i % 2)
            harness.ask(pin_memory=1)
            for data, error, says in ((Deadly(), RuntimeError, "DataLoader worker .*"), (Faulty(), KeyError, "sample 33 is broken")):
                with self.assertRaisesRegex(error, says):
                    list(DataLoader(data, batch_size=4, num_workers=1))
        self.assertEqual(set(pinned), {(True, 3), (False, 3)})
        gc.collect()
        harness.until(lambda: threading.active_count() <= before + 2)  # multiprocessing's own
        self.assertLessEqual(threading.active_count(), before + 2)

    def test_one_loader_persistent(self):
        data, g = Numbers(401), seeded(5)
        mine = DataLoader(data, batch_size=4, shuffle=True, num_workers=2, persistent_workers=True, generator=g)
        rng = random.Random(2)
        reference = DataLoader(data, batch_size=4, shuffle=True, num_workers=0, generator=seeded(5))
        first = True
        for _ in range(8):
            got = []
            for batch in mine:
                got += batch.flatten().tolist()
                if rng.random() < 0.1:
                    harness.ask(num_workers=rng.choice([0, 1, 3]), persistent_workers=rng.random() < 0.7)
            self.assertEqual(sorted(got), list(range(401)))
            state = reference.generator.get_state()
            want = [x for b in plainly(reference) for x in b.flatten().tolist()]
            if not first:  # workers that persist draw one seed in all
                reference.generator.set_state(state)
                want = [x for i in reference.batch_sampler for x in i]
            first = False
            self.assertEqual(got, want)

    def test_spawned(self):
        self.at_every_batch("spawn", SPAWNED, 0.12, 4)

    def test_forkserver(self):
        """Workers that inherit nothing of this process either, and begin in no time."""
        self.at_every_batch("forkserver", CHANGES, 1)

    def at_every_batch(self, method, most, often, scale=1):
        """Three loaders at once, small data sets, changes before every batch, of num_workers so
        often. The first keeps its workers from epoch to epoch, unless the screen has it otherwise."""
        rng, workers, changes, begun = random.Random(3), len(_workers()), Changes(self), time.monotonic()
        loaders = [DataLoader(Numbers(n), batch_size=4, sampler=Order(n), num_workers=1, persistent_workers=n == 31, multiprocessing_context=method)
                   for n in (31, 40 * scale, 26 * scale)]
        while changes.number < most:
            if time.monotonic() - begun > 60:
                begun = time.monotonic()
                print("%d changes so far, %d workers by %s" % (changes.number, len(_workers()) - workers, method), file=sys.stderr)
            orders = not HAS_IN_ORDER or rng.random() < 0.7
            harness.ask(in_order=orders)
            got = {loader: [] for loader in loaders}
            going = {loader: iter(loader) for loader in loaders}
            while going:
                for loader in list(going):
                    if rng.random() < often:
                        harness.ask(num_workers=rng.choice([0, 1, 2]))
                    harness.ask(prefetch_factor=rng.choice([1, 2, 4]), pin_memory=rng.random() < 0.3,
                                persistent_workers=rng.random() < 0.5, in_order=orders or rng.random() < 0.5)
                    try:
                        got[loader].append(next(going[loader]).flatten().tolist())
                    except StopIteration:
                        del going[loader]
            for loader, batches in got.items():
                order = loader.sampler.order
                want = [order[i : i + 4] for i in range(0, len(order), 4)]
                self.assertEqual(batches if orders else sorted(batches), want if orders else sorted(want))
        print("%d changes, %d of num_workers, %d workers by %s" % (changes.number, changes.workers, len(_workers()) - workers, method), file=sys.stderr)
        harness.ask(persistent_workers=0)
        for loader in loaders:
            if loader._iterator is not None:
                loader._iterator._shutdown_workers()

    @unittest.skipUnless(HAS_IN_ORDER, "this PyTorch has no in_order")
    def test_turns_after_a_change(self):
        """What is measured of in_order is what PyTorch would do: batches go to the workers in turns again."""
        it = iter(DataLoader(Straggler(), num_workers=3))
        harness.ask(in_order=True)
        next(it)
        for order in (False, True):
            harness.ask(in_order=order)
            for _ in range(12):
                next(it)
        who = [int(next(it)) for _ in range(12)]
        self.assertEqual(who, who[:3] * 4)
        self.assertEqual(sorted(who[:3]), [0, 1, 2])
        it._shutdown_workers()

    def test_equal_to_stock_until_a_change(self):
        from torch.utils.data import dataloader

        def batches(loader, make):
            torch.manual_seed(3)
            random.seed(3)
            out = []
            for _ in range(2):
                iterator = make(loader)
                out += [(torch.as_tensor(b), loader.num_workers and (iterator._rcvd_idx, iterator._send_idx)) for b in iterator]
            return out

        for workers in (0, 2, 3):
            stock = dataloader._MultiProcessingDataLoaderIter if workers else dataloader._SingleProcessDataLoaderIter
            loader = DataLoader(Noise(), batch_size=7, shuffle=True, num_workers=workers)
            want, got = batches(loader, stock), batches(loader, iter)
            self.assertEqual(len(want), len(got))
            for (a, at), (b, here) in zip(want, got):
                self.assertTrue(torch.equal(a, b), "%d workers" % workers)
                self.assertEqual(at, here)

    def test_persistent_equal_to_stock(self):
        def run(module_iter):
            torch.manual_seed(3)
            random.seed(3)
            loader = DataLoader(Noise(), batch_size=7, shuffle=True, num_workers=2, persistent_workers=True)
            out = []
            for _ in range(3):
                out += [b for b in module_iter(loader)]
            loader._iterator._shutdown_workers()
            return out

        for a, b in zip(run(DataLoader.__iter__.__wrapped__), run(iter)):
            self.assertTrue(torch.equal(a, b))

    def test_break_and_twice(self):
        loader = DataLoader(Numbers(80, 1000), batch_size=4, num_workers=2)
        harness.ask(num_workers=3)
        for persistent in (0, 1, 0):
            harness.ask(persistent_workers=persistent)
            for i, _ in enumerate(loader):
                if i == 3:
                    break
            pairs = [(a.flatten().tolist(), b.flatten().tolist()) for a, b in zip(loader, loader)] if not persistent else []
            self.assertTrue(all(a == b for a, b in pairs))
            self.assertEqual([x for b in loader for x in b.flatten().tolist()], list(range(80)))
        if loader._iterator is not None:
            loader._iterator._shutdown_workers()

    def test_errors_keep_their_type(self):
        loader = DataLoader(Faulty(), batch_size=4, num_workers=2)
        for workers in (None, 0, 3):
            with self.assertRaisesRegex(KeyError, "sample 33 is broken") as caught:
                for _ in loader:
                    harness.ask(num_workers=workers)
            if workers is None:
                self.assertIn("in DataLoader worker process", str(caught.exception))
                self.assertIn("__getitem__", str(caught.exception))
            del caught
            gc.collect()

    def test_a_worker_that_dies(self):
        loader = DataLoader(Deadly(), batch_size=4, num_workers=1)
        with self.assertRaisesRegex(RuntimeError, r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly$"):
            for _ in loader:
                harness.ask(num_workers=2)
        os.environ.pop("GPUSTALL_TOLD", None)  # the added one may have ended first
        gc.collect()

    def test_an_added_worker_that_dies(self):
        """The loop loads what it owes, also where a batch of it was on its way."""
        for _ in range(5):
            harness.forget()
            harness.ask_nothing()
            with mock.patch.object(loaders.Plan, "proven", lambda *_: True), mock.patch.object(sys, "stderr"):
                got = []
                for batch in DataLoader(Lethal(), batch_size=4):
                    harness.ask(num_workers=2)
                    got += batch[:, 0].tolist()
            self.assertEqual(got, list(range(64)))
            os.environ.pop("GPUSTALL_TOLD", None)

    def test_worker_info(self):
        seen = {(int(i), int(n)) for i, n in DataLoader(Infos(), num_workers=3, batch_size=None, worker_init_fn=_init)}
        self.assertEqual(seen, {(0, 3), (1, 3), (2, 3)})

    def test_iterable_at_the_next_epoch(self):
        for data, name, kind in (
            (Shards(), "Shards", "iterable"),
            (IterableWrapper(range(200)).sharding_filter(), "ShardingFilterIterDataPipe", "iterable"),
            (SequenceWrapper(range(200)), "SequenceWrapperMapDataPipe", "map"),
        ):
            loader, in_force = DataLoader(data, batch_size=5, num_workers=1), 1
            for workers in (1, 3, 0, 2):
                got = [x for b in loader for x in b.flatten().tolist()]
                self.assertEqual(sorted(got), list(range(200)))
                plan = loaders.plans[loader]
                self.assertEqual((plan.trains, plan.live, plan.applied["num_workers"]), (True, False, in_force))
                self.assertEqual([plan.about[what] for what in ("dataset", "kind", "why", "batch_size", "shuffle")], [name, kind, "", 5, False])
                harness.ask(num_workers=workers)
                in_force = workers
            harness.ask(num_workers=1)

    def test_more_workers_than_shards(self):
        """Those that the script has not, and have no batch, end; from the next epoch on there are fewer."""
        for data, persistent in ((Few(False), False), (Few(True), False), (Few(False), True)):
            harness.ask_nothing()
            begun, in_force = time.monotonic_ns(), []
            loader = DataLoader(data, batch_size=5, num_workers=1, persistent_workers=persistent)
            with mock.patch.object(sys, "stderr"):
                for workers in (1, 7, 7, 2):
                    harness.ask(num_workers=workers)
                    self.assertEqual(sorted(x for b in loader for x in b.tolist()), list(range(200)))
                    in_force.append(loaders.plans[loader].applied["num_workers"])
            self.assertEqual(in_force, [1, 7, 4, 2])
            (refused,) = [m for m in harness.messages("refused") if m["t"] > begun]
            self.assertEqual(refused["knobs"], {"num_workers": 4})
            self.assertRegex(refused["reason"], "worker 4 before its first batch.*ValueError: no shard$")
            os.environ.pop("GPUSTALL_TOLD", None)  # once
        for loader in 2 * [DataLoader(Inline(), batch_size=5)]:  # a worker is tried first, and cannot load
            self.assertEqual(len(list(loader)), 40)
            self.assertEqual(loaders.plans[loader].applied["num_workers"], 0)
        harness.ask_nothing()
        with self.assertRaisesRegex(ValueError, "no shard"):  # the script's own
            list(DataLoader(data, batch_size=5, num_workers=7))

    def test_known_shards(self):
        loader = DataLoader(Known(), batch_size=5, num_workers=1)
        for in_force in (1, 3):
            self.assertEqual(sorted(x for b in loader for x in b.tolist()), list(range(200)))
            self.assertEqual(loaders.plans[loader].applied["num_workers"], in_force)
            harness.ask(num_workers=7)
        self.assertEqual(harness.messages("refused")[-1]["knobs"], {"num_workers": 3})

    def test_no_part_of_its_own(self):
        """More workers would yield each sample several times, however many the script has, unless something asks which worker it is."""
        loader = DataLoader(Whole(), batch_size=5, num_workers=1)
        for _ in range(2):
            self.assertEqual(sorted(x for b in loader for x in b.tolist()), list(range(200)))
            harness.ask(num_workers=4)
        refused = harness.messages("refused")[-1]
        self.assertEqual(refused["knobs"], {"num_workers": 1})
        self.assertRegex(refused["reason"], "Whole does not ask which worker it is in")
        self.assertIn("get_worker_info", refused["hint"])
        for most, data, extra in (
            (1, Whole(), {}), (1, Whole([Numbers()], {}), {"num_workers": 1}), (1, ChainDataset([Whole(), Whole()]), {}),
            (2, Whole(), {"num_workers": 2}), (None, Whole(), {"worker_init_fn": _init}), (None, Helped(), {}), (None, Shards(), {}), (None, Inline(), {}),
            (None, Whole([_local()]), {}),
            (None, Whole([Helped()]), {}), (None, Whole({"parts": _mine}), {}), (None, Whole(functools.partial(_mine)), {}),
            (None, ChainDataset([Whole(), Shards()]), {}), (None, IterableWrapper(range(9)), {}), (None, Whole(IterableWrapper(range(9))), {}),
            (3, Known(), {}),
        ):
            found = shards.most(DataLoader(data, **extra))
            self.assertEqual(found and found[0], most, (data, extra))
        self.assertEqual([shards.whole(DataLoader(d, num_workers=2)) for d in (Whole(), Shards(), Odd())], [True, False, False])

    def test_odd_samplers(self):
        """Loaders that take their batches from what tells little of itself are watched like others."""
        numbers = Numbers(20)
        for size, shuffled, arguments, loader in (
            (None, False, "batch_size=None", DataLoader(numbers, batch_size=None)),
            (4, False, "", DataLoader(numbers, batch_size=4)),
            (4, False, "sampler=...", DataLoader(numbers, batch_size=4, sampler=list(range(20)))),
            (None, False, "batch_sampler=...", DataLoader(numbers, batch_sampler=[[i, i + 1] for i in range(0, 20, 2)])),
            (4, True, "", DataLoader(numbers, batch_sampler=BatchSampler(RandomSampler(numbers), 4, False))),
            (4, True, "sampler=WeightedRandomSampler(...)", DataLoader(numbers, batch_size=4, sampler=WeightedRandomSampler([1.0] * 20, 20))),
            (4, True, "sampler=RandomSampler(...) generator=...",
             DataLoader(numbers, batch_size=4, sampler=RandomSampler(numbers, True), generator=torch.Generator())),
            (4, None, "batch_sampler=Mine(...)", DataLoader(numbers, batch_sampler=Mine(range(20), 4, False))),  # as it likes
            (4, None, "sampler=Order(...)", DataLoader(numbers, batch_size=4, sampler=Order(20))),
            (4, True, "batch_sampler=Mine(...)", DataLoader(numbers, batch_sampler=Mine(RandomSampler(numbers), 4, False))),
            (4, False, "sampler=Telling(...)", DataLoader(numbers, batch_size=4, sampler=Telling(20))),
            (5, False, "collate_fn=tuples worker_init_fn=partial(...) timeout=9",
             DataLoader(numbers, 5, collate_fn=tuples, worker_init_fn=functools.partial(_init), timeout=9, num_workers=1)),
            (5, False, "collate_fn=... multiprocessing_context='fork'",
             DataLoader(numbers, 5, num_workers=1, collate_fn=lambda x: x, multiprocessing_context="fork")),
        ):
            self.assertEqual(given.sampling(loader)[:2], (size, shuffled))
            self.assertEqual(loaders.Plan(loader).about["unbatched"], arguments == "batch_size=None")
            self.assertEqual(" ".join(given.arguments(loader)), arguments)
            self.assertEqual(sum(len(x) for x in loader), 20)
            self.assertIn(loader, loaders.plans)

    def test_names_of_data_sets(self):
        """One that holds another is called as that one; one that holds several, if they are alike."""
        numbers = Numbers(20)
        for name, data in (
            ("Numbers", numbers), ("Numbers", Subset(Subset(numbers, [1, 2]), [0])), ("Numbers", ConcatDataset([numbers, numbers])),
            ("Numbers", random_split(numbers, [15, 5])[0]), ("Noise", random_split(Subset(Noise(), range(20)), [15, 5])[0]),
            ("ConcatDataset", ConcatDataset([numbers, Noise()])), ("TensorDataset", TensorDataset(torch.zeros(3))), ("Wrapped", Wrapped(numbers, [0])),
        ):
            plan = loaders.Plan(DataLoader(data, num_workers=1))
            self.assertEqual((plan.about["dataset"], plan.kin[:2]), (name, (name, len(data))))
        self.assertIn("Whole does not ask", (shards.most(DataLoader(ChainDataset([Whole(), Whole()]))) or (0, ""))[1])

    def test_validation_is_left_alone(self):
        begun = time.monotonic_ns()
        train, val = DataLoader(Numbers(60), batch_size=4), DataLoader(Numbers(40), batch_size=4)
        harness.ask(num_workers=2)
        for _ in range(2):
            for i, _ in enumerate(train):
                if i == 2:  # within a step
                    with torch.no_grad():
                        self.assertEqual(sum(len(b) for b in val), 40)
        self.assertEqual([loaders.plans[x].trains for x in (train, val)], [True, None])
        steps = [s["step"] for s in harness.spans(1) if s["step"] >= 0 and s["start"] > begun]
        self.assertEqual((len(steps), len(set(steps))), (30, 30))

    def test_a_validation_over_as_many_samples(self):
        """Where accelerate makes the loaders, only their batch samplers tell one from the other. Gradients are on."""
        data, model = Numbers(40), torch.nn.Linear(1, 1)
        train, val = (DataLoader(data, batch_sampler=BatchSampler(kind(data), 4, False)) for kind in (RandomSampler, SequentialSampler))
        begun = time.monotonic_ns()
        for _ in range(2):
            for x in train:
                model(x.reshape(-1, 1).float()).sum().backward()
            self.assertEqual(sum(len(b) for b in val), 40)
        self.assertEqual(len([s for s in harness.spans(1) if s["step"] >= 0 and s["start"] > begun]), 20)

    def test_an_iterable_validation_is_left_alone(self):
        """Nothing but its epochs tells it from the training."""
        train, val = (DataLoader(Shards(), batch_size=5, num_workers=1) for _ in range(2))
        for _ in range(2):
            self.assertEqual(len(list(train)), 40)
            with torch.no_grad():
                self.assertEqual(len(list(val)), 40)
            harness.ask(num_workers=2)
        self.assertEqual([loaders.plans[x].applied["num_workers"] for x in (train, val)], [2, 1])


    def test_iterators_of_its_own(self):
        """A subclass's are watched, its workers too, and are not changed."""
        from gpustall import ring

        for persistent in (False, True):
            harness.ask_nothing()
            begun, loader = time.monotonic_ns(), Own(Numbers(40), batch_size=4, shuffle=True, num_workers=2, persistent_workers=persistent)
            batches = []
            for _ in range(3):
                batches += [b.flatten().tolist() for b in loader]
                harness.ask(num_workers=4)
            self.assertEqual(sorted(x for b in batches for x in b), sorted(3 * list(range(40))))
            (told,) = [m for m in harness.messages("loader") if m["t"] > begun]
            self.assertEqual((told["live"], told["why"], told["knobs"]["num_workers"]), (False, "Own has iterators of its own", 2))
            came = {}
            for kind in (ring.NEXT, ring.BATCH, ring.ITER):
                came[kind] = [(s["iteration"], s["round"], s["batch"]) for s in harness.spans(kind) if s["start"] > begun]
            self.assertEqual(len(came[ring.ITER]), 3)
            self.assertEqual(sorted(came[ring.NEXT]), sorted(came[ring.BATCH]))
            self.assertEqual(len(set(came[ring.NEXT])), 30)

    def test_a_script_ends_the_workers(self):
        """As some do, by the attributes of PyTorch's iterator. Without workers it has others."""
        loader = DataLoader(Numbers(40), batch_size=4, num_workers=2)
        it = iter(loader)
        next(it)
        workers = it._workers
        self.assertEqual((it._workers_status, len(it._index_queues), it._worker_pids_set), ([True, True], 2, True))
        self.assertFalse(hasattr(it, "_dataset_fetcher") or hasattr(it, "_pin_memory_thread"))
        it._shutdown = True
        it._workers_done_event.set()
        for number in range(2):
            it._mark_worker_as_unavailable(number, shutdown=True)
        for w in workers:
            w.join(120)
        self.assertEqual([w.exitcode for w in workers], [0, 0])
        stock._utils.signal_handling._remove_worker_pids(id(it))
        alone = iter(DataLoader(Numbers(40), batch_size=4))
        self.assertEqual(len(alone._dataset_fetcher.dataset), 40)
        self.assertFalse(hasattr(alone, "_workers_status") or hasattr(alone, "_data_queue"))
        self.assertIsNone(alone._gpustall.inline)  # it would cost each step two calls

    def test_iterators_that_it_asks_for(self):
        """A subclass that takes DataLoader's own, as they are or one by one, is as DataLoader."""
        for loader in (AsItIs(Numbers(40), batch_size=4), OneByOne(Numbers(40), batch_size=4)):
            self.assertEqual(sum(len(b) for b in loader), 40)
            self.assertEqual([loaders.plans[loader].about[what] for what in ("live", "why")], [True, ""])
        self.assertIsNone(type("Never", (DataLoader,), {"__iter__": None}).__iter__)


def _worker_loop(*args, state=None):
    stock._utils.worker._gpustall_plain(*args)


_worker_loop.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in (*worker.PARAMETERS, "state")])


class OwnIter(stock._MultiProcessingDataLoaderIter):
    def __init__(self, loader):
        with mock.patch.object(stock._utils.worker, "_worker_loop", _worker_loop):
            super().__init__(loader)


class Own(DataLoader):
    def __iter__(self):
        if self._iterator is None or not self.persistent_workers:
            self._iterator = OwnIter(self)
        else:
            self._iterator._reset(self)
        return self._iterator


class AsItIs(DataLoader):
    def __iter__(self):
        return super().__iter__()


class OneByOne(DataLoader):
    def __iter__(self):
        yield from super().__iter__()


class Infos(Dataset):
    def __len__(self):
        return 30

    def __getitem__(self, i):
        info = get_worker_info()
        assert _inited == info.id
        time.sleep(0.002)
        return info.id, info.num_workers


_inited = None


def _init(worker):
    global _inited
    _inited = worker


if __name__ == "__main__":
    unittest.main()
