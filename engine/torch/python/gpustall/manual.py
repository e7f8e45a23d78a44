"""Loops without a DataLoader. They say where their steps are by gpustall.watch, gpustall.step and gpustall.data, or
their optimizer shows it. """

import sys
import threading
from typing import Any

from gpustall import batches, hook, loaders, loops, parts, process, ring, steps

now = process.now


class _Loose:
    """The plan of a loop without a DataLoader. It has what steps.Watch needs of a Plan."""

    trains, weighed, beside, own, limit, certain, least = True, False, False, False, None, True, steps.NEVER

    def __init__(self, name, shown=False):
        self.alike, self.script = name, {}
        self.shown = shown  # by the optimizer alone
        self.between = False  # its steps are between calls, and no batch shows what they wait for
        self.about = dict(
            dataset=name, kind="optimizer" if shown else "iterable", samples=0, batch_size=None, shuffle=None, drop_last=False, live=False,
            has_in_order=False, context="",
            why="it takes no batches from a DataLoader: there is nothing to change",
        )

    def weigh(self, data):
        """Describes the loop, at its first batch."""
        self.weighed = True
        self.about["batch_size"] = _stepped.__dict__.get("samples") or None if self.shown else self.size(data)
        self.about["alone"] = self.between and "data" not in _stepped.__dict__
        process.current().tell_news("loader", trains=True, knobs={}, step=process.current().steps, **self.about)

    def moved(self, other, t):
        """Tells that the loop trains with this iterable now."""
        self.about["alone"] = self.between and "data" not in _stepped.__dict__
        process.current().tell("moved", t=t, step=process.current().steps, script=True, knobs={}, **self.about)

    def judge(self, data=None):
        return True

    def shows(self, t):
        pass

    def ended(self, learned, last):
        pass

    def unsure(self):
        return False

    def learned(self):
        return True

    def size(self, data):
        return batches.samples(data)


class _Found(_Loose):
    """The plan of an iterable of a library's. Its loop trains where gradients are on or something is learned."""

    certain = False

    def judge(self, data=None):
        import torch

        return torch.is_grad_enabled()

    def learns(self):
        pass


def found(iterable, name):
    """Has an iterable watched whose iterator_gen returns a new iterator each time."""
    begin = iterable.iterator_gen

    def watched():
        return _items(steps.Watch(_Found(name), process.current().iteration()), begin()) if process.FOLDER else begin()

    iterable.iterator_gen = watched


def watch(iterable, name=None):
    """Yields the items of an iterable and times the loop that takes them. A DataLoader needs no such call."""
    if not process.FOLDER or loaders.pytorch is not None and isinstance(iterable, loaders.pytorch.DataLoader):
        return iter(iterable)
    return _items(steps.Watch(_Loose(name or type(iterable).__name__), process.current().iteration()), iterable)


def _items(mine, iterable, now=now):  # now: a generator may be let go when this module's names are gone
    items: Any = None

    def following():
        nonlocal items
        if items is None:  # here, because many iterables begin to load in __iter__
            items = iter(iterable)
        opened = loops.current().open
        last = opened and opened[-1]
        item, opened = next(items), loops.current().open
        if opened and opened[-1] is not last and (opened[-1][1] >= 0 or opened[-1][0].held is not None):
            raise _Within(item)
        return item

    try:
        while True:
            try:
                item = mine.next(following)
            except StopIteration:
                return
            except _Within as taken:
                yield taken.args[0]
                yield from items
                return
            yield item
    finally:  # also where the loop is left with break
        mine.left, mine.dropped = (now(), None), True


class _Within(Exception):
    """The watched iterable takes its items from a DataLoader, which has the steps already."""


_stepped = threading.local()

ALONE = (
    "gpustall.step() alone does not tell what a step waits for: outside of backward passes and optimizers its time reads unknown;"
    " 'with gpustall.data():' around what makes a batch shows the wait for it"
)


def step(samples=0):
    """Ends a step of a loop without an iterable. Within a step of a DataLoader or of watch it does nothing."""
    if not process.FOLDER:
        return
    mine, loop = _stepped.__dict__.get("watch"), loops.current()
    loop.settle(now())
    opened = loop.open
    if opened and opened[-1][0] is not mine and opened[-1][1] >= 0:
        return
    if mine is None or mine.plan.shown:
        mine = _begin(_Loose("gpustall.step"), loop)
        if "data" not in _stepped.__dict__:
            process.current().tell("note", level="warn", text=ALONE)
    mine.next(lambda: samples)
    loop.stands = 1  # each part is timed


def _begin(plan, loop):
    mine = _stepped.watch = steps.Watch(plan, process.current().iteration())
    plan.size, plan.between = lambda data: data, True
    mine.begun = float("inf")  # each is a step
    mine.gone = lambda: True  # as soon as the loop takes its batches elsewhere
    mine.alone = True
    loop.record = _known(loop, mine.iteration)
    return mine


