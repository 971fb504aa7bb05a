"""TopK of arrays in Ray's object store or of a Ray dataset: topkd computes each
shard, and Ray tasks merge the results.

Needs topk_client[ray] on the driver and the workers.
"""

import dataclasses
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np
import ray
import ray.data

from topk_client import _shards
from topk_client._dtypes import Array
from topk_client.merge import Partial, merge
from topk_client.messages import check_no_nulls

# The partial result of consecutive shards, and their total size along the axis.
# Indices are relative to the first of these shards. When parts are merged, the
# sizes of the preceding parts are added to the indices.
_Part = Tuple[Partial, int]


def topk(shards: Any, k: int, axis: int = -1, largest: bool = True, *,
         order: str = "value",
         servers: Union[str, Sequence[str]] = "localhost:50051",
         shared_memory: bool = False, data_type: Optional[str] = None,
         split_every: int = 8, column: Optional[str] = None,
         **client_options: Any) -> Tuple[Any, Any]:
    """Returns (values, indices) of the k largest or smallest elements along the
    axis.

    The results are byte-identical to those of one server over the whole array.
    Returns references without waiting for the results, but a dataset is
    materialized first.

    Args:
      shards: one of
        - a list of references to NumPy arrays: the pieces, in order, of an
          array that was cut along the axis;
        - an object array, or nested lists, of references: the chunks of an
          array with that number of dimensions, cut along each of them;
        - a Ray dataset, whose rows are the first axis.
      k: 1 .. the size along the axis.
      order: whether to sort the selected elements by "value" or by "index".
      servers, shared_memory, data_type, client_options: see
        topk_client.dask.topk.
      split_every: how many partial results are merged at once, at least 2.
      column: the column that contains the arrays, required for a dataset.

    Returns:
      Two object arrays of references, arranged like the shards, with one
      reference along the axis. For a dataset, two datasets with the column
      "data".

    The tasks are named topk_shard and topk_merge. If a worker is lost, Ray runs
    its task again. Getting a reference raises TopKError if no server answered,
    ValueError if there are fewer than k elements, and TypeError for masked
    arrays. Raises TypeError if the column has nulls.
    """
    if split_every < 2:
        raise ValueError(f"split_every = {split_every} is less than 2")
    is_dataset = isinstance(shards, ray.data.Dataset)
    if is_dataset:
        if column is None:
            raise ValueError("column is required for a dataset")
        shards = shards.materialize()
        if shards.map_batches(_count_nulls, batch_size=None, batch_format=None,
                              fn_args=(column,)).sum("nulls"):
            raise TypeError(f"column {column} has nulls, which are not "
                            "supported")
        shards = shards.to_numpy_refs(column=column)
    grid = np.array(shards, object)
    if not grid.size:
        raise ValueError("there are no shards")
    if is_dataset:
        rank = ray.get(_rank.remote(grid[0]))
        grid = grid.reshape((-1,) + (1,) * (rank - 1))
    # The shards of a flat list are cut along `axis` and may have any rank.
    a_list = grid.ndim == 1 and not is_dataset
    question = _shards.Question.of(
        k, axis, None if a_list else grid.ndim, largest, order, data_type,
        servers, shared_memory, client_options)
    along = 0 if a_list else axis % grid.ndim
    lanes = np.moveaxis(grid, along, -1)
    values = np.empty((*lanes.shape[:-1], 1), object)
    indices = np.empty(values.shape, object)
    for place in np.ndindex(lanes.shape[:-1]):
        parts = [_shard.remote(shard, question) for shard in lanes[place]]
        while len(parts) > 1:
            parts = [_merge.remote(*parts[i:i + split_every])
                     for i in range(0, len(parts), split_every)]
        values[(*place, 0)], indices[(*place, 0)] = _outputs.remote(parts[0])
    values = np.moveaxis(values, -1, along)
    indices = np.moveaxis(indices, -1, along)
    if is_dataset:
        return (ray.data.from_numpy_refs(list(values.reshape(-1))),
                ray.data.from_numpy_refs(list(indices.reshape(-1))))
    return values, indices


def _count_nulls(block: Any, column: str) -> Any:
    """Returns a batch that contains 1 if the column has nulls, otherwise 0."""
    try:
        check_no_nulls(block[column])
    except TypeError:
        return {"nulls": np.array([1])}
    return {"nulls": np.array([0])}


@ray.remote(name="topk_rank")
def _rank(shard: Array) -> int:
    return shard.ndim


@ray.remote(name="topk_shard")
def _shard(shard: Array, question: _shards.Question) -> _Part:
    return (_shards.answer(shard, 0, question),
            shard.shape[question.spec.axis])


@ray.remote(name="topk_merge")
def _merge(*parts: _Part) -> _Part:
    partials: List[Partial] = []
    begin = 0
    for partial, size in parts:
        partials.append(dataclasses.replace(
            partial, indices=partial.indices + begin))
        begin += size
    return merge(partials), begin


@ray.remote(name="topk_outputs", num_returns=2)
def _outputs(part: _Part) -> Tuple[Array, Array]:
    partial, size = part
    if size < partial.k:
        raise ValueError(f"k = {partial.k} exceeds dimension {size} along axis "
                         f"{partial.axis}")
    return partial.values, partial.indices
