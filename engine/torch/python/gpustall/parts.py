"""The parts of a step: backward passes and optimizers' steps. PyTorch's own hooks show them. So no frame of gpustall is
in a traceback, no function is wrapped, and torch.compile has nothing more to look into. """

import functools
import os
import threading
import weakref
from typing import Any

from gpustall import hook, process, ring

now = process.now

# The number of backward passes without a batch after which KEPT is told, and of an optimizer's steps after which they are
# the loop's. It is so many times higher where the script still holds the loader's iterator, and after it took several batches
# so many times as many as in any batch before.
APART, LONG, MORE = 20, 10, 25
# How many batches a loop takes ahead at most, as Transformers' Trainer does of those whose gradients it accumulates.
AHEAD = 16

ELSEWHERE = (
    "one thread takes the batches and another learns from them: the device's share is that of the time in which the first waits for no data,"
    " and what overlaps is not seen"
)
KEPT = (
    "the script learns from batches that it does not take from a DataLoader now, those that it keeps (in a list, by itertools.cycle) or makes itself:"
    " that is in no step; gpustall.step() after each shows it"
)

_installed = _seen = _watched = False
handles: Any = []  # of PyTorch's hooks
_compiling = lambda: False  # noqa: E731


def install():
    """Installs the hooks, at the first batch, when all of PyTorch is imported."""
    global _installed
    if _installed:
        return
    _installed = True
    for what, f in (("optimizers are not watched", _watch_optimizers), ("backward passes are not watched", _watch_backward)):
        try:
            f()
        except Exception as error:
            process.complain(what, error)


def installed():
    """Returns whether a loop had its first batch."""
    return _installed


def _watch_optimizers():
    """Watches optimizers by the hooks around the steps of all optimizers, which PyTorch has since 2.0."""
    try:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
    except ImportError:
        return
    told_of_compiling()
    handles.append(register_optimizer_step_pre_hook(_stepping))
    if not _seen:
        handles.append(register_optimizer_step_post_hook(_stepped))


def see_optimizers(module):
    """Sees optimizers' steps and backward passes before the first batch, because a loop without a DataLoader has no
    other sign. module is torch.optim.optimizer. If compiled code cannot be told from other code, they are not seen yet."""
    global _seen
    rules = os.path.join(os.path.dirname(os.path.dirname(module.__file__)), "_dynamo", "trace_rules.py")
    if not _installed and os.path.exists(rules) and hasattr(module, "register_optimizer_step_post_hook"):
        handles.append(module.register_optimizer_step_post_hook(_stepped))
        _seen = True
        _watch_backward()


def told_of_compiling():
    """Finds PyTorch's function that is true in code that torch.compile compiles. PyTorch 2.0 has none, and its
    torch.compile leaves optimizers alone."""
    global _compiling
    import torch

    for name in ("is_dynamo_compiling", "is_compiling"):
        if hasattr(getattr(torch, "compiler", None), name):
            _compiling = getattr(torch.compiler, name)
            return


def _stepping(optimizer, args, kwargs):
    if _compiling():  # a step that is compiled is not recorded
        return
    loop = getattr(here, "loop", None)
    if loop is not None and loop.learned and loop.passed_by is not None:  # a brief step, whose parts are not timed
        return
    try:
        # An optimizer with a closure evaluates the model in its step. Only the time after the last backward
        # pass is the optimizer's own.
        _begin(ring.OPTIMIZER, (args[1] if len(args) > 1 else kwargs.get("closure")) is None)
    except Exception as error:
        hook.pass_on(error)


def _stepped(optimizer, args, kwargs):
    if _compiling():
        return
    loop = getattr(here, "loop", None)
    brief = loop if loop is not None and loop.passed_by is not None and not loop.parts else None
    if brief is not None:
        again, step = brief.again, brief.open[-1][1]
        if again[0] != step:
            again[:] = step, 1, now(), id(optimizer), max(again[1], again[4])
            return
        if again[3] != id(optimizer) or again[1] < APART:
            again[1] += again[3] == id(optimizer)
            return
    try:
        if brief is not None:
            brief.catch_up()  # the script learns from one batch again and again: each step is told from here on
        _end(ring.OPTIMIZER)
        loop = getattr(here, "loop", None)
        if loop is None or not loop.open or loop.open[-1][0].alone or _on_one_batch(loop, id(optimizer)):
            from gpustall import manual

            here.optimizes = True
            manual.optimized(optimizer, loop)
    except Exception as error:
        process.complain("a loop without a DataLoader is not watched", error)


def _on_one_batch(loop, optimizer):
    """Counts an optimizer's steps within the open step. Returns whether they are the loop's steps, because the script
    learns from one batch again and again, or from several that it keeps. The batch's own step ends then, with the first of them."""
    watch, step = loop.open[-1][:2]
    again = loop.again
    if again[0] != step:
        again[:] = step, 0, now(), optimizer, max(again[1], again[4])
    if again[3] != optimizer:
        return False
    again[1] += 1
    _, n, first, _, most = again
    if n <= APART or step < 0 or len(loop.open) > 1 or watch.iterator is None:
        return False
    if not watch.gone() and n <= (MORE * max(2, most) if watch.delivered > 1 else LONG * APART):  # it may ask for the next batch yet
        return False
    again[1], n = 0, n - 1
    if loop.device is not None:
        loop.device.drop()
    watch.ended, watch.left, watch.dropped = (), (first, None), True
    loop.settle(now())
    watch.plan.learns()
    from gpustall import manual

    manual.counted(loop.turn, n - 1, watch.plan.about["batch_size"])
    return True


