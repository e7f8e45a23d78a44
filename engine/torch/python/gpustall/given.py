"""What a DataLoader was given: its data set and arguments, as the script has them."""

import functools
import sys


def behind(loader):
    """The loader that the script has: fastai's asks for PyTorch's iterators by another one."""
    return loader.d if type(loader).__module__ == "fastai.data.load" else loader


def sampling(loader):
    """Batch size, None where nobody tells, whether each epoch takes another order, None likewise, and whether
    a last batch that is not full is left out. A loader that is given a batch sampler (accelerate's
    always are) has them there, or in what that one takes its batches or samples from."""
    made = behind(loader)
    if made is not loader:
        return made.bs, bool(made.shuffle), bool(made.drop_last)
    size, drops, shuffles = getattr(loader, "batch_size", None), bool(loader.drop_last), False
    # Whether there is one is not left to "or": that asks for a sampler's length, which that of an iterable data set has not.
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None:
        sampler = getattr(loader, "sampler", loader.dataset)  # what is no DataLoader may have a data set that draws
    for _ in range(6):
        if type(getattr(sampler, "batch_size", None)) is int:
            size = size or sampler.batch_size
        drops = drops or getattr(sampler, "drop_last", False) is True and type(sampler).__name__ != "DistributedSampler"
        told = getattr(sampler, "shuffle", None)
        if told is True or any(c.__name__ in _RANDOM for c in type(sampler).__mro__):
            shuffles = True
        elif told is not False and not shuffles and not _of(sampler, *_MAKERS, "torch", "builtins"):
            shuffles = None  # it draws as it likes
        inner = getattr(sampler, "batch_sampler", None)
        sampler = getattr(sampler, "sampler", None) if inner is None else inner
        if sampler is None:
            break
    return size, shuffles, drops


_RANDOM = ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")


def dataset(loader):
    """The name of what is loaded: where a data set of PyTorch's holds another one, a part of it or several alike, of that one."""
    found = behind(loader).dataset
    found = getattr(found, "_datapipe", found)  # which the loader wrapped
    for _ in range(6):
        held = getattr(found, "datasets", None)
        if type(held) is list and len({type(d) for d in held}) == 1:
            held = held[0]
        elif type(held) is not list:
            held = getattr(found, "dataset", None)
        if held is None or type(held) is list or type(found).__module__ != "torch.utils.data.dataset":
            break
        found = held
    return type(found).__name__


def arguments(loader):
    """The arguments that are no knobs and without which it would be another loader, as they are written.
    None of a library's own loader, which has others."""
    try:
        return _drawing(loader) + _others(loader) if _of(loader, *_MAKERS, "torch") else []
    except Exception:  # odd ones
        return []


_MAKERS = ("accelerate", "lightning", "pytorch_lightning")  # packages that give a script's loader what it did not ask for


def _drawing(loader):
    """Where batches come from, if not from batch_size and shuffle."""
    name, source = "batch_sampler", loader.batch_sampler
    if source is None:
        if not _of(loader.sampler, *_MAKERS, "torch"):
            return ["batch_size=None", "sampler=" + _written(loader.sampler)]
        return ["batch_size=None"]
    while _of(source, *_MAKERS, "torch"):
        held = getattr(source, "batch_sampler", None)
        if held is None:
            held = getattr(source, "sampler", None)
            if held is None:
                return [] if _plain(source) else [name + "=" + _written(source)]
            name = "sampler"
        source = held
    return [name + "=" + _written(source)]


def _plain(sampler):
    """Whether shuffle says all that there is to a sampler, or a library put it there."""
    kind = type(sampler).__name__
    if kind == "RandomSampler":
        return not sampler.replacement and sampler._num_samples is None
    if kind == "DistributedSampler":
        return any(m in sys.modules for m in _MAKERS)
    return kind in ("SequentialSampler", "_InfiniteConstantSampler") or not _of(sampler, "torch")


def _others(loader):
    out = []
    for name in ("collate_fn", "worker_init_fn", "generator"):
        value = getattr(loader, name, None)
        if value is not None and not _of(value, *_MAKERS, "torch.utils.data._utils"):
            out.append(name + "=" + _written(value))
    if getattr(loader, "timeout", 0):
        out.append("timeout=%r" % loader.timeout)
    context = loader.multiprocessing_context
    if context is not None:
        out.append("multiprocessing_context=%r" % context.get_start_method())
    return out


def _of(thing, *modules):
    """Whether a function, or the class of what is none, is of one of these modules."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    module = (thing if hasattr(thing, "__name__") else type(thing)).__module__ or ""
    return any(module == m or module.startswith(m + ".") for m in modules)


def _written(value):
    """A value as a script would name it, as far as that is known."""
    if not hasattr(value, "__name__"):
        return "..." if _of(value, "builtins", "torch._C") else type(value).__name__ + "(...)"
    name = value.__qualname__.rpartition("<locals>.")[2]
    return "..." if hasattr(value, "__self__") or "<" in name else name
