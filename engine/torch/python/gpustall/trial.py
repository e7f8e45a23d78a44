"""A worker that is tried before a training depends on workers.

A data set that the loop has loaded from may hold what forked workers cannot share: a file with a position, a
connection, a pool of threads. The loop goes on without workers during the trial. """

import builtins
import ctypes
import functools
import gc
import io
import mmap
import os
import random
import signal
import socket
import stat
import sys
import types
from multiprocessing import reduction
from typing import Any

import torch
from torch.utils.data import _utils
from torch.utils.data import dataloader as stock

from gpustall import hook, process
from gpustall.starting import MAKE, ROOM, USABLE, Refused

now = process.now

ENOUGH = 1000  # the most objects of a data set that are looked at
# A data set with open files is watched for so many batches, because Python's buffer may serve some of them.
BATCHES = 20
# The worker may take so many times as long as the loop took for the batch, and so many
# seconds more.
TIMES, SECONDS = 10, 5
COPIED = 256 << 20  # the most bytes of shared memory that the worker gets a copy of
_FIXED = 0x10  # MAP_FIXED, which mmap does not have

EMPTY = "loaded nothing"
DIFFERS = "loaded samples that differ from those that the loop loaded"
OPEN = "open it in worker_init_fn, or at the first sample in each worker"

# Objects that forked processes must not share, by the module and name of their class.
_CONNECTIONS = (
    ("sqlite3", ("Connection", "Cursor")), ("socket", ("socket",)), ("ssl", ("SSLSocket",)), ("h5py", ("File", "Group", "Dataset")),
    ("lmdb", ("Environment", "Transaction", "Cursor")), ("builtins", ("Environment",)), ("grpc", ("Channel",)), ("botocore", None),
    ("boto3", None), ("requests.sessions", ("Session",)), ("urllib3", ("PoolManager", "HTTPConnectionPool")),
    ("psycopg2", ("connection", "cursor")), ("psycopg", ("Connection", "Cursor")), ("pymongo", None), ("redis", ("Redis", "Connection")),
    ("google.cloud.storage", ("Client", "Bucket", "Blob")), ("paramiko", None),
)
# Objects that processes share on purpose. A trial worker would take things from them that the
# training needs.
_TOGETHER = (
    ("multiprocessing.queues", None), ("multiprocessing.connection", None), ("multiprocessing.synchronize", None),
    ("multiprocessing.sharedctypes", None), ("multiprocessing.managers", None), ("multiprocessing.shared_memory", None),
)
_POOLS = (
    ("concurrent.futures", ("ThreadPoolExecutor", "ProcessPoolExecutor")), ("multiprocessing.pool", ("Pool", "ThreadPool")),
    ("threading", ("Thread", "Timer")),
)


def shared(*things):
    """Returns a Refused, or None if forked workers can share all that the things hold. It also returns whether they
    hold open files. What cannot be opened anew in each worker is told first."""
    files, refusal = False, None
    for thing in _within(things):
        try:
            found = _unshared(thing)
            if found and (refusal is None or refusal.hint == OPEN):
                refusal = Refused("the data set holds %s, which forked workers cannot share" % found[0], found[1])
            files = files or isinstance(thing, io.IOBase) and not isinstance(thing, (io.BytesIO, io.StringIO))
        except Exception as error:  # from an unusual object
            hook.pass_on(error)
            continue
    return refusal, files


def _unshareable(dataset):
    """What a data set holds that forked workers cannot share: each thing, by its id, and what it is."""
    out = {}
    for thing in _within([dataset]):
        try:
            found = _unshared(thing)
        except Exception as error:  # from an unusual object
            hook.pass_on(error)
            continue
        if found:
            out[id(thing)] = thing, found[0]
    return out


def together(*things):
    """Returns whether the things hold what processes share on purpose."""
    return any(_is_of(base, _TOGETHER) for thing in _within(things) for base in type(thing).__mro__)


