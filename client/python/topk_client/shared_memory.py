"""POSIX shared memory for tensors and answers, for a client and a server on one
machine. Linux only, where the objects are files in /dev/shm."""

import dataclasses
import mmap
import os
import secrets
import weakref
from typing import Any, Sequence

import numpy as np

from topk_client._dtypes import Array

FOLDER = "/dev/shm"


def _unlink(path: str, owner: int) -> None:
    if os.getpid() == owner:  # not a forked child, which did not make it
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


class SharedMemory:
    """A shared memory object owned by this process until close(), or the end of
    its with block. Arrays in it stay valid while they are referenced.

    A server with --allow-shared-memory reads a tensor from it, or writes an
    answer to it, if it may open the object: it must run as the same user or as
    root. Do not change a tensor while a request that names it is in flight: the
    answer is unspecified then.
    """

    def __init__(self, nbytes: int, name: str = "") -> None:
        """Creates an object of `nbytes` >= 1 zero bytes, all of them allocated,
        that only this user may open. An empty name is replaced by a unique one
        below "/topk", the servers' default prefix. ValueError for an invalid
        name (it must be a slash followed by no other slash), OSError if the
        name exists already or there is not enough memory."""
        name = name or f"/topk-{os.getpid()}-{secrets.token_hex(8)}"
        if name[0] != "/" or "/" in name[1:]:
            raise ValueError(f"{name!r} is not a slash and a name without one")
        self.name = name
        path = FOLDER + name
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
        """Unlinks the name. The memory is freed with the last array in it."""
        self._close()

    def array(self, shape: Sequence[int], dtype: Any,
              offset: int = 0) -> Array:
        """Returns an array over a part of it, from the byte `offset` on."""
        return np.ndarray(shape, dtype, self.buffer, offset)

    def offset_of(self, array: Array) -> int:
        """Returns the offset of a contiguous array, in bytes. ValueError for an
        array that is not in this object."""
        whole = np.frombuffer(self.buffer, np.uint8)
        begin = int(array.ctypes.data) - int(whole.ctypes.data)
        if not 0 <= begin <= begin + array.nbytes <= whole.nbytes:
            raise ValueError(f"the array does not lie in {self.name}, or is "
                             "not contiguous or not little-endian")
        return begin

    def region(self, array: Array) -> "Region":
        """Returns the array as a tensor, or a place for an output, that a
        request names instead of carrying it."""
        return Region(self, array)


@dataclasses.dataclass(frozen=True, eq=False)
class Region:
    """An array and the shared memory in which it lies."""

    memory: SharedMemory
    array: Array
