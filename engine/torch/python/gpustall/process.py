"""What a process of the training shares with gpustall: a folder with a ring for each writer, a file of messages
for what happens rarely, and the page of knobs that are asked for.
"""

import itertools
import json
import os
import shutil
import sys
import threading
import time
from multiprocessing import util
from typing import Any

from gpustall import control, exchange, hook, looks, ring

FOLDER = hook.folder or os.environ.get("GPUSTALL_TORCH", "")

now = time.monotonic_ns


class Process:
    """What is known of this process."""

    def __init__(self):
        self.pid = os.getpid()
        self.iterations = 0  # iterators of DataLoaders that began
        self.steps = 0  # steps of training that began
        self.samples = 0  # of those steps
        self.began = 0  # when the last of them began
        self.number = itertools.count().__next__  # returns the number of the next step, in any thread
        self.learned = 0  # backward passes and optimizers' steps that began
        self.apart = 0  # backward passes that began outside a loop, in the thread that takes the batches
        self.introduced = 0  # when, in ns
        self.gpu = {"cuda": None}
        self.shown = None  # the watch over the loader whose knobs the session has
        self.taker = 0  # the thread that takes that loader's batches
        self.idle = False  # nothing was learned with that loader, and the script learns now
        self.elsewhere = False  # it was told that another thread learns from the batches
        self.anew = False  # it was told that the script makes its loader anew in each epoch
        self.leads = True  # it is the first rank on this machine
        self.capture = None  # the capture under way
        self.exchange: Any = None  # an exchange.Exchange, where there are ranks
        self.loops = []
        self.end: Any = None  # calls finish
        self.lock = threading.Lock()  # over the messages and iterations
        self.local = threading.local()  # the rings of each thread
        self.mute = False  # a failure to write a message was told
        self.told = {}  # the last message of tell_news, by kind
        self.control = control.Control(FOLDER, lambda: self.steps)
        self.tried = self.control.trial()[0]  # the last trial of workers that was answered
        self.captures = self.control.captures()  # how many captures were asked for, when last looked at

    def tell(self, message, **what):
        """Writes a message. gpustall reads it before spans that are recorded later."""
        with self.lock:
            line = json.dumps(dict(dict(type=message, t=now()), **what), default=str)
            try:
                if not FOLDER:
                    return
                # The file is not kept open, because the script may close descriptors, and its own files then
                # get their numbers.
                messages = os.open(os.path.join(FOLDER, "messages-%d" % self.pid), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                try:
                    os.write(messages, line.encode("utf-8", "replace") + b"\n")
                finally:
                    os.close(messages)
            except OSError as error:  # the disk is full, or too many files are open: the script goes on
                hook.pass_on(error)
                if not self.mute:
                    self.mute = True
                    if self.control.watching():
                        say("not all that happens reaches the screen: %s" % error)

    def tell_news(self, message, step=None, **what):
        """Writes a message, unless the last one of its kind differs only by the step. A script may make a loader for
        each step."""
        if self.told.get(message) == what:
            return
        self.told[message] = what
        self.tell(message, **what, **({} if step is None else {"step": step}))

    def answer(self, trial):
        """Tells that it is known whether the workers that a trial was asked for can begin."""
        self.tried = trial
        self.tell("tried", trial=trial)

    def iteration(self):
        with self.lock:
            self.iterations += 1
            return self.iterations

    def ring(self, role):
        """Returns this thread's ring for a role."""
        rings = self.local.__dict__.setdefault("rings", {})
        if role not in rings:
            rings[role] = ring.Ring(FOLDER, role, parent=self.pid)
        return rings[role]

    def loop(self, loop):
        """Adds a loop, which is finished when the process ends. The children of multiprocessing do not run atexit, so
        this uses multiprocessing's own finalizers."""
        if not self.loops:
            self.end = util.Finalize(None, self.finish, exitpriority=10)
        for ended in [old for old in self.loops if not old.thread.is_alive() and old.device is None]:  # where each epoch has a thread
            self.loops.remove(ended)
            ended.finish()
            for written in ended.rings.values():
                written.close()
        self.loops.append(loop)

    def threads(self):
        """Returns the identifiers of the threads that have a loop."""
        return [loop.thread.ident for loop in self.loops if loop.thread.is_alive()]

    def finish(self):
        self.settle()
        remove()

    def settle(self):
        """Ends the loops' steps, and records how many there were."""
        looks.stop()
        # The last step is told in the ring that has it. In another one it would be read before that step.
        last = max(self.loops, key=lambda loop: loop.totals[0], default=None)
        for loop in self.loops:
            try:
                loop.finish()
                if self.steps and loop is last:
                    loop.record(ring.LAST, self.began, self.began, step=self.steps - 1, core=self.samples)
            except Exception:
                pass

    def introduce(self):
        """Describes this process, when it loads its first batch."""
        if self.introduced:
            return
        import torch

        rank, world, local, here = _ranks()
        self.leads = rank <= 0 or local == 0
        self.gpu = _gpu()
        if world > 1:
            self.exchange = exchange.Exchange()
        self.tell(
            "hello", pid=self.pid, rank=rank, world=world, local=local, here=here, job=_job(), store=_store(), torch=str(torch.__version__),
            python="%d.%d.%d" % sys.version_info[:3], argv=list(sys.argv), threads=torch.get_num_threads(),
            wait_policy=os.environ.get("OMP_WAIT_POLICY", ""),
            stand_in=bool(getattr(torch.cuda, "gpustall_stand_in", False)), other=_other(), **self.gpu,
        )
        self.introduced = now()

    def on_gpu(self, t):
        """Tells that the script computes on a GPU, which it did not at its first batch. This was seen at t."""
        if self.gpu["cuda"] is None:
            self.gpu = _gpu()
            self.tell("device", t=t, step=self.steps, script=True, **self.gpu)

    def off_gpu(self):
        """Tells that the GPU is no longer watched. From here on, the script's own time counts."""
        name = self.gpu["cuda"]
        if name is not None:
            self.gpu = dict(cuda=None, uuid=None)
            self.tell("device", t=now(), step=self.steps, other=name, **self.gpu)


def _other():
    """Returns the kind of an accelerator that is not watched, such as "xpu"; None where there is none."""
    import torch

    try:
        kind = torch.accelerator.current_accelerator().type  # PyTorch 2.6
        return None if kind == "cuda" or not torch.accelerator.is_available() else kind
    except Exception as error:
        hook.pass_on(error)
        return None


def _gpu():
    """Returns the GPU in use: its name, and NVML's name of it; None where they are not known."""
    import torch

    cuda = uuid = None
    try:
        if torch.cuda.is_initialized():  # other calls would initialise CUDA, and forked children could not use it
            cuda = torch.cuda.get_device_name()
            uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    except Exception as error:
        hook.pass_on(error)
    return dict(cuda=cuda, uuid=None if uuid is None else str(uuid))


def _ranks():
    """Returns this process's rank, the number of ranks, its rank on this machine, and the number of ranks there; -1
    where they are not known."""
    from torch import distributed

    rank, world, local, here = (int(os.environ.get(name) or -1) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if distributed.is_available() and distributed.is_initialized():
        rank, world = distributed.get_rank(), distributed.get_world_size()
    return rank, world, local, here


def _job():
    """Returns the name of the job that all its ranks know; empty without one."""
    env = os.environ.get
    named = [env("TORCHELASTIC_RUN_ID"), env("SLURM_JOB_ID") and "%s.%s" % (env("SLURM_JOB_ID"), env("SLURM_STEP_ID", "0")), env("PET_RUN_ID")]
    named.append(env("MASTER_ADDR") and "%s:%s" % (env("MASTER_ADDR"), env("MASTER_PORT", "")))
    return next((name for name in named if name and name != "none"), "")  # torchrun without --rdzv-id calls it none


def _store():
    """Returns the address of the TCPStore or FileStore that the ranks share; empty where they share none, or none is known."""
    try:
        from torch import distributed

        if not (distributed.is_available() and distributed.is_initialized()):
            return ""
        store = distributed.distributed_c10d._get_default_store()
        while isinstance(store, distributed.PrefixStore):
            store = store.underlying_store
        if isinstance(store, distributed.FileStore):
            return "file:" + os.path.abspath(store.path)
        return "%s:%d" % (store.host, store.port) if isinstance(store, distributed.TCPStore) else ""
    except Exception as error:
        hook.pass_on(error)
        return ""


_process = None


def current():
    """Returns the Process of this process. A forked child makes one of its own."""
    global _process
    if _process is None:
        _process = Process()
    return _process


inherited = []  # what a forked child must keep, because letting go the parent's objects could destroy events of the parent's GPU


def _forked():
    global _process
    inherited.append(_process)
    _process = None


os.register_at_fork(after_in_child=_forked)


def said(error):
    """Returns the text of an exception, with its type."""
    return error if isinstance(error, str) else "%s: %s" % (type(error).__name__, error)


def say(text):
    """Writes a line to standard error, which may be closed or None. Returns whether it did."""
    try:
        sys.stderr.write("gpustall: %s\n" % text)
    except Exception:
        return False
    return True


def remove():
    """Removes what is shared with gpustall, in the last process of a training that outlived gpustall. So may workers of a
    training that was killed, which live for some seconds more."""
    try:
        if not FOLDER or current().control.watching():
            return
        for mine in True, False:  # two workers that end at once must not wait for each other
            for name in os.listdir(FOLDER):
                pid = (name + "-").replace("part-", "").split("-")[1]
                if not pid.isdigit():
                    continue
                if mine and int(pid) == os.getpid():
                    os.unlink(os.path.join(FOLDER, name))
                elif not mine and control.there(int(pid)):
                    return
        package = os.path.dirname(os.path.dirname(hook.HERE))
        for folder in FOLDER, package:
            if "gpustall-torch-" in folder:
                shutil.rmtree(folder, ignore_errors=True)
    except Exception:  # the next gpustall removes it
        pass


_noted = set()  # complaints that were made


def complain(what, error):
    """Writes, once, a line about what is not watched. The training goes on. A process that this one starts, such as a
    fork server, does not write the same line again."""
    if isinstance(error, Exception):
        hook.pass_on(error)
    text = "%s: %s" % (what, said(error))
    if not current().control.watching():
        return  # gpustall ended before the training: there is nothing to watch for
    if text in _noted:
        return
    _noted.add(text)
    shown = True  # perhaps by the process that started this one
    if os.environ.get("GPUSTALL_TOLD") != text:
        os.environ["GPUSTALL_TOLD"] = text
        shown = say(text)
    try:
        current().tell("note", level="warn", text=text, said=shown)
    except Exception as error:
        hook.pass_on(error)
