"""What gpustall attach has run in a training, in the main thread. By then there are FOLDER, the folder that is shared; PACKAGE,
where this package is; ENDS, whether the training is let go; and SURE, that it trains although a module seems to be imported."""

import os
import sys

FOLDER, PACKAGE, ENDS, SURE = map(globals().get, ("FOLDER", "PACKAGE", "ENDS", "SURE"))


def begin(folder, package):
    known = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "gpustall"}
    try:
        if getattr(sys, "_gpustall_begun", False):
            return "watched"
        sys.path.insert(0, package)
        from gpustall import hook

        # Workers that are not forked get this path, and find what they are sent. The first place is the script's own.
        sys.path.remove(package)
        sys.path.insert(1, package)

        hook.folder = folder
        from gpustall import attach

        attach.begin(known)
        sys.__dict__["_gpustall_known"] = known
        attach.leave, attach.watcher = lambda: run(folder, True, package), globals().get("WATCHER")
        return "watching"
    except BaseException as error:
        end(package)
        if not isinstance(error, Exception):
            raise
        return "failed %s: %s" % (type(error).__name__, error)
    finally:
        if "_gpustall_known" not in sys.__dict__:
            _forget(package, known)


def end(package):
    attach = sys.modules.get("gpustall.attach")
    if attach is not None and os.path.dirname(attach.hook.HERE) == package:
        attach.end()
        _forget(package, sys.__dict__.pop("_gpustall_known", {}))
    return "let go"


def _forget(package, known):
    if package in sys.path:
        sys.path.remove(package)
    for name in [name for name in sys.modules if name.partition(".")[0] == "gpustall"]:
        del sys.modules[name]
    sys.modules.update(known)


def _imports():
    """Returns whether a module is being imported just now. What it needs may be half made."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return getattr(getattr(sys.modules.get("torch"), "__spec__", None), "_initializing", False)  # in another thread


def run(folder, ends, package):
    said = "importing" if not SURE and _imports() else end(package) if ends else begin(folder, package)
    try:
        with open(os.path.join(folder, "part-said"), "w") as f:
            f.write(said)
        os.rename(f.name, os.path.join(folder, "said"))
    except OSError:  # gpustall has gone meanwhile
        end(package)
        return "gone"
    process = sys.modules.get("gpustall.process")
    if said == "watching" and process is not None and not process.current().control.watching():
        end(package)
        return "gone"
    return said


SAID = run(FOLDER, ENDS, PACKAGE)
