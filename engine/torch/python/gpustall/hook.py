"""Patches PyTorch's module of DataLoaders when it is imported."""

import functools
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
__file__ = "<gpustall>/hook.py"  # a name that coverage measures nothing of; see _Finder

TARGET = "torch.utils.data.dataloader"

# What is shared with gpustall, from when Python begins. A script may change the environment before it imports PyTorch.
folder = ""

_put = []  # what put replaced: the owner, the name, and what was there
_NOTHING = object()


def put(owner, name, value):
    """Sets an attribute, until undo."""
    _put.append((owner, name, owner.__dict__.get(name, _NOTHING)))
    setattr(owner, name, value)


def undo():
    """Puts back what put replaced, and finds no more modules."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    while _put:
        owner, name, before = _put.pop()
        if before is _NOTHING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
    sys.__dict__.pop("_gpustall_begun", None)


def begin():
    global folder
    folder = folder or os.environ.get("GPUSTALL_TORCH", "")
    if not folder or getattr(sys, "_gpustall_begun", False):
        return
    sys.__dict__["_gpustall_begun"] = True  # another sitecustomize may run this one again
    if TARGET in sys.modules:
        _install(sys.modules[TARGET])
        return
    sys.meta_path.insert(0, _Finder())


def pass_on(error):
    """Raises an error again that is not ours: Python runs a signal's handler wherever it is, and its error is for the
    script."""
    import signal

    handlers = [getattr(h, "func", h) for h in map(signal.getsignal, signal.valid_signals()) if callable(h)]
    codes = {getattr(h, "__code__", None) or getattr(type(h).__call__, "__code__", None) for h in handlers} - {None}
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code in codes:
            raise error
        at = at.tb_next


# The module that decides which functions torch.compile looks into.
RULES = "torch._dynamo.trace_rules"
OPTIMIZER = "torch.optim.optimizer"


class _Finder:
    """Finds modules by the other finders, and patches those of PATCHES after they have run.
    gpustall's own get a __file__ that is none: a script may be run by coverage, which reports on files, and ours will be
    gone by then."""

    def __init__(self):
        self.busy = False

    def find_spec(self, name, path=None, target=None):
        if name.startswith("gpustall.") and path is not None:
            import importlib.machinery

            spec = importlib.machinery.PathFinder.find_spec(name, path)
            if spec is not None and spec.origin:
                spec.origin = "<gpustall>/" + os.path.basename(spec.origin)
            return spec
        if name not in PATCHES or self.busy:
            return None
        import importlib.util

        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        run = getattr(spec and spec.loader, "exec_module", None)
        if spec is None or spec.loader is None or run is None:
            return None
        patch = PATCHES[name]

        def exec_module(module):
            run(module)
            patch(module)

        try:
            spec.loader.exec_module = exec_module  # pyright: ignore[reportAttributeAccessIssue] - a loader of any kind
        except Exception as error:  # a loader that takes no attributes
            pass_on(error)
            return None
        return spec


def _leave_to_python(rules):
    """Keeps torch.compile from compiling gpustall's code, where a compiled function contains a loop over a loader. It
    does not compile PyTorch's own loader either."""
    if not folder:  # the training was let go meanwhile
        return
    try:
        rules.add("gpustall")
    except Exception as error:  # another version of PyTorch, without such rules
        pass_on(error)
    try:
        from gpustall import parts

        parts.told_of_compiling()
    except Exception as error:  # our files were removed meanwhile
        pass_on(error)


def _install(module):
    if not folder:
        return
    try:
        from gpustall import process
    except Exception as error:  # our files were removed meanwhile
        pass_on(error)
        return
    try:
        from gpustall import observe

        observe.install(module)
        open(os.path.join(folder, "imported"), "ab").close()
    except Exception as error:
        process.complain("PyTorch's DataLoader is not watched", error)


def _see_optimizers(module):
    if not folder:
        return
    try:
        from gpustall import parts

        parts.see_optimizers(module)
    except Exception as error:  # our files were removed meanwhile, or it is another version of PyTorch
        pass_on(error)


def _see_ray(module):
    """Has the batches of Ray Data watched (iter_torch_batches, also of streaming_split)."""
    original = getattr(getattr(module, "DataIterator", None), "iter_torch_batches", None)
    if not folder or original is None:
        return

    def iter_torch_batches(*args, **kwargs):
        made = original(*args, **kwargs)
        try:
            from gpustall import manual

            manual.found(made, "Ray Data")
        except Exception as error:  # our files were removed meanwhile, or it is another version of Ray
            pass_on(error)
        return made

    put(module.DataIterator, "iter_torch_batches", functools.wraps(original)(iter_torch_batches))


PATCHES = {TARGET: _install, RULES: _leave_to_python, OPTIMIZER: _see_optimizers, "ray.data.iterator": _see_ray}
