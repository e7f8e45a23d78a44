"""gpustall in a PyTorch training. A script with DataLoaders needs nothing of this: they are watched by themselves.
watch, step and data are for loops without a DataLoader:

    for batch in gpustall.watch(batches):   # the time between two batches is a step
        train(batch)

    while True:                             # without an iterable, the loop says where a step ends
        with gpustall.data():               # and what makes its batch
            batch = get_batch()
        train(batch)
        gpustall.step()
"""

__file__ = "<gpustall>/__init__.py"  # as hook.py has it


def watch(iterable, name=None):
    """Yields the items of an iterable. The time that each item takes to come is the wait for data."""
    from gpustall import manual

    return manual.watch(iterable, name)


def step(samples=0):
    """Ends a step of a loop without an iterable."""
    from gpustall import manual

    manual.step(samples)


def data(name=None):
    """Returns a context. What runs within it makes or waits for a batch, in a loop of gpustall.step: with
    gpustall.data(): ... The name is not used yet."""
    from gpustall import manual

    return manual.Data()


def load_ipython_extension(shell):
    print("gpustall watches this kernel already; gpustall view in a terminal shows it")


def unload_ipython_extension(shell):
    """Lets the kernel go, if the extension had it watched."""
    import sys

    attach = sys.modules.get("gpustall.attach")
    if attach is not None:
        attach.leave()
        if attach.watcher is not None:
            attach.watcher.terminate()
            attach.watcher.wait()
