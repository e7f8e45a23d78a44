"""What one process of the training shares with gpustall: a folder with a ring for each
writer, a file of messages for what is rare, and the page of knobs that the screen asks for.
"""

import itertools
import json
import os
import sys
import threading
import time
from multiprocessing import util

from gpustall import control, ring

FOLDER = os.environ.get("GPUSTALL_TORCH", "")

now = time.monotonic_ns


class Process:
    def __init__(self):
        self.pid = os.getpid()
        self.iterations = 0  # of DataLoaders, begun
        self.steps = 0  # of training, begun
        self.number = itertools.count().__next__  # of the next of them, whichever thread asks
        self.learned = 0  # backward passes and steps of optimizers, begun
        self.apart = 0  # backward passes, begun between loops by the thread that takes the batches
        self.introduced = False
        self.gpu = {"cuda": None}
        self.shown = None  # the watch over the loader whose knobs the session has
        self.taker = 0  # the thread that takes that loader's batches
        self.elsewhere = False  # it was told that another one learns from them
        self.anew = False  # it was told that the script makes its loader anew
        self.leads = True  # of the ranks on this machine
        self.capture = None  # under way
        self.loops = []
        self.lock = threading.Lock()
        self.local = threading.local()  # each thread that has a loop writes a ring of its own
        self.messages, self.mute = None, False
        self.told = {}  # by kind: the last one of tell_news
        self.control = control.Control(FOLDER)
        self.captures = self.control.captures()  # seen

    def tell(self, message, **what):
        """Writes a message. What is told before a span is recorded is read before it."""
        with self.lock:
            line = json.dumps(dict(dict(type=message, t=now()), **what), default=str)
            try:
                if self.messages is None:
                    path = os.path.join(FOLDER, "messages-%d" % self.pid)
                    self.messages = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                os.write(self.messages, line.encode("utf-8", "replace") + b"\n")
            except OSError as error:  # no room, or no more files: the script goes on
                if not self.mute:
                    self.mute = True
                    sys.stderr.write("gpustall: not all that happens reaches the screen: %s\n" % error)

    def tell_news(self, message, step=None, **what):
        """Writes a message, unless the last one of its kind said the same, but for the step: a script
        may make a loader for each."""
        if self.told.get(message) == what:
            return
        self.told[message] = what
        self.tell(message, **what, **({} if step is None else {"step": step}))

    def iteration(self):
        with self.lock:
            self.iterations += 1
            return self.iterations

    def ring(self, role):
        """The ring of this thread for what it does as role."""
        rings = self.local.__dict__.setdefault("rings", {})
        if role not in rings:
            rings[role] = ring.Ring(FOLDER, role, parent=self.pid)
        return rings[role]

    def loop(self, loop):
        """Takes note of a loop, to be told when the process ends: also in the children of
        multiprocessing, which do without atexit."""
        if not self.loops:
            util.Finalize(None, self.finish, exitpriority=10)
        for ended in [old for old in self.loops if not old.thread.is_alive() and old.device is None]:  # where each epoch has a thread
            self.loops.remove(ended)
            ended.finish()
            for written in ended.rings.values():
                written.close()
        self.loops.append(loop)

    def finish(self):
        for loop in self.loops:
            try:
                loop.finish()
            except Exception:
                pass

    def introduce(self):
        """Says who this is, when it first loads a batch."""
        if self.introduced:
            return
        self.introduced = True
        import torch

        rank, world, local, here = _ranks()
        self.leads = rank <= 0 or local == 0
        self.gpu = _gpu()
        self.tell(
            "hello", pid=self.pid, rank=rank, world=world, local=local, here=here, torch=str(torch.__version__),
            python="%d.%d.%d" % sys.version_info[:3], argv=list(sys.argv), threads=torch.get_num_threads(),
            wait_policy=os.environ.get("OMP_WAIT_POLICY", ""),
            stand_in=bool(getattr(torch.cuda, "gpustall_stand_in", False)), other=_other(), **self.gpu,
        )

    def on_gpu(self, t):
        """Says that the script computes on a GPU, where it did not when it was introduced. t is when
        that was seen."""
        if self.gpu["cuda"] is None:
            self.gpu = _gpu()
            self.tell("device", t=t, step=self.steps, script=True, **self.gpu)


def _other():
    """What kind of accelerator there is that is not watched, "xpu" for one; None where there is none."""
    import torch

    try:
        kind = torch.accelerator.current_accelerator().type  # PyTorch 2.6
        return None if kind == "cuda" or not torch.accelerator.is_available() else kind
    except Exception:
        return None


def _gpu():
    """The GPU in use: its name, and what NVML calls it; None where that is not known."""
    import torch

    cuda = uuid = None
    try:
        if torch.cuda.is_initialized():  # to ask for more makes a process whose children cannot use the GPU
            cuda = torch.cuda.get_device_name()
            uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    except Exception:
        pass
    return dict(cuda=cuda, uuid=None if uuid is None else "GPU-" + str(uuid))


def _ranks():
    """This process's rank, how many there are, its rank among those on this machine, and how many
    those are; -1 where nobody said."""
    from torch import distributed

    rank, world, local, here = (int(os.environ.get(name) or -1) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if distributed.is_available() and distributed.is_initialized():
        rank, world = distributed.get_rank(), distributed.get_world_size()
    return rank, world, local, here


_process = None


def current():
    """This process. A forked child is another one."""
    global _process
    if _process is None:
        _process = Process()
    return _process


inherited = []  # by a forked child, which must not let go what is the parent's: events of its GPU, for instance


def _forked():
    global _process
    inherited.append(_process)
    _process = None


os.register_at_fork(after_in_child=_forked)


def said(error):
    """What an exception says, with its type."""
    return error if isinstance(error, str) else "%s: %s" % (type(error).__name__, error)


_noted = set()  # complaints, in the session


def complain(what, error):
    """One line about what is not watched, once; the training goes on. Where the same fails in a process
    that this one starts, a fork server for instance, that is not said again."""
    text = "%s: %s" % (what, said(error))
    if os.environ.get("GPUSTALL_TOLD") != text:
        os.environ["GPUSTALL_TOLD"] = text
        sys.stderr.write("gpustall: %s\n" % text)
    if text in _noted:
        return
    _noted.add(text)
    try:
        current().tell("note", level="warn", text=text)
    except Exception:
        pass
