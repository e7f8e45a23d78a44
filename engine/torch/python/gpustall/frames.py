"""Where the frames of this interpreter's threads lie in memory, so that gpustall can read them from outside.

There is no table of versions. The offsets are found in this process's own memory, by looking for what must be there:
the code objects of the functions that look. Memory is read as gpustall reads it, by process_vm_readv, which fails where
an address is not mapped. """

import ctypes
import os
import site
import struct
import sys
import sysconfig
import threading
import types

from gpustall import hook

API = ctypes.PyDLL(None)  # our own: what functions return is set on ctypes.pythonapi for the script too
WORD = 8
PAGE = 4096
GIL_WITHIN = 1 << 20  # bytes of where it is looked for
TAGS = 7  # the lowest bits of a pointer to an object, which some versions use for themselves
CODES = id(types.CodeType)
HEAD = object.__basicsize__  # bytes of each object's head, which ends with its type: more in a free-threaded interpreter
LINE_TABLES = "locations", "linetable", "lnotab"  # of 3.11 and later, of 3.10, and of versions before


class _Part(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def thread():
    """Returns the address of this thread's state; 0 where it is not known."""
    try:
        get = API.PyThreadState_Get
        get.restype = ctypes.c_void_p
        return get() or 0
    except Exception as error:
        hook.pass_on(error)
        return 0


class _Memory:
    def __init__(self):
        self.readv = API.process_vm_readv  # it keeps the GIL: what it reads stays as it is
        self.readv.restype = ctypes.c_ssize_t
        self.pid = os.getpid()

    def bytes(self, at, n):
        """Returns n bytes, or fewer where the next ones cannot be read."""
        into = ctypes.create_string_buffer(n)
        here, there = _Part(ctypes.addressof(into), n), _Part(at, n)
        got = self.readv(self.pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        if got < 0 and n > WORD:  # the end of what is mapped lies between
            return self.bytes(at, WORD)
        return into.raw[: max(0, got)]

    def words(self, at, n):
        if at % WORD or at < 4096:
            return ()
        raw = self.bytes(at, n * WORD)
        return struct.unpack_from("@%dQ" % (len(raw) // WORD), raw)


def layout():
    """Returns where things lie, as the Layout in engine/torch/frames/frames.go reads it. Raises a LookupError if
    something is not found."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != WORD:
        raise LookupError("it is not CPython of 64 bits")
    memory = _Memory()
    if not memory.words(id(memory), 2):
        raise LookupError("the system does not let memory be read")
    # The call goes through C, so that the evaluation is nested. Otherwise fields that only the outermost
    # one has might be found.
    (found,) = map(_evaluation, [memory])
    return dict(found, **_code(memory), **_text(memory), head=HEAD, gil=_gil(memory), links=_links(memory), library=library(), code_type=CODES)


def _evaluation(memory):
    found, blocks, last = _frames(memory, thread())
    for at in range(len(blocks[0])):  # the next instruction of two callers, as a pointer into their code
        if len({where[at] - code - lasti for where, (code, lasti) in zip(blocks, last)}) == 1 and 0 < blocks[0][at] - last[0][0] < 1 << 20:
            return dict(found, instruction=at * WORD, first=blocks[0][at] - last[0][0] - last[0][1], scale=0)
    for at in range(0, len(blocks[0]) * WORD, 4):  # or as a number
        seen = [struct.unpack_from("@i", struct.pack("@%dQ" % len(where), *where), at)[0] for where in blocks]
        for scale in (1, 2):
            if all(s * scale == lasti for s, (_, lasti) in zip(seen, last)) and last[0][1] != last[1][1]:
                return dict(found, instruction=at, first=0, scale=scale)
    raise LookupError("a frame's instruction is not found")


def _frames(memory, state):
    """Returns the offsets of a thread's innermost frame, and of a frame's code and its caller. It also returns the
    memory of two callers and what is known of them. While it looks, the innermost frame belongs to a function of
    _Memory."""
    me = id(memory.words.__func__.__code__), id(memory.bytes.__func__.__code__)
    known = sys._getframe(), sys._getframe(1), sys._getframe(2)
    try:
        for o1, c in enumerate(memory.words(state, 64)):
            for o2, frame in [(-1, c), *enumerate(memory.words(c, 8))]:
                where = memory.words(frame, 16)
                for code in (i for i, v in enumerate(where) if v & ~TAGS == me[1]):
                    for back, caller in enumerate(where):
                        between = memory.words(caller, 16)
                        if len(between) < 16 or between[code] & ~TAGS != me[0]:
                            continue
                        blocks, at = [], between[back]
                        for _ in range(6):  # a version may have other frames between, where C code calls Python
                            block = memory.words(at, 16)
                            if len(block) < 16:
                                break
                            at = block[back]
                            if block[code] & ~TAGS == id(known[len(blocks)].f_code):
                                blocks.append(block)
                                if len(blocks) == len(known):
                                    found = dict(state=[o1 * WORD, o2 * WORD], code=code * WORD, back=back * WORD)
                                    return found, blocks[1:], [(id(f.f_code), f.f_lasti) for f in known[1:]]
    finally:
        known = ()  # a frame that holds itself would keep the script's, and their data, until Python looks for cycles
    raise LookupError("a thread's frames are not found")


def _code(memory):
    """Returns the offsets in a code object."""
    codes = [f.__code__ for f in (thread, layout, _evaluation, _frames, _code, _text, library, _Memory.words, _Memory.bytes)]
    table = LINE_TABLES[0 if sys.version_info >= (3, 11) else 1 if sys.version_info >= (3, 10) else 2]
    size = type(codes[0]).__basicsize__
    blocks = [memory.bytes(id(code), size) for code in codes]

    def find(form, step, of):
        for at in range(16, size - step + 1, step):
            if all(struct.unpack_from(form, block, at)[0] == of(code) for block, code in zip(blocks, codes)):
                return at
        raise LookupError("a code object's parts are not found")

    return dict(
        file=find("@Q", WORD, lambda c: id(c.co_filename)), name=find("@Q", WORD, lambda c: id(getattr(c, "co_qualname", c.co_name))),
        line=find("@i", 4, lambda c: c.co_firstlineno), table=find("@Q", WORD, lambda c: id(c.co_lnotab if table == "lnotab" else c.co_linetable)),
        form=table,
    )


def _text(memory):
    """Returns how texts and bytes lie in memory. The state of a text tells whether it is ASCII, and how wide its characters are."""
    kinds = ["%s%d" % (c, os.getpid()) for c in ("a", "\xe9", "\u0101", "\U0001f600")]
    states = [struct.unpack("@I", memory.bytes(id(kind) + HEAD + 16, 4))[0] for kind in kinds]
    mask = 0
    for state in states:
        mask |= state ^ states[0]
    mask &= 0xFF if len({state & 0xFF for state in states}) == 4 else 0xFF0000  # other bits are not in use
    if len({state & mask for state in states}) != 4:
        raise LookupError("a text's width is not found")
    return dict(
        text=dict(mask=mask, states=[state & mask for state in states], ascii=sys.getsizeof("") - 1, wide=sys.getsizeof("\u0101") - 4),
        bytes=bytes.__basicsize__ - 1,
    )


def _gil(memory):
    """The address of the lock that a thread must hold to run Python; 0 where it is not found. It is found by what it begins
    with: its interval, the thread that holds it, and that it is held. The interpreter's state has it since 3.12."""
    try:
        if sys.version_info >= (3, 12):
            get = API.PyInterpreterState_Get
            get.restype = ctypes.c_void_p
            start = get()
        else:
            start = ctypes.addressof(ctypes.c_char.in_dll(API, "_PyRuntime"))
    except Exception as error:
        hook.pass_on(error)
        return 0
    known, found = struct.pack("@QQi", round(sys.getswitchinterval() * 1e6), thread(), 1), []
    for at in range(start, start + GIL_WITHIN, PAGE):
        page = memory.bytes(at, PAGE + len(known))
        place = page.find(known)
        while place >= 0:
            if place < PAGE and not (at + place) % WORD:
                found.append(at + place)
            place = page.find(known, place + 1)
        if len(page) < PAGE:
            break
    return found[0] if len(found) == 1 else 0


def _links(memory):
    """Returns the offsets in a thread's state of the threads before and after it, of the interpreter's state, and of the number
    that the system gives the thread; None where they are not found."""
    try:
        following, interpreter = API.PyThreadState_Next, API.PyInterpreterState_Get
        following.restype = interpreter.restype = ctypes.c_void_p
        following.argtypes = (ctypes.c_void_p,)
        words = memory.words(thread(), 64)
        at, number = words.index(interpreter()), words.index(threading.get_native_id())
        if at >= 2 and words[at - 1] == (following(thread()) or 0) and words[number - 1] == threading.get_ident():
            return dict(before=(at - 2) * WORD, after=(at - 1) * WORD, interpreter=at * WORD, number=number * WORD)
    except Exception as error:  # versions before 3.11 do not tell the number
        hook.pass_on(error)
    return None


def library():
    """Returns the folders whose code is not the user's."""
    folders = {hook.HERE, *(sysconfig.get_paths().get(name, "") for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
    try:
        folders.update(site.getsitepackages())
        folders.add(site.getusersitepackages())
    except Exception as error:  # a virtual environment's old site module
        hook.pass_on(error)
    script = os.path.abspath(getattr(sys.modules.get("__main__"), "__file__", None) or "")
    for folder in sys.path[1:]:  # pip may install into any folder
        try:
            if not script.startswith(os.path.join(folder, "")) and any(name.endswith(".dist-info") for name in os.listdir(folder)):
                folders.add(folder)
        except OSError as error:
            hook.pass_on(error)
    return sorted(f for f in folders | {os.path.realpath(f) for f in folders if f} if f)
