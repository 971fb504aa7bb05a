"""Merges the results for the shards of a longer axis.

    merge([Partial.of(client.compute_topk(shard, spec, index_offset=begin),
                      spec) for begin, shard in shards])

is byte-identical to the result of one server over the whole axis. For a shard
of fewer than k elements, select all of them, and pass `size` to Partial.of().
"""

import dataclasses
from typing import Any, Dict, Iterable, Optional, Sequence

import numpy as np

from topk_client import _dtypes
from topk_client._dtypes import Array
from topk_client.messages import Response, array_of, widened
from topk_client.specs import Spec, converted


@dataclasses.dataclass(frozen=True, eq=False)
class Partial:
    """The result for one shard of a longer axis, with the attributes of its
    request.

    Raises ValueError if the arrays' shapes differ, the axis is out of range,
    there are more than k elements along the axis, or fewer although the shard
    has more, the size is less than the number of elements, an index is outside
    0 .. 2^63-1, or the values are not of the data type. Raises TypeError if the
    service does not support the element type or the index type, and for masked
    arrays and other objects than NumPy arrays.

    Attributes:
      values: the selected elements, min(k, the shard's size) along the axis.
      indices: the positions of the elements along the axis.
      k: the requested number of elements. A shard may have fewer.
      axis: -r .. r-1 for arrays of rank r. Stored as 0 .. r-1.
      largest: whether the largest elements were selected.
      order: whether the elements are sorted by "value" or by "index".
      data_type: the element type, named as in Request.data_type. By default,
        the type of the values' dtype.
      size: the shard's size along the axis; 0 = unknown. Required if it is less
        than k. The result of merge() has the total size of the partials.
    """

    values: Array
    indices: Array
    k: int
    axis: int = -1
    largest: bool = True
    order: str = "value"
    data_type: Optional[str] = None
    size: int = 0

    def __post_init__(self) -> None:
        array: Any
        for name, array in ("values", self.values), ("indices", self.indices):
            _dtypes.check_unmasked(name, array)
            if not isinstance(array, np.ndarray):
                raise TypeError(f"{name} is a {type(array).__name__}, not a "
                                "NumPy array")
        for name, kind in (("k", int), ("axis", int), ("size", int),
                           ("largest", bool)):
            object.__setattr__(self, name, converted(name, kind,
                                                     getattr(self, name)))
        shape = self.values.shape
        if self.indices.shape != shape:
            raise ValueError(f"values have shape {shape}, but indices have "
                             f"shape {self.indices.shape}")
        if not -len(shape) <= self.axis < len(shape):
            raise ValueError(
                f"axis = {self.axis} is out of range for shape {shape}")
        if self.k < 1 or shape[self.axis] > self.k:
            raise ValueError(f"k = {self.k} must be at least 1 and not less "
                             f"than the axis size, {shape[self.axis]}")
        if shape[self.axis] < self.k and shape[self.axis] != self.size:
            raise ValueError(
                f"there are {shape[self.axis]} elements along the axis, fewer "
                f"than k = {self.k}, which must be all of the shard, but size "
                f"= {self.size}")
        if self.size < shape[self.axis] and self.size != 0:
            raise ValueError(f"size = {self.size} must be 0 or not less than "
                             f"the axis size, {shape[self.axis]}")
        if self.indices.dtype.name not in ("int32", "int64", "uint32",
                                           "uint64"):
            raise TypeError(f"the indices are {self.indices.dtype}; they must "
                            "be int32, int64, uint32 or uint64")
        indices = np.asarray(self.indices)
        low, high = int(indices.min(initial=0)), int(indices.max(initial=0))
        if low < 0 or high >= 1 << 63:
            raise ValueError(f"index {low if low < 0 else high} is outside 0 "
                             ".. 2^63-1")
        if self.order not in ("value", "index"):
            raise ValueError(f"order = {self.order!r} is not value or index")
        for name, value in (
                ("axis", self.axis % len(shape)),
                ("data_type", _dtypes.name_of(_dtypes.kind_of(
                    self.values.dtype, None, self.data_type)[0]))):
            object.__setattr__(self, name, value)

    def _asked(self) -> Dict[str, Any]:
        """Returns what the partials of an axis have in common."""
        sizes = [*self.values.shape]
        del sizes[self.axis]
        return {"k": self.k, "data_type": self.data_type,
                "dtype": str(self.values.dtype), "axis": self.axis,
                "shape without the axis": tuple(sizes), "largest": self.largest,
                "order": self.order, "index type": str(self.indices.dtype)}

    @classmethod
    def of(cls, response: Response, spec: Spec, *, k: Optional[int] = None,
           data_type: Optional[str] = None, size: int = 0) -> "Partial":
        """Returns a server's response for a shard as a Partial, with NumPy
        arrays. Without `data_type`, the PyTorch types that NumPy lacks become
        float32. `k` is the number of elements to select from the whole axis.
        Pass it and the shard's `size` along the axis if the shard is shorter.
        Raises ValueError if the response lacks the values or the indices."""
        if response.values is None or response.indices is None:
            raise ValueError("a partial needs both values and indices")
        values = (array_of(response.values)[0] if data_type
                  else widened(response.values))
        return cls(values, np.asarray(response.indices),
                   spec.k if k is None else k, spec.axis, *spec._selection,
                   data_type, size)


