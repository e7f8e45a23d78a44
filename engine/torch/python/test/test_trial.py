"""num_workers raised from 0 under data sets of which half cannot be forked: no sample is wrong, lost or doubled."""

import concurrent.futures
import io
import mmap
import multiprocessing.pool
import os
import queue
import random
import shutil
import socket
import sqlite3
import tarfile
import threading
import time
import unittest
import unittest.mock
import zipfile
from typing import Any

import harness
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from gpustall import loaders, trial

SIZE, WIDTH = 240, 9000  # a record is longer than Python's buffer
FOLDER = os.path.join(harness.FOLDER, "records")


def record(i):
    return bytes([i % 251]) * WIDTH


def make():
    """Writes the same records as a file, a zip, a tar, a database, and a file each."""
    os.makedirs(FOLDER, exist_ok=True)
    with open(FOLDER + "/all", "wb") as f:
        f.writelines(record(i) for i in range(SIZE))
    with zipfile.ZipFile(FOLDER + "/zip", "w") as z, tarfile.open(FOLDER + "/tar", "w") as t:
        for i in range(SIZE):
            z.writestr(str(i), record(i))
            entry = tarfile.TarInfo(str(i))
            entry.size = WIDTH
            t.addfile(entry, io.BytesIO(record(i)))
    db = sqlite3.connect(FOLDER + "/db")
    db.execute("create table r (i integer primary key, b blob)")
    db.executemany("insert into r values (?, ?)", ((i, record(i)) for i in range(SIZE)))
    db.commit()
    db.close()
    for i in range(SIZE):
        with open("%s/%d" % (FOLDER, i), "wb") as f:
            f.write(record(i))
    with open(FOLDER + "/rows", "w") as f:
        f.writelines("%d\n" % (i % 251) for i in range(SIZE))


class Data(Dataset):
    """A data set that reads records."""

    def __len__(self):
        return SIZE

    def __getitem__(self, i):
        time.sleep(0.001)
        return i, self.read(i)[0]


class Memory(Data):
    def __init__(self):
        self.records = [record(i) for i in range(SIZE)]

    def read(self, i):
        return self.records[i]


class Tensors(Data):
    def __init__(self):
        self.all = torch.arange(SIZE)

    def read(self, i):
        return [int(self.all[i]) % 251]


class Mapped(Data):
    def __init__(self):
        self.all = torch.from_file(FOLDER + "/all", size=SIZE * WIDTH, dtype=torch.uint8)

    def read(self, i):
        return [int(self.all[i * WIDTH])]


class Positioned(Data):
    def __init__(self):
        self.file = open(FOLDER + "/all", "rb")  # noqa: SIM115 - it stays open

    def read(self, i):
        return os.pread(self.file.fileno(), 10, i * WIDTH)


class EachFile(Data):
    def read(self, i):
        with open("%s/%d" % (FOLDER, i), "rb") as f:
            return f.read()


class EachZip(Data):
    def read(self, i):
        with zipfile.ZipFile(FOLDER + "/zip") as z:
            return z.read(str(i))


class EachConnection(Data):
    def read(self, i):
        db = sqlite3.connect(FOLDER + "/db")
        (found,) = db.execute("select b from r where i = ?", (i,)).fetchone()
        db.close()
        return found


class Augmented(Memory):
    def read(self, i):
        torch.rand(3)
        random.random()
        return self.records[i]


class Noisy(Memory):
    """Its samples differ each time, as those of a generator that nobody seeds."""

    def __getitem__(self, i):
        return i, self.records[i][0], time.monotonic_ns()


class PerWorker(Data):
    """Opens the file at the first sample in each worker, and never in the loop."""

    file = None

    def read(self, i):
        if get_worker_info() is None:
            return record(i)
        if self.file is None:
            self.file = open(FOLDER + "/all", "rb")  # noqa: SIM115 - it stays open
        self.file.seek(i * WIDTH)
        return self.file.read(10)


class OfProcess(Data):
    """Opens the file anew where it is in another process than before."""

    file: Any = None
    pid = 0

    def read(self, i):
        if self.pid != os.getpid():
            self.file, self.pid = open(FOLDER + "/all", "rb"), os.getpid()  # noqa: SIM115 - it stays open
        self.file.seek(i * WIDTH)
        return self.file.read(WIDTH)


