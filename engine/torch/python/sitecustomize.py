"""Makes PyTorch's DataLoader be watched once it is imported, and runs the sitecustomize that this one hides.

`gpustall torch` puts it on PYTHONPATH, so Python runs it before the script. Whatever fails here, the script runs as
if this file were not there.
"""

import os
import sys

# The folders of the sitecustomize files that ran in this process. There may be several, because gpustall
# may run under gpustall.
_seen = sys.__dict__.setdefault("_gpustall_seen", set())
_ours = os.path.dirname(os.path.abspath(__file__))


def _begin():
    try:
        from gpustall import hook

        hook.begin()
    except Exception as error:  # a broken hook must not break a training
        text = "this process is not watched: %s: %s" % (type(error).__name__, error)
        if os.environ.get("GPUSTALL_TOLD") != text:  # a parent process may have told the same
            os.environ["GPUSTALL_TOLD"] = text
            try:
                sys.stderr.write("gpustall: %s\n" % text)
            except Exception:  # it may be closed, or None
                pass


def _hidden():
    """Runs the sitecustomize that would have run without this one. Its errors are its own."""
    import importlib.machinery
    import importlib.util

    path = [p for p in sys.path if os.path.abspath(p or ".") not in _seen]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    running = getattr(sys.modules.get("sitecustomize"), "__file__", None)
    if spec is None or spec.loader is None or running is not None and spec.origin is not None and os.path.abspath(running) == os.path.abspath(spec.origin):
        return  # there is none, or it runs this one
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)  # pyright: ignore[reportAttributeAccessIssue] - a loader of any kind


if _ours not in _seen:
    _seen.add(_ours)
    _begin()
    _hidden()
