"""A DataLoader's iterator whose knobs can change while it runs, for map-style data sets.

Until the first change it does the same as PyTorch's own iterator, in the same order, so batches are equal bit by bit.
After changes it still delivers each of the sampler's batches once, and in order where in_order is on. The workers run
PyTorch's own worker loop. """

import collections
import functools
import inspect
import os
import pickle
import queue
import sys
from multiprocessing import connection
from typing import Any

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import _utils
from torch.utils.data import dataloader as stock

from gpustall import fetching, hook, parts, pinning, process, ring, starting, trial, worker
from gpustall.control import SEQUENCE
from gpustall.usage import INSTANT

now = process.now

# The least time, in ns, without a batch after which added workers are given up: forked ones, and those that
# first import PyTorch.
HANG, SLOW_HANG = 15_000_000_000, 60_000_000_000


def unknown(module):
    """Returns why loaders of this version of PyTorch cannot be changed while they run; empty where they can."""
    names = tuple(inspect.signature(module._utils.worker._worker_loop).parameters)
    plain = tuple("dataset" if name == "dataset_holder" else name for name in names)
    if plain != worker.PARAMETERS:
        return "this PyTorch's worker loop is not known: it takes %s" % ", ".join(names)
    for owner, name in (
        (module._BaseDataLoaderIter, "_next_index"), (module._BaseDataLoaderIter, "_reset"), (module._MultiProcessingDataLoaderIter, "_shutdown_workers"),
        (module.DataLoader, "check_worker_number_rationality"), (module._DatasetKind, "create_fetcher"),
        (module._utils.signal_handling, "_set_worker_pids"), (module._utils.pin_memory, "pin_memory"),
    ):
        if not hasattr(owner, name):
            return "this PyTorch's DataLoader is not known: it has no %s" % name
    return ""


def iterator(plan, loader):
    """Returns the result of iter(loader): a new iterator, or the one whose workers persist."""
    old = getattr(loader, "_iterator", None)
    ours = isinstance(old, LiveIter)
    # If the script's workers persist, PyTorch resets the iterator, even if somebody still uses it. If they do
    # not, a script may iterate over a loader twice at the same time.
    taken = ours and not plan.persists and not old._shutdown and not old._finished() and sys.getrefcount(old) > HELD
    if ours and not old._shutdown and not taken:
        if old._persists() and (plan.persists or not plan.changed(loader.dataset, loader.collate_fn)):
            old._reset(loader)
            return old
        old._shutdown_workers()
    if ours and (not taken or not old._persists()):
        loader._iterator = None
    # PyTorch draws a seed for each iterator that it makes. If the script's workers persist, it makes only
    # one. The generator must not change if gpustall makes more.
    made = LiveIter(loader, plan, again=ours and plan.persists)
    if (made._persists() or plan.persists) and not (taken and loader._iterator is old):
        loader._iterator = made  # as PyTorch keeps it
    return made


def _held():
    """Returns the reference count of an iterator that only its loader holds, as iterator() counts it."""
    loader = [object()]
    old = loader[0]
    return sys.getrefcount(old)


HELD = _held()


class Worker:
    """A worker process."""

    def __init__(self, it, number):
        context = it._context
        self.number, self.retired = number, False
        self.added = number >= it._plan.script["num_workers"]  # the script has no such worker
        self.owes = 0  # batches that it was told to load and has not delivered
        self.unfit = False  # it failed before it could load anything
        self.queue = context.Queue()
        self.queue.cancel_join_thread()
        # A worker that replaces a retired one must not repeat its random numbers.
        seed = it._base_seed + (it._generation << 20)
        holder = [it._dataset] if _HOLDER else it._dataset
        init_fn = it._init_fn
        if init_fn is not None and self.added:
            init_fn = functools.partial(worker.begin_spare, init_fn)
        target = _utils.worker._worker_loop
        if worker.sendable(starting.method(context)):
            target = functools.partial(worker.loop, worker.Info(os.getpid(), it._gpustall_iteration, number))
        else:
            init_fn = it._init_fn  # a worker that is not watched gets nothing of ours
        self.process = context.Process(
            target=target,
            args=(it._dataset_kind, holder, self.queue, it._results, it._done, it._auto_collation, it._collate_fn, it._drop_last,
                  seed, init_fn, number, max(it._num_workers, number + 1), it._persistent_workers, it._shared_seed),
        )
        self.process.daemon = True
        self.process.start()


