"""Watches a training that runs already, and lets it go again. injected.py calls begin and end in the main thread, between
two instructions of the training's own."""

import gc
import importlib
import multiprocessing
import sys
import weakref
from typing import Any

from gpustall import hook, loaders, memory, parts, process, ring, starting, steps
from gpustall.control import NAMES, PERSISTENT, SEQUENCE

watcher: Any = None  # the gpustall that watches, where this process started it


def leave():
    """Calls end, as injected.py has it called."""


WORKERS = ("frames", "looks", "usage", "control", "batches", "fetching", "worker", "manual", "device", "capture", "exchange", "given")
TRAINING = ("observe", "shards", "live", "pinning", "trial")  # these import PyTorch


def begin(others):
    """Begins to watch. others are the modules that the script knows as gpustall, which do nothing."""
    # None of this is looked up on the disk later.
    for name in WORKERS + (TRAINING if hook.TARGET in sys.modules else ()):
        importlib.import_module("gpustall." + name)
    hook.begin()
    if hook.TARGET in sys.modules:
        sys.meta_path.insert(0, hook._Finder())
        for name in (hook.RULES, hook.OPTIMIZER):
            if name in sys.modules:
                hook.PATCHES[name](sys.modules[name])
        _adopt(sys.modules[hook.TARGET])
    known = others.get("gpustall")
    if known is not None:
        for name in ("watch", "step", "data"):
            hook.put(known, name, getattr(sys.modules["gpustall"], name))


def end():
    """Leaves the training as it was. A change of the loader's workers is taken back."""
    state, module = process.current(), loaders.pytorch
    hook.undo()
    while parts.handles:
        parts.handles.pop().remove()
    state.settle()
    if state.end is not None:
        state.end.cancel()
    kinds = () if module is None else (module._BaseDataLoaderIter,)
    for thing in _alive(memory.File, *kinds):
        if isinstance(thing, memory.File):
            thing.close()
        else:
            _let_go(thing)
    page = memoryview(bytearray(4096)).cast("q")
    page[SEQUENCE] = state.control.page[SEQUENCE] + 2
    for word in range(1, PERSISTENT + 1):
        page[word] = -1
    assert PERSISTENT == len(NAMES)
    state.control.page, state.control.folder = page, ""
    process.FOLDER = hook.folder = ""
    parts.here.__dict__.clear()


def _alive(*kinds):
    return [thing for thing in gc.get_objects() if issubclass(type(thing), kinds)]


def _let_go(iterator):
    own = iterator.__dict__
    own.pop("_gpustall", None)
    fetcher = own.get("_dataset_fetcher")
    if fetcher is not None and fetcher.__dict__.pop("fetch", None) is not None:
        fetcher.collate_fn = iterator._collate_fn
    looked = own.get("_next_data")
    if getattr(looked, "__module__", "") == loaders.__name__:
        del own["_next_data"]


def _adopt(module):
    """Sees the iterators that there are, from their next batch on."""
    from gpustall import observe

    found = _alive(module.DataLoader, module._BaseDataLoaderIter)
    all_loaders = [thing for thing in found if isinstance(thing, module.DataLoader)]
    for iterator in found:
        if isinstance(iterator, module._BaseDataLoaderIter):
            same = [at for at in all_loaders if at.dataset is iterator._dataset and at._index_sampler is iterator._index_sampler]
            iterator._gpustall = Found(same[0] if same else Loader(iterator))
    classes = list(module.DataLoader.__subclasses__())
    for kind in classes:
        observe.own(kind)
        classes.extend(kind.__subclasses__())


class Loader:
    """Stands for a DataLoader that is gone, while the loop still takes batches from its iterator."""

    def __init__(self, iterator):
        self.dataset, self.drop_last = iterator._dataset, iterator._drop_last
        self._dataset_kind, self._auto_collation = iterator._dataset_kind, iterator._auto_collation
        self._index_sampler = iterator._index_sampler
        self.num_workers, self.prefetch_factor = iterator._num_workers, getattr(iterator, "_prefetch_factor", None)
        self.pin_memory, self.timeout, self.collate_fn = iterator._pin_memory, iterator._timeout, iterator._collate_fn
        self.persistent_workers, self.in_order = getattr(iterator, "_persistent_workers", False), getattr(iterator, "_in_order", True)
        self.batch_sampler = self._index_sampler if self._auto_collation else None
        self.sampler = getattr(self._index_sampler, "sampler", None) if self._auto_collation else self._index_sampler
        self.batch_size = getattr(self._index_sampler, "batch_size", None) if self._auto_collation else None
        self.worker_init_fn, self.multiprocessing_context, self.generator = getattr(iterator, "_worker_init_fn", None), None, None


class Found:
    """Stands for the watch over an iterator that ran before, until the loop asks that for a batch. Rings belong to the
    thread that writes them."""

    begun, first = 0.0, True

    def __init__(self, loader):
        self.loader = loader

    @property
    def plan(self):
        plan = loaders.plans.get(self.loader)
        if plan is None:
            plan = loaders.plans[self.loader] = loaders.Plan(self.loader)
        return plan

    def next(self, original, iterator):
        try:
            watch = self._watch(iterator)
        except Exception as error:
            process.complain("a DataLoader is not watched", error)
            iterator._gpustall = None
            return original(iterator)
        return watch.next(original, iterator)

    def _watch(self, iterator):
        plan = self.plan
        plan.runs(iterator)
        watch = steps.Watch(plan, plan.iteration)
        watch.iterator, watch.loader = weakref.ref(iterator, watch.over()), self.loader
        plan.watch_inline(iterator, watch)
        iterator._gpustall = watch
        context = getattr(iterator, "_multiprocessing_context", None) or multiprocessing
        if starting.method(context) == "fork":  # the interpreter of a forked worker lies where this one does
            for number, worker in enumerate(getattr(iterator, "_workers", ())):
                ring.Ring(process.FOLDER, ring.WORKER, process.current().pid, number, plan.iteration, of=worker.pid)
        return watch