class OfWorker(Data):
    """Has a connection for the loop, and for each worker."""

    def __init__(self):
        self.all = {}

    def read(self, i):
        info = get_worker_info()
        number = info.id if info else -1
        if number not in self.all:
            self.all[number] = sqlite3.connect(FOLDER + "/db")
        return self.all[number].execute("select b from r where i = ?", (i,)).fetchone()[0]


class Counting(Memory):
    """Counts its samples in memory that processes share: a worker that is tried would count some twice."""

    def __init__(self):
        super().__init__()
        self.count = multiprocessing.Value("i", 0)

    def read(self, i):
        with self.count.get_lock():
            self.count.value += 1
        return self.records[i]


class Logging(Memory):
    """Counts and lists its samples where a worker that is tried must not: in memory and files that are shared."""

    def __init__(self):
        super().__init__()
        self.map, self.tensor = mmap.mmap(-1, SIZE), torch.zeros(SIZE, dtype=torch.uint8).share_memory_()
        self.paths = ["%s/log-%d-%d" % (FOLDER, id(self), n) for n in range(2)]
        self.log = open(self.paths[0], "ab", buffering=0)  # noqa: SIM115 - it stays open

    def read(self, i):
        self.map[i] += 1
        self.tensor[i] += 1
        self.log.write(b"%d\n" % i)
        with open(self.paths[1], "a") as log:
            log.write("%d\n" % i)
        return self.records[i]

    def counts(self):
        """How often samples were read, by each of these."""
        listed = [open(path).read().split() for path in self.paths]  # noqa: SIM115
        return {*self.map[:], *self.tensor.tolist(), *(lines.count(str(i)) for lines in listed for i in range(SIZE))}


class Seeks(Data):
    def __init__(self):
        self.file = open(FOLDER + "/all", "rb")  # noqa: SIM115 - it stays open

    def read(self, i):
        self.file.seek(i * WIDTH)
        time.sleep(0.001)
        return self.file.read(WIDTH)


class Descriptor(Data):
    def __init__(self):
        self.fd = os.open(FOLDER + "/all", os.O_RDONLY)

    def read(self, i):
        os.lseek(self.fd, i * WIDTH, os.SEEK_SET)
        return os.read(self.fd, WIDTH)