class _Shapes:
    """Finds out how many samples a step has, by the shape of what models get in a step or two. It looks by PyTorch's own
    hook for all modules, which it removes. Code that torch.compile compiles is left alone."""

    def __init__(self):
        self.found, self.calls, self.thread = [], {}, threading.get_ident()  # samples of the steps seen; and of each module in this one
        self.left = CALLS
        self.handle: Any = None
        try:
            from torch.nn.modules import module

            counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
            if not counters.get("stats") and not counters.get("frames"):
                self.handle = module.register_module_forward_hook(self._called, with_kwargs=True)
        except Exception as error:  # an older version, without keywords
            hook.pass_on(error)

    def _called(self, module, args, kwargs, output):
        import torch

        try:
            self.left -= 1
            if self.left < 0:  # the next step does not come: the loop takes its batches elsewhere now
                self.end()
            elif torch.is_grad_enabled() and threading.get_ident() == self.thread:
                samples = next((int(v.shape[0]) for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor) and v.dim() > 1), 0)
                self.calls[id(module)] = module, self.calls.get(id(module), (module, 0))[1] + samples
        except Exception as error:  # a tensor without a shape, of some kind
            hook.pass_on(error)
            self.end()

    def stepped(self):
        """Notes that a step ended. A model within another one does not count, and of several that with the fewest."""
        within, roots = set(), []
        for module, samples in reversed(self.calls.values()):
            if id(module) not in within:
                within.update(map(id, module.modules()))
                roots.append(samples)
        self.found.append(min(roots, default=0))
        self.calls.clear()

    def end(self):
        """Returns the samples of a step; 0 where they are not known."""
        if self.handle is not None:
            self.handle.remove()
            self.handle = None
        self.calls.clear()
        return self.found[0] if len(self.found) > 1 and len(set(self.found)) == 1 else 0


CALLS = 1 << 16  # of modules that are looked at

# A loop without a DataLoader begins with the third step of an optimizer. If the script takes batches from a
# DataLoader, the optimizer must step so often between two of them.
THIRD, OFTEN = 3, parts.APART
# If an optimizer steps so often while the previous one does not step at all, its steps count as the
# loop's from then on.
INSTEAD = 16


def optimized(optimizer, loop):
    """Sees an optimizer's step outside of a DataLoader's loop. A step of the loop lasts until the same optimizer steps
    again, because other optimizers may step in it too."""
    known, mine = _stepped.__dict__, _stepped.__dict__.get("watch")
    if known.pop("passes", 0) >= OFTEN and mine is not None and loop is not None:  # an optimizer comes after all
        loop.open = [entry for entry in loop.open if entry[0] is not mine]
        if loop.state.shown is mine:
            loop.state.shown = None
        mine = known["watch"] = None
        known["seen"] = 0
    if mine is not None and not mine.plan.shown or loop is not None and loop.loading:  # the script says where its steps end
        return
    turn = 0 if loop is None else loop.turn
    if known.get("turn", 0) != turn:  # it asked for a batch meanwhile
        known.update(turn=turn, seen=0)
    if known.setdefault("leader", id(optimizer)) == id(optimizer):
        for other in known.setdefault("others", {}).values():
            other[0], other[1] = 0, other[1] + 1
    elif not _takes_over(known, id(optimizer), mine is None):
        return
    known["seen"] = known.get("seen", 0) + 1
    if known["seen"] <= THIRD and mine is None:
        _shape(known)
    if loop is None or not loop.open:
        state = process.current()
        shown = state.shown
        elsewhere = shown is not None and not state.idle and shown.plan is not getattr(mine, "plan", None)
        least = OFTEN if elsewhere else THIRD if mine is None else 1
        if known["seen"] < least or elsewhere and state.taker != threading.get_ident():
            return
        loop = loops.current()
        if mine is None:
            loaders.learning_is_seen()
            mine = _begin(_Loose(OPTIMIZERS, shown=True), loop)
            if shown is None or not elsewhere or shown.plan.learned():
                _count(known["seen"])
    assert mine is not None
    _next(mine, loop)


def _takes_over(known, optimizer, early):
    """Sees a step of an optimizer other than the leader, with whose steps those of the loop end. Returns whether it leads from now
    on: the leader steps no more, or several times for each of its steps, as a GAN's critic does. early: no step was told yet."""
    others = known["others"]
    # How often it stepped since the leader did, how often the leader did since it did, and how often in a row that was several times.
    other = others.setdefault(optimizer, [0, known.get("seen", 0), 0])
    other[0] += 1
    other[1:] = 0, other[2] + 1 if other[1] > 1 else 0
    if other[0] < INSTEAD and other[2] < (1 if early else THIRD):
        return False
    if early and other[2]:
        known["seen"] = 0
    known["leader"] = optimizer
    others.clear()
    return True