def _within(things, functions=True):
    """Yields things and what they hold: at most ENOUGH objects. It calls nothing of them."""
    seen, left = {}, [t for t in things if t is not None]
    while left and len(seen) < ENOUGH:
        thing = left.pop()
        if id(thing) in seen or not functions and isinstance(thing, types.FunctionType):
            continue
        seen[id(thing)] = thing
        yield thing
        try:
            left.extend(_held(thing))
        except Exception as error:  # from an unusual object
            hook.pass_on(error)
            continue


def _is_of(base, table):
    """Returns the row of a table that a class belongs to, as module and name, or None."""
    module, name = base.__module__ or "", base.__name__
    for package, names in table:
        if (module == package or module.startswith(package + ".")) and (names is None or name in names):
            return package, name
    return None


def _unshared(thing):
    """Names a thing that forked workers cannot share, and what helps. Returns None if they can share it."""
    kind = type(thing)
    for base in kind.__mro__:
        for table, hint in ((_CONNECTIONS, OPEN), (_POOLS, MAKE)):
            found = _is_of(base, table)
            if found:
                return "a %s.%s" % found if found[0] != "builtins" else "an lmdb." + found[1], hint
        module, name = base.__module__, base.__name__
        if (module, name) in (("zipfile", "ZipFile"), ("tarfile", "TarFile")):
            file = getattr(thing, "fp", None) or getattr(thing, "fileobj", None)
            if file is not None and not isinstance(file, io.BytesIO):
                return "an open %s.%s" % (module, name), OPEN
    if isinstance(thing, torch.Tensor) and thing.is_cuda:
        return "a tensor on the GPU", "keep it in the host's memory, or move it in the loop"
    if isinstance(thing, io.IOBase) and not thing.closed and thing.readable() and thing.fileno() > 2 and stat.S_ISFIFO(os.fstat(thing.fileno()).st_mode):
        return "a pipe that it reads", OPEN
    return None