def merge(partials: Iterable[Partial]) -> Partial:
    """Merges the results for the shards. Associative and commutative.

    The result is again a Partial, with min(k, the total number of elements in
    the partials) elements along the axis.

    Indices must be positions on the whole axis: set index_offset in the
    requests.

    Raises ValueError if
    - there are no partials,
    - partials differ in k, type, axis, sizes along other axes, direction, order
      or index type,
    - order is "value" and the elements of a partial are not in order, or
    - an index is selected twice (indices that are not selected are not
      compared).
    Raises TypeError for other objects than Partials.
    """
    parts = list(partials)
    part: Any
    for number, part in enumerate(parts):
        if not isinstance(part, Partial):
            raise TypeError(f"partial {number} is a {type(part).__name__}, not "
                            "a Partial")
    if not parts:
        raise ValueError("there is no partial to merge")
    first = parts[0]
    for number, part in enumerate(parts):
        for (name, ours), theirs in zip(first._asked().items(),
                                        part._asked().values()):
            if theirs != ours:
                raise ValueError(f"{name} is {theirs!r} in partial {number}, "
                                 f"but {ours!r} in partial 0")

    def joined(arrays: Iterable[Array]) -> Array:
        return np.moveaxis(np.concatenate(list(arrays), first.axis),
                           first.axis, -1)

    values = joined(part.values for part in parts)
    indices = joined(part.indices for part in parts)
    assert first.data_type is not None
    keys = _dtypes.ordered_keys(values, first.data_type)
    if first.largest:
        keys = ~keys
    if first.order == "value":
        _check_order(parts, keys, indices)
    chosen = np.lexsort((indices, keys), axis=-1)[..., :first.k]
    chosen_indices = np.take_along_axis(indices, chosen, -1)
    ascending = np.argsort(chosen_indices, axis=-1)
    ordered = np.take_along_axis(chosen_indices, ascending, -1)
    twice = ordered[..., 1:] == ordered[..., :-1]
    if twice.any():
        raise ValueError(f"index {ordered[..., 1:][twice][0]} is in two "
                         "partials: the shards overlap, or their "
                         "index_offset is missing or wrong")
    if first.order == "index":
        chosen = np.take_along_axis(chosen, ascending, -1)

    def selected(array: Array) -> Array:
        return np.ascontiguousarray(np.moveaxis(
            np.take_along_axis(array, chosen, -1), -1, first.axis))

    return dataclasses.replace(first, values=selected(values),
                               indices=selected(indices),
                               size=sum(max(part.size, part.values.shape[
                                   part.axis]) for part in parts))


def _check_order(parts: Sequence[Partial], keys: Array,
                 indices: Array) -> None:
    after = (keys[..., 1:] > keys[..., :-1]) | (
        (keys[..., 1:] == keys[..., :-1]) & (indices[..., 1:]
                                             > indices[..., :-1]))
    begin = 0
    for number, part in enumerate(parts):
        end = begin + part.values.shape[part.axis]
        if not after[..., begin:max(end - 1, begin)].all():
            raise ValueError(f"partial {number} is not sorted by value (equal "
                             "values by index)")
        begin = end