def _watch_backward():
    """Watches backward passes by the attribute run_backward of autograd's engine, which PyTorch's Python code reads.
    The attribute gets the engine's own method in a partial. The partial is let go when the pass is over, even if it
    failed, and before the script's next line runs. Then a weak reference to the partial notes the time.

    That only reads the clock, and runs in C alone. Python handles a signal that came during the pass in the first
    Python code after it. If that were a finalizer, an exception of the handler, for example of ctrl+c, would be
    lost."""
    global _watched
    if _watched:
        return
    from torch.autograd import Variable

    engine = Variable._execution_engine
    plain = engine.run_backward

    class Engine(type(engine)):
        @property
        def run_backward(self):
            try:
                loop = getattr(here, "loop", None)
                if loop is not None and loop.passed_by is not None and loop.state.learned:  # as in _begin, for a brief step
                    loop.learned = True
                    loop.state.learned += 1
                    return plain
                if loop is None or not loop.open or loop.open[-1][0].alone:
                    from gpustall import manual

                    manual.passing(loop)
                if _installed and _begin(ring.BACKWARD, True):
                    once: Any = functools.partial(plain)
                    once.over = weakref.ref(once, here.loop.passed)
                    return once
            except Exception as error:
                hook.pass_on(error)
            return plain

    hook.put(Variable, "_execution_engine", Engine())
    _watched = True


# Each thread's loop, once it has one. A forked child begins without one.
here = threading.local()


def _forked():
    process.inherited.append(dict(here.__dict__))
    here.__dict__.clear()


os.register_at_fork(after_in_child=_forked)


def _begin(kind, whole):
    """Begins a part in this thread's loop. Returns whether the loop has a step for it. whole: the time before parts
    within this one belongs to it."""
    loop = getattr(here, "loop", None)
    state = process.current() if loop is None else loop.state
    if not state.learned and state.steps:
        _learns(state, loop)
    if loop is not None:
        if not loop.stands and loop.open and loop.open[-1][1] >= 0:
            loop.state.learned += 1
            loop.learned = True
            return False
        if loop.over:
            settle(loop)
    state.learned += 1
    if loop is None or not loop.open:
        if loop is not None and loop.ahead is not None:
            loop.ahead.takes_ahead()
            loop.ahead = None
        if state.shown is not None and state.taker != threading.get_ident() and not state.elsewhere:
            state.elsewhere = True
            state.tell("note", level="warn", text=ELSEWHERE)
        elif state.shown is not None and state.taker == threading.get_ident() and kind == ring.BACKWARD:
            state.apart += 1
            if state.apart == APART and not here.__dict__.get("optimizes"):
                state.tell("note", level="warn", text=KEPT)
        return False
    if loop.open[-1][1] < 0 and len(loop.open) > 1:
        loop.back()
    watch = loop.open[-1][0]
    if loop.open[-1][1] < 0 and not watch.trains:
        watch.learns(loop)
    if loop.open[-1][1] < 0:
        return False
    if watch.alone and kind == ring.BACKWARD and loop.device is not None and not loop.learned:
        loop.device.resumes()
    t, parts = now(), loop.parts
    if parts:
        # A part within one of its own kind may mean that the outer one failed, which nothing
        # tells.
        outer = parts[-1]
        if outer[2] and outer[0] != kind:
            _record(loop, outer, t)
    parts.append([kind, t, whole])
    return True


def _learns(state, loop):
    """Tells that the steps so far were none, when the script learns for the first time: it looked at its data, or
    keeps them in a list. Not where it says itself what a step is, learns in another thread, or likely takes some ahead."""
    shown = state.shown
    if shown is None or shown.plan.certain or state.taker != threading.get_ident() or len(state.loops) > 1:
        return
    from gpustall import loaders

    if loop.passed_by is not None:
        loop.catch_up()
    first = next((entry[1] for entry in loop.open if entry[1] >= 0), state.steps)
    if first:
        state.idle = first == state.steps
        for entry in loop.open:
            entry[0].late = True
        loaders.only_these_train({entry[0].plan.alike for entry in loop.open})
        if first > AHEAD or len(loop.open) != 1 or loop.open[0][0].delivered != first + 1:
            state.tell("learns", step=first, through=state.samples)


def settle(loop):
    """Records the backward passes that are over."""
    while loop.over:
        _over(loop, ring.BACKWARD, loop.over.popleft())


def _end(kind):
    loop = getattr(here, "loop", None)
    if loop is not None and loop.parts:
        t = now()
        settle(loop)
        _over(loop, kind, t)


def _over(loop, kind, t):
    """Ends the innermost part of that kind, at t. Parts within it failed, and are dropped."""
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
    loop.record(part[0], part[1], t, watch.iteration, watch.round, batch, step, -1, loop.stands, ring.TRAIN)
