"""What a script would not forgive: a loop that is watched leaves nothing behind, holds nothing, and
gets in the way of nothing that goes well without it."""

import copy
import dataclasses
import gc
import os
import pickle
import unittest
import warnings
import weakref
from unittest import mock

import harness
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SequentialSampler, TensorDataset, get_worker_info

import gpustall
from gpustall import process, ring

PORTS = [5000, 5001]
MODEL = nn.Linear(1, 1)


def learn():
    MODEL(torch.ones(1, 1)).sum().backward()


class Pieces(Dataset):
    """Given a list of indices, returns it in the batch."""

    def __len__(self):
        return 32

    def __getitem__(self, i):
        return {"index": i, "x": torch.tensor(i)}


class Kept(Pieces):
    """Keeps the lists that it is given."""

    def __init__(self):
        self.kept = []

    def __getitems__(self, indices):
        self.kept.append(indices)
        return [torch.tensor(i) for i in indices]


class Outer(IterableDataset):
    """Goes through a loader of its own."""

    def __iter__(self):
        for (batch,) in DataLoader(TensorDataset(torch.arange(12)), batch_size=4):
            yield from batch


class Sharded(IterableDataset):
    """Of which worker_init_fn tells a worker its shard."""

    shards = [range(3), range(3, 6)]

    def __iter__(self):
        info = get_worker_info()
        return iter(getattr(info.dataset if info else self, "mine", range(6)))


def takes_shard(number):
    get_worker_info().dataset.mine = Sharded.shards[number]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(8))


class Epochs(Dataset):
    """The script tells it the epoch."""

    epoch = 0

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return torch.tensor([10 * self.epoch + i, os.getpid()])


class EpochStream(Epochs, IterableDataset):
    def __iter__(self):
        return map(self.__getitem__, range(6))


class Transformed(Dataset):
    """Whose transform is a container, too."""

    def __init__(self, use):
        self.transform, self.use = nn.Sequential(nn.Identity(), nn.ReLU()), use

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return self.use(self.transform, torch.tensor([float(i)]))


@dataclasses.dataclass
class Named:
    keys: torch.Tensor
    values: torch.Tensor


def named(samples):
    return Named(torch.arange(len(samples)), torch.stack([x[0] for x in samples]))


class Tensors:
    """A batch sampler that yields no lists."""

    def __iter__(self):
        return iter(torch.arange(8).split(4))

    def __len__(self):
        return 2


def fails(number):
    raise KeyError("no port for worker %d" % number)


def serves_two(number):
    PORTS[number]


def files():
    return len(os.listdir("/proc/self/fd"))


def seen(loader):
    return [int(x) for (batch,) in loader for x in batch]


