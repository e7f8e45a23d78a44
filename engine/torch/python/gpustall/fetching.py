"""Times how a fetcher loads batches: in a worker, or in the loop if the loop loads by itself (num_workers=0)."""

import copy
import functools
import itertools
import operator
import weakref
from typing import Any

from gpustall import process, ring
from gpustall.usage import CHOSEN, INSTANT, LONG, LONG_BATCH, NOT_READ, SELDOM, SOME, SPREAD, of_thread

now = process.now

# Timing one phase of a sample costs 4 us. If a batch has more than one phase per PHASE ns, only some batches
# are timed, at least one in RARELY. The cost then is 0.5 to 1 % of the time, and the other batches are taken
# to divide like the timed ones.
PHASE, RARELY = 800_000, 256
# Batches shorter than SHORT_BATCH, and samples shorter than TINY, are looked at closely in one batch of SELDOM.
# Batches up to LONG_BATCH, and samples up to FINE, are looked at in one of SOME, unless they wait for cores or
# take unequal times.
SHORT_BATCH = 1_000_000
TINY, FINE = 30_000, 1_000_000
# How many batches have all of their samples looked at, after one sample took far longer than others.
ALERT = 32
# The shortest gap between two phases of a sample that gets a span, in ns.
GAP = 50_000



class Task:
    """The batch that is being loaded."""

    __slots__ = ("index", "round", "got", "counted", "brief")

    def __init__(self):
        self.index, self.round = -1, -1
        self.got = 0  # when the worker took it from its queue, where it has one
        self.counted = False  # the usage is read for it
        self.brief = None  # in a loop that loads by itself and has brief steps: whether it passes this step by; None: it passes by none


class Observer:
    """Times what a fetcher does for each batch."""

    def __init__(self, ring, iteration, task, inline=False):
        self.inline = inline  # the loop itself loads
        self.off = False  # the batch is not timed
        self.write, self.iteration, self.task = ring.record, iteration, task
        self.usage = of_thread()
        self.detail, self.turn, self.every = False, 0, 1
        self.at = 0  # the end of the last phase
        self.mean, self.long = {}, False  # mean ns of a phase, by kind; whether one of them is LONG
        self.timed = []  # phases that are not recorded yet: kind, start, end, the sample's place in the batch, usage
        self.phases = 0  # recorded for the batch
        self.collates = self.took_batch = 0  # ns that collation and the whole of the last batch took
        self.collating = 0  # when collation began, where it gets no record of its own
        self.read, self.free = None, 0  # the usage at the end of the last batch, if it was read; when that end was
        self.uneven = self.wary = 0  # the turns until which all samples are looked at, and the usage is read
        self.batch, self.begun = (), ()  # where samples are looked at: the batch's indices; when each began, and the last ended

    def record(self, kind, start, end, flags=0):
        self.write(kind, start, end, self.iteration, self.task.round, self.task.index, -1, -1, 0, flags)

    def rest(self, end):
        """Records the time since the last timed phase as fetching, unless it is short."""
        if end - self.at > GAP:
            self.record(ring.FETCH, self.at, end, 0 if self.detail else ring.WHOLE)

    def flush(self):
        """Records the timed phases. Recording all at once takes a quarter of the time of recording between samples,
        because decoding a sample drives this code out of the processor's caches."""
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
        """Records a batch, and its phases that are not recorded yet."""
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
        else:  # loading failed, or the data set collates by itself
            self.rest(end)
        self.write(ring.BATCH, start, end, self.iteration, task.round, task.index, -1, slowest, took, 0, core, waiting, offset)

    def name(self, i):
        """Returns the name of a sample in records: its index, where that is a number, else -1."""
        index = self.batch[i] if 0 <= i < len(self.batch) else -1
        return index if type(index) is int and -1 <= index < 1 << 31 else -1

    def slowest(self):
        """Returns the slowest sample of the batch, and its ns; -1 and 0 where samples were not looked at."""
        took = list(map(operator.sub, self.begun[1:], self.begun))
        if not took:
            return -1, 0
        most = max(took)
        return self.name(took.index(most)), most

    def watch(self, fetcher):
        """Wraps the fetcher's methods."""
        # The wrapper must not keep the fetcher alive, and with it the data set, when nobody else does.
        fetch, itself = type(fetcher).fetch, weakref.ref(fetcher)
        collate, task = fetcher.collate_fn, self.task
        by_sample = getattr(fetcher, "auto_collation", True)  # otherwise the data set gets the list, and may return it
        stages = Stages(fetcher.dataset, self)

        def collated(samples, *args, **kwargs):
            if self.off:
                return collate(samples, *args, **kwargs)
            start = now()
            if not self.detail and self.collates < LONG:  # the record of the batch has collation too
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
            # As in steps.Watch.next, this code is not in the processor's caches when it runs. A line costs as
            # much as ten in a tight loop. So the common case is short and makes few calls.
            turn = self.turn = self.turn + 1
            if self.inline and self.took_batch < INSTANT and turn > max(self.uneven, self.wary, SOME):
                self.off = turn * SPREAD & CHOSEN if task.brief is None else task.brief
            else:
                self.off = False
            if self.off:
                return fetch(itself(), index)
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
                # If hardly any time passed since the last batch, its reading serves again.
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
                elif wall > last + (last >> 1) and turn > SOME:  # the first batches vary
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
    """The indices of a batch. Iterating over them reads the clock before each index and at the end, which tells when
    each sample began. No Python code runs for that. A data set that gets all indices at once (__getitems__) may keep
    them. So a copy or a pickle of them is a plain list, and they act as one when the batch is done."""

    observer: Any = None

    def __reduce_ex__(self, protocol):
        return list, (self[:],)

    def __iter__(self):
        if self.observer is None:
            return super().__iter__()
        begun = self.observer.begun = []
        clock = itertools.starmap(now, itertools.repeat(()))
        return map(_second, zip(map(begun.append, clock), super().__iter__()))


class _Timed:
    """Replaces a function of the data set while it loads a batch, and looks like that function. A copy or a pickle of
    it is the function itself."""

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


# Methods that Python looks up in an object's class. A transform may be a container, which has some of them.
_SPECIAL = ("len", "iter", "getitem", "setitem", "delitem", "contains", "bool", "eq", "ne", "hash", "repr", "str", "dir", "enter", "exit", "or", "add")


@functools.lru_cache(maxsize=64)
def _standing_for(kind):
    """Returns the class of the replacement for an object of a class."""
    return type("_Timed", (_Timed,), {name: _passed_on(name) for name in map("__%s__".__mod__, _SPECIAL) if hasattr(kind, name)})


def _passed_on(name):
    def special(self, *args):
        return getattr(self._f, name)(*args)

    return special


class Stages:
    """The functions of a data set that are timed while it loads a batch. In torchvision these are loader, which
    opens and decodes, transform, and transforms, which takes a sample with its target. torchvision's scripts
    for detection call the last one _transforms."""

    KINDS = (("loader", ring.DECODE), ("transform", ring.TRANSFORM), ("transforms", ring.TRANSFORM), ("_transforms", ring.TRANSFORM))

    def __init__(self, dataset, observer):
        self.found = []
        for _ in range(6):  # through Subset and the like, which may have their own transform
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