_HOLDER = "dataset_holder" in inspect.signature(_utils.worker._worker_loop).parameters


class _Batch:
    """A batch that a worker was told to load and that is not delivered yet."""

    __slots__ = ("worker", "data", "here", "size", "stale", "index", "failure")

    def __init__(self, worker, size, index):
        self.worker, self.size = worker, size
        self.index = index  # kept if the batch may have to be loaded elsewhere
        self.failure = None  # what a worker that the script has not said when it could not load it
        self.data, self.here, self.stale = None, False, False


def _in_stock(function, call, parameters, expression=None):
    """Returns the expression as a function that seems to be on the line of PyTorch's source where the call is. So a
    warning from it names that line, which filters and the suppression of repeated warnings go by."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:  # PyTorch's source is not there
        hook.pass_on(error)
        lines, first = (), 1
    line = next((n for n, text in enumerate(lines, first) if call in text), first)
    return eval(compile("\n" * (line - 1) + "lambda %s: %s" % (parameters, expression or call), stock.__file__, "eval"), vars(stock))


_begin_iterator, _begin_iterator_of_workers = (
    _in_stock(kind.__init__, ".__init__(loader)", "self, loader", "_BaseDataLoaderIter.__init__(self, loader)")
    for kind in (stock._SingleProcessDataLoaderIter, stock._MultiProcessingDataLoaderIter)
)
_check_workers = _in_stock(stock.DataLoader._get_iterator, "self.check_worker_number_rationality()", "self")

# The warning of some versions of PyTorch when a worker cannot be sent the data set.
_PICKLES = next((text for text in stock._MultiProcessingDataLoaderIter.__init__.__code__.co_consts if str(text).startswith("Got pickle error")), None)
_warn_of_pickles = _in_stock(stock.DataLoader._get_iterator, "_MultiProcessingDataLoaderIter(self)", "", "warnings.warn(%r)" % _PICKLES)


# More of them. Some scripts end workers by themselves.
_SEEN = {
    "_worker_result_queue": lambda it: it._results,
    "_workers_done_event": lambda it: it._done,
    "_worker_pids_set": lambda it: it._watched,
    "_index_queues": lambda it: [w.queue for w in it._crew + it._leavers] or None,
    "_workers_status": lambda it: [not w.retired for w in it._crew + it._leavers] or None,
    "_data_queue": lambda it: it._results if it._pinner is None else it._pinner.out,
    "_pin_memory_thread": lambda it: it._pinner and it._pinner.thread,
    "_pin_memory_thread_done_event": lambda it: it._pinner and it._pinner.stop,
    "_task_info": lambda it: {n: (b.worker.number, b.data) if b.here else (b.worker.number,) for n, b in it._batches.items()} if it._crew else None,
    "_dataset_fetcher": lambda it: None if it._crew else it._create_fetcher(),
}


class LiveIter(stock._MultiProcessingDataLoaderIter):
    _gpustall: Any = None  # the watch over it, while there is one

    def __init__(self, loader, plan, again=False):
        self._shutdown = True  # there is nothing to shut down yet
        self._owner = os.getpid()
        generator = loader.generator if loader.generator is not None else torch.default_generator
        state = generator.get_state() if again else None
        if loader.num_workers > 0:
            _check_workers(loader)
            _begin_iterator_of_workers(self, loader)
        else:
            _begin_iterator(self, loader)
            assert self._timeout == 0  # as in PyTorch's own
        if again:
            generator.set_state(state)
        self._plan = plan
        self._control = process.current().control
        self._context = loader.multiprocessing_context or torch.multiprocessing
        self._init_fn = loader.worker_init_fn
        self._gpustall_iteration = process.current().iteration()
        self._settled = 0  # the first batch that no longer shows a change
        self._crew = []  # workers that get batches
        self._leavers = []  # retired workers that still owe batches
        self._gone = []  # workers that were told to end
        self._generation = 0
        self._changed = False
        self._uneven = False  # after a change of the workers, some owe more batches than others
        self._turn = 0
        self._results: Any = None
        self._done = None
        self._pinner = None
        self._early = collections.deque()  # batches that a pinning thread had taken when it ended
        self._fetcher = self._observer = None
        self._plain: Any = None  # a fetcher that nobody watches
        self._trying = None  # a trial.Trial that waits for a batch
        self._watched = False
        self._knobs = None
        self._sent = 0
        self._batches = collections.OrderedDict()  # in the order of the sampler
        self._orphans = []  # numbers of batches that this process loads, since no worker does
        self._usual = 0.0  # ns that the loop usually waited for a batch
        self._arrived = collections.deque()  # numbers of batches, in the order of arrival
        self._exhausted = False
        self._shutdown = False
        self._persistent_workers = bool(plan.wanted()["persistent_workers"])
        self._apply(plan.wanted())

    # The attributes of PyTorch's iterator that others look at.

    @property
    def _workers(self):
        return [w.process for w in self._crew + self._leavers]

    @property
    def _send_idx(self):
        return self._sent

    @property
    def _rcvd_idx(self):
        return next((number for number, batch in self._batches.items() if not batch.stale), self._sent)

    @property
    def _tasks_outstanding(self):
        return sum(not batch.here for batch in self._batches.values())

    def __getattr__(self, name):
        find = _SEEN.get(name)
        found = find and find(self)
        if found is None:  # PyTorch's own has not all of them without workers
            raise AttributeError("%r object has no attribute %r" % (type(self).__name__, name))
        return found

    def _persists(self):
        knobs = self._plan.wanted()
        return bool(knobs["persistent_workers"] and self._crew)

    def _finished(self):
        """Returns whether the iterator's epoch is over."""
        return self._exhausted and not self._batches

    def __reduce_ex__(self, protocol):
        """Makes an iterator that the loader keeps only for gpustall copy as None, with the loader."""
        kept = getattr(self._plan.loader(), "_iterator", None) is self and not self._plan.persists
        return (type(None), ()) if kept else super().__reduce_ex__(protocol)

    def _reset(self, loader, first_iter=False):
        """Begins an epoch with the workers of the last epoch."""
        if not self._plan.persists:  # the script's own loader draws a seed here
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        stock._BaseDataLoaderIter._reset(self, loader, first_iter)
        for batch in self._batches.values():
            batch.stale, batch.data = True, None
        for number in [n for n, b in self._batches.items() if b.here]:
            del self._batches[number]
        self._arrived.clear()
        for number in self._orphans:
            del self._batches[number]
        self._orphans.clear()
        self._exhausted = False
        self._turn = 0
        self._look()
        self._fill()

    # Knobs.

    def _look(self):
        """Applies the knobs that were asked for since the last look."""
        _, self._seen = self._control.read()
        self._trained = self._plan.trains
        knobs = self._plan.wanted()
        if knobs != self._knobs:
            self._apply(knobs)
        if self._tries() or self._plan.probing():
            self._seen = -1  # look again: the probe's end may change the knobs

    def _tries(self):
        """Has a worker tried if all ranks of a job are asked whether more can begin. Returns whether that goes on."""
        state = process.current()
        trial, workers = self._control.trial()
        if trial == state.tried or not self._plan.trains:
            return False
        try:
            if workers > len(self._crew) and not self._plan.proven(self):
                self._trying = self._plan.trial()
                return True
        except Exception as error:
            self._plan.stays_at(len(self._crew), starting.refused(error, self._context))
        state.answer(trial)
        return False

    # The last look found these: the page's sequence number, and whether the loop
    # trains.
    _seen, _trained = 0, None

    def _apply(self, knobs):
        before, start = self._knobs, now()
        loop = getattr(parts.here, "loop", None)
        if loop is not None and loop.passed_by is not None:
            loop.catch_up()  # before what is recorded and told here
        self._knobs = knobs
        self._prefetch_factor, self._in_order = knobs["prefetch_factor"], bool(knobs["in_order"])
        self._change_workers(knobs["num_workers"])
        if len(self._crew) != knobs["num_workers"]:
            self._knobs = knobs = self._plan.wanted()
        self._change_pin(bool(knobs["pin_memory"]) and pinning.possible())
        if knobs["persistent_workers"] and not self._plan.persists and not (before and before["persistent_workers"]):
            self._plan.changed(self._dataset, self._collate_fn)
        if before is not None:
            self._changed = True
            self._uneven = self._uneven or before["num_workers"] != knobs["num_workers"]
            limit = max(1, self._prefetch_factor * len(self._crew))
            self._settled = self._sent + (limit if before["num_workers"] != knobs["num_workers"] else 0)
        told = self._plan.in_force_now(knobs)
        self._fill()
        if told and before is not None:
            process.current().ring(ring.LOOP).record(ring.APPLY, start, now(), self._gpustall_iteration)

    def _change_workers(self, want):
        crew = self._crew
        self._num_workers = want
        if want > len(crew) and self._results is None:
            self._results = self._context.Queue()
            self._done = self._context.Event()
        if len(crew) != want:
            taken = {w.number for w in crew + self._leavers}
            if self._changed or self._knobs is not None and crew:
                self._generation += 1
            own = self._plan.script["num_workers"]
            try:
                if want > len(crew) and own == 1:
                    self._plan.begins_alone(self)
                self._begin_workers(min(want, own), taken)
                if len(crew) == own == 1:
                    self._plan.begins_alone(self, crew[0].process.pid)
                if want > len(crew) and not self._plan.proven(self):
                    want = self._num_workers = len(crew)
                    self._trying = self._plan.trial()
                self._begin_workers(want, taken)
            except Exception as error:
                if want <= own:
                    if _PICKLES and isinstance(error, (TypeError, AttributeError, pickle.PicklingError)):
                        _warn_of_pickles()
                    raise  # the script would fail by itself
                want = self._num_workers = len(crew)
                self._plan.stays_at(want, starting.refused(error, self._context))
            while len(crew) > want:
                leaver = crew.pop()
                leaver.retired = True
                self._leavers.append(leaver)
            self._bury()
            self._tell_signals()
        self._profile_name = "enumerate(DataLoader)#%s.__next__" % ("_MultiProcessingDataLoaderIter" if want else "_SingleProcessDataLoaderIter")

    def _begin_workers(self, want, taken):
        while len(self._crew) < want:
            number = next(n for n in range(1 << 16) if n not in taken)
            taken.add(number)
            self._crew.append(Worker(self, number))

    def _tell_signals(self):
        """Tells PyTorch's handler of SIGCHLD which processes must not die."""
        handling = _utils.signal_handling
        if self._watched:
            handling._remove_worker_pids(id(self))
            self._watched = False
        # If a worker beyond the script's own dies, the training goes on without it.
        pids = tuple(w.process.pid for w in self._crew + self._leavers if not w.added)
        if pids:
            handling._set_worker_pids(id(self), pids)
            handling._set_SIGCHLD_handler()
            self._watched = True

    def _bury(self):
        """Ends the retired workers that owe no batch."""
        done = [w for w in self._leavers if w.owes == 0]
        for w in done:
            w.queue.put(worker.RETIRE)
            self._leavers.remove(w)
            self._gone.append(w)
        for w in self._gone[:]:
            if not w.process.is_alive():
                w.process.join()
                w.queue.close()
                self._gone.remove(w)
        if done and self._watched:
            self._tell_signals()

    def _change_pin(self, on):
        self._pin_memory = on
        if on and self._pinner is None and self._results is not None and (self._crew or self._leavers):
            self._pinner = pinning.Pinner(self._results, getattr(self, "_pin_memory_device", None) or pinning.device(), self._gpustall_iteration)
        elif not on and self._pinner is not None:
            self._pinner.end()
            self._pinner.thread.join()
            while self._pinner.out.qsize():
                self._early.append(self._pinner.out.get())
            self._pinner = None

    # Batches.

    def _fill(self):
        """Tells workers to load as many batches as may be under way."""
        while self._crew and not self._exhausted and len(self._batches) < self._prefetch_factor * len(self._crew):
            if not self._send():
                return

    def _send(self):
        try:
            index = self._next_index()
        except StopIteration:
            self._exhausted = True
            return False
        w = self._choose() if len(self._crew) > 1 else self._crew[0]
        number = self._sent
        self._sent += 1
        self._batches[number] = _Batch(w, len(index) if isinstance(index, (list, tuple)) else -1, index if w.added else None)
        w.queue.put((number, index))
        w.owes += 1
        return True

    def _choose(self):
        """Returns the worker that gets the next batch."""
        crew = self._crew
        if self._uneven:
            owed = [w.owes for w in crew]
            self._uneven = max(owed) - min(owed) > 1
        if self._uneven:
            return min(crew, key=lambda w: w.owes)
        most = self._prefetch_factor * len(crew) // len(crew)
        for _ in crew:  # in turns, as PyTorch does
            w = crew[self._turn % len(crew)]
            self._turn += 1
            if self._in_order or w.owes < most:
                break
        return w

    def _next_data(self):
        if (self._control.page[SEQUENCE] != self._seen or self._plan.trains is not self._trained) and not self._finished():
            self._look()
        if not self._batches and not self._crew:
            return self._inline()
        number = self._ready() if self._arrived else None
        while number is None:
            if not self._batches:
                self._fill()
            if not self._batches:
                return self._inline()
            number = self._adopt() if self._orphans else self._receive()
        batch = self._batches.pop(number)
        if not self._exhausted and len(self._batches) < self._prefetch_factor * len(self._crew):
            self._fill()
        data, batch.data = batch.data, None
        self._tell(number, batch.size, data)
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data

    def _ready(self):
        """Returns the number of the batch to deliver now, or None if it has not arrived."""
        if self._in_order:
            for number, batch in self._batches.items():
                if batch.stale:
                    continue
                if batch.here:
                    self._arrived.remove(number)
                    return number
                return None
            return None
        return self._arrived.popleft() if self._arrived else None

    def _tell(self, number, size, data):
        """Tells the watch which batch is delivered."""
        if self._gpustall is not None:
            self._gpustall.came = number, size if size >= 0 else self._plan.size(data), ring.CHANGING if number < self._settled else 0

    def _inline(self):
        """Returns a batch that this process loads itself."""
        if self._exhausted:
            self._end()
            raise StopIteration
        try:
            index = self._next_index()
        except StopIteration:
            self._exhausted = True
            self._end()
            raise
        number, watch = self._sent, self._gpustall
        self._sent = number + 1
        if watch is not None and watch.brief and self._observer is not None and self._observer.took_batch < INSTANT and self._trying is None:
            data = self._plain.fetch(index)  # this batch would not be timed
            if self._pin_memory:
                data = self._pinned(data)
        else:
            data = self._load(number, index)
        if type(index) is list and watch is not None:
            watch.came = number, len(index), ring.CHANGING if number < self._settled else 0
        else:
            self._tell(number, -1, data)
        return data

    def _load(self, number, index):
        """Loads a batch in this process."""
        if self._fetcher is None:
            self._plain, fetcher = self._create_fetcher(), self._create_fetcher()
            self._task = fetching.Task()
            self._task.round = 0
            try:
                observer = fetching.Observer(process.current().ring(ring.INLINE), self._gpustall_iteration, self._task, inline=True)
                observer.watch(fetcher)
                self._observer = observer
            except Exception as error:
                process.complain("what the loop loads itself is not watched", error)
            self._fetcher = fetcher
        self._task.index, self._task.brief = number, self._gpustall and self._gpustall.passing()
        if self._trying is None or not self._trying.waits():
            self._trying, data = None, self._fetcher.fetch(index)
        else:
            data = self._trying.load(self, self._fetcher, index)
        return self._pinned(data) if self._pin_memory else data

    def _create_fetcher(self):
        return stock._DatasetKind.create_fetcher(self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last)

    def _pinned(self, data):
        return pinning.pin(data, getattr(self, "_pin_memory_device", None) or pinning.device())

    def _end(self):
        if not self._persists() and not (self._plan.apart and self._plan.persists):  # otherwise it may be used again
            self._shutdown_workers()

    def _receive(self):
        """Waits for a batch of a worker. Returns the number of the batch to deliver now, or None if it has not
        arrived."""
        number, data = self._get()
        if number is None:  # the end of a pinning thread
            return None
        batch = self._batches.get(number)
        if batch is None:  # of a worker that was ended, and loaded elsewhere
            return None
        batch.worker.owes -= 1
        if batch.worker.retired:
            self._bury()
        if batch.stale:  # of an epoch that was left
            del self._batches[number]
            self._fill()
            return None
        failed = data if isinstance(data, ExceptionWrapper) else None
        if batch.worker.unfit or failed is not None and failed.exc_type is worker.Unfit:
            data = self._elsewhere(number, batch, data)
            if data is None:
                return None
        elif failed is not None and batch.index is not None and batch.worker.added:
            batch.failure = failed.exc_msg.strip()
            self._hand_over(number, batch)
            return None
        elif batch.failure is not None and failed is None and self._has_added():
            self._without_added("a worker failed with a batch that another could load", starting.USABLE, batch.failure)
        batch.data, batch.here = data, True
        if self._in_order and number == next(iter(self._batches)):
            return number
        self._arrived.append(number)
        return self._ready()

    def _elsewhere(self, number, batch, failure):
        """Gives the batch of an unfit worker to another worker. If there is none, loads and returns the batch."""
        unfit, crew = batch.worker, self._crew
        unfit.unfit = True
        if unfit in crew:  # the first failure of this worker
            crew.remove(unfit)
            unfit.retired = True
            self._leavers.append(unfit)
            most = max(unfit.number, self._plan.script["num_workers"])
            said = failure.exc_msg.strip().rpartition("Unfit: ")[2]
            refused = starting.Refused("worker_init_fn failed in worker %d: %s" % (unfit.number, said), "have it serve as many workers")
            self._plan.stays_at(most, refused)
            self._look()  # fewer workers may be in force now
            self._bury()
        fit = [w for w in crew if not w.unfit]
        if not fit:
            return self._load(number, batch.index)
        self._send_to(min(fit, key=lambda w: w.owes), number, batch)
        return None

    @staticmethod
    def _send_to(w, number, batch):
        batch.worker = w
        w.queue.put((number, batch.index))
        w.owes += 1

    def _has_added(self):
        return any(w.added for w in self._crew)

    def _hand_over(self, number, batch):
        """Makes a batch load where the script would load it: in a worker of its own, or here."""
        own = [w for w in self._crew if not w.unfit and not w.added]
        if not own:
            self._orphans.append(number)
            self._orphans.sort()
            return
        self._send_to(min(own, key=lambda w: w.owes), number, batch)

    def _adopt(self):
        """Loads the first batch that no worker loads, when its turn has come. Returns the number of the batch to
        deliver now, or None if it has not arrived. If it cannot be loaded here either, the script would fail too."""
        number = self._orphans[0]
        first = next(n for n, b in self._batches.items() if not b.stale)
        if self._in_order and number != first:
            return self._receive()
        del self._orphans[0]
        batch = self._batches[number]
        try:
            batch.data = self._load(number, batch.index)
        except BaseException:
            del self._batches[number]
            raise
        batch.here = True
        if batch.failure is not None and self._has_added():
            self._without_added("a worker failed with a batch that the loop could load", starting.USABLE, batch.failure)
        self._arrived.append(number)
        return self._ready()

    def _without_added(self, reason, hint, failure=None, kill=False):
        """Goes back to the script's own workers. If the others are ended, their batches are loaded elsewhere."""
        most = self._plan.script["num_workers"]
        added = [w for w in self._crew + self._leavers if w.added]
        if failure:
            reason = "%s: %s" % (reason, failure.splitlines()[-1])
            process.say("this is what the worker said:\n" + failure)
        self._crew = [w for w in self._crew if w not in added]
        self._leavers = [w for w in self._leavers if w not in added] + added
        for w in added:
            w.retired = True
        self._plan.stays_at(most, starting.Refused(reason, hint))
        if kill:
            for w in added:
                w.process.kill()
                w.process.join(1)
                self._leavers.remove(w)
                self._gone.append(w)
            for number, batch in list(self._batches.items()):
                if batch.worker not in added or batch.here or number in self._orphans:
                    continue
                if batch.stale:
                    del self._batches[number]
                else:
                    self._hand_over(number, batch)
        self._look()
        self._bury()
        self._tell_signals()

    def _lost(self, waited):
        """Goes back to the script's own workers if those that were added bring nothing, or have ended. Returns whether
        it did."""
        added = [w for w in self._crew + self._leavers if w.added]
        dead = [w for w in added if not w.process.is_alive()]
        if dead:
            self._without_added("a worker ended " + trial.ended(dead[0].process.exitcode), starting.USABLE, kill=True)
        elif added and waited > max(HANG if starting.method(self._context) == "fork" else SLOW_HANG, 10 * self._usual) and any(w.owes for w in added):
            self._without_added("no batch came for %.0f s after workers were added" % (waited / 1e9), starting.MAKE, kill=True)
        else:
            return False
        return True

    def _get(self):
        start, (number, data) = now(), self._await()
        if number is not None:
            self._usual += (now() - start - self._usual) / 8
        return number, data

    def _await(self):
        """Waits for a batch of a worker, and returns its number and data, or None twice if no worker brings one."""
        start = now()
        patience = self._timeout if self._timeout > 0 else _utils.MP_STATUS_CHECK_INTERVAL
        while True:
            if self._early:
                return self._sound(self._early.popleft())
            try:
                if self._pinner is None:
                    return self._results.get(timeout=patience)
                return self._sound(self._pinner.out.get(timeout=patience))
            except Exception as error:
                # PyTorch's handler of SIGCHLD raises where a worker was killed, and PyTorch's iterator then says which.
                if all(w.added or w.process.is_alive() for w in self._crew + self._leavers):
                    hook.pass_on(error)
                if isinstance(error, (EOFError, OSError)):
                    self._wait_for_ended()
                if self._lost(now() - start):
                    return None, None
                self._explain(error)
                if self._timeout > 0:
                    raise RuntimeError("DataLoader timed out after %s seconds" % self._timeout)  # noqa: B904 - as PyTorch raises it
                if self._pinner is not None and not self._pinner.thread.is_alive():
                    raise RuntimeError("Pin memory thread exited unexpectedly")  # noqa: B904 - as PyTorch raises it

    @staticmethod
    def _sound(got):
        if isinstance(got, BaseException):
            raise got
        return got

    def _wait_for_ended(self):
        """Waits a moment for a worker whose connection ended: a process closes its files just before it ends."""
        workers = {w.process.sentinel: w for w in self._crew + self._leavers}
        for ended in connection.wait(workers, timeout=1):
            workers[ended].process.join(1)

    def _explain(self, error):
        """Raises PyTorch's own error where no batch can come any more."""
        dead = [w for w in self._crew + self._leavers if not w.process.is_alive()]
        if dead:
            raise RuntimeError("DataLoader worker (pid(s) %s) exited unexpectedly" % ", ".join(str(w.process.pid) for w in dead)) from error
        if isinstance(error, queue.Empty):
            return
        import errno
        import tempfile

        try:
            spare = [tempfile.NamedTemporaryFile() for _ in range(10)]  # as many as PyTorch's own iterator tries
            del spare
        except OSError as full:
            if full.errno == errno.EMFILE:
                raise RuntimeError(
                    "Too many open files. Communication with the workers is no longer possible. Please increase the limit using `ulimit -n` in the shell or"
                    " change the sharing strategy by calling `torch.multiprocessing.set_sharing_strategy('file_system')` at the beginning of your code"
                ) from None
        raise error

    def _shutdown_workers(self):
        if _utils is None or _utils.python_exit_status is True or _utils.python_exit_status is None:
            return
        if self.__dict__.get("_shutdown", True) or self._owner != os.getpid():
            return
        self._shutdown = True
        try:
            if self._done is not None:
                self._done.set()
            if self._pinner is not None:
                self._pinner.end()
                self._pinner.thread.join(timeout=_utils.MP_STATUS_CHECK_INTERVAL)
            everyone = self._crew + self._leavers + self._gone
            for w in self._crew + self._leavers:
                w.queue.put(None)
            for w in everyone:
                w.process.join(timeout=_utils.MP_STATUS_CHECK_INTERVAL)
                w.queue.cancel_join_thread()
                w.queue.close()
            if self._results is not None:
                self._results.cancel_join_thread()
                self._results.close()
        finally:
            if self._watched:
                _utils.signal_handling._remove_worker_pids(id(self))
                self._watched = False
            for w in self._crew + self._leavers + self._gone:
                if w.process.is_alive():
                    w.process.terminate()
            self._crew, self._leavers, self._gone = [], [], []
            self._batches.clear()
            self._arrived.clear()

    def __del__(self):
        self._shutdown_workers()
