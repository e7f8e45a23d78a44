"""What the loop does with its batch: backward passes and optimizers' steps, as far as PyTorch
shows them without anything being put around them. No frame of ours is in a traceback, no
function is replaced, and there is nothing for torch.compile to look into.
"""

import functools
import os
import threading
import weakref
from typing import Any

from gpustall import process, ring

now = process.now

APART = 20  # backward passes without a batch, from which on it is told

ELSEWHERE = (
    "one thread takes the batches and another learns from them: the device's share is that of the time in which the first waits for no data,"
    " and what overlaps is not seen"
)
KEPT = (
    "the script learns from batches that it does not take from a DataLoader now, those that it keeps (in a list, by itertools.cycle) or makes itself:"
    " that is in no step; gpustall.step() after each shows it"
)

_installed = False
_compiling = lambda: False  # noqa: E731


def install():
    """At the first batch, when PyTorch is imported to the end."""
    global _installed
    if _installed:
        return
    _installed = True
    for what, f in (("optimizers are not watched", _watch_optimizers), ("backward passes are not watched", _watch_backward)):
        try:
            f()
        except Exception as error:
            process.complain(what, error)


def _watch_optimizers():
    """By hooks around the steps of all optimizers, which PyTorch has from 2.0 on."""
    try:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
    except ImportError:
        return
    global _compiling
    _compiling = _told_of_compiling()
    register_optimizer_step_pre_hook(_stepping)
    register_optimizer_step_post_hook(_stepped)


def _told_of_compiling():
    """What torch.compile takes for true in what it looks into."""
    import torch

    for name in ("is_dynamo_compiling", "is_compiling"):
        if hasattr(getattr(torch, "compiler", None), name):
            return getattr(torch.compiler, name)
    return lambda: False  # 2.0, whose torch.compile leaves optimizers alone


def _stepping(optimizer, args, kwargs):
    if _compiling():  # a step that is compiled is left as it is: the parts of it are not told of
        return
    try:
        # One that is given a closure evaluates the model in its step: its own part is what
        # follows the last backward pass.
        _begin(ring.OPTIMIZER, (args[1] if len(args) > 1 else kwargs.get("closure")) is None)
    except Exception:
        pass


def _stepped(optimizer, args, kwargs):
    if _compiling():
        return
    try:
        _end(ring.OPTIMIZER)
    except Exception:
        pass


def _watch_backward():
    """By the attribute that PyTorch's Python code asks the engine of autograd for: what it is
    given is the engine's own method and notes, when it was called and is let go, that it is
    over. That is so before the next line runs, and whether or not the pass failed.

    The note is a reading of the clock and nothing else, all of it in C: a signal that came during
    the pass is handled in the first Python code after it, and what a handler raises in a
    finalizer, ctrl+c for one, would be lost."""
    from torch.autograd import Variable

    engine = Variable._execution_engine
    plain = engine.run_backward

    class Engine(type(engine)):
        @property
        def run_backward(self):
            try:
                if _begin(ring.BACKWARD, True):
                    once: Any = functools.partial(plain)
                    once.over = weakref.ref(once, here.loop.passed)
                    return once
            except Exception:
                pass
            return plain

    Variable._execution_engine = Engine()


# Each thread's loop, once it has one. A forked child begins without.
here = threading.local()


def _forked():
    process.inherited.append(dict(here.__dict__))
    here.__dict__.clear()


os.register_at_fork(after_in_child=_forked)


def _begin(kind, whole):
    """A part begins in this thread's loop; whether it has one. whole: what comes before parts
    within it belongs to it."""
    loop = getattr(here, "loop", None)
    if loop is not None and loop.over:
        settle(loop)
    state = process.current() if loop is None else loop.state
    state.learned += 1
    if loop is None or not loop.open:
        if state.shown is not None and state.taker != threading.get_ident() and not state.elsewhere:
            state.elsewhere = True
            state.tell("note", level="warn", text=ELSEWHERE)
        elif state.shown is not None and state.taker == threading.get_ident() and kind == ring.BACKWARD:
            state.apart += 1
            if state.apart == APART:
                state.tell("note", level="warn", text=KEPT)
        return False
    watch = loop.open[-1][0]
    if loop.open[-1][1] < 0 and not watch.trains:
        watch.learns(loop)
    if loop.open[-1][1] < 0:
        return False
    t, parts = now(), loop.parts
    if parts:
        # One in another of its kind may mean that the other failed, of which nobody tells.
        outer = parts[-1]
        if outer[2] and outer[0] != kind:
            _record(loop, outer, t)
    parts.append([kind, t, whole])
    return True


def settle(loop):
    """Takes the backward passes that are over for what they are."""
    while loop.over:
        _over(loop, ring.BACKWARD, loop.over.popleft())


def _end(kind):
    t = now()
    loop = getattr(here, "loop", None)
    if loop is not None:
        settle(loop)
        _over(loop, kind, t)


def _over(loop, kind, t):
    """The innermost part of that kind was over at t, and those in it that failed."""
    parts = loop.parts
    if not parts:
        return
    if parts[-1][0] != kind:
        if all(part[0] != kind for part in parts):
            return
        while parts[-1][0] != kind:
            parts.pop()
    _record(loop, parts.pop(), t)
    if parts:
        parts[-1][1] = t


def _record(loop, part, t):
    watch, step, _, batch, _ = loop.open[-1]
    loop.learned = True
    loop.record(part[0], part[1], t, watch.iteration, watch.round, batch, step, -1, 0, ring.TRAIN)