class Restless(Descriptor):
    """Its position moves all the time."""

    def __getitem__(self, i):
        return i, self.read(i)[0]

    def read(self, i):
        os.lseek(self.fd, i * WIDTH, os.SEEK_SET)
        return b"".join(os.read(self.fd, 2) for _ in range(WIDTH // 2))


class Zip(Data):
    def __init__(self):
        self.zip = zipfile.ZipFile(FOLDER + "/zip")

    def read(self, i):
        return self.zip.read(str(i))


class Tar(Data):
    def __init__(self):
        self.tar = tarfile.open(FOLDER + "/tar")
        self.members = self.tar.getmembers()

    def read(self, i):
        file = self.tar.extractfile(self.members[i])
        assert file is not None
        return file.read()


class Connection(Data):
    def __init__(self):
        self.db = sqlite3.connect(FOLDER + "/db", check_same_thread=False)

    def read(self, i):
        return self.db.execute("select b from r where i = ?", (i,)).fetchone()[0]


class Socket(Data):
    def __init__(self):
        self.mine, other = socket.socketpair()
        threading.Thread(target=self.serve, args=(other,), daemon=True).start()

    @staticmethod
    def serve(other):
        while True:
            asked = other.recv(4)
            if not asked:
                return
            other.sendall(bytes([int.from_bytes(asked, "big") % 251]))

    def read(self, i):
        self.mine.sendall(i.to_bytes(4, "big"))
        return self.mine.recv(1)


class Executor(Data):
    def __init__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(2)

    def read(self, i):
        return self.pool.submit(record, i).result()


class Hidden(Executor):
    """Its pool is where nobody looks; the worker that is tried hangs."""

    pools = {}

    def __init__(self):
        self.key = len(Hidden.pools)
        Hidden.pools[self.key] = concurrent.futures.ThreadPoolExecutor(2)

    def read(self, i):
        return Hidden.pools[self.key].submit(record, i).result()


class Nested(Data):
    def read(self, i):
        with multiprocessing.get_context("fork").Pool(1) as pool:
            return pool.map(record, [i])[0]


class Fed(Data):
    """A thread makes its records."""

    def __init__(self):
        self.asked, self.made = queue.Queue(), queue.Queue()
        threading.Thread(target=self.feed, daemon=True).start()

    def feed(self):
        while True:
            self.made.put(record(self.asked.get()))

    def read(self, i):
        self.asked.put(i)
        return self.made.get()


class Generated(Data):
    """A generator reads its records."""

    def __init__(self):
        self.rows = self.make()

    def make(self):
        with open(FOLDER + "/all", "rb") as f:
            while True:
                i = yield b""
                f.seek(i * WIDTH)
                yield f.read(WIDTH)

    def read(self, i):
        next(self.rows)
        return self.rows.send(i)


SMALL: Any = None


class Small(Data):
    """Its records are so small that Python's buffer has those of many batches, and its file is the module's."""

    def __init__(self):
        global SMALL
        with open(FOLDER + "/small", "wb") as f:
            f.writelines(record(i)[:100] for i in range(SIZE))
        SMALL = open(FOLDER + "/small", "rb")  # noqa: SIM115 - it stays open

    def read(self, i):
        SMALL.seek(i * 100)
        return SMALL.read(100)


class Unsendable(Memory):
    def __getitem__(self, i):
        return i, self.records[i][0], lambda: i


class Another(Memory):
    """Its samples are others in a worker."""

    def read(self, i):
        return record(i + 1) if get_worker_info() else self.records[i]


class Picky(Memory):
    def read(self, i):
        if get_worker_info() is not None:
            raise RuntimeError("not in a worker")
        return self.records[i]


class Streamed(IterableDataset):
    """Yields the samples of a data set, each in one of the workers."""

    def __init__(self, data: Any = None):
        self.data = data

    def __iter__(self):
        info = get_worker_info()
        for i, first in enumerate(self.firsts()):
            if info is None or i % info.num_workers == info.id:
                yield i, first

    def firsts(self):
        info = get_worker_info()
        for i in range(SIZE):
            yield self.data[i][1] if info is None or i % info.num_workers == info.id else 0


class Rows(Streamed):
    """Its records are rows of a text, which each iterator opens."""

    def firsts(self):
        with open(FOLDER + "/rows") as rows:
            yield from map(int, rows)


class HeldRows(Streamed):
    def __init__(self):
        self.rows = open(FOLDER + "/rows")  # noqa: SIM115 - it stays open

    def firsts(self):
        self.rows.seek(0)
        for row in self.rows:
            time.sleep(0.0005)
            yield int(row)


class LateRows(HeldRows):
    """Its first iterator opens the rows, and they stay open."""

    def __init__(self):
        self.rows = None

    def firsts(self):
        if self.rows is None:
            self.rows = open(FOLDER + "/rows")  # noqa: SIM115 - it stays open
        return super().firsts()


class HeldRecords(Streamed):
    def __init__(self):
        self.file = open(FOLDER + "/all", "rb", buffering=1 << 22)  # noqa: SIM115 - it stays open

    def firsts(self):
        self.file.seek(0)
        for _ in range(SIZE):
            yield self.file.read(WIDTH)[0]


class Taken(Streamed):
    """Workers take numbers from a counter that they share. A worker that is tried would take the training's."""

    def __init__(self):
        self.next = multiprocessing.Value("i", 0)

    def firsts(self):
        for _ in range(SIZE):
            with self.next.get_lock():
                i, self.next.value = self.next.value, self.next.value + 1
            yield i % SIZE % 251


class Tables(Streamed):
    """It asks another process for its records, through a socket that its first worker would use."""

    sockets = {}

    def __init__(self):
        self.key = len(self.sockets)
        self.sockets[self.key], other = socket.socketpair()
        threading.Thread(target=Socket.serve, args=(other,), daemon=True).start()

    def firsts(self):
        for i in range(SIZE):
            self.sockets[self.key].sendall(i.to_bytes(4, "big"))
            yield self.sockets[self.key].recv(1)[0]


def collated(samples):
    return tuple(torch.tensor(column) if isinstance(column[0], int) else column for column in zip(*samples))


FORKS = (Memory, Tensors, Mapped, Positioned, EachFile, EachZip, EachConnection, Augmented, Noisy, PerWorker, OfProcess, OfWorker, Counting, Logging)
FAILS = (Seeks, Descriptor, Zip, Tar, Connection, Socket, Executor, Nested, Fed, Picky, Generated, Small, Unsendable, Another)


@unittest.skipIf(torch.multiprocessing.get_start_method(True) not in (None, "fork"), "workers are not forked")
class TrialTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        make()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(FOLDER)

    def setUp(self):
        harness.forget()
        harness.ask_nothing()

    tearDown = setUp

    def trial(self, can):
        """How long a worker may be tried: long on a busy machine, unless it hangs."""
        return unittest.mock.patch.object(trial, "SECONDS", 60 if can else 1)

    def train(self, data, workers=0):
        """Goes through a data set until workers that are asked for are there or refused, and once more. Returns the most
        that there were."""
        weight, most, seen = torch.ones(1, requires_grad=True), 0, []
        loader = DataLoader(data, 4, shuffle=not isinstance(data, Small), num_workers=workers, collate_fn=collated)
        decided, late = 0, time.monotonic() + 120
        while decided < 2 and time.monotonic() < late:
            epoch = []
            iterator = iter(loader)
            for step, (i, first, *_) in enumerate(iterator):
                weight.sum().backward()
                if step == 5 and not seen:
                    harness.ask(num_workers=3)
                epoch += zip(i.tolist(), first.tolist())
                if step > 5:
                    time.sleep(0.004)
                most = max(most, len(iterator._crew) - workers)
            seen.append(epoch)
            decided += most > 0 or loaders.plans[loader].limit is not None
        for epoch in seen:
            self.assertEqual(sorted(epoch), [(i, i % 251) for i in range(SIZE)], type(data).__name__)
        return most

    def go_through(self, data, workers=0):
        """The same for an iterable data set, whose workers begin with an epoch."""
        weight, most, seen = torch.ones(1, requires_grad=True), 0, []
        loader = DataLoader(data, 4, num_workers=workers)
        decided, late = 0, time.monotonic() + 120
        while decided < 2 and time.monotonic() < late:
            epoch = []
            iterator = iter(loader)
            for step, (i, first) in enumerate(iterator):
                weight.sum().backward()
                if step == 5 and not seen:
                    harness.ask(num_workers=3)
                epoch += zip(i.tolist(), first.tolist())
                time.sleep(0.004)
            most = max(most, len(getattr(iterator, "_workers", ())) - workers)
            seen.append(epoch)
            decided += most > 0 or loaders.plans[loader].limit is not None
        for epoch in seen:
            self.assertEqual(sorted(epoch), [(i, i % 251) for i in range(SIZE)], type(data).__name__)
        return most

    def test_streams(self):
        kinds: Any = [(Streamed, kind, 3) for kind in (Mapped, Positioned, EachConnection, Augmented, PerWorker)] + [(Rows, None, 3)]
        kinds += [(Streamed, kind, 0) for kind in (Seeks, Descriptor, Connection, Executor, Fed, Picky)]
        kinds += [(kind, None, 0) for kind in (HeldRows, LateRows, HeldRecords, Tables)]
        for stream, kind, workers in kinds:
            harness.forget()
            harness.ask_nothing()
            before = len(harness.messages("refused"))
            with self.subTest((kind or stream).__name__), self.trial(workers):
                self.assertEqual(self.go_through(stream(kind()) if kind else stream()), workers, [m["reason"] for m in harness.messages("refused")][-1:])
                told = harness.messages("refused")[before:]
                self.assertTrue(workers or told and told[0]["reason"] and told[0]["hint"], told)

    def test_shared_on_purpose(self):
        data = Taken()
        weight = torch.ones(1, requires_grad=True)
        for step, (i, first) in enumerate(DataLoader(data, 4)):
            weight.sum().backward()
            if step == 5:
                harness.ask(num_workers=3)
            self.assertEqual([n % 251 for n in i.tolist()], first.tolist())
        self.assertEqual(data.next.value, SIZE)

    def test_streams_beside_one(self):
        for kind, added in (Rows, 2), (HeldRows, 0), (LateRows, 2), (HeldRecords, 0):
            harness.forget()
            harness.ask_nothing()
            with self.subTest(kind.__name__):
                self.assertEqual(self.go_through(kind(), 1), added, [m["reason"] for m in harness.messages("refused")][-1:])

    def test_the_look_comes_first(self):
        """A quick worker moves its file at once, and leaves it at the end from then on."""
        begin = trial.Beside.__init__

        def late(*args):
            time.sleep(0.3)
            begin(*args)

        with unittest.mock.patch.object(trial.Beside, "__init__", late):
            harness.forget()
            harness.ask_nothing()
            self.assertEqual(self.go_through(HeldRecords(), 1), 0)

    def test_those_that_can(self):
        for kind in FORKS:
            harness.forget()
            harness.ask_nothing()
            with self.subTest(kind.__name__), self.trial(True):
                data = kind()
                self.assertEqual(self.train(data), 3, [m["reason"] for m in harness.messages("refused")][-1:])
                self.assertEqual(isinstance(data, Counting) and data.count.value % SIZE, 0)
                self.assertEqual(len(data.counts()) if isinstance(data, Logging) else 1, 1)

    def test_those_that_cannot(self):
        for kind in FAILS:
            harness.forget()
            harness.ask_nothing()
            before = len(harness.messages("refused"))
            with self.subTest(kind.__name__), self.trial(False):
                self.assertEqual(self.train(kind()), 0)
                told = harness.messages("refused")[before:]
                self.assertTrue(told and told[0]["reason"] and told[0]["hint"], told)

    def test_beside_one(self):
        """A script's only worker gets others beside it, unless it reads what they would share."""
        for kind, added in (Memory, 2), (EachFile, 2), (Positioned, 2), (Augmented, 2), (Seeks, 0), (Descriptor, 0), (Restless, 0), (Zip, 0), (Connection, 0):
            harness.forget()
            harness.ask_nothing()
            with self.subTest(kind.__name__):
                self.assertEqual(self.train(kind(), 1), added, [m["reason"] for m in harness.messages("refused")][-1:])

    def test_one_that_hangs(self):
        before = len(harness.messages("refused"))
        with self.trial(False):
            self.assertEqual(self.train(Hidden()), 0)
        (told, *_) = harness.messages("refused")[before:]
        self.assertIn("loaded no batch in", told["reason"])
        tried = len(loaders._probes)
        self.assertEqual(self.train(Hidden()), 0)
        self.assertEqual(len(loaders._probes), tried, "a data set of that kind, made anew, is tried again")

    def test_made_anew(self):
        """A data set that is made anew in each epoch is not tried again: its first batch is by the workers asked for."""
        for workers in 0, 1:
            harness.forget()
            harness.ask_nothing()
            weight, crews, late = torch.ones(1, requires_grad=True), [], time.monotonic() + 120
            while crews[-2:] != [3, 3] and time.monotonic() < late:
                iterator = iter(DataLoader(Memory(), 4, shuffle=True, num_workers=workers))
                for step, _ in enumerate(iterator):
                    weight.sum().backward()
                    if step == 5:
                        harness.ask(num_workers=3)
                    if step == 0:
                        crews.append(len(iterator._crew))
                    time.sleep(0.004)
                del iterator
            self.assertEqual((crews[0], crews[-2:]), (workers, [3, 3]))
            self.assertEqual(crews, sorted(crews))

    def test_same(self):
        for a, b, equal in (
            (torch.ones(2), torch.ones(2), True), (torch.ones(2), torch.zeros(2), False), (torch.tensor(float("nan")), torch.tensor(float("nan")), True),
            (torch.tensor(1.0).bfloat16(), torch.tensor(1.0).bfloat16(), True), ({"a": [1, "b"]}, {"a": [1, "b"]}, True),
            ({"a": [1, "b"]}, {"a": [2, "b"]}, False),
            ([torch.ones(1)], (torch.ones(1),), False), (object(), object(), True),
        ):
            self.assertEqual(trial.same(a, b), equal, (a, b))


if __name__ == "__main__":
    unittest.main()
