"""Loaders of libraries, whose classes come to their iterators in ways of their own: by _get_iterator,
to put something around it or to keep it for ever, or by making PyTorch's iterators with no DataLoader."""

import gc
import os
import queue
import random
import sys
import threading
import time
import types
import unittest
from multiprocessing.context import ForkContext
from multiprocessing.process import BaseProcess
from unittest import mock

import harness
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from torch.utils.data import dataloader as stock

from gpustall import loaders, process, ring, trial


class Noise(Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, i):
        return torch.tensor([float(i), torch.rand(()).item(), random.random()])


class Around:
    """What is put around an iterator, and ends it with itself."""

    def __init__(self, iterator):
        self.iterator = iterator

    def __iter__(self):
        return self

    def __next__(self):
        return "made", next(self.iterator)

    def _reset(self, loader, first_iter=False):
        self.iterator._reset(loader, first_iter)

    def __del__(self):
        if isinstance(self.iterator, stock._MultiProcessingDataLoaderIter):
            self.iterator.__del__()


class Wrapping(DataLoader):
    def _get_iterator(self):
        return Around(super()._get_iterator())


class Endless:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from self.sampler


class Keeping(DataLoader):
    """One iterator for all epochs, until somebody begins another."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Endless(self.batch_sampler))
        self.iterator = None

    def __iter__(self):
        if self.iterator is None:
            self.iterator = self._get_iterator()
        for _ in range(len(self.batch_sampler.sampler)):
            yield next(self.iterator)

    def reset(self):
        if hasattr(self.iterator, "_workers"):
            self.iterator._shutdown_workers()  # pyright: ignore[reportOptionalMemberAccess]
        self.iterator = None


class Drawing(stock._MultiProcessingDataLoaderIter):
    """An iterator of the script's own, which takes its time for indices."""

    def _next_index(self):
        time.sleep(0.01)
        return super()._next_index()


class Drawn(DataLoader):
    def _get_iterator(self):
        return Drawing(self)


class Shards(IterableDataset):
    """Batches of 4, in turns from all workers."""

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return (torch.arange(4 * i, 4 * i + 4) for i in range(first, 15, step))


class Maker:
    """No DataLoader: only what PyTorch's iterators ask for."""

    _IterableDataset_len_called, _auto_collation, drop_last, in_order, pin_memory, pin_memory_device = None, False, False, True, False, ""
    _dataset_kind, generator, prefetch_factor, persistent_workers, timeout = stock._DatasetKind.Iterable, None, 2, False, 0
    worker_init_fn = multiprocessing_context = None
    _get_shared_seed = None

    def __init__(self, num_workers):
        self.dataset, self.num_workers = Shards(), num_workers
        self._index_sampler = range(10**6)

    @staticmethod
    def collate_fn(data):
        return data

    def __iter__(self):
        kind = stock._SingleProcessDataLoaderIter if self.num_workers == 0 else stock._MultiProcessingDataLoaderIter
        return iter(kind(self))


class Fake(Maker):
    """As fastai has it."""

    def __init__(self, d):
        super().__init__(0)
        self.dataset, self.d = self, d

    def __iter__(self):
        return iter(Shards())


Fake.__module__ = "fastai.data.load"


class ThreadWorker(threading.Thread):
    @property
    def pid(self):
        return id(self)

    def run(self):
        super().run()
        stock._utils.worker._worker_info = None


class ThreadQueue(queue.Queue):
    def close(self):
        pass

    cancel_join_thread = close


class Threads(ForkContext):
    Process, Queue, Event = ThreadWorker, ThreadQueue, threading.Event  # pyright: ignore[reportAssignmentType]


class OwnTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        harness.ask_nothing()
        harness.forget()
        os.environ.pop("GPUSTALL_TOLD", None)
        self.begun = process.now()
        self.model = torch.nn.Linear(3, 1)

    def tearDown(self):
        harness.ask_nothing()
        gc.collect()
        self.assertNotIn("GPUSTALL_TOLD", os.environ, "something was not watched")

    def spans(self, kind):
        return [s for s in harness.spans(kind, pid=str(os.getpid())) if s["start"] > self.begun]

    def told(self, kind):
        return [m for m in harness.messages(kind) if m["t"] > self.begun]

    def learn(self):
        self.model(torch.ones(3)).backward()

    def tried(self):
        """Waits for a worker that is tried."""
        harness.until(lambda: not any(probe.running() for probe in loaders._probes.values() if isinstance(probe, trial.Trial)))

    def test_equal_to_stock(self):
        """Batch by batch, with the random numbers of workers that live on."""
        without = {"__iter__": DataLoader.__iter__.__wrapped__, "_get_iterator": DataLoader._get_iterator.__wrapped__}
        for kind in (Wrapping, Keeping):
            for workers, persistent in ((0, False), (2, False), (2, True)):
                got = []
                for c in (kind, type(kind.__name__, (kind,), {k: v for k, v in without.items() if k not in kind.__dict__})):
                    torch.manual_seed(7)
                    random.seed(7)
                    if c is not kind:
                        watched, DataLoader._get_iterator = DataLoader._get_iterator, without["_get_iterator"]
                        init = stock._MultiProcessingDataLoaderIter.__init__
                        stock._MultiProcessingDataLoaderIter.__init__ = init.__wrapped__
                    try:
                        loader = c(Noise(), batch_size=4, shuffle=True, num_workers=workers, persistent_workers=persistent, timeout=60 * bool(workers))
                        got.append([str(batch) for epoch in range(3) for batch in loader] + [torch.rand(()).item()])
                    finally:
                        if c is not kind:
                            DataLoader._get_iterator, stock._MultiProcessingDataLoaderIter.__init__ = watched, init
                    del loader
                self.assertEqual(got[0], got[1], "%s, %d workers, %s" % (kind.__name__, workers, persistent))
                self.assertEqual(got[0][0].startswith("('made'"), kind is Wrapping)

    def test_changed_while_they_run(self):
        """Each sample comes once in an epoch, and each batch is a step."""
        for kind in (Wrapping, Keeping):
            for persistent in (False, True):
                self.setUp()
                loader = kind(Noise(), batch_size=4, shuffle=True, num_workers=1, persistent_workers=persistent)
                asked = iter([3, 0, 2, 1, 0, 0, 2] * 20)
                for epoch in range(4):
                    got = []
                    for i, batch in enumerate(loader):
                        self.learn()
                        got += (batch[1] if kind is Wrapping else batch)[:, 0].tolist()
                        if i % 4 == 3:
                            harness.ask(num_workers=next(asked), persistent_workers=epoch % 2)
                    if kind is Wrapping:
                        self.assertEqual(sorted(got), list(range(60)))
                    else:
                        self.assertEqual(len(set(got)), 60)
                        if epoch == 1:
                            loader.reset()
                self.assertEqual(len({s["step"] for s in self.spans(ring.NEXT)}), 60)
                told = self.told("loader")[-1]
                self.assertEqual((told["apart"], told["live"]), (True, True))
                self.assertGreater(len({m["knobs"]["num_workers"] for m in self.told("applied")}), 2)
                self.assertEqual({m["knobs"]["persistent_workers"] for m in self.told("applied") if m["knobs"]["num_workers"]}, {int(persistent)})

    def test_iterators_of_a_class_of_their_own(self):
        """They are watched and keep their knobs. What their own _next_index takes is the sampler's, once a batch."""
        for persistent in (False, True):
            self.setUp()
            loader = Drawn(Noise(), batch_size=4, num_workers=1, persistent_workers=persistent)
            harness.ask(num_workers=3)
            for _ in range(2):
                got = []
                for batch in loader:
                    self.learn()
                    got += batch[:, 0].tolist()
                self.assertEqual(got, list(range(60)))
            self.assertEqual(len({s["step"] for s in self.spans(ring.NEXT)}), 30)
            took = [s["end"] - s["start"] for s in self.spans(ring.SAMPLER)]
            self.assertIn(len(took), (30, 32))  # with the draws that find nothing left
            self.assertGreaterEqual(min(took), 9_000_000)
            told = self.told("loader")[-1]
            self.assertEqual((told["live"], told["why"]), (False, "Drawn has iterators of its own"))

    def test_no_dataloader(self):
        """num_workers changes at an epoch, also from none and to none. A worker is tried before, for some epochs."""
        single, several = stock._SingleProcessDataLoaderIter, stock._MultiProcessingDataLoaderIter
        for script in (0, 1):
            self.setUp()
            loader, epochs = Maker(script), 0
            for workers in (None, 2, 0, 3):
                if workers is not None:
                    harness.ask(num_workers=workers)
                want, asked = script if workers is None else workers, -1
                for _ in range(9):
                    iterator, got = iter(loader), []
                    asked, epochs = iterator._num_workers, epochs + 1
                    self.assertIs(type(iterator), several if asked else single)
                    for batch in iterator:
                        self.learn()
                        got.append(batch.tolist())
                    self.assertEqual(got, [list(range(4 * i, 4 * i + 4)) for i in range(15)])
                    with torch.no_grad():  # which is none of the training's
                        self.assertEqual(len(list(Maker(1))), 15)
                    if asked == want:
                        break
                    self.assertEqual((asked, workers), (script, 2))
                    self.tried()
                self.assertEqual(asked, want)
            self.assertEqual(loader.num_workers, script)
            trained = [s for s in self.spans(ring.NEXT) if s["flags"] & ring.TRAIN]
            self.assertEqual((len({s["step"] for s in trained}), {s["arg"] for s in trained}), (15 * epochs, {4}))
            told = self.told("loader")[-1]
            self.assertEqual((told["apart"], told["live"], told["batch_size"], told["shuffle"]), (True, False, 4, None))

    def test_what_stands_behind(self):
        """fastai's loader has the arguments, and makes PyTorch's iterators by one that has none."""
        for shuffle in (False, True):
            self.setUp()
            loader = Fake(types.SimpleNamespace(dataset=Noise(), bs=4, shuffle=shuffle, drop_last=True))
            for _ in stock._SingleProcessDataLoaderIter(loader):
                self.learn()
            (told,) = [m for m in self.told("loader") if m["trains"]]
            self.assertEqual([told[what] for what in ("dataset", "samples", "batch_size", "shuffle", "drop_last")], ["Noise", 60, 4, shuffle, True])

    def test_workers_that_cannot_begin(self):
        """The epoch goes on with those of the script, and the same random numbers."""
        harness.ask(num_workers=3)
        for loader in (DataLoader(Shards(), batch_size=None), Maker(0)):
            process._noted.clear()
            for _ in loader:
                self.learn()
            self.tried()
            torch.manual_seed(5)
            begun, plain = [], BaseProcess.start

            def start(worker):
                begun.append(worker)  # noqa: B023
                if len(begun) > 1:  # noqa: B023
                    raise OSError("no more processes")
                plain(worker)  # noqa: B023

            with mock.patch.object(BaseProcess, "start", start), mock.patch.object(sys, "stderr"), mock.patch.object(sys, "unraisablehook") as complains:
                got = [batch.tolist() for batch in loader]
                gc.collect()
            self.assertEqual((complains.called, begun[0].is_alive()), (False, False))
            self.assertEqual(got, [list(range(4 * i, 4 * i + 4)) for i in range(15)])
            self.assertIn("num_workers stays at 0", os.environ.pop("GPUSTALL_TOLD"))
            after = torch.rand(())
            torch.manual_seed(5)
            torch.empty((), dtype=torch.int64).random_()
            self.assertEqual(torch.rand(()), after)
            self.assertEqual(len([batch for batch in loader]), 15)

    def test_a_thread_that_takes(self):
        """One for each epoch, which hands on what it takes: all is counted, nothing is kept of those that
        ended, and it is said that what learns is another."""
        from gpustall import loops, process

        loops.current()
        loader = DataLoader(Noise(), batch_size=4, num_workers=1)
        for _ in range(4):
            batches = queue.Queue(2)
            taker = threading.Thread(target=lambda batches=batches: [batches.put(b) for b in loader] + [batches.put(None)])
            taker.start()
            for _ in iter(batches.get, None):
                self.learn()
            taker.join()
        self.assertEqual(len({s["step"] for s in self.spans(ring.NEXT)}), 60)
        self.assertEqual([m["text"][:28] for m in self.told("note")], ["one thread takes the batches"])
        self.assertLess(sum(not loop.thread.is_alive() for loop in process.current().loops), 2)
        for _ in loader:
            self.learn()
        with mock.patch.object(process.looks, "stop"):
            process.current().settle()
        self.assertEqual([s["step"] for s in self.spans(ring.LAST)], [max(s["step"] for s in self.spans(ring.NEXT))])

    def test_threads_for_workers(self):
        """They are left alone, and it is said why."""
        loader = DataLoader(Noise(), batch_size=4, num_workers=2, multiprocessing_context=Threads())
        create = stock._DatasetKind.create_fetcher
        harness.ask(num_workers=4)
        for _ in range(2):
            got = []
            for batch in loader:
                self.learn()
                got += batch[:, 0].tolist()
            self.assertEqual(got, list(range(60)))
        self.assertIs(stock._DatasetKind.create_fetcher, create)
        self.assertEqual(len({s["step"] for s in self.spans(ring.NEXT)}), 30)
        self.assertEqual(self.told("loader")[-1]["why"], "its workers are threads of the script's own process")


if __name__ == "__main__":
    unittest.main()
