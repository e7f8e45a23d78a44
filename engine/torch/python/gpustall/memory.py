"""Files that are shared as memory, without a descriptor that stays open.

A script may close descriptors that it does not know, and files of its own may get their numbers. So nothing of
gpustall's stays open in a training, except files that are checked to be ours before each use. """

import errno
import mmap
import os
import sys
import weakref

from gpustall import hook


def mapped(fd, size, writable):
    """Maps a file. The descriptor may be closed afterwards."""
    prot = mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
    if sys.version_info >= (3, 13):
        return memoryview(mmap.mmap(fd, size, prot=prot, trackfd=False))
    import ctypes  # mmap.mmap keeps a copy of the descriptor before Python 3.13

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    address = libc.mmap(None, size, prot, mmap.MAP_SHARED, fd, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    memory = type("Memory", (ctypes.c_char * size,), {}).from_address(address)
    weakref.finalize(memory, libc.munmap, address, size).atexit = False  # the process ends with its memory
    return memoryview(memory).cast("B")


def allocate(fd, size):
    """Gives a file its size, with all of its space. Writing to a hole of a file in a full /dev/shm would end the
    process."""
    while True:
        try:
            os.posix_fallocate(fd, 0, size)
            return
        except InterruptedError:
            continue
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise
            break
    piece = bytes(1 << 16)  # a file system without allocation: zeros are as good
    for at in range(0, size, len(piece)):
        part = piece[: size - at]
        if os.pwrite(fd, part, at) < len(part):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class File:
    """A file that is open for reading, as long as its descriptor is still ours."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.what = self._what()

    def _what(self):
        info = os.fstat(self.fd)
        return info.st_dev, info.st_ino

    def ours(self):
        try:
            return self.fd >= 0 and self._what() == self.what
        except OSError as error:  # TimeoutError is one, which handlers raise
            hook.pass_on(error)
            return False

    def read(self):
        """Returns the file's first 64 bytes, or None if the script has closed the file."""
        if not self.ours():
            self.fd = -1
            return None
        return os.pread(self.fd, 64, 0)

    def close(self):
        if getattr(self, "fd", -1) >= 0 and self.ours():
            os.close(self.fd)
        self.fd = -1

    def __del__(self):
        self.close()
