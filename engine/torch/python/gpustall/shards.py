"""How many workers an iterable data set can serve. Each worker has a copy of the data set, which must yield only a
part. If it does not, each worker yields all of it.
"""

import functools
import sys
import sysconfig
import types

from torch.utils.data import IterableDataset, get_worker_info

from gpustall import given, hook

WANTED = "get_worker_info"
ENOUGH = 1000  # the most functions and objects that are looked into
_OURS = ("builtins", "typing", "abc", "torch.utils.data.dataset")  # modules whose classes leave it to their subclasses
_SPLITS = {"datasets", "deeplake", "litdata", "streaming", "torchdata", "webdataset", "wids"}  # packages whose streams split themselves


def most(loader):
    """Returns how many workers can get a part each, why not more, and what would help; None where that is not known."""
    known = _told(loader.dataset)
    if known:
        return known, "the data set has %s, each of which one worker loads" % ("1 shard" if known == 1 else "%d shards" % known), "split it into more shards"
    if not whole(loader):
        return None
    return (  # a script with several workers decides itself what they yield; more would yield it more often
        max(1, loader.num_workers), "%s does not ask which worker it is in, so that each worker would yield all of its samples" % given.dataset(loader),
        "have its __iter__ take a part by torch.utils.data.get_worker_info(), or set num_workers in the script if workers may yield the same",
    )


def whole(loader):
    """Returns whether each worker yields the whole data set, because neither the data set nor a worker's start asks
    which worker it is."""
    try:
        return getattr(loader, "worker_init_fn", None) is None and not _asks(loader.dataset, {})
    except Exception as error:  # from an unusual object
        hook.pass_on(error)
        return False


def _told(dataset):
    """Returns how many shards a data set of Hugging Face's has; None for others."""
    try:
        return dataset.num_shards if any(c.__module__ == "datasets.iterable_dataset" for c in type(dataset).__mro__) else None
    except Exception as error:
        hook.pass_on(error)
        return None


def _asks(thing, seen):
    """Returns whether a function, or an object and what it holds, asks or may ask which worker it is in. Nothing is called."""
    if id(thing) in seen:
        return False
    seen[id(thing)] = thing
    if len(seen) > ENOUGH:
        return True
    if isinstance(thing, (staticmethod, classmethod, types.MethodType)):
        thing = thing.__func__
    elif isinstance(thing, property):
        thing = thing.fget
    elif isinstance(thing, functools.partial):
        thing = thing.func
    if isinstance(thing, types.FunctionType):
        return _calls(thing, seen)
    if isinstance(thing, (list, tuple)):
        return any(_asks(t, seen) for t in thing[:16])
    if isinstance(thing, dict):
        return any(_asks(t, seen) for t in list(thing.values())[:16])
    for kind in (thing if isinstance(thing, type) else type(thing)).__mro__:
        if kind.__module__ in _OURS:
            continue
        if _library(kind.__module__):
            if _splits(kind.__module__) or issubclass(kind, IterableDataset):
                return True
        elif any(_asks(v, seen) for v in vars(kind).values() if isinstance(v, (types.FunctionType, staticmethod, classmethod, property))):
            return True
    if isinstance(thing, type) or type(thing).__module__ not in _OURS and _library(type(thing).__module__):
        return False
    return any(_asks(v, seen) for v in getattr(thing, "__dict__", {}).values())


def _calls(function, seen):
    """Returns whether a function, or one that it names, asks which worker it is in."""
    codes, names = [function.__code__], set()
    for code in codes:
        names.update(code.co_names, code.co_freevars)
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    if WANTED in names:
        return True
    if _library(function.__module__):
        return _splits(function.__module__)
    known = function.__globals__
    if any(n in _SPLITS and n not in known for n in names):  # imported within the function
        return True
    named = [known[n] for n in names if n in known]
    named += [vars(m)[n] for m in named if isinstance(m, types.ModuleType) for n in names if n in vars(m)]
    named += [getattr(function, "__wrapped__", None)] + [c.cell_contents for c in function.__closure__ or () if c != types.CellType()]
    if any(n is get_worker_info for n in named):  # by another name
        return True
    kinds = (type, types.FunctionType, IterableDataset)
    return any(_splits(n.__name__) if isinstance(n, types.ModuleType) else isinstance(n, kinds) and _asks(n, seen) for n in named)


def _splits(module):
    return module.partition(".")[0] in _SPLITS


def _library(name):
    """Returns whether a module is from a library, and not the script's own."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if name == "__main__":  # in a notebook, its file is the kernel's
        return False
    return file is None or "site-packages" in file or "dist-packages" in file or file.startswith(sysconfig.get_path("stdlib"))
