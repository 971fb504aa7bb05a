"""POSIX shared memory for tensors and results, for a client and a server on the
same machine. Linux only: shared memory objects are files in /dev/shm."""

import dataclasses
import mmap
import os
import secrets
import weakref
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from topk_client._dtypes import Array

FOLDER = "/dev/shm"


def _open(name: str, flags: int) -> int:
    """Opens an object. Raises ValueError unless the name starts with a slash
    and contains no other."""
    if name[:1] != "/" or "/" in name[1:]:
        raise ValueError(f"name is {name!r}; it must be a slash, then a name "
                         "without slashes")
    return os.open(FOLDER + name, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)


def _unlink(path: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not unlink the object
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


class SharedMemory:
    """A shared memory object, owned by this process until close() or the end of
    the with block. Arrays in it stay valid while they are referenced.

    A server started with --allow-shared-memory can read tensors from the object
    and write results to it. The server must be able to open the object, so it
    must run as the same user or as root. Do not change a tensor while a request
    that names it is in flight: the result would be unspecified.

    A pickled object or region attaches to the same memory by name.
    """

    def __init__(self, nbytes: int, name: str = "") -> None:
        """Creates an object of `nbytes` >= 1 zero bytes that only this user may
        open. All of its memory is allocated. If the name is empty, a unique
        name is chosen that starts with "/topk", the server's default prefix.
        Raises ValueError unless the name starts with a slash and contains no
        other. Raises OSError if the name exists, `nbytes` is less than 1, or
        there is not enough memory."""
        self.name = name or f"/topk-{os.getpid()}-{secrets.token_hex(8)}"
        file = _open(self.name, os.O_CREAT | os.O_EXCL)
        self._close: Optional[Any] = weakref.finalize(
            self, _unlink, FOLDER + self.name, os.getpid())
        try:
            # Allocate now: running out of memory later would raise SIGBUS.
            os.posix_fallocate(file, 0, nbytes)
            self.buffer = mmap.mmap(file, nbytes)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(file)

    @classmethod
    def attach(cls, name: str) -> "SharedMemory":
        """Opens an existing object that this or another process owns. Closing
        the result does not unlink the name. Raises FileNotFoundError if the
        object does not exist."""
        memory = cls.__new__(cls)
        memory.name, memory._close = name, None
        file = _open(name, 0)
        try:
            memory.buffer = mmap.mmap(file, 0)
        finally:
            os.close(file)
        return memory

    def __reduce__(self) -> Any:
        return SharedMemory.attach, (self.name,)

    def __enter__(self) -> "SharedMemory":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Unlinks the name. The memory is freed with the last array that uses
        it."""
        if self._close is not None:
            self._close()

    def array(self, shape: Sequence[int], dtype: Any, offset: int = 0,
              strides: Optional[Tuple[int, ...]] = None) -> Array:
        """Returns an array over this memory that starts at byte `offset`, by
        default a contiguous one."""
        return np.ndarray(shape, dtype, self.buffer, offset, strides)

    def offset_of(self, array: Array) -> int:
        """Returns the offset of a contiguous array in bytes. Raises ValueError
        if the array is not in this object."""
        whole = np.frombuffer(self.buffer, np.uint8)
        begin = int(array.ctypes.data) - int(whole.ctypes.data)
        if not 0 <= begin <= begin + array.nbytes <= whole.nbytes:
            raise ValueError(f"the array must be in {self.name}, "
                             "contiguous and little-endian")
        return begin

    def region(self, array: Array) -> "Region":
        """Returns a reference to an array in this memory, for a request to use
        as its tensor or as the destination of an output."""
        return Region(self, array)


@dataclasses.dataclass(frozen=True, eq=False)
class Region:
    """An array and the shared memory that contains it."""

    memory: SharedMemory
    array: Array

    def __reduce__(self) -> Any:
        array = self.array
        return _region, (self.memory, array.shape, array.dtype,
                         self.memory.offset_of(array), array.strides)


def _region(memory: SharedMemory, *array: Any) -> Region:
    return Region(memory, memory.array(*array))