def passing(loop):
    """Sees that a backward pass begins outside of a DataLoader's loop. A step lasts until the next one begins, where the
    script updates its weights without an optimizer of PyTorch's."""
    known, mine = _stepped.__dict__, _stepped.__dict__.get("watch")
    seen = known.get("passes", 0)
    if mine is None:
        if seen < 0:
            return
        known["passes"] = seen = seen + 1
        if seen == 1 and _has_optimizer() or parts.installed() and process.current().shown is not None:
            known["passes"] = -1
            return
        if seen <= THIRD:
            known["seen"] = seen
            _shape(known)
        if seen < OFTEN:
            return
        loop = loops.current()
        mine = _begin(_Loose(OPTIMIZERS, shown=True), loop)
        _count(seen)
    elif seen < OFTEN or not mine.plan.shown or loop.state.shown is not mine or loop.loading:
        return
    _next(mine, loop)


def _has_optimizer():
    """Returns whether the script has made an optimizer: PyTorch marks the class's step then."""
    from torch.optim.optimizer import Optimizer

    kinds = [Optimizer]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    return any(getattr(kind.step, "hooked", False) for kind in kinds)


def _count(seen):
    """Counts the steps before the first one whose times are known."""
    state = process.current()
    state.samples += len([state.number() for _ in range(1, seen)]) * _samples()


def _next(mine, loop):
    mine.next(_samples)
    _stepped.turn = loop.turn
    if loop.device is not None:  # each first backward pass shows when the GPU begins
        loop.stands = 1


def counted(turn, seen, samples):
    """Notes how many steps of an optimizer were seen since the batch of that turn, and the samples of each."""
    _stepped.__dict__.update(turn=turn, seen=seen, samples=samples)


OPTIMIZERS = "no DataLoader"


def _shape(known):
    """Looks at the shapes of what the models get, from the first step of an optimizer to the third."""
    shapes = known.get("shapes")
    if known["seen"] == 1:
        if shapes is not None:
            shapes.end()
        known["shapes"] = _Shapes()
    elif shapes is not None:
        shapes.stepped()
        if known["seen"] == THIRD:
            known["samples"], known["shapes"] = shapes.end(), None


def _samples():
    """Returns the samples of a step; 1 where they are not known."""
    return _stepped.__dict__.get("samples") or 1


def _known(loop, iteration):
    """Returns a record for steps of that iteration. Only the parts of a step are computation; the rest is not known. A
    short step whose parts are not timed has as much computation as the last step whose parts were."""
    record = loop.record
    spent = usual = 0

    def only(kind, start, end, of=0, *rest, **more):
        nonlocal spent, usual
        if of == iteration and not _stepped.__dict__.get("data"):
            if kind == ring.NEXT:
                start = end
            elif kind == ring.BODY:
                if loop.stands:
                    start, usual, spent = end, spent, 0
                else:
                    start = max(start, end - usual)
                rest = rest[:6]  # without what the thread used from its start on
            elif kind in (ring.BACKWARD, ring.OPTIMIZER):
                spent += end - start
                round, batch, step = rest[:3]
                record(ring.BODY, start, end, of, round, batch, step, -1, 0, ring.TRAIN)
        record(kind, start, end, of, *rest, **more)

    return only


class Data:
    """A wait for data within a step that gpustall.step ends."""

    def __enter__(self):
        self.entry = None
        if not process.FOLDER:
            return
        try:
            mine, loop = _stepped.__dict__.get("watch"), loops.current()
            if loop.loading:  # it is within another one
                return
            if mine is None or not loop.open or loop.open[-1][0] is not mine:
                _stepped.data = True
                return
            self.loop, self.entry, self.start, self.usage = loop, loop.open[-1], now(), loop.usage.read()
            parts.settle(loop)
            loop.stop(self.start, False, usage=self.usage if loop.used is not None else None)
            _stepped.data = True  # from here on, the rest is known not to be data
            if loop.device is not None:
                loop.device.ends(self.entry[1], goes_on=True)
            loop.loading = True  # a DataLoader that is used here has no steps of its own
        except Exception as error:
            process.complain("gpustall.data() is not watched", error)

    def __exit__(self, *_):
        entry, self.entry = self.entry, None
        if entry is None:
            return
        try:
            loop, end = self.loop, now()
            loop.loading = False
            if not loop.open or loop.open[-1] is not entry:
                return
            usage = loop.usage.read()
            waited = max(0, loop.usage.split(self.usage, usage)[1])
            made = _stepped.__dict__.get("made")
            if made is None:  # what it makes is a batch of its own, which joins the step
                made = _stepped.made = [process.current().iteration(), 0]
            loop.record(ring.NEXT, self.start, end, made[0], 0, made[1], entry[1], -1, 0, ring.TRAIN, loop.state.samples, waited)
            made[1] += 1
            entry[2], loop.used = end, usage
            if loop.device is not None:
                loop.device.begins(entry[1])
        except Exception as error:
            process.complain("gpustall.data() is not watched", error)
