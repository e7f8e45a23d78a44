"""What a script says to gpustall, for where it runs without gpustall: nothing happens here.

Under `gpustall torch` a script gets the module of the gpustall that launched it, whatever is installed. In a notebook
`%load_ext gpustall` has the kernel watched, and `gpustall view` in a terminal shows it.
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


def load_ipython_extension(shell):
    """Starts a gpustall that watches this process until that ends, or unloads the extension."""
    import ctypes
    import json
    import os
    import shutil
    import subprocess
    import sys
    import tempfile

    found = shutil.which("gpustall", path=os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath))))
    if found is None:
        raise ImportError("the command gpustall is not on PATH")
    with tempfile.TemporaryFile() as errors:
        command = [found, "attach", "--inside", "--interval", "3600", str(os.getpid())]
        watcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        line = watcher.stdout.readline()
        watcher.stdout.close()
        if not line:
            watcher.wait()
            errors.seek(0)
            raise RuntimeError(errors.read().decode(errors="replace").strip())
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(watcher.pid), 0, 0, 0)  # PR_SET_PTRACER: its reader of lines is no parent of ours
    told = json.loads(line)
    scope = dict(FOLDER=told["folder"], PACKAGE=told["package"], ENDS=False, SURE=True, WATCHER=watcher)
    with open(told["run"]) as f:
        exec(compile(f.read(), f.name, "exec"), scope)
    if scope["SAID"] != "watching":
        watcher.wait()
        raise RuntimeError("gpustall does not watch this kernel: " + scope["SAID"])
    print("gpustall watches this kernel; gpustall view in a terminal shows it")
