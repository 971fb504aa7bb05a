"""TopK of a Dask array: topkd computes each chunk; Dask merges the results.

Needs topk_client[dask] on the client and the workers.
"""

import functools
from typing import Any, List, Optional, Sequence, Tuple, Union

import dask.array as da
import numpy as np
from dask.core import flatten
from dask.sizeof import sizeof

from topk_client import _shards
from topk_client._dtypes import Array
from topk_client.merge import Partial, merge
from topk_client.messages import array_of, check_no_nulls


def topk(array: Any, k: int, axis: int = -1, largest: bool = True, *,
         order: str = "value",
         servers: Union[str, Sequence[str]] = "localhost:50051",
         shared_memory: bool = False, data_type: Optional[str] = None,
         split_every: int = 8, **client_options: Any) -> Tuple[Any, Any]:
    """Returns (values, indices) of the k largest or smallest elements along the
    axis, as Dask arrays.

    The results are byte-identical to those of one server over the whole array.
    They have one chunk of k along the axis, and the array's chunks along all
    other axes. Compute both at once with dask.compute(values, indices), because
    they share the work.

    Args:
      array: a Dask array with any chunks, or anything that
        dask.array.asanyarray accepts.
      k: 1 .. the size along the axis.
      largest: whether to select the largest elements.
      order: whether to sort the selected elements by "value" or by "index".
      servers: Client targets, as seen from the workers. A worker uses them in
        turn, and tries the next one if a server is unreachable. With one topkd
        on each machine, pass "localhost:50051" or "unix:/run/topk.sock".
      shared_memory: whether to pass chunks to the servers in shared memory,
        which is much faster. The servers must run on the workers' machines with
        --allow-shared-memory. Each worker thread uses as much shared memory as
        its largest chunk.
      data_type: the element type, if it differs from the dtype; see Request.
      split_every: how many partial results are merged at once.
      client_options: other arguments of Client, such as timeout, tls_ca and
        token_file, but not token: it would be in the task graph.

    The tasks are named topk_shard and topk_merge. If a worker is lost, Dask
    repeats its calls. If no server answers a call, the task raises TopKError
    after a second or two, which counts as one of the task's retries.

    Raises ValueError for arguments that every server would reject, for chunks
    of unknown size along the axis, and for integers in a list that NumPy would
    round. Raises TypeError for masked arrays.
    """
    check_no_nulls(array)
    if isinstance(array, (list, tuple)) and not any(
            isinstance(item, da.Array) for item in flatten(array)):
        array = array_of(array)[0]
    array = da.asanyarray(array)
    check_no_nulls(array._meta)
    question = _shards.Question.of(k, axis, array.ndim, largest, order,
                                   data_type, servers, shared_memory,
                                   client_options)
    k, axis = question.spec.k, question.spec.axis % array.ndim
    if any(np.isnan(size) for size in array.chunks[axis]):
        raise ValueError(f"the chunks' sizes along axis {axis} are unknown; "
                         "call array.compute_chunk_sizes() first, or pass "
                         "series.to_dask_array(lengths=True)")
    if k > array.shape[axis]:
        raise ValueError(f"k = {k} exceeds dimension {array.shape[axis]} along "
                         f"axis {axis}")
    # The intermediate chunks are Python objects, e.g. Partials, not arrays.
    meta = np.empty((0,) * array.ndim, object)
    merged = da.reduction(
        array.map_blocks(_located, axis=axis, dtype=object, meta=meta),
        functools.partial(topk_shard, question=question), topk_merge,
        combine=topk_merge, axis=axis, keepdims=True, dtype=object, meta=meta,
        split_every=split_every, concatenate=False)
    chunks = (*array.chunks[:axis], (k,), *array.chunks[axis + 1:])
    return (merged.map_blocks(topk_values, dtype=array.dtype, chunks=chunks,
                              meta=np.empty(meta.shape, array.dtype)),
            merged.map_blocks(topk_indices, dtype=np.int64, chunks=chunks,
                              meta=np.empty(meta.shape, np.int64)))


# Dask's dashboard shows the names of the functions below as task names.


def _located(block: Any, axis: int, block_info: Any = None) -> Tuple[Any, int]:
    """Returns the chunk and its start on the axis."""
    return block, block_info[0]["array-location"][axis][0]


def topk_shard(located: Tuple[Any, int], question: _shards.Question,
               axis: Any, keepdims: bool) -> Partial:
    block, begin = located
    return _shards.answer(block, int(begin), question)


def topk_merge(partials: Union[Partial, List[Any]], axis: Any,
               keepdims: bool) -> Partial:
    return merge(
        flatten(partials) if isinstance(partials, list) else [partials])


def topk_values(partial: Partial) -> Array:
    return partial.values


def topk_indices(partial: Partial) -> Array:
    return partial.indices


@sizeof.register(Partial)
def _bytes_of(partial: Partial) -> int:
    return partial.values.nbytes + partial.indices.nbytes