class GuestTest(unittest.TestCase):
    def setUp(self):
        harness.ask_nothing()
        harness.forget()

    def tearDown(self):
        harness.ask_nothing()

    def test_no_file_stays_open(self):
        for data in (TensorDataset(torch.arange(8.0)), Stream()):
            loader = DataLoader(data, batch_size=4)
            for _ in loader:
                pass
            before = files()
            for _ in range(20):
                for _ in loader:
                    pass
                next(iter(loader))
            self.assertLessEqual(files(), before, type(data).__name__)  # those of an earlier test may close meanwhile

    def test_no_data_set_is_held(self):
        gc.collect()
        gc.disable()
        try:
            for workers in (0, 2):
                data = TensorDataset(torch.arange(8.0))
                there = weakref.ref(data)
                for _ in DataLoader(data, batch_size=4, num_workers=workers):
                    pass
                del data
                self.assertIsNone(there(), "%d workers" % workers)
        finally:
            gc.enable()

    def test_lists_of_indices_are_lists(self):
        sampler = BatchSampler(SequentialSampler(range(32)), 4, False)
        for workers in (0, 1):
            for batch in DataLoader(Pieces(), batch_size=None, sampler=sampler, num_workers=workers, timeout=120 * workers):
                self.assertIs(type(batch["index"]), list)
        data = Kept()
        for _ in DataLoader(data, batch_size=4):
            pass
        for again in (pickle.loads(pickle.dumps(data.kept)), copy.deepcopy(data.kept), [type(i)(n for n in i) for i in data.kept]):
            self.assertEqual([list(i) for i in again], [list(range(n, n + 4)) for n in range(0, 32, 4)])

    def test_a_transform_is_what_it_is(self):
        def through(transform, x):
            for part in transform:
                x = part(x)
            return x

        uses = {
            "called": lambda t, x: t(x), "gone through": through, "looked into": lambda t, x: t[0](x), "counted": lambda t, x: x * len(t),
            "copied": lambda t, x: copy.deepcopy(t)(x), "pickled": lambda t, x: pickle.loads(pickle.dumps(t))(x),
            "asked": lambda t, x: x if t and isinstance(t, nn.Module) else None,
        }
        for name, use in uses.items():
            with self.subTest(name):
                self.assertEqual(len(list(DataLoader(Transformed(use), batch_size=4))), 2)

    def test_batches_of_which_nobody_can_tell_the_size(self):
        for batch in DataLoader(TensorDataset(torch.arange(8.0)), batch_sampler=Tensors(), collate_fn=named):
            self.assertEqual(len(batch.keys), 4)

    def test_an_init_function_that_fails(self):
        with self.assertRaisesRegex(KeyError, "no port for worker 0") as caught:
            list(DataLoader(TensorDataset(torch.arange(8.0)), num_workers=1, worker_init_fn=fails))
        self.assertIn("in DataLoader worker process 0", str(caught.exception))

    def test_an_init_function_that_serves_no_more_workers(self):
        loader = DataLoader(TensorDataset(torch.arange(80)), batch_size=2, num_workers=2, worker_init_fn=serves_two)
        for more in (3, 6):
            harness.ask_nothing()
            for _ in range(2):
                got = []
                for i, (batch,) in enumerate(loader):
                    got += batch.tolist()
                    learn()
                    if i == 3:
                        harness.ask(num_workers=more)
                self.assertEqual(got, list(range(80)))
        self.assertEqual([m["knobs"] for m in harness.messages("refused")][-1], {"num_workers": 2})

    def test_an_iterator_that_the_script_drops(self):
        def epochs():
            torch.manual_seed(1)
            loader = DataLoader(TensorDataset(torch.arange(8)), batch_size=2, num_workers=1, persistent_workers=True, shuffle=True)
            out = []
            for _ in range(3):
                out.append((seen(loader), torch.rand(()).item()))
                loader._iterator._shutdown_workers()  # pyright: ignore[reportOptionalMemberAccess]
                loader._iterator = None
            return out

        watched = epochs()
        plain = {name: getattr(DataLoader, name).__wrapped__ for name in ("__iter__", "_get_iterator")}
        with mock.patch.multiple(DataLoader, **plain):
            self.assertEqual(epochs(), watched)

    def test_a_loop_within_a_loop_over_workers_that_stay(self):
        loader = DataLoader(TensorDataset(torch.arange(6)), batch_size=2, num_workers=1)
        for _ in loader:
            learn()
        harness.ask(persistent_workers=1)
        seen(loader)
        pairs = []
        for (a,) in loader:
            learn()
            pairs += [(int(a[0]), int(b[0])) for (b,) in loader]
        self.assertEqual(pairs, [(a, b) for a in (0, 2, 4) for b in (0, 2, 4)])
        self.assertEqual([(int(a[0]), int(b[0])) for (a,), (b,) in zip(loader, loader)], [(0, 0), (2, 2), (4, 4)])
        copy.deepcopy(loader)
        got = []
        for i, (a,) in enumerate(loader):
            got.append(int(a[0]))
            if i == 0:
                harness.ask(persistent_workers=0)
                next(iter(loader))
        self.assertEqual(got, [0, 2, 4])

    def test_a_data_set_that_changes_between_epochs(self):
        """Workers that persist because of gpustall would not see that: others begin."""
        for data in (Epochs(), EpochStream()):
            loader, pids = DataLoader(data, batch_size=2, num_workers=1), []
            harness.ask(persistent_workers=1)
            for n in range(-1, 6):  # in the first epoch it is not known yet that it trains
                data.epoch = n // 2
                got = torch.cat([batch for batch in loader if learn() is None])
                self.assertEqual(got[:, 0].tolist(), [10 * data.epoch + i for i in range(6)])
                pids.append(int(got[0, 1]))
            self.assertEqual([a == b for a, b in zip(pids[1:], pids[2:])], [True, False, True, False, True], type(data).__name__)

    def test_a_loader_within_a_data_set(self):
        for workers in (0, 1):
            loader = DataLoader(Outer(), batch_size=3, num_workers=workers)
            before = process.current().steps
            for _ in range(2):
                for _ in loader:
                    learn()
            self.assertEqual(process.current().steps - before, 8, "%d workers" % workers)
        harness.ask(num_workers=2)
        self.assertEqual(sorted(int(x) for batch in DataLoader(Outer(), num_workers=1) for x in batch), list(range(12)))

    def test_a_stream_whose_init_function_serves_no_more_workers(self):
        loader = DataLoader(Sharded(), num_workers=2, worker_init_fn=takes_shard)
        for want in (None, 4, 4):
            harness.ask(num_workers=want)
            got = []
            for x in loader:
                got.append(int(x))
                learn()
            self.assertEqual(sorted(got), list(range(6)))
        loader = DataLoader(Stream(), worker_init_fn=fails)
        for want in (None, 1):
            harness.ask(num_workers=want)
            for _ in loader:
                learn()
            self.assertEqual(sorted(int(x) for x in loader), list(range(8)))

    def test_settings_that_come_to_nothing(self):
        loader = DataLoader(Stream(), num_workers=1)
        for want in (None, 1):
            harness.ask(pin_memory=want)
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # that there is no GPU, for one
                for _ in loader:
                    learn()

    def test_a_watch_that_is_left(self):
        before = process.current().steps
        for _ in range(3):
            for _ in gpustall.watch(range(5)):
                learn()
                break
        for _ in range(4):
            learn()
            gpustall.step()
        self.assertEqual(process.current().steps - before, 3 + 4)

    def test_nowhere_to_write(self):
        loader = DataLoader(TensorDataset(torch.arange(8)), batch_size=2)
        seen(loader)
        with mock.patch.object(process.current().local, "rings", {r: v for r, v in process.current().local.rings.items() if r == ring.LOOP}):
            with mock.patch.object(ring.os, "open", side_effect=OSError(28, "No space left on device")):
                self.assertEqual(seen(loader), list(range(8)))


if __name__ == "__main__":
    unittest.main()
