"""Loops that use no DataLoader and say by themselves where a step is: gpustall.watch and gpustall.step."""

import threading
from typing import Any

from gpustall import batches, loaders, loops, process, steps

now = process.now


class _Loose:
    """The plan of a loop that uses no DataLoader."""

    trains, weighed, beside, own = True, False, False, False  # as a Plan has them

    def __init__(self, name):
        self.alike, self.script = name, {}
        self.about = dict(
            dataset=name, kind="iterable", samples=0, batch_size=None, shuffle=None, drop_last=False, live=False, has_in_order=False, context="",
            why="it is watched by gpustall.watch or step: there is nothing to change",
        )

    def weigh(self, data):
        """Tells of the loop, at its first batch."""
        self.weighed = True
        self.about["batch_size"] = self.size(data)
        process.current().tell_news("loader", trains=True, knobs={}, step=process.current().steps, **self.about)

    def moved(self, other, t):
        """Tells that the loop learns from this now."""
        process.current().tell("moved", t=t, step=process.current().steps, script=True, knobs={}, **self.about)

    def judge(self, data=None):
        return True

    def ended(self, learned):
        pass

    def size(self, data):
        return batches.samples(data)


def watch(iterable, name=None):
    """Yields the items of an iterable and times the loop that takes them. A DataLoader is watched without."""
    if not process.FOLDER or loaders.pytorch is not None and isinstance(iterable, loaders.pytorch.DataLoader):
        return iter(iterable)
    return _items(steps.Watch(_Loose(name or type(iterable).__name__), process.current().iteration()), iterable)


def _items(mine, iterable):
    items: Any = None

    def following():
        nonlocal items
        if items is None:  # many an iterable does its share of loading here
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
    finally:  # it may be left with break
        mine.left, mine.dropped = (now(), None), True


class _Within(Exception):
    """What is watched takes its items from a DataLoader, whose steps they are."""


_stepped = threading.local()


def step(samples=0):
    """Ends a step of a loop that asks nobody for its data. A batch of a DataLoader's, or of watch's, is a step of its own."""
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
