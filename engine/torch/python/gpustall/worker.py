"""What runs in a DataLoader's worker: PyTorch's own worker loop, with its queues and its fetcher wrapped.

Functions and classes that workers get by pickle stay in this module, because pickle finds them by the module's name.
"""

import collections
import functools
import importlib
import os
import sys
import threading
from multiprocessing import util
from queue import Empty
from typing import Any

from gpustall import control, fetching, hook, looks, process, ring
from gpustall.usage import LATE, LONG, Usage

now = process.now
RETIRE = ("gpustall", "retire")  # sent in place of a task to end one worker


class Tasks:
    """Wraps a worker's queue of tasks. It records each wait for a task when the wait ends. So the record shows that the
    worker already works on this batch, even if the loop still waits for the one before.

    While there is no task, PyTorch's loop looks whether the worker's parent is alive. Tasks also looks whether the
    training is alive, because the parent may be a fork server, which lives as long as its workers. """

    first = ring.FIRST  # until the first task came

    def __init__(self, queue, ring, iteration, task, training, worker):
        self.queue, self.write, self.iteration, self.task, self.training, self.worker = queue, ring.record, iteration, task, training, worker
        self.retired = False
        self.settled = False  # gpustall has said whether this process looks at its own frames

    def get(self, *args, **kwargs):
        start = now()
        try:
            item = self.queue.get(*args, **kwargs)
        except Empty:
            if not control.there(self.training):  # the training was killed
                _last(self.training)
                os._exit(1)
            raise
        if not self.settled:
            self._settle()
        if isinstance(item, tuple):
            if item == RETIRE:
                self.retired = True
                return None
            task, index = self.task, item[0]
            end = task.got = now()
            task.index = index
            if task.round >= 0:  # otherwise the worker has no fetcher: its worker_init_fn failed, for instance
                self.write(ring.WAIT, start, end, self.iteration, task.round, index, -1, -1, 0, self.first)
                self.first = 0
        return item

    def _settle(self):
        try:
            main = [threading.get_ident()]
            self.settled = looks.settled(process.current(), process.FOLDER, lambda: main, self.training, self.worker)
        except Exception as error:
            self.settled = True
            process.complain("lines of code are not told in worker %d" % self.worker, error)

    def __getattr__(self, name):
        return getattr(self.queue, name)


class Sender:
    """Wraps a worker's queue of results. The queue's thread pickles a batch, moves its tensors to shared memory, and
    sends it while the worker already loads the next one.

    It records each batch that took LATE or longer, before the loop can have that batch. If the worker's usage was read
    for the batch, or the batch before took LONG, the record has the thread's usage too. """

    def __init__(self, queue, info, task):
        self.plain_put, self.plain_send = queue.put, queue._send_bytes
        self.info, self.task = info, task
        self.batches = collections.deque()  # in the order of the queue: [number, round, when it was put, the thread's usage then]
        self.write: Any = None  # records in the thread's ring, once it has begun
        self.usage: Any = None  # of the thread, once it has begun
        self.free = 0  # when the last batch was sent
        self.before = None  # the usage then, if that batch took LONG
        self.lost = False  # an error was seen: the sends can no longer be matched to batches
        queue.put, queue._send_bytes = self.put, self.send

    def put(self, item, *args, **kwargs):
        task = self.task
        before = None
        if task.counted:
            before = self.usage.of_sleeper() if self.usage else (0, 0)  # the thread has not begun
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
        """Opens the thread's ring, in the thread, at its first batch."""
        mine = ring.Ring(process.FOLDER, ring.SENDER, self.info.parent, self.info.worker, self.info.iteration)
        util.Finalize(None, mine.close, exitpriority=-10)
        self.write, self.usage = mine.record, Usage()

    def _tell(self, number, round, start, end, before):
        """Records a batch that is about to be sent and took LATE or longer."""
        core, waiting = self.usage.since(before)
        if type(number) is int and number >= 0 and round >= 0:
            self.write(ring.SENT, start, end, self.info.iteration, round, number, -1, -1, 0, 0, core, waiting)
        self.before = self.usage.read() if end - start >= LONG else None  # sending itself comes after it


class Done:
    """Wraps the event that is set when the loader ends. It also seems set, once, when this worker is retired.

    PyTorch's loop asks the event twice: whether to leave the loop, and whether to leave the queue of results without
    waiting for its thread. A retired worker must wait. The thread may still hold the lock that all workers share, even
    after its last batch arrived. If the process ended then, the others would wait for ever. """

    def __init__(self, event, tasks):
        self.event, self.tasks = event, tasks

    def is_set(self):
        if self.tasks.retired:
            self.tasks.retired = False
            return True
        return self.event.is_set()


class Spare:
    """The fetcher of a worker beyond the script's own, over an iterable data set. Many data sets raise an error in a
    worker without a shard, which would end the training. Here the worker ends as if its shard were done, and
    tells the loop. After its first batch, its errors are the script's own."""

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
            self.plain.collate_fn = self.collate_fn  # which is wrapped by now
            data = self.plain.fetch(index)
        except StopIteration:
            raise
        except Exception as error:
            self.info.failed.put((self.info.worker, process.said(error).partition("\n")[0][:400].rstrip(".")))
            raise StopIteration from None
        self.info = None
        return data


