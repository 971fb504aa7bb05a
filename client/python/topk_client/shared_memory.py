"""POSIX shared memory for tensors and answers, where client and server are on
one machine: Linux, whose objects are files of /dev/shm."""

import dataclasses
import mmap
import os
import secrets
import weakref
from typing import Any, Sequence

import numpy as np

_FOLDER = "/dev/shm"


def _unlink(path: str, owner: int) -> None:
    if os.getpid() == owner:  # not a forked child, which did not make it
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


class SharedMemory:
    """An object that is this process's until close(), or the end of its with
    block. Arrays in it are good for as long as they are held.

    A server with --allow-shared-memory takes a tensor from it, or puts an
    answer there, if it may open it: a server of the same user, or root's. Do
    not change a tensor while a request that names it is under way: the answer
    could be anything.
    """

    def __init__(self, nbytes: int, name: str = "") -> None:
        """Makes an object of so many bytes, 1 or more, all zero and there for
        certain, that its user alone may open. A name that is "" becomes one of
        its own, below "/topk", the servers' default prefix. ValueError for a
        name that is none (a slash, then no other one), OSError for one that is
        taken or if there is not so much memory."""
        name = name or f"/topk-{os.getpid()}-{secrets.token_hex(8)}"
        if name[0] != "/" or "/" in name[1:]:
            raise ValueError(f"{name!r} is not a slash and a name without one")
        self.name = name
        path = _FOLDER + name
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._close = weakref.finalize(self, _unlink, path, os.getpid())
        try:
            # Memory that is promised and not there is SIGBUS when touched.
            os.posix_fallocate(file, 0, nbytes)
            self.buffer = mmap.mmap(file, nbytes)
        except BaseException:
            self._close()
            raise
        finally:
            os.close(file)

    def __enter__(self) -> "SharedMemory":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Takes its name away. The memory itself goes with the last array."""
        self._close()

    def array(self, shape: Sequence[int], dtype: Any,
              offset: int = 0) -> np.ndarray:
        """Returns an array over a part of it, from the byte `offset` on."""
        return np.ndarray(shape, dtype, self.buffer, offset)

    def offset_of(self, array: np.ndarray) -> int:
        """Returns at which byte of it a contiguous array begins. ValueError for
        one that does not lie within it."""
        whole = np.frombuffer(self.buffer, np.uint8)
        begin = int(array.ctypes.data) - int(whole.ctypes.data)
        if not 0 <= begin <= begin + array.nbytes <= whole.nbytes:
            raise ValueError(f"the array does not lie in {self.name}")
        return begin

    def region(self, array: np.ndarray) -> "Region":
        """Returns the array as a tensor, or a place for an output, that a
        request names instead of carrying it."""
        return Region(self, array)


@dataclasses.dataclass(frozen=True, eq=False)
class Region:
    """An array and the shared memory in which it lies."""

    memory: SharedMemory
    array: np.ndarray
