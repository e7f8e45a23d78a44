"""What a DataLoader's worker does, seen from inside its process: PyTorch's own worker loop
with its queue and its fetcher wrapped. The inline loader (num_workers=0) uses the same.
"""

import collections
import copy
import functools
import importlib
import itertools
import operator
import os
import sys
import time
import weakref
from multiprocessing import util
from queue import Empty

from gpustall import control, process, ring

now = time.monotonic_ns
RETIRE = ("gpustall", "retire")  # in place of a task: no more follow, for this worker alone

# To time a phase of a sample costs 4 us. Where a batch has more of them than one in so many ns, they are timed
# in some batches only, up to one in RARELY, so that it is half a percent to one of the time; others divide alike.
PHASE, RARELY = 800_000, 256
# Where a phase is as long as this, the time on a core and the wait for one are read as well.
LONG = 2_000_000
# Batches of less than SHORT_BATCH, and samples of less than TINY, are looked at in one batch of
# SELDOM as closely as others are. Of batches up to LONG_BATCH, and samples up to FINE, it is one of
# SOME while they wait for cores hardly at all, and one takes about what another does.
SHORT_BATCH, LONG_BATCH = 1_000_000, 40_000_000
TINY, FINE = 30_000, 1_000_000
SELDOM, SOME = 16, 8
# How many batches every sample is looked at for when one took far longer than others do.
ALERT = 32
# Of a batch that takes longer than this to be sent, in ns, it is told what that went to.
LATE = 100_000
# Of the usage, where it was not read: ns on a core, and ns ready without one.
NOT_READ = -1, -1
# A gap between two phases of a sample that is worth a span of its own.
GAP = 50_000


class Usage:
    """What this thread did so far: ns on a core, and ns ready to run without one."""

    def __init__(self):
        self.file = -1  # where the kernel tells nothing
        try:
            self.file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            pass

    def __del__(self):
        if self.file >= 0:
            os.close(self.file)

    def read(self):
        """ns on a core and ready without one so far, asked by the thread itself."""
        return (time.thread_time_ns(), int(os.pread(self.file, 64, 0).split()[1])) if self.file >= 0 else None

    def of_sleeper(self):
        """The same, asked by another thread while this one sleeps, which it does not count else."""
        return tuple(map(int, os.pread(self.file, 64, 0).split()[:2])) if self.file >= 0 else None

    @staticmethod
    def split(before, after):
        """ns on a core and ready without one between two readings; -1 where that is not known."""
        if before is None or after is None:
            return NOT_READ
        return after[0] - before[0], after[1] - before[1]

    def since(self, before):
        """The same until now."""
        return self.split(before, self.read()) if before else NOT_READ


class Task:
    """The batch under way."""

    __slots__ = ("index", "round", "got", "counted")

    def __init__(self):
        self.index, self.round = -1, -1
        self.got = 0  # when the worker did, where it has a queue
        self.counted = False  # what the kernel counts is read for it


