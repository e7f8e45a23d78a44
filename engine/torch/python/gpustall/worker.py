"""What a DataLoader's worker does, seen from inside its process: PyTorch's own worker loop
with its queue and its fetcher wrapped.
"""

import collections
import functools
import importlib
import os
import sys
from multiprocessing import util
from queue import Empty
from typing import Any

from gpustall import control, fetching, process, ring
from gpustall.usage import LATE, LONG, Usage

now = process.now
RETIRE = ("gpustall", "retire")  # in place of a task: no more follow, for this worker alone


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
        self.write: Any = None  # the thread's, once it has begun
        self.usage: Any = None  # likewise
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
        self.info: Any = info
        self.plain: Any = None
        self.error = info.error
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
        raise Unfit(process.said(error).partition("\n")[0][:400].rstrip(".")) from error


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
    task = fetching.Task()
    mine = ring.Ring(process.FOLDER, ring.WORKER, info.parent, info.worker, info.iteration)
    # The thread that sends what is left may outlive the loop: multiprocessing waits for it first.
    util.Finalize(None, mine.close, exitpriority=-10)
    tasks = Tasks(args[INDEX_QUEUE], mine, info.iteration, task, info.parent)
    args[INDEX_QUEUE] = tasks
    args[DONE_EVENT] = Done(args[DONE_EVENT], tasks)
    if hasattr(args[DATA_QUEUE], "_send_bytes"):
        Sender(args[DATA_QUEUE], info, task)
    create = stock._DatasetKind.create_fetcher
    observer = fetching.Observer(mine, info.iteration, task)

    def created(*a):
        task.round += 1  # persistent workers of PyTorch's own make one for each epoch
        fetcher = observer.watch(create(*a) if info.failed is None else Spare(create, a, info))
        if task.round == 0:
            mine.record(ring.START, info.started, now(), info.iteration)
        return fetcher

    stock._DatasetKind.create_fetcher = staticmethod(created)
