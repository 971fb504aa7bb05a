"""How a worker of an engine has one shard answered, whichever engine it is."""

import dataclasses
import fcntl
import functools
import glob
import itertools
import os
import random
import secrets
import threading
import time
import weakref
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import grpc
import numpy as np

from topk_client import _dtypes
from topk_client._dtypes import Array
from topk_client.client import Client
from topk_client.errors import TopKError
from topk_client.merge import Partial
from topk_client.shared_memory import FOLDER, Region, SharedMemory
from topk_client.specs import OpenVINO

# The number of retries of all servers, and the first pause before one.
_ROUNDS = 3
_FIRST_WAIT_SECONDS = 0.1
_PREFIX = "/topk-shard-"  # below the servers' default prefix


@dataclasses.dataclass(frozen=True)
class Question:
    """The request for the whole axis, which is sent to the workers.

    Attributes:
      axis: -r .. r-1.
      servers: targets of Client, any of which may answer any shard.
      shared_memory: whether workers pass shards to them in shared memory.
      client_options: other arguments of Client.
    """

    k: int
    axis: int
    largest: bool
    order: str
    data_type: Optional[str]
    servers: Tuple[str, ...]
    shared_memory: bool
    client_options: Tuple[Tuple[str, Any], ...]

    @classmethod
    def of(cls, k: int, axis: int, rank: Optional[int], largest: bool,
           order: str, data_type: Optional[str],
           servers: Union[str, Sequence[str]], shared_memory: bool,
           client_options: Any) -> "Question":
        """ValueError for what no server could answer; without a rank, the axis
        is for the workers to check."""
        if rank is not None and not -rank <= axis < rank:
            raise ValueError(f"axis = {axis} is out of range for rank {rank}")
        if k < 1:
            raise ValueError(f"k = {k} is less than 1")
        if order not in ("value", "index"):
            raise ValueError(f"order = {order!r} is not value or index")
        servers = (servers,) if isinstance(servers, str) else tuple(servers)
        if not servers:
            raise ValueError("there are no servers")
        return cls(int(k), int(axis), bool(largest), order, data_type,
                   servers, shared_memory, tuple(sorted(
                       client_options.items())))

    def partial(self, values: Array, indices: Array) -> Partial:
        """Returns an answer to it over a shard."""
        return Partial(values, indices, self.k, self.axis, self.largest,
                       self.order, self.data_type)


# A worker begins with any server, so that many share the work evenly.
_turn = itertools.count(random.SystemRandom().randrange(1 << 30))
_of_thread = threading.local()


@functools.lru_cache(maxsize=None)
def _client(_process: int, target: str,
            options: Tuple[Tuple[str, Any], ...]) -> Client:
    """Returns the process's one client of a server. Not another process's: a
    connection does not outlive a fork."""
    arguments: Dict[str, Any] = {"max_attempts": 1, **dict(options)}
    return Client(target, **arguments)


class _Buffer:
    """Shared memory that its process holds the lock of, so that others can tell
    what one that was killed has left."""

    alive: "weakref.WeakSet[_Buffer]" = weakref.WeakSet()

    def __init__(self, nbytes: int) -> None:
        while not self._is_made(nbytes):
            pass  # it was taken for abandoned before it was locked
        self.alive.add(self)

    def _is_made(self, nbytes: int) -> bool:
        self._memory = SharedMemory(
            nbytes, f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}")
        try:
            file = os.open(FOLDER + self._memory.name, os.O_RDONLY)
        except FileNotFoundError:
            return False
        self._unlock = weakref.finalize(self, os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.fstat(file).st_nlink > 0
        except BlockingIOError:
            return False

    def close(self) -> None:
        self._memory.close()
        self._unlock()

    @property
    def nbytes(self) -> int:
        return len(self._memory.buffer)

    def copy_of(self, shard: Array) -> Region:
        copy = self._memory.array(shard.shape, shard.dtype)
        copy[...] = shard
        return self._memory.region(copy)


def _leave_to_parent() -> None:
    """Drops all buffers in a process that has just been forked: what it would
    write there the parent would send, and as long as it shared their locks they
    would not be abandoned when the parent is killed."""
    global _of_thread
    for buffer in list(_Buffer.alive):
        buffer.close()  # the objects' names are the parent's, and stay
    _of_thread = threading.local()


os.register_at_fork(after_in_child=_leave_to_parent)


def remove_abandoned() -> int:
    """Removes the shared memory that killed workers of this machine have left,
    as each worker does before it makes its own. Returns how many objects."""
    count = 0
    for path in glob.glob(FOLDER + _PREFIX + "*"):
        try:
            file = os.open(path, os.O_RDONLY)
        except OSError:  # just gone, or another user's
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
            count += 1
        except OSError:  # in use
            pass
        finally:
            os.close(file)
    return count


def _in_shared_memory(shard: Array) -> Region:
    """Returns a copy of the shard in the thread's shared memory, which is kept
    for the next one: fresh pages cost as much as the copy."""
    buffer = getattr(_of_thread, "buffer", None)
    if buffer is None or buffer.nbytes < shard.nbytes:
        if buffer is not None:
            buffer.close()
        remove_abandoned()
        buffer = _of_thread.buffer = _Buffer(shard.nbytes)
    return buffer.copy_of(shard)


def _may_pass(error: TopKError) -> bool:
    """Whether a retry after the error's delay may succeed."""
    return error._may_retry and (
        error.code is grpc.StatusCode.UNAVAILABLE
        or error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        and error.retry_delay is not None)


def _delay_of(error: TopKError) -> float:
    return error.retry_delay or 0.0


def answer(shard: Array, begin: int, question: Question) -> Partial:
    """Has a server answer for a shard that begins so far along the axis. The
    next one is asked where one is not there or has no room. TopKError if none
    of them answers, or none will before the timeout, which bounds all attempts
    together, is over."""
    size = shard.shape[question.axis]
    if not size:
        return question.partial(np.array(shard),
                                np.zeros(shard.shape, np.int64))
    spec = OpenVINO(min(question.k, size), question.axis,
                    "max" if question.largest else "min", question.order,
                    "i64", stable=True)
    tensor: Union[Array, Region] = shard
    name = question.data_type or _dtypes.short_name_of(shard.dtype)
    if question.shared_memory and shard.size and name not in _dtypes.WIDTHS:
        tensor = _in_shared_memory(_dtypes.little_endian(shard))
    first = next(_turn)
    clients = [_client(os.getpid(), target, question.client_options)
               for target in question.servers]
    deadline = time.monotonic() + clients[0]._timeout
    soonest: Optional[TopKError] = None
    for wait in (0.0, *(_FIRST_WAIT_SECONDS * 2**n for n in range(_ROUNDS))):
        # Until one of them may answer.
        wait = max(wait, _delay_of(soonest) if soonest else 0.0)
        if soonest and wait >= deadline - time.monotonic():
            raise soonest
        time.sleep(wait)
        errors: List[TopKError] = []
        for turn in range(len(clients)):
            left = deadline - time.monotonic()
            if errors and left <= 0:
                break
            client = clients[(first + turn) % len(clients)]
            try:
                got = client.compute_topk(tensor, spec, index_offset=begin,
                                          data_type=question.data_type,
                                          timeout=max(left, 0.0))
                assert got.values is not None and got.indices is not None
                return question.partial(got.values, got.indices)
            except TopKError as error:
                if not _may_pass(error):
                    raise
                errors.append(error)
        soonest = min(errors, key=_delay_of)
    assert soonest is not None
    raise soonest
