"""gpustall beside a PyTorch training. A script needs none of this: its DataLoaders are
watched as they are. watch and step are for loops that use no DataLoader:

    for batch in gpustall.watch(batches):   # the time between two batches is a step
        train(batch)

    while True:                             # no iterable at all: the loop says where a step ends
        train()
        gpustall.step()
"""


def watch(iterable, name=None):
    """Iterates over it; the time that each item takes to come is the wait for data."""
    from gpustall import manual

    return manual.watch(iterable, name)


def step(samples=0):
    """Ends a step of a loop that watches no iterable."""
    from gpustall import manual

    manual.step(samples)
