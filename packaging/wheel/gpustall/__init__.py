"""What a script says to gpustall, for where it runs without gpustall: nothing happens here.

Under `gpustall torch` a script gets the module of the gpustall that launched it, whatever is installed.
"""

import contextlib


def watch(iterable, name=None):
    """Returns what it gets."""
    return iterable


def step(samples=0):
    """Does nothing."""


def data(name=None):
    """A context in which nothing is measured."""
    return contextlib.nullcontext()