class Observer:
    """Times what a fetcher does for each batch."""

    def __init__(self, ring, iteration, task):
        self.write, self.iteration, self.task = ring.record, iteration, task
        self.usage = Usage()
        self.detail, self.turn, self.every = False, 0, 1
        self.at = 0  # the end of the last phase
        self.mean, self.long = {}, False  # ns of a phase, by kind, and whether one of them is LONG
        self.timed = []  # phases that are not recorded yet: kind, start, end, the sample's place in the batch, usage
        self.phases = 0  # of the batch
        self.collates = self.took_batch = 0  # ns, of the last batch
        self.collating = 0  # when collation began, where no record of its own tells
        self.read, self.free = None, 0  # the usage when the last batch was done, if it was read, and when that was
        self.uneven = self.wary = 0  # the turns until which every sample, and what the kernel counts, are looked at
        self.batch, self.begun = (), ()  # the indices of the batch, where its samples are looked at; when each began, and the last ended

    def record(self, kind, start, end, flags=0):
        self.write(kind, start, end, self.iteration, self.task.round, self.task.index, -1, -1, 0, flags)

    def rest(self, end):
        """Records that samples were fetched since the last phase that was timed, if it is worth that."""
        if end - self.at > GAP:
            self.record(ring.FETCH, self.at, end, 0 if self.detail else ring.WHOLE)

    def flush(self):
        """Records the phases that were timed. All at once that takes a quarter of what it does between
        samples, when what decoded one has left nothing of this in the processor's caches."""
        write, mean, at = self.write, self.mean, self.at
        iteration, round, batch = self.iteration, self.task.round, self.task.index
        timed, self.timed = self.timed, []
        for kind, start, end, place, used in timed:
            if start - at > GAP:
                self.record(ring.FETCH, at, start)
            core, waiting = used
            write(kind, start, end, iteration, round, batch, -1, self.name(place), 0, 0, core, waiting)
            usual = mean.get(kind, 0)
            mean[kind] = usual + (end - start - usual) // 4 if usual else end - start
            at = end
        self.at = at
        self.phases += len(timed)
        self.long = max(mean.values()) >= LONG

    def tell(self, start, end, slowest, took, core, waiting):
        """Records a batch, with those of its phases that have no record of their own."""
        task, offset = self.task, 0
        task.got = 0
        if self.timed:
            self.flush()
        if self.collating:
            offset, self.collates = self.collating - start, end - self.collating
            if offset > 0xFFFFFFFF:
                self.rest(self.collating)
                self.record(ring.COLLATE, self.collating, end)
                offset = 0
        else:  # it failed, or a __getitem__ that collates
            self.rest(end)
        self.write(ring.BATCH, start, end, self.iteration, task.round, task.index, -1, slowest, took, 0, core, waiting, offset)

    def name(self, i):
        """What a record calls the sample at a place of the batch: its index, where that is a number."""
        index = self.batch[i] if 0 <= i < len(self.batch) else -1
        return index if type(index) is int and -1 <= index < 1 << 31 else -1

    def slowest(self):
        """The sample of the batch that took longest, and ns, where its samples were looked at."""
        took = list(map(operator.sub, self.begun[1:], self.begun))
        if not took:
            return -1, 0
        most = max(took)
        return self.name(took.index(most)), most

    def watch(self, fetcher):
        """Wraps the fetcher's methods."""
        # What stands in a fetcher's place must not keep it, nor it the data set, once nobody else does.
        fetch, itself = type(fetcher).fetch, weakref.ref(fetcher)
        collate, task = fetcher.collate_fn, self.task
        by_sample = getattr(fetcher, "auto_collation", True)  # else the data set gets the list, which may be part of what it returns
        stages = Stages(fetcher.dataset, self)

        def collated(samples, *args, **kwargs):
            start = now()
            if not self.detail and self.collates < LONG:  # the record of the batch tells
                self.collating = start
                return collate(samples, *args, **kwargs)
            if self.timed:
                self.flush()
            self.rest(start)
            before = self.usage.read() if self.collates >= LONG else None
            try:
                return collate(samples, *args, **kwargs)
            finally:
                end = self.at = now()
                self.collates = end - start
                core, waiting = self.usage.since(before)
                self.write(ring.COLLATE, start, end, self.iteration, task.round, task.index, -1, -1, 0, 0, core, waiting)

        def fetched(index):
            # As with the loop's next, all of this is out of the processor's caches by now, so that a
            # line costs what ten do in a loop: the common case is short, and written out.
            turn = self.turn = self.turn + 1
            last, start = self.took_batch, task.got or now()
            close = turn % SELDOM == 1  # the first one too
            self.detail = detail = bool(stages.found) and turn % self.every == 0
            self.at, self.collating, self.phases = start, 0, 0
            self.batch, self.begun = (), ()
            if type(index) is list and by_sample and (close or detail or last > (TINY if turn < self.uneven or turn % SOME == 0 else FINE) * len(index)):
                index = self.batch = Indices(index)
                index.observer = self
            before = None
            if close or turn < self.wary or last > LONG_BATCH or turn % SOME == 0 and last > SHORT_BATCH:
                # Where hardly any time went by since the last batch, what was read then will do.
                before = self.read if self.read and start - self.free < last >> 5 else self.usage.read()
            task.counted = before is not None
            try:
                if not detail:
                    return fetch(itself(), index)
                with stages:
                    return fetch(itself(), index)
            finally:
                end = self.free = now()
                wall = self.took_batch = end - start
                core = waiting = slowest = -1
                took, self.read = 0, None
                if before:
                    self.read = self.usage.read()
                    core, waiting = self.usage.split(before, self.read)
                    if waiting > wall >> 5:
                        self.wary = turn + SELDOM
                if self.begun:
                    slowest, took = self.slowest()
                    if took > wall >> 2 and took * len(index) > wall << 2:
                        self.uneven = turn + ALERT
                    took = min(took // 1000, 0xFFFFFFFF)
                elif wall > last + (last >> 1) and turn > SOME:  # the first ones vary
                    self.uneven, self.wary = turn + ALERT, turn + SELDOM
                self.tell(start, end, slowest, took, core, waiting)
                if self.batch:
                    self.batch.observer, self.batch = None, ()
                if detail:
                    self.every = max(1, min(RARELY, self.phases * PHASE // max(1, wall)))

        fetcher.fetch, fetcher.collate_fn = fetched, collated
        return fetcher


_second = operator.itemgetter(1)


class Indices(list):
    """A batch's indices. Whoever goes through them is seen to begin each sample, and to end: the
    clock is read before each index is asked for, also where none is left. No code of Python's
    runs for a sample. A data set that is given them (__getitems__) may keep them: what it copies or
    pickles is a list, and so are they when the batch is done."""

    observer = None

    def __reduce_ex__(self, protocol):
        return list, (self[:],)

    def __iter__(self):
        if self.observer is None:
            return super().__iter__()
        begun = self.observer.begun = []
        clock = itertools.starmap(now, itertools.repeat(()))
        return map(_second, zip(map(begun.append, clock), super().__iter__()))


class _Timed:
    """Stands for a function of the data set while it loads a batch, and passes for it: what it copies or
    pickles is the function."""

    def __init__(self, f, kind, observer):
        self.__dict__.update(_f=f, _kind=kind, _observer=observer)

    def __reduce_ex__(self, protocol):
        return copy.copy, (self._f,)

    def __call__(self, *args, **kwargs):
        observer, kind = self._observer, self._kind
        before = observer.usage.read() if observer.long and observer.mean.get(kind, 0) >= LONG else None
        start = now()
        try:
            return self._f(*args, **kwargs)
        finally:
            end = now()
            observer.timed.append((kind, start, end, len(observer.begun) - 1, observer.usage.since(before) if before else NOT_READ))
            if end - start >= LONG:
                observer.flush()

    def __getattr__(self, name):
        return getattr(self._f, name)

    def __setattr__(self, name, value):
        setattr(self._f, name, value)

    @property
    def __class__(self):
        return type(self._f)


# What Python looks for in an object's class, where that of what is timed has it: a transform may be a container.
_SPECIAL = ("len", "iter", "getitem", "setitem", "delitem", "contains", "bool", "eq", "ne", "hash", "repr", "str", "dir", "enter", "exit", "or", "add")


@functools.lru_cache(maxsize=64)
def _standing_for(kind):
    """The class of what stands for an object of a class."""
    return type("_Timed", (_Timed,), {name: _passed_on(name) for name in map("__%s__".__mod__, _SPECIAL) if hasattr(kind, name)})


def _passed_on(name):
    def special(self, *args):
        return getattr(self._f, name)(*args)

    return special


class Stages:
    """The functions by which a data set shows what it does: torchvision's loader, which
    opens and decodes, and transform, or transforms of a sample with its target, which its scripts
    for detection name with an underscore. While in force, they are timed."""

    KINDS = (("loader", ring.DECODE), ("transform", ring.TRANSFORM), ("transforms", ring.TRANSFORM), ("_transforms", ring.TRANSFORM))

    def __init__(self, dataset, observer):
        self.found = []
        for _ in range(6):  # through Subset and its like, which may have a transform of their own
            own = getattr(dataset, "__dict__", {})
            for name, kind in self.KINDS:
                if callable(own.get(name)):
                    self.found.append((own, name, own[name], _standing_for(type(own[name]))(own[name], kind, observer)))
            if "dataset" not in own:
                break
            dataset = own["dataset"]

    def __enter__(self):
        for own, name, plain, timed in self.found:
            if own.get(name) is plain:
                own[name] = timed

    def __exit__(self, *_):
        for own, name, plain, timed in self.found:
            if own.get(name) is timed:
                own[name] = plain


class Tasks:
    """A worker's queue of tasks. It notes how long the worker waited for one, as soon as it
    has it: who waits for what the worker sent before may be waiting for its work on this.

    While there is none, and PyTorch's loop looks whether its parent is there, it looks whether the
    training is: a fork server, the parent of those that it begins, lives for as long as they do.
    """

    def __init__(self, queue, ring, iteration, task, training):
        self.queue, self.write, self.iteration, self.task, self.training = queue, ring.record, iteration, task, training
        self.retired = False

    def get(self, *args, **kwargs):
        start = now()
        try:
            item = self.queue.get(*args, **kwargs)
        except Empty:
            if not control.there(self.training):  # it was killed
                os._exit(1)
            raise
        if isinstance(item, tuple):
            if item == RETIRE:
                self.retired = True
                return None
            task, index = self.task, item[0]
            end = task.got = now()
            task.index = index
            if task.round >= 0:  # else it has no fetcher: what the script does first in it has failed
                self.write(ring.WAIT, start, end, self.iteration, task.round, index)
        return item

    def __getattr__(self, name):
        return getattr(self.queue, name)


class Sender:
    """The thread of a worker's queue of results, which pickles a batch, moving its tensors to
    shared memory, and sends it while the worker is at the next one already.

    It tells of each that took it LATE or longer, before the loop can have the batch; and of one that
    follows a LONG one, or of which the worker's own usage was read, what the time went to.
    """

    def __init__(self, queue, info, task):
        self.plain_put, self.plain_send = queue.put, queue._send_bytes
        self.info, self.task = info, task
        self.batches = collections.deque()  # [number, round, when it was put, the thread's usage by then], in the order of the queue
        self.write = self.usage = None  # the thread's, once it has begun
        self.free = 0  # when it had sent the last one
        self.before = None  # the usage then, if that took LONG
        self.lost = False  # what is sent is not known any more
        queue.put, queue._send_bytes = self.put, self.send

    def put(self, item, *args, **kwargs):
        task = self.task
        before = None
        if task.counted:
            before = self.usage.of_sleeper() if self.usage else (0, 0)  # which has done nothing yet
        self.batches.append((item[0] if type(item) is tuple else -1, task.round, now(), before))
        return self.plain_put(item, *args, **kwargs)

    def send(self, data):
        t = now()
        try:
            if not self.lost:
                number, round, at, before = self.batches.popleft()
                if self.free > at:
                    at = self.free
                if self.write is None:
                    self._begin()
                if t - at >= LATE:
                    self._tell(number, round, at, t, self.before or before)
                elif self.before is not None:
                    self.before = None
        except Exception as error:
            self.lost = True
            process.complain("what it takes to send a batch is not watched", error)
        self.plain_send(data)
        self.free = now()

    def _begin(self):
        """In the thread that sends, at its first batch."""
        mine = ring.Ring(process.FOLDER, ring.SENDER, self.info.parent, self.info.worker, self.info.iteration)
        util.Finalize(None, mine.close, exitpriority=-10)
        self.write, self.usage = mine.record, Usage()

    def _tell(self, number, round, start, end, before):
        """Tells of a batch that is about to be sent, which took LATE."""
        core, waiting = self.usage.since(before)
        if type(number) is int and number >= 0 and round >= 0:
            self.write(ring.SENT, start, end, self.info.iteration, round, number, -1, -1, 0, 0, core, waiting)
        self.before = self.usage.read() if end - start >= LONG else None  # but for what sending takes


class Done:
    """Set when the loader ends, or this worker alone is retired; for that it says so once.

    PyTorch's loop asks twice: whether it may leave, and whether to leave its queue of
    results as it is. One that ends alone must not: the thread that fills the queue may
    still hold the lock that all workers share, though what it sent has arrived, and who
    dies with it leaves the others waiting for ever.
    """

    def __init__(self, event, tasks):
        self.event, self.tasks = event, tasks

    def is_set(self):
        if self.tasks.retired:
            self.tasks.retired = False
            return True
        return self.event.is_set()


class Spare:
    """The fetcher of a worker that the script has not, over an iterable data set. Where one has no
    shard many a data set raises an error, which would be the end of a training that has enough
    workers without: it ends as one does whose shard is done, and tells the loop. Once it has had a
    batch, its errors are the script's own."""

    def __init__(self, create, args, info):
        self.info, self.plain, self.error = info, None, info.error
        try:
            self.plain = create(*args)
        except Exception as error:
            self.error = self.error or error
        self.dataset = getattr(self.plain, "dataset", None)
        self.collate_fn = getattr(self.plain, "collate_fn", None)

    def fetch(self, index):
        if self.error is None and self.info is None:
            return self.plain.fetch(index)
        try:
            if self.error is not None:
                raise self.error
            self.plain.collate_fn = self.collate_fn  # which is watched by now
            data = self.plain.fetch(index)
        except StopIteration:
            raise
        except Exception as error:
            self.info.failed.put((self.info.worker, process.said(error).partition("\n")[0][:400].rstrip(".")))
            raise StopIteration from None
        self.info = None
        return data


class Unfit(Exception):
    """What a worker that the script has not failed with before it could load anything."""


def begin_spare(init_fn, number):
    """The script's worker_init_fn, in a worker that it has not and may not be written for."""
    try:
        init_fn(number)
    except Exception as error:
        raise Unfit(process.said(error).partition("\n")[0][:400].rstrip("."))


class Info:
    """What a worker is told besides what PyTorch tells it. It is pickled for spawned ones."""

    def __init__(self, parent, iteration, worker, failed=None):
        self.parent, self.iteration, self.worker, self.started = parent, iteration, worker, now()
        self.failed = failed  # where a worker that the script has not tells why it has no batch
        self.error = None  # of its worker_init_fn

    def begin(self, init_fn, script, number):
        """The script's worker_init_fn, in a worker that it has not and may not be written for. Where the script
        has no workers, samples are loaded without it; else it has no shard, as with one that fails later."""
        try:
            init_fn(number)
        except Exception as error:
            if script:
                self.error = error  # who has no batch tells
            else:
                process.complain("worker_init_fn failed in worker %d, which loads without it" % number, error)


# Where the stock worker loop has what is wrapped, among its positional arguments.
PARAMETERS = (
    "dataset_kind", "dataset", "index_queue", "data_queue", "done_event", "auto_collation", "collate_fn", "drop_last",
    "base_seed", "init_fn", "worker_id", "num_workers", "persistent_workers", "shared_seed",
)
INDEX_QUEUE, DATA_QUEUE, DONE_EVENT = 2, 3, 4


def loop(info, *args):
    """Runs PyTorch's worker loop under observation."""
    stock = _stock()._utils.worker
    _run(info, getattr(stock, "_gpustall_plain", None) or stock._worker_loop, args)


def _run(info, plain, args):
    args = list(args)
    try:
        _observe(info, args, _stock())
    except Exception as error:
        process.complain("worker %d is not watched" % info.worker, error)
    plain(*args)


def received(*what):
    """What a process does that is only to show that it can be sent to one."""


def _stock():
    """PyTorch's module of loaders. In a forked worker it is there, and only asked for."""
    name = "torch.utils.data.dataloader"
    if name not in sys.modules:
        importlib.import_module(name)
    return sys.modules[name]


def loop_of_stock(parent, iteration, started, script, failed, *args):
    """The same for a worker of PyTorch's own iterator; script: how many the script has."""
    number, init = args[PARAMETERS.index("worker_id")], PARAMETERS.index("init_fn")
    info = Info(parent, iteration, number, failed if number >= max(1, script) else None)  # the first one has a shard
    info.started = started
    if number >= script and args[init] is not None:
        args = (*args[:init], functools.partial(info.begin, args[init], script), *args[init + 1 :])
    loop(info, *args)


def loop_of_other(plain, parent, iteration, started, *args):
    """The same for a worker of an iterator that a subclass of DataLoader has, with a loop of its own."""
    info = Info(parent, iteration, args[PARAMETERS.index("worker_id")])
    info.started = started
    _run(info, plain, args)


def _observe(info, args, stock):
    task = Task()
    mine = ring.Ring(process.FOLDER, ring.WORKER, info.parent, info.worker, info.iteration)
    # The thread that sends what is left may outlive the loop: multiprocessing waits for it first.
    util.Finalize(None, mine.close, exitpriority=-10)
    tasks = Tasks(args[INDEX_QUEUE], mine, info.iteration, task, info.parent)
    args[INDEX_QUEUE] = tasks
    args[DONE_EVENT] = Done(args[DONE_EVENT], tasks)
    if hasattr(args[DATA_QUEUE], "_send_bytes"):
        Sender(args[DATA_QUEUE], info, task)
    create = stock._DatasetKind.create_fetcher
    observer = Observer(mine, info.iteration, task)

    def created(*a):
        task.round += 1  # persistent workers of PyTorch's own make one for each epoch
        fetcher = observer.watch(create(*a) if info.failed is None else Spare(create, a, info))
        if task.round == 0:
            mine.record(ring.START, info.started, now(), info.iteration)
        return fetcher

    stock._DatasetKind.create_fetcher = staticmethod(created)