def marks(*things):
    """Returns what tells whether a script changed things, as far as that is easy to tell."""
    out = []
    for thing in _within(things, functions=False):
        try:
            if isinstance(thing, (int, float, str, bytes)):
                out.append(thing)
            elif isinstance(thing, torch.Tensor):
                out += thing.data_ptr(), thing._version
            elif hasattr(thing, "tobytes") and hasattr(thing, "reshape") and getattr(thing, "filename", None) is None:  # a map would be read
                flat = thing.reshape(-1)
                out.append(flat[:: len(flat) // 256 + 1].tobytes())
            else:
                out.append(len(thing) if isinstance(thing, (list, tuple, dict, set)) else type(thing).__name__)
        except Exception as error:  # from an unusual object
            hook.pass_on(error)
    return hash(tuple(out))


def _held(thing):
    """Returns what a thing holds, as far as that is easy to tell."""
    if isinstance(thing, (str, bytes, int, float, torch.Tensor, type, types.ModuleType)):
        return ()
    if isinstance(thing, (list, tuple)):
        return thing[:16]
    if isinstance(thing, dict):
        return list(thing.values())[:16]
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, types.MethodType):
        return [thing.__self__, thing.__func__]
    if isinstance(thing, types.FunctionType):
        cells = [c.cell_contents for c in thing.__closure__ or () if c != types.CellType()]
        return cells + [thing.__globals__[n] for n in thing.__code__.co_names if n in thing.__globals__]
    if isinstance(thing, types.GeneratorType):
        return list(thing.gi_frame.f_locals.values()) if thing.gi_frame is not None else ()
    own = list(getattr(thing, "__dict__", {}).values())
    return own + [f for c in type(thing).__mro__ if c.__module__ == "__main__" for f in vars(c).values() if isinstance(f, types.FunctionType)]


def positions(pid="self"):
    """Returns the positions of the files that a process can read, by descriptor and path."""
    out = {}
    for number in os.listdir("/proc/%s/fd" % pid):
        try:
            path = os.readlink("/proc/%s/fd/%s" % (pid, number))
            if not path.startswith("/") or path.startswith(("/dev/", "/proc/", "/sys/")) and not path.startswith("/dev/shm/"):
                continue
            with open("/proc/%s/fdinfo/%s" % (pid, number), "rb") as f:
                words = f.read(64).split()
            if int(words[3], 8) & os.O_ACCMODE != os.O_WRONLY:  # else a log, for instance
                out[number, path] = int(words[1])
        except (OSError, ValueError, IndexError) as error:  # closed meanwhile
            hook.pass_on(error)
            continue
    return out


def _apart(kept, dataset):
    """Replaces all files but one that this process was forked with. It then reads files by positions of its own, reads
    nothing from pipes, and writes no file that was open. All positions are behind the files' ends, so whoever reads by
    them moves them. Returns the positions, the far end of each connection, and the paths of what the data set holds."""
    nothing, ends, held = os.open(os.devnull, os.O_RDWR), [], []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            mode = os.fstat(number).st_mode
            with open("/proc/self/fdinfo/%d" % number, "rb") as f:
                flags = int(f.read(64).split()[3], 8)
        except (OSError, ValueError):  # the descriptor through which the others were listed
            continue
        if number in (kept, nothing):
            continue
        if stat.S_ISREG(mode) and flags & os.O_ACCMODE != os.O_WRONLY and not flags & os.O_APPEND:
            own = os.open("/proc/self/fd/%d" % number, os.O_RDONLY | flags & (os.O_DIRECT | os.O_PATH | os.O_CLOEXEC))
            os.dup2(own, number)
            os.close(own)
        elif stat.S_ISSOCK(mode) and _streams(number):
            mine, end = socket.socketpair()
            end.shutdown(socket.SHUT_WR)  # who asks gets no answer
            ends.append(end)
            os.dup2(mine.fileno(), number)
            mine.close()
        elif stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or not stat.S_IFMT(mode) or os.isatty(number):  # none: of an event loop
            os.dup2(nothing, number)
    os.close(nothing)
    mine: Any = [t for t in _within([dataset]) if isinstance(getattr(t, "buffer", t), (io.BufferedReader, io.BufferedRandom))]
    others: Any = []  # in modules, for instance; to go through all objects takes a while
    if len(positions()) > len(mine):
        others = [t for t in gc.get_objects() if issubclass(type(t), io.BufferedReader) and t not in mine]
    for things, paths in (mine, held), (others, []):
        for thing in things:
            try:
                thing.seek(0, io.SEEK_END)  # which empties its buffer
                paths.append(os.readlink("/proc/self/fd/%d" % thing.fileno()))
            except (OSError, ValueError):  # closed, or a pipe
                continue
    for number, _ in positions():
        try:
            os.lseek(int(number), 1, os.SEEK_END)
        except OSError:  # a folder
            continue
    return positions(), ends, held


def _unshare():
    """Has this process change nothing that it shares with others: it gets copies of memory that others write too, as far
    as COPIED goes, and what it appends to files is lost. So samples that are counted or listed there are not so twice."""
    left = COPIED
    libc = ctypes.CDLL(None)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in maps.read().splitlines():
            span, flags, _, _, _, *path = line.split(None, 5)
            start, end = (int(part, 16) for part in span.split("-"))
            of_device = "".join(path).startswith("/dev/") and not "".join(path).startswith(("/dev/shm/", "/dev/zero"))
            if flags[1] == "w" and flags[3] == "s" and "".join(path).startswith("/") and not of_device and end - start <= left:
                try:
                    copy = os.pread(memory.fileno(), end - start, start)
                except OSError as error:  # its file is shorter by now
                    hook.pass_on(error)
                    continue
                left -= len(copy)
                libc.mmap(start, end - start, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _FIXED, -1, 0)
                ctypes.memmove(start, copy, len(copy))
    plain, plain_os = builtins.open, os.open

    def opened(file, mode="r", *args, **kwargs):
        return plain(os.devnull if "a" in mode and os.path.exists(file) else file, mode, *args, **kwargs)

    def opened_by_os(path, flags, *args, **kwargs):
        return plain_os(os.devnull if flags & os.O_APPEND else path, flags, *args, **kwargs)

    builtins.open = io.open = opened
    os.open = opened_by_os


def _own(paths, before, inherited, dataset):
    """Whether this process opened files and connections of its own for those that it must not share with others."""
    opened = {path for at, path in positions() if (at, path) not in before}
    held = {what for key, (_, what) in _unshareable(dataset).items() if key not in inherited}
    return opened >= set(paths) and held >= {what for _, what in inherited.values()}


def _streams(number):
    with socket.socket(fileno=os.dup(number)) as s:
        return s.type == socket.SOCK_STREAM


def _used(before, ends, held):
    """Returns why other processes must not use the forked files that this process used, or None if it used none. held
    are the paths of the files that had to be read, because there was nothing to load."""
    after = positions()
    moved = held + sorted(path for at, path in before if after.get((at, path), before[at, path]) != before[at, path])
    if moved:
        return _by_position(moved[0])
    for end in ends:
        try:
            if end.recv(1, socket.MSG_DONTWAIT):
                return Refused("the data set uses a connection that was open before, which forked workers would share", OPEN)
        except OSError as error:
            hook.pass_on(error)
            continue
    return None


def _by_position(path):
    return Refused("the data set reads %s by a position in the file, which forked workers would share" % path, OPEN)


def _states():
    """Returns the states of the random generators that transforms draw from."""
    numpy = sys.modules.get("numpy")
    return torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy else None


def _restore(states):
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    if states[2] is not None:
        sys.modules["numpy"].random.set_state(states[2])


def same(a, b):
    """Returns whether two batches are equal bit by bit. Things that cannot be compared count as equal."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype or a.layout is not torch.strided:
            return a.shape == b.shape and a.dtype == b.dtype
        return torch.equal(a.detach().contiguous().reshape(-1).view(torch.uint8), b.detach().contiguous().reshape(-1).view(torch.uint8))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (str, bytes, int, float, complex)):
        return a == b or a != a and b != b
    if hasattr(a, "tobytes") and hasattr(a, "shape"):
        return a.shape == b.shape and a.tobytes() == b.tobytes()
    return True


class Beside:
    """Shows whether a script's only worker can have others beside it. A forked worker moves the positions of files that
    were open before the fork, and other workers would move them too."""

    def __init__(self, it):
        self.refusal, _ = shared(it._dataset) if it._init_fn is None else (None, False)
        if self.refusal is not None and self.refusal.hint != OPEN:
            self.refusal = None  # the worker makes do with what it has
        self.before, self.since, self.pid = {}, process.current().steps, 0
        try:
            self.before = positions()
        except Exception as error:
            hook.pass_on(error)
            self.refusal = self.refusal or self._unknown(error)

    def waits(self):
        return False

    def running(self):
        """Returns whether the worker still has to load some batches. The first look after that shows which positions it
        moved."""
        if self.before is None:
            return False
        if process.current().steps - self.since < (BATCHES if self.before else 1) or not self._works():
            return True
        before, self.before = self.before, None
        if self.refusal is None:
            try:
                self.refusal = self._moved(before)
            except Exception as error:
                self.refusal = self._unknown(error)
        return False

    def refused(self):
        return self.refusal

    @staticmethod
    def _unknown(error):
        return Refused("whether more workers can begin was not found out: " + process.said(error), "")

    def _works(self):
        """Returns whether the worker is there. Between two epochs it may have ended."""
        try:
            return bool(os.readlink("/proc/%d/exe" % self.pid))
        except OSError as error:
            hook.pass_on(error)
            return False

    def _moved(self, before):
        for _ in range(20):  # the worker may read between two looks
            mine, theirs, again = positions(), positions(str(self.pid)), positions()
            if mine == again:
                break
        for at, position in sorted(mine.items()):
            reads = again.get(at, position) != position and at in theirs  # all the time, and nobody here does
            if reads or before.get(at, position) != position == theirs.get(at):
                return _by_position(at[1])
        return None


class Trial:
    """A trial worker. It begins with a batch that the loop loads, and loads the same batch."""

    def __init__(self, it):
        self.refusal, files = shared(it._dataset, it._collate_fn)
        self.unless = None  # why workers are refused, unless the one that is tried opens files and connections of its own
        if self.refusal is not None and self.refusal.hint == OPEN:
            self.unless, self.refusal = self.refusal, None
        self.moved = []  # the paths of files that the loop reads by a position
        self.together = together(it._dataset)
        self.left = 0 if self.refusal else BATCHES if files else 1  # batches of the loop to watch before the worker begins
        self.process: Any = None
        self.answer: Any = None
        self.limit, self.until = 0, 0

    def waits(self):
        """Returns whether it waits for the loop to load a batch."""
        return self.left > 0

    def running(self):
        if self.process is not None:
            self._poll()
        return self.left > 0 or self.process is not None

    def refused(self):
        return self.refusal

    def load(self, it, fetcher, index):
        """Loads a batch in the loop, as the fetcher does. After that the worker tries the batch, or it is known that no
        worker can."""
        try:
            before, states, start = positions(), _states(), now()
        except Exception as error:
            hook.pass_on(error)
            self.left, self.refusal = 0, Refused("whether workers can begin was not found out: " + process.said(error), "")
            return fetcher.fetch(index)
        data = fetcher.fetch(index)
        try:
            took = now() - start
            after = positions()
            moved = sorted(path for at, path in before if after.get((at, path), before[at, path]) != before[at, path])
            self.left -= 1
            if moved:
                self.left, self.moved = 0, moved
                self.unless = self.unless or _by_position(moved[0])
            if self.left == 0 and self.together:
                self.refusal = self.unless
            elif self.left == 0:
                self._begin(it, index, took, data, states)
        except Exception as error:
            hook.pass_on(error)
            self.left, self.refusal = 0, Refused("no worker could be tried: " + process.said(error), "")
        return data

    def _begin(self, it, index, took, *loaded):
        self.limit = TIMES * took + SECONDS * 1_000_000_000
        self.until = now() + self.limit
        self.answer, given = it._context.Pipe(duplex=False)
        what = (it._dataset_kind, it._dataset, it._auto_collation, it._collate_fn, it._drop_last)
        self.process = it._context.Process(
            target=_tried,
            args=(given, what, it._init_fn, list(index) if isinstance(index, list) else index, loaded, self.limit // 10**9 + 1, self.unless, self.moved),
        )
        self.process.daemon = True  # as workers are
        self.process.start()
        given.close()

    def _poll(self):
        """Takes the worker's answer, or ends it at its limit."""
        code = self.process.exitcode
        late = code is None and now() > self.until + _waited(self.process.pid)
        if code is None and not late:
            return
        pid, self.process, tried = self.process.pid, None, self.process
        try:
            os.killpg(pid, signal.SIGKILL)  # with what the data set began in it
        except OSError as error:
            hook.pass_on(error)
            tried.kill()  # it hangs since the fork
        tried.join(1)
        said = None
        try:
            if not late and self.answer.poll():
                said = self.answer.recv()
        except (EOFError, OSError):
            pass
        self.answer.close()
        if late or code == -signal.SIGALRM:
            self.refusal = Refused("a worker that was tried loaded no batch in %.0f s" % (self.limit / 1e9), MAKE)
        elif said is None:
            self.refusal = Refused("a worker that was tried ended " + ended(code), ROOM if code == -signal.SIGBUS else USABLE)
        elif isinstance(said, tuple):
            self.refusal = Refused(*said)
        elif said and said != EMPTY:
            hint = "have the data set begin no processes" if "daemonic" in said else OPEN if said == DIFFERS else USABLE
            self.refusal = Refused("a worker that was tried " + said, ROOM if "No space left" in said else hint)
        if self.refusal is not None and self.unless is not None:
            self.refusal = self.unless


class Stream(Trial):
    """A trial worker for a loader whose iterators keep their knobs to their end. The worker goes through the data set
    from its beginning."""

    def __init__(self, it):
        super().__init__(it)
        if self.together:
            self.left, self.refusal = 0, self.refusal or self.unless
        self.left = min(1, self.left)

    def begin(self, it, index, took):
        """Begins the worker, which does not load the same batch as the loop. took is how long the loop took for its
        first batch."""
        self.left = 0
        self._begin(it, index, took)


def _waited(pid):
    """ns that a process was ready to run without a core; 0 where the kernel does not tell."""
    try:
        with open("/proc/%d/schedstat" % pid) as f:
            return int(f.read().split()[1])
    except (OSError, ValueError, IndexError) as error:
        hook.pass_on(error)
        return 0


def ended(code):
    """Returns how a process ended, in words, by its exit code."""
    return "by signal %d" % -code if code is not None and code < 0 else "with exit code %s" % code


def _tried(answer, what, init_fn, index, loaded, seconds, unless, moved):
    """Runs in the worker. It answers with what went wrong, or with nothing if all went well."""
    try:
        os.setpgid(0, 0)  # ctrl+c does not reach it, and one kill ends all that the data set began
        for number in signal.SIGALRM, signal.SIGTERM:  # the script may have handlers
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(TIMES * seconds)  # if the training is gone
        quiet = os.open(os.devnull, os.O_WRONLY)
        for fd in (1, 2):
            os.dup2(quiet, fd)
        before, ends, held = _apart(answer.fileno(), what[1])
        inherited = _unshareable(what[1]) if unless is not None else {}
        try:
            _unshare()
        except OSError:  # not all of /proc is there
            pass

        def used(held=()):
            """Why others must not use what this process used, or seems to; None where they may."""
            found = _used(before, ends, list(held))
            if found is None and unless is not None and not _own(moved, before, inherited, what[1]):
                found = unless
            return found and (str(found), found.hint)

        try:
            said = _load(what, init_fn, used, index, *loaded) if loaded else _go_through(what, init_fn, used, held, index, seconds)
        except BaseException as error:
            said = used() or "failed: %s" % process.said(error)
    except BaseException as error:
        said = "failed: %s" % process.said(error)
    try:
        answer.send(said[:500])
        answer.close()
    finally:
        os._exit(0)


def _fetch(what, init_fn):
    """Makes this process a worker, and returns the function that loads a batch."""
    torch.set_num_threads(1)
    _utils.worker._worker_info = _utils.worker.WorkerInfo(id=0, num_workers=1, seed=torch.initial_seed(), dataset=what[1])
    if init_fn is not None:
        init_fn(0)
    return stock._DatasetKind.create_fetcher(*what).fetch


def _prepare_to_send(data):
    """Does what a worker does to send a batch through /dev/shm, but for sending it."""
    reduction.DupFd = int
    reduction.ForkingPickler.dumps(data)


def _go_through(what, init_fn, used, held, index, seconds):
    """Loads some batches, from the beginning of the data set."""
    until, loaded = now() + seconds * 500_000_000, 0
    fetch = _fetch(what, init_fn)
    try:
        while loaded < BATCHES and (now() < until or not loaded):
            data = fetch(index)
            loaded += 1
            if loaded == 1:
                _prepare_to_send(data)
    except StopIteration:
        pass
    return used(() if loaded else held) or ("" if loaded else EMPTY)


def _load(what, init_fn, used, index, data, states):
    fetch = _fetch(what, init_fn)
    _restore(states)
    mine = fetch(index)
    found = used()
    if found:
        return found
    _utils.worker._worker_info = None  # from here on as in the loop
    again = []
    for _ in range(2):
        _restore(states)
        again.append(fetch(index))
    if same(*again) and not (same(again[0], data) and same(mine, data)):
        return DIFFERS
    _prepare_to_send(mine)
    return ""
