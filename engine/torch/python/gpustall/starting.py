"""Whether worker processes can begin, and why not."""

import ast
import sys
import threading

from gpustall import hook, process, worker


class Refused(RuntimeError):
    """Says why no worker can begin, and what would help."""

    def __init__(self, reason, hint):
        super().__init__(reason)
        self.hint = hint


# PyTorch accepts no multiprocessing_context for a DataLoader without workers.
FORK = "call multiprocessing.set_start_method('fork') first"


ROOM = "enlarge /dev/shm (docker run --shm-size)"
USABLE = "see that the data set can be used in a worker; torch.utils.data.get_worker_info() tells it that it is in one"
MAKE = "make pools, threads and locks in worker_init_fn, or at the first sample in each worker"


def method(context):
    """Returns how workers begin: fork, spawn or forkserver. It does not ask multiprocessing for its default, which
    would fix it before the script may have chosen."""
    return context.get_start_method(True) or context.get_all_start_methods()[0]


def refused(error, context):
    """Returns a Refused for the error that kept a worker from beginning."""
    if isinstance(error, Refused):
        return error
    hook.pass_on(error)
    hint = ""
    if method(context) != "fork" and not isinstance(error, (OSError, MemoryError)):
        hint = "make what the DataLoader is given picklable (a module's functions and classes, no lambdas, no open files), or " + FORK
        if "shared memory" in str(error):  # the data set's tensors are sent through it
            hint = ROOM + ", or " + FORK
    return Refused("a worker that begins by %s cannot be sent the data set: %s" % (method(context), process.said(error)) if hint else process.said(error), hint)


def unguarded(context):
    """Returns a Refused if new workers would run this training again, else None. A worker that is not forked imports
    the script, which runs the training unless that is under an if with __name__. A script whose loader has no workers
    may lack that if."""
    main = sys.modules["__main__"]
    path, name = getattr(main, "__file__", None), getattr(getattr(main, "__spec__", None), "name", "")
    if method(context) == "fork" or path is None or name == "__main__" or name.endswith(".__main__"):
        return None
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and not (frame.f_code.co_name == "<module>" and frame.f_globals is main.__dict__):
        frame = frame.f_back
    if frame is None:
        return None
    try:
        with open(path, "rb") as f:
            tree = ast.parse(f.read())
    except (OSError, SyntaxError, ValueError) as error:
        hook.pass_on(error)
        return None
    for node in tree.body:
        if isinstance(node, ast.If) and node.lineno <= frame.f_lineno <= (node.end_lineno or 0):
            if any(isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test)):
                return None
    hint = "have the script train under if __name__ == '__main__', or " + FORK
    return Refused("workers begin by %s here and would run the script again" % method(context), hint)


class Probe:
    """A process that is sent what workers would be sent, and ends. A worker that does not inherit the data set dies if
    it cannot unpickle it, and that would end the training."""

    def __init__(self, it):
        self.method = method(it._context)
        self.process = it._context.Process(target=worker.received, args=(it._dataset, it._collate_fn, it._init_fn))
        self.process.daemon = True
        self.process.start()

    def running(self):
        return self.process.exitcode is None

    def waits(self):
        """Returns whether the probe waits for the loop to load a batch."""
        return False

    def refused(self):
        """Returns why no worker can begin, once the process has ended, or None if workers can."""
        code = self.process.exitcode
        if not code:
            return None
        began = "a worker that began by %s ended at once, " % self.method
        if code < 0:
            return Refused(began + "by signal %d" % -code, "")
        hint = "define what the DataLoader is given where importing the script defines it, or " + FORK
        return Refused(began + "with exit code %d; the script's output says why" % code, hint)
