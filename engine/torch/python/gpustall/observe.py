"""Patches PyTorch's module of DataLoaders, so that a script's calls of it are watched."""

import functools
import inspect
import multiprocessing
import sys
import warnings
from typing import Any

from gpustall import hook, loaders, parts, process, starting, worker
from gpustall.usage import DRAWN

now = process.now


def install(module):
    """Patches torch.utils.data.dataloader."""
    if hasattr(module._BaseDataLoaderIter, "_gpustall"):  # already patched
        return
    from gpustall import live

    loaders.pytorch, loaders.why_not_live = module, live.unknown(module)
    loader, base, put = module.DataLoader, module._BaseDataLoaderIter, hook.put
    module._utils.worker._gpustall_plain = module._utils.worker._worker_loop
    put(base, "_gpustall", None)  # the Watch over an iterator
    put(loader, "__iter__", _iter(loader.__iter__))
    put(loader, "_get_iterator", _get_iterator(loader._get_iterator))
    for kind in (module._SingleProcessDataLoaderIter, module._MultiProcessingDataLoaderIter):
        loaders.plain_init[kind] = kind.__init__
        put(kind, "__init__", _init(kind.__init__))
    if "__init_subclass__" not in loader.__dict__:
        put(loader, "__init_subclass__", classmethod(_subclassed))
    if hasattr(base, "_next_index"):
        put(base, "_next_index", _next_index(base._next_index, loaders.drawing))
    put(base, "__next__", _next(base.__next__))
    loaders.timed_draws = _next_index
    put(module, "warnings", _Warnings())


class _Warnings:
    """Stands for the warnings module in PyTorch's module. A warning names a line of a caller, and stacklevel says how
    many calls back that is. gpustall adds calls in between, which warn does not count."""

    @staticmethod
    def warn(message, category=None, stacklevel=1, **kwargs):
        frame, level = sys._getframe(1), 1
        while stacklevel > 1 and frame.f_back is not None:
            frame, level = frame.f_back, level + 1
            stacklevel -= not frame.f_globals.get("__name__", "").startswith("gpustall.")
        warnings.warn(message, category, level + 1, **kwargs)

    def __getattr__(self, name):
        return getattr(warnings, name)


def _plan(loader):
    """Returns the plan of a loader, or None if it cannot be watched. None too if a data set uses the loader: in a
    worker, or while this thread loads a batch for another loader."""
    try:
        loop = getattr(parts.here, "loop", None)
        if loaders.pytorch._utils.worker._worker_info is not None or loop is not None and loop.loading:
            return None
        plan = loaders.plans.get(loader)
        if plan is None:
            plan = loaders.plans[loader] = loaders.Plan(loader)
        return plan
    except Exception as error:
        process.complain("a DataLoader is not watched", error)


def _iter(original):
    @functools.wraps(original)
    def watched(self):
        plan = _plan(self)
        if plan is None:
            return original(self)
        if getattr(self._get_iterator, "__func__", None) is not loaders.pytorch.DataLoader._get_iterator:
            return plan.around(self, original)
        return plan.iterate(self, original)

    return watched


def _subclassed(cls, *args, **kwargs):
    """Runs when a subclass of DataLoader is defined. One with its own __iter__ may have its own iterators."""
    super(loaders.pytorch.DataLoader, cls).__init_subclass__(*args, **kwargs)
    own(cls)


def own(cls):
    """Watches what a subclass's own __iter__ returns."""
    if inspect.isfunction(cls.__dict__.get("__iter__")):
        hook.put(cls, "__iter__", _own_iter(cls.__iter__))


def _own_iter(original):
    """Watches the iterators that a subclass makes by itself, without DataLoader's methods, as torchdata's
    StatefulDataLoader does. Anything else that its __iter__ returns is left as it is."""
    module: Any = sys.modules.get(original.__module__)

    @functools.wraps(original)
    def watched(self):
        start, iteration = now(), None
        plain = getattr(module, "_worker_loop", None)
        try:
            watchable = worker.sendable(starting.method(getattr(self, "multiprocessing_context", None) or multiprocessing))
            if watchable and inspect.isfunction(plain) and tuple(inspect.signature(plain).parameters)[: len(worker.PARAMETERS)] == worker.PARAMETERS:
                iteration = process.current().iteration()
                module._worker_loop = functools.partial(worker.loop_of_other, plain, process.current().pid, iteration, start)
            iterator = original(self)
        finally:
            if iteration is not None:
                module._worker_loop = plain
        try:
            watch = iterator._gpustall if isinstance(iterator, loaders.pytorch._BaseDataLoaderIter) else False
            if watch is None or watch and (watch.plan.own or watch.plan.fixed) and watch.begun < start:
                plan = loaders.plans.get(self)
                if plan is None:
                    plan = loaders.plans[self] = loaders.Plan(self)
                    plan.keeps_own()
                plan.adopt(iterator, iteration, start)
        except Exception as error:
            process.complain("a DataLoader is not watched", error)
        return iterator

    return watched


def _get_iterator(original):
    """Watches the iterators of loaders whose class calls _get_iterator itself, to wrap the iterator or to keep it."""

    @functools.wraps(original)
    def watched(self):
        plan = _plan(self)
        if plan is None or plan.making:
            return original(self)
        return plan.iterate(self, original, asked=True)

    return watched


def _init(original):
    """Watches the iterators of loaders that make PyTorch's iterators themselves. These need not be DataLoaders."""

    @functools.wraps(original)
    def watched(self, loader):
        plan = _plan(loader)
        if plan is None or plan.making:
            return original(self, loader)
        return plan.made(self, loader)

    return watched


def _next(original):
    @functools.wraps(original)
    def watched(self):
        watch = self._gpustall
        return original(self) if watch is None else watch.next(original, self)

    return watched


def _next_index(original, without=()):
    """Times how long the sampler takes for the indices of a batch, but in iterators of some classes."""

    @functools.wraps(original)
    def timed(self):
        if type(self) in without:
            return original(self)
        start = now()
        index = original(self)
        end = now()
        if end - start >= DRAWN:
            loaders.drew(self._gpustall, start, end)
        return index

    return timed
