"""Waits for torch.utils.data to be imported and puts the observers in place then."""

import os
import sys

TARGET = "torch.utils.data.dataloader"


def begin():
    if not os.environ.get("GPUSTALL_TORCH"):
        return
    if TARGET in sys.modules:
        _install(sys.modules[TARGET])
        return
    sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds one module, by asking the others, and has it patched when it was run."""

    def __init__(self):
        self.busy = False

    def find_spec(self, name, path=None, target=None):
        if name != TARGET or self.busy:
            return None
        import importlib.util

        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            _install(module)

        try:
            spec.loader.exec_module = exec_module
        except Exception:  # a loader that takes no attributes
            return None
        return spec


def _install(module):
    from gpustall import process

    try:
        from gpustall import observe

        observe.install(module)
        open(os.path.join(process.FOLDER, "imported"), "ab").close()
    except BaseException as error:
        process.complain("PyTorch's DataLoader is not watched", error)
