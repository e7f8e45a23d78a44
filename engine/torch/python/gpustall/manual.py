"""Loops without a DataLoader, which say where their steps are: gpustall.watch and gpustall.step."""

import threading
from typing import Any

from gpustall import batches, loaders, loops, process, steps

now = process.now


class _Loose:
    """The plan of a loop without a DataLoader. It has what steps.Watch needs of a Plan."""

    trains, weighed, beside, own, limit = True, False, False, False, None

    def __init__(self, name):
        self.alike, self.script = name, {}
        self.about = dict(
            dataset=name, kind="iterable", samples=0, batch_size=None, shuffle=None, drop_last=False, live=False, has_in_order=False, context="",
            why="it is watched by gpustall.watch or step: there is nothing to change",
        )

    def weigh(self, data):
        """Describes the loop, at its first batch."""
        self.weighed = True
        self.about["batch_size"] = self.size(data)
        process.current().tell_news("loader", trains=True, knobs={}, step=process.current().steps, **self.about)

    def moved(self, other, t):
        """Tells that the loop trains with this iterable now."""
        process.current().tell("moved", t=t, step=process.current().steps, script=True, knobs={}, **self.about)

    def judge(self, data=None):
        return True

    def ended(self, learned):
        pass

    def size(self, data):
        return batches.samples(data)


def watch(iterable, name=None):
    """Yields the items of an iterable and times the loop that takes them. A DataLoader needs no such call."""
    if not process.FOLDER or loaders.pytorch is not None and isinstance(iterable, loaders.pytorch.DataLoader):
        return iter(iterable)
    return _items(steps.Watch(_Loose(name or type(iterable).__name__), process.current().iteration()), iterable)


def _items(mine, iterable):
    items: Any = None

    def following():
        nonlocal items
        if items is None:  # here, because many iterables begin to load in __iter__
            items = iter(iterable)
        opened = loops.current().open
        last = opened and opened[-1]
        item, opened = next(items), loops.current().open
        if opened and opened[-1] is not last and opened[-1][1] >= 0:
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


def step(samples=0):
    """Ends a step of a loop without an iterable. Within a step of a DataLoader or of watch it does nothing."""
    if not process.FOLDER:
        return
    mine, loop = _stepped.__dict__.get("watch"), loops.current()
    loop.settle(now())
    opened = loop.open
    if opened and opened[-1][0] is not mine and opened[-1][1] >= 0:
        return
    if mine is None:
        mine = _stepped.watch = steps.Watch(_Loose("gpustall.step"), process.current().iteration())
        mine.plan.size = lambda data: data
        mine.begun = float("inf")  # each is a step
        mine.gone = lambda: True  # as soon as the loop takes its batches elsewhere
    mine.next(lambda: samples)
