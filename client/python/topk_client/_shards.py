"""Sends one shard to a server, from a worker of Dask or Ray."""

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
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from topk_client import _dtypes
from topk_client._connection import (Attempts, Retry, check_no_token,
                                     checked_metadata, is_retried)
from topk_client._dtypes import Array
from topk_client.client import Client
from topk_client.errors import TopKError
from topk_client.merge import Partial
from topk_client.messages import array_of, widened
from topk_client.shared_memory import FOLDER, Region, SharedMemory
from topk_client.specs import OpenVINO, converted, integer

_ROUNDS = 3  # how many times all servers are tried again
_PREFIX = "/topk-shard-"  # starts with the server's default prefix, "/topk"
_NEW_SECONDS = 20.0


@dataclasses.dataclass(frozen=True)
class Question:
    """The request for the whole axis, sent to all workers.

    Attributes:
      servers: Client targets. Any server may answer any shard.
      shared_memory: whether workers pass shards to servers in shared memory.
      client_options: other arguments of Client.
    """

    spec: OpenVINO
    data_type: Optional[str]
    servers: Tuple[str, ...]
    shared_memory: bool
    client_options: Tuple[Tuple[str, Any], ...]

    @classmethod
    def of(cls, k: int, axis: int, rank: Optional[int], largest: bool,
           order: str, data_type: Optional[str],
           servers: Union[str, Sequence[str]], shared_memory: bool,
           client_options: Any) -> "Question":
        """Raises ValueError for arguments that no server could answer. If
        `rank` is None, the workers check the axis."""
        k, axis = integer("k", k), integer("axis", axis)
        largest = converted("largest", bool, largest)
        shared_memory = converted("shared_memory", bool, shared_memory)
        if rank is not None and not -rank <= axis < rank:
            raise ValueError(f"axis = {axis} is out of range for rank {rank}")
        if k < 1:
            raise ValueError(f"k = {k} is less than 1")
        if order not in ("value", "index"):
            raise ValueError(f"order = {order!r} is not value or index")
        servers = (servers,) if isinstance(servers, str) else tuple(servers)
        if not servers:
            raise ValueError("there are no servers")
        for name, convert in (("metadata", checked_metadata),
                              ("interceptors", tuple),
                              ("channel_options", tuple)):
            if name in client_options:  # _client() hashes the options
                client_options[name] = convert(client_options[name])
        check_no_token(client_options)
        return cls(OpenVINO(k, axis, "max" if largest else "min",
                            order, "i64", stable=True),
                   data_type, servers, shared_memory,
                   tuple(sorted(client_options.items())))

    def partial(self, values: Array, indices: Array, size: int) -> Partial:
        return Partial(values, indices, self.spec.k, self.spec.axis,
                       *self.spec._selection, self.data_type, size)


# Each process starts with a random server, so that the load is spread evenly.
_turn = itertools.count(random.SystemRandom().randrange(1 << 30))
_of_thread = threading.local()
# A forked child must not overwrite data that its parent sends, or hold locks.
os.register_at_fork(after_in_child=lambda: _of_thread.__dict__.clear())


@functools.lru_cache(maxsize=None)
def _client(target: str, options: Tuple[Tuple[str, Any], ...]) -> Client:
    """Returns this process's client for a server."""
    arguments: Dict[str, Any] = {"retry": None, **dict(options)}
    return Client(target, **arguments)


def remove_abandoned() -> int:
    """Removes the shared memory objects that killed workers on this machine
    have left behind. Returns their number. Each worker calls this before it
    creates its own object."""
    count = 0
    for path in glob.glob(FOLDER + _PREFIX + "*"):
        try:
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                age = time.time() - os.fstat(file.fileno()).st_ctime
                if age > _NEW_SECONDS:  # a new object may not be locked yet
                    os.unlink(path)
                    count += 1
        except OSError:  # in use, already removed, or owned by another user
            pass
    return count


def _in_shared_memory(shard: Array) -> Region:
    """Copies the shard to the thread's shared memory. The memory is kept for
    the next shard, since fresh pages cost as much as the copy."""
    memory: Optional[SharedMemory] = getattr(_of_thread, "memory", None)
    if memory is None or len(memory.buffer) < shard.nbytes:
        if memory is not None:
            memory.close()
            _of_thread.memory = None
        remove_abandoned()
        memory = SharedMemory(
            shard.nbytes, f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}")
        # The lock is held until the process ends: then the object is abandoned.
        _of_thread.lock = open(FOLDER + memory.name, "rb")
        fcntl.flock(_of_thread.lock, fcntl.LOCK_EX)
        _of_thread.memory = memory
    copy = memory.array(shard.shape, shard.dtype)
    copy[...] = shard
    return memory.region(copy)


def answer(shard: Array, begin: int, question: Question) -> Partial:
    """Returns a server's result for the shard that starts at `begin` on the
    axis. Tries the next server if one is unreachable or overloaded. The timeout
    bounds all attempts together. Raises TopKError if no server answers, or as
    soon as no server can answer before the timeout. Raises TypeError for masked
    arrays and nulls."""
    shard = array_of(shard)[0] if question.data_type else widened(shard)
    size = shard.shape[question.spec.axis]
    if not size:
        return question.partial(np.array(shard),
                                np.zeros(shard.shape, np.int64), size)
    spec = dataclasses.replace(question.spec, k=min(question.spec.k, size))
    tensor: Union[Array, Region] = shard
    name = question.data_type or _dtypes.short_name_of(shard.dtype)
    if question.shared_memory and shard.size and name not in _dtypes.WIDTHS:
        tensor = _in_shared_memory(_dtypes.little_endian(shard))
    clients = [_client(target, question.client_options)
               for target in question.servers]
    attempts = Attempts(Retry(1 + _ROUNDS), clients[0]._timeout)
    first = next(_turn) % len(clients)
    while True:
        errors: List[TopKError] = []
        for client in clients[first:] + clients[:first]:
            left = attempts.seconds()
            if errors and not left:
                break
            try:
                got = client.compute_topk(tensor, spec, index_offset=begin,
                                          data_type=question.data_type,
                                          timeout=left)
                return question.partial(got.values, got.indices, size)
            except TopKError as error:
                if not is_retried(error):
                    raise
                errors.append(error)
        clients[first]._pause(attempts.pause_after(
            min(errors, key=lambda error: error.retry_delay or 0.0),
            "ComputeTopK"))