class Unfit(Exception):
    """The error of a worker beyond the script's own that failed before it could load anything."""


def begin_spare(init_fn, number):
    """Runs the script's worker_init_fn in a worker beyond the script's own, for which it may not be written."""
    try:
        init_fn(number)
    except Exception as error:
        raise Unfit(process.said(error).partition("\n")[0][:400].rstrip(".")) from error


def sendable(method):
    """Returns whether workers that begin by this method can have what this module has. Workers that are not forked
    import the module, and its folder may be gone because gpustall has ended, or a cleaner removed temporary files."""
    return method == "fork" or os.path.isfile(os.path.join(hook.HERE, "worker.py"))


class Info:
    """What a worker is told by gpustall. It is pickled for workers that are not forked."""

    def __init__(self, parent, iteration, worker, failed=None):
        self.parent, self.iteration, self.worker, self.started = parent, iteration, worker, now()
        self.failed = failed  # the queue by which a worker beyond the script's own tells why it has no batch
        self.error = None  # from its worker_init_fn
        self.folder = process.FOLDER  # a worker that is not forked may begin without our environment

    def begin(self, init_fn, script, number):
        """Runs the script's worker_init_fn in a worker beyond the script's own, for which it may not be written. If it
        fails where the script has no workers, samples are loaded without it. Otherwise the worker has no shard."""
        try:
            init_fn(number)
        except Exception as error:
            if script:
                self.error = error  # Spare tells it
            else:
                process.complain("worker_init_fn failed in worker %d, which loads without it" % number, error)


# The parameters of PyTorch's worker loop, and the places of the wrapped ones.
PARAMETERS = (
    "dataset_kind", "dataset", "index_queue", "data_queue", "done_event", "auto_collation", "collate_fn", "drop_last",
    "base_seed", "init_fn", "worker_id", "num_workers", "persistent_workers", "shared_seed",
)
INDEX_QUEUE, DATA_QUEUE, DONE_EVENT = 2, 3, 4


def loop(info, *args):
    """Runs PyTorch's worker loop, watched."""
    stock = _stock()._utils.worker
    _run(info, getattr(stock, "_gpustall_plain", None) or stock._worker_loop, args)


def _run(info, plain, args):
    args = list(args)
    process.FOLDER = process.FOLDER or info.folder
    try:
        _observe(info, args, _stock())
    except Exception as error:
        process.complain("worker %d is not watched" % info.worker, error)
    plain(*args)


def received(*what):
    """Does nothing. A process that runs it could unpickle what it was sent."""


def _stock():
    """PyTorch's module of loaders. In a forked worker it is imported already."""
    name = "torch.utils.data.dataloader"
    if name not in sys.modules:
        importlib.import_module(name)
    return sys.modules[name]


def loop_of_stock(parent, iteration, started, script, failed, *args):
    """Runs PyTorch's worker loop, watched, in a worker of PyTorch's own iterator. script is how many workers the
    script asked for; gpustall added those beyond them."""
    number, init = args[PARAMETERS.index("worker_id")], PARAMETERS.index("init_fn")
    info = Info(parent, iteration, number, failed if number >= max(1, script) else None)  # the first one has a shard
    info.started = started
    if number >= script and args[init] is not None:
        args = (*args[:init], functools.partial(info.begin, args[init], script), *args[init + 1 :])
    loop(info, *args)


def loop_of_other(plain, parent, iteration, started, *args):
    """Runs plain, watched: the worker loop of a subclass's own iterator."""
    info = Info(parent, iteration, args[PARAMETERS.index("worker_id")])
    info.started = started
    _run(info, plain, args)


def _last(training, parent=0):
    """Removes what is shared with gpustall, at the end of a worker whose training was killed."""
    if os.getppid() != parent or not control.there(training):
        process.remove()


def _observe(info, args, stock):
    task = fetching.Task()
    mine = ring.Ring(process.FOLDER, ring.WORKER, info.parent, info.worker, info.iteration)
    # multiprocessing waits first for the thread that sends, which may outlive the loop.
    util.Finalize(None, mine.close, exitpriority=-10)
    util.Finalize(None, looks.stop, exitpriority=-5)
    util.Finalize(None, _last, (info.parent, os.getppid()), exitpriority=-20)
    tasks = Tasks(args[INDEX_QUEUE], mine, info.iteration, task, info.parent, info.worker)
    args[INDEX_QUEUE] = tasks
    args[DONE_EVENT] = Done(args[DONE_EVENT], tasks)
    if hasattr(args[DATA_QUEUE], "_send_bytes"):
        Sender(args[DATA_QUEUE], info, task)
    create = stock._DatasetKind.create_fetcher
    observer = fetching.Observer(mine, info.iteration, task)

    def created(*a):
        task.round += 1  # persistent workers of PyTorch's own iterator make a fetcher for each epoch
        fetcher = observer.watch(create(*a) if info.failed is None else Spare(create, a, info))
        if task.round == 0:
            mine.record(ring.START, info.started, now(), info.iteration)
        return fetcher

    stock._DatasetKind.create_fetcher = staticmethod(created)
