"""What a script gave to a DataLoader: its data set and arguments."""

import functools
import sys

from gpustall import hook


def behind(loader):
    """Returns the loader that the script has. fastai's loader uses an inner one to make PyTorch's iterators."""
    return loader.d if type(loader).__module__ == "fastai.data.load" else loader


def sampling(loader):
    """Returns the batch size, whether each epoch has a new order, and whether a last batch that is not full is left
    out. The first two are None where they are not known. A loader with a batch sampler, such as accelerate's, has them
    in that sampler, or in the samplers within it."""
    made = behind(loader)
    if made is not loader:
        return made.bs, bool(made.shuffle), bool(made.drop_last)
    size, drops, shuffles = getattr(loader, "batch_size", None), bool(loader.drop_last), False
    # This does not use "or", which would ask for the sampler's length. The sampler of an iterable data set
    # has none.
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None:
        sampler = getattr(loader, "sampler", loader.dataset)  # without a sampler, the data set may draw by itself
    for _ in range(6):
        if type(getattr(sampler, "batch_size", None)) is int:
            size = size or sampler.batch_size
        drops = drops or getattr(sampler, "drop_last", False) is True and type(sampler).__name__ != "DistributedSampler"
        told = getattr(sampler, "shuffle", None)
        if told is True or any(c.__name__ in _RANDOM for c in type(sampler).__mro__):
            shuffles = True
        elif told is not False and not shuffles and not _of(sampler, *_MAKERS, "torch", "builtins"):
            shuffles = None  # a sampler of the script's own, whose order is not known
        inner = getattr(sampler, "batch_sampler", None)
        sampler = getattr(sampler, "sampler", None) if inner is None else inner
        if sampler is None:
            break
    return size, shuffles, drops


def epoch(loader, size, samples):
    """Returns how many samples an epoch has, which is how many the sampler draws of the data set's samples. It is 0
    where that is not known. size is the batch size."""
    source = getattr(loader, "batch_sampler", None)
    if behind(loader) is not loader or source is None and not hasattr(loader, "sampler"):
        return samples
    try:
        if source is None:
            drawn = len(loader.sampler)
        elif _of(source, "torch.utils.data"):
            drawn = len(source.sampler)
        else:
            drawn = len(source) * (size or 0)
    except Exception as error:  # of a sampler without a length
        hook.pass_on(error)
        return samples if source is None else 0
    return drawn if drawn <= 10 * samples else 0  # an endless sampler may have the largest number as its length


_RANDOM = ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")


def dataset(loader):
    """Returns the name of the data set. If a data set of PyTorch's holds another one, a part of it, or several of one
    class, it is the name of the inner one."""
    found = behind(loader).dataset
    found = getattr(found, "_datapipe", found)  # the loader wrapped the script's
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
    """Returns the arguments that are not knobs and that make a difference, as a script would write them. It is empty for a
    library's own loader, which has other arguments."""
    try:
        return _drawing(loader) + _others(loader) if _of(loader, *_MAKERS, "torch") else []
    except Exception as error:  # from an unusual argument
        hook.pass_on(error)
        return []


_MAKERS = ("accelerate", "lightning", "pytorch_lightning")  # packages that replace arguments of a script's loader


def _drawing(loader):
    """Returns the arguments for where batches come from, if not from batch_size and shuffle."""
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
    """Returns whether the argument shuffle alone makes such a sampler, or a library put it there."""
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
    """Returns whether a function, or the class of another object, is from one of these modules."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    module = (thing if hasattr(thing, "__name__") else type(thing)).__module__ or ""
    return any(module == m or module.startswith(m + ".") for m in modules)


def _written(value):
    """Returns a value as a script would write it, as far as that is known."""
    if not hasattr(value, "__name__"):
        return "..." if _of(value, "builtins", "torch._C") else type(value).__name__ + "(...)"
    name = value.__qualname__.rpartition("<locals>.")[2]
    return "..." if hasattr(value, "__self__") or "<" in name else name
