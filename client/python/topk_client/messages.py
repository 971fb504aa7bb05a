"""Converts between NumPy arrays and the messages of requests and responses.

Protobuf encodes all fields except the tensor bytes, which it would copy three
times. This module copies them once, into the message that is passed to gRPC.
Call rate, relative to a stub that sends prepared messages:

    tensor        protobuf   this module
    1, 64 KiB       0.95       0.98
    1, 4 MiB        0.2        0.7 to 0.9
"""

import dataclasses
import functools
import importlib
import itertools
import math
import sys
from typing import (TYPE_CHECKING, Any, Dict, Generic, Iterator, NamedTuple,
                    Optional, Protocol, Set, Tuple, Type, TypeVar, Union, cast)

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError, Message

from topk_client import _cuda, _dtypes
from topk_client._dtypes import Array, DType
from topk_client._stubs import tensor_pb2, topk_pb2
from topk_client.errors import TopKError, bad_response, from_status
from topk_client.shared_memory import Region, SharedMemory
from topk_client.specs import AnyOnnx, Operator, Spec, converted, integer

# Larger tensors are streamed. Smaller tensors are faster in a single message,
# because grpcio, unlike gRPC in C++, passes each chunk to another thread. A
# server in a container of 144 MiB accepts 6 MiB of a client's messages.
_STREAMED_BYTES = 5 << 20
# Chunks of 1 to 4 MiB are equally fast. All servers accept messages of 16 MiB.
_CHUNK_BYTES = 2 << 20
# Protobuf does not support larger messages.
_MAX_MESSAGE_BYTES = 2**31 - 1
# Encoding more bytes than this may take a millisecond or longer.
HEAVY_BYTES = 1 << 20
_TENSOR_FIELD = topk_pb2.TopKRequest.TENSOR_FIELD_NUMBER
_DATA_FIELD = tensor_pb2.Tensor.DATA_FIELD_NUMBER
# The DLPack device types whose memory the CPU can read: CPU memory and pinned
# memory.
_CPU_DEVICES = (1, 3, 11)
# The NumPy types of indices, by DataType.
_INDEX_TYPES = {
    _dtypes.number_of(name): _dtypes.little_endian_type(np.dtype(numpy_name))
    for name, numpy_name in _dtypes.NUMPY_NAMES.items()
    if name in ("i32", "i64", "u32", "u64")}

_SELECTIONS = {
    "both": topk_pb2.OUTPUT_SELECTION_UNSPECIFIED,
    "values": topk_pb2.OUTPUT_SELECTION_VALUES_ONLY,
    "indices": topk_pb2.OUTPUT_SELECTION_INDICES_ONLY,
}


A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class SupportsDLPack(Protocol):
    """An array that another library exports with DLPack."""

    def __dlpack__(self) -> Any:
        ...

    def __dlpack_device__(self) -> Tuple[Any, int]:
        ...


class Tensor(Protocol[A_co]):
    """A PyTorch tensor. A_co is torch.Tensor."""

    def bfloat16(self) -> A_co:
        ...


M = TypeVar("M", bound=Message)
# An array, PyTorch tensor, buffer or list of numbers. Copied only if needed.
ArrayLike = Union[npt.ArrayLike, SupportsDLPack]


@dataclasses.dataclass(eq=False)
class Request:
    """One tensor and the operator to apply to it.

    Attributes:
      tensor: an array, anything that can be converted to one (see ArrayLike),
        a tensor on an NVIDIA GPU (see topk()), or a region of shared memory. A
        non-contiguous array is copied once.
      spec: Onnx, OpenVINO or DirectML.
      output: "both", "values" or "indices". An output that is not requested is
        neither computed nor sent.
      values_out, indices_out: regions to write the outputs to, with arrays of
        the outputs' types. The response's arrays are then in these regions.
      request_id: returned with the response and written to the server's log.
      index_offset: added to every index. For a tensor that is a shard of a
        longer axis, this is the shard's start on the axis.
      data_type: the element type of an array of bits, for types that NumPy
        lacks: "bf16" for bits in uint16, "f8e4m3" for bits in uint8. Numbers
        are never converted. For types of less than a byte ("u1", "u2", "u3",
        "u4", "u6", "i4", "nf4", "f4e2m1"), pass one element per uint8 with bits
        0 .. 2^width - 1; "i4" also takes int8. The elements are packed for
        transport and unpacked in the response.
    """

    tensor: Union[ArrayLike, Region]
    spec: Spec
    output: str = "both"
    values_out: Optional[Region] = None
    indices_out: Optional[Region] = None
    request_id: str = ""
    index_offset: int = 0
    data_type: Optional[str] = None


class Execution(NamedTuple):
    """How a response was computed. Never affects the outputs."""

    backend: str
    kernel: str
    instruction_set: str
    compute_nanoseconds: int


if TYPE_CHECKING:
    class TopK(NamedTuple, Generic[A]):
        values: A
        indices: A
else:  # before Python 3.11, a NamedTuple cannot be Generic
    class TopK(NamedTuple):
        """The result of topk(). Unpacks into (values, indices).

        Attributes:
          values: the selected elements: an array, or a PyTorch tensor if the
            input was one. On the GPU if the input was there.
          indices: the positions of the elements along the axis, as int64.
        """

        values: Any
        indices: Any


@dataclasses.dataclass(eq=False)
class Response:
    """The selected elements and their indices. Unpacks into (values, indices).

    Attributes:
      values: an array of the tensor's type and shape, but with k elements along
        the axis. A PyTorch tensor if the input was one. On the GPU if the input
        was there. None if not requested.
      indices: the positions along the axis, of the operator's index type, in
        the same form as the values. None if not requested.
      request_id: the request_id of the request.
      execution: how the response was computed.

    The arrays are writable. They are in shared memory if the request had regions
    for the outputs. Otherwise, the caller owns them.
    """

    values: Any
    indices: Any
    request_id: str
    execution: Execution

    def __iter__(self) -> Iterator[Any]:
        return iter((self.values, self.indices))


def _columns(tensor: Any) -> Any:
    """Returns the columns of a DataFrame or a table of pandas, polars or
    pyarrow. Returns an empty list for other objects."""
    if hasattr(tensor, "iterrows"):  # pandas
        return [column for _, column in tensor.items()]
    return list(getattr(tensor, "itercolumns",
                        getattr(tensor, "iter_columns", tuple))())


def _column_types(tensor: Any) -> Set[str]:
    """Returns the names of the types of the columns that _columns() returns."""
    if hasattr(tensor, "itercolumns"):
        return {*map(str, tensor.schema.types)}
    is_table = hasattr(tensor, "iterrows") or hasattr(tensor, "iter_columns")
    return {*map(str, tensor.dtypes)} if is_table else set()


def check_no_nulls(tensor: Any) -> None:
    """Raises TypeError for masked arrays, and for nulls of pyarrow, polars and
    pandas. NumPy would ignore masks, and convert nulls to NaNs, which are above
    all numbers."""
    _dtypes.check_unmasked("tensor", tensor)
    parts: Any = ()
    nulls: Any = 0
    dtype: Any = getattr(tensor, "dtype", None)
    if issubclass(type(tensor), (list, tuple)):
        if not set(map(type, tensor)) <= {bool, int, float}:  # fast path
            parts = tensor
    elif not hasattr(tensor, "null_count") and (columns := _columns(tensor)):
        parts = columns
    elif hasattr(tensor, "null_count") and hasattr(tensor, "__array__"):
        nulls = tensor.null_count
        if callable(nulls):  # polars
            if hasattr(tensor, "reshape"):  # a Series of arrays
                tensor = tensor.reshape((-1,))
            nulls = tensor.null_count()
        # pyarrow does not count the nulls of encoded arrays.
        encoding = str(getattr(tensor, "type", ""))
        if encoding.startswith("dictionary<"):
            nulls = tensor.cast(tensor.type.value_type).null_count
        elif encoding.startswith("run_end_encoded<"):
            compute = importlib.import_module("pyarrow.compute")
            nulls = compute.run_end_decode(tensor).null_count
    # A categorical or a nullable type of pandas.
    elif hasattr(dtype, "categories") or not isinstance(
            getattr(dtype, "na_value", 0.0), float):
        nulls = tensor.isna()
    if np.asarray(nulls).any():
        raise TypeError("the tensor has nulls, which are not supported: pass "
                        "tensor.fill_null(value), or tensor.fillna(value) in "
                        "pandas")
    for part in parts:
        check_no_nulls(part)


def _rounded(integers: Array) -> Array:
    """Returns those that f64 does not hold exactly."""
    large = integers[(integers > 2**53) | (integers < -2**53)]
    floats = large.astype(np.float64)
    # The largest integers become 2^63 or 2^64, which do not convert back.
    fits = floats < 2.0**(64 if large.dtype.kind == "u" else 63)
    rounded: Array = large[
        np.where(fits, floats, 0).astype(large.dtype) != large]
    return rounded


def _exact(array: Array, numbers: Any) -> Array:
    """Returns the array of a list, as i64 or u64 if NumPy would round integers
    to f64. Raises ValueError if neither can hold all of them, or if a list with
    other numbers has an integer that f64 does not hold exactly."""
    if array.dtype != object and not (array.dtype == np.float64 and (
            np.abs(array[np.isfinite(array)]) >= 2.0**53).any()):
        return array
    if {*map(type, numbers)} <= {float}:
        return array
    rounded: Any = []
    if all(isinstance(part, np.ndarray) for part in numbers) and any(
            part.dtype.kind == "f" for part in numbers):
        rounded = [number for part in numbers if part.dtype.kind in "iu"
                   for number in _rounded(part)]
    else:
        exact, kinds = np.array(numbers, object), cast(Any, (int, np.integer))
        integers = [int(number) for number in exact.flat
                    if isinstance(number, kinds)]
        if integers and len(integers) == exact.size:
            low, high = exact.min(), exact.max()
            if high >= 1 << (63 if low < 0 else 64) or low < -1 << 63:
                raise ValueError(f"the tensor has integers from {low} to "
                                 f"{high}, which fit neither in i64 nor in u64")
            return exact.astype(np.int64 if high < 1 << 63 else np.uint64)
        if array.dtype != object:
            rounded = [number for number in integers
                       if int(float(number)) != number]
    if rounded:
        raise ValueError(f"the tensor has the integer {rounded[0]}, which f64 "
                         "cannot hold exactly, and floats")
    return array


def array_of(tensor: Any) -> Tuple[Array, Optional[str], Any]:
    """Converts a tensor to an array, without a copy if possible. Also returns
    the short name of the element type if NumPy lacks it, and the dtype if it is
    a PyTorch tensor. Raises TypeError for masked arrays, nulls, tensors that
    require grad, and tensors on other devices, and ValueError for integers that
    would be rounded."""
    check_no_nulls(tensor)
    torch = sys.modules.get("torch")
    is_torch = torch is not None and isinstance(tensor, torch.Tensor)
    device = getattr(tensor, "__dlpack_device__", None)
    if (tensor.device.type != "cpu" if is_torch else
            device is not None and device()[0] not in _CPU_DEVICES):
        raise TypeError(
            f"the tensor is on {getattr(tensor, 'device', 'another device')}: "
            "copy it to the CPU first, in PyTorch with tensor.cpu(), in CuPy "
            "with tensor.get()")
    if is_torch:
        tensor = _cuda.resolved(tensor)
        dtype = tensor.dtype
        name, bits = _cuda.TORCH_TYPES.get(str(dtype), (None, None))
        if bits is not None:
            tensor = tensor.view(getattr(torch, bits))
        return tensor.numpy(), name, dtype
    if device is not None and not hasattr(tensor, "__array__"):
        return np.from_dlpack(tensor), None, None
    # pandas converts nullable types to Python objects unless told otherwise.
    array: Array = np.asarray(tensor, getattr(
        getattr(tensor, "dtype", None), "numpy_dtype", None))
    types: Set[str] = set()
    if array.dtype == np.float64:
        types = _column_types(tensor)
    # Integers in columns of different types may have been rounded to f64.
    if (len(types) > 1 and "int64" in str(types).lower()) or (
            array.dtype == object and hasattr(tensor, "iterrows")):
        arrays = [array_of(column)[0] for column in _columns(tensor)]
        for array in arrays:
            if array.dtype.kind not in "biuf":
                _dtypes.short_name_of(array.dtype)  # raises TypeError
        return array_of(arrays)[0].T, None, None
    if issubclass(type(tensor), (list, tuple)):
        array = _exact(array, tensor)
    if array.dtype == object:
        raise TypeError(f"the tensor is a {type(tensor).__name__}, which NumPy "
                        "does not convert to numbers: replace None and nulls, "
                        "pass tensor.to_numpy(dtype) in pandas, "
                        "np.stack(tensor) for a column of lists, and "
                        "list(tensor) for an iterator or a set")
    return array, None, None


def widened(tensor: Any) -> Array:
    """Converts a tensor to an array. The PyTorch types that NumPy lacks become
    float32, which represents their elements exactly."""
    array, name, _ = array_of(tensor)
    return array if name is None else np.asarray(tensor.float())


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def _begin_field(number: int, size: int) -> bytes:
    """Returns the tag and the length of a bytes or message field."""
    return _varint(number << 3 | 2) + _varint(size)


def _name(memory: SharedMemory, array: Array, region: Any) -> None:
    """Sets `region` to the part of the shared memory that holds a contiguous
    array. Raises ValueError if the array is not in that memory."""
    region.name = memory.name
    region.offset = memory.offset_of(array)
    region.byte_size = array.nbytes


def _name_output(field: str, out: Any, data_type: str, region: Any) -> None:
    """Sets `region` to the part of the shared memory for an output. Raises
    TypeError if `out` is not a Region, and ValueError if the elements of its
    array are not of the output's type."""
    if not isinstance(out, Region):
        raise TypeError(f"{field} is a {type(out).__name__}, not a Region")
    if not _dtypes.holds(out.array.dtype, data_type):
        raise ValueError(f"{field} is an array of {out.array.dtype}, but the "
                         f"output's elements are {data_type}")
    # _name() rejects copies of strided or big-endian arrays.
    _name(out.memory, np.asarray(_dtypes.little_endian(out.array), order="C"),
          region)


def parse(kind: Type[M], data: Optional[bytes]) -> M:
    """Parses a message of type `kind`. Raises BAD_ANSWER if it is malformed."""
    try:
        if data is None:  # with grpc.aio, a call may end without a message
            raise DecodeError
        return kind.FromString(data)
    except DecodeError:
        raise bad_response(
            "not a message that the method returns") from None


# Without this cache, a client sends up to 15% fewer small requests per second.
# typed=True distinguishes 1, True and 1.0, which are not all valid arguments.
@functools.lru_cache(maxsize=256, typed=True)
def _encoded(kind: Any, output: str, index_offset: Any, data_type: Any,
             shape: Tuple[int, ...], nbytes: int, *attributes: Any
             ) -> Tuple[bytes, bytes]:
    """Encodes a request without its id, elements and regions. `kind` is the
    class of the operator. Also returns the fields that begin `nbytes` bytes of
    elements."""
    if output not in _SELECTIONS:
        raise ValueError(f"output is {output!r}; it must be one of "
                         + ", ".join(_SELECTIONS))
    request = topk_pb2.TopKRequest(
        tensor={"data_type": data_type, "shape": shape},
        output={"selection": _SELECTIONS[output]},
        index_offset=integer("index_offset", index_offset))
    kind(*attributes)._fill_request(request)
    data = _begin_field(_DATA_FIELD, nbytes)
    # Parsers merge this tensor with that of the request.
    tensor = _begin_field(_TENSOR_FIELD, len(data) + nbytes)
    return request.SerializeToString(), tensor + data


class Call:
    """Encodes the messages of one request and decodes its response."""

    _spec: Any  # an Operator
    # The tensor's dtype if it is a PyTorch tensor.
    _torch_dtype: Any = None
    # Set if the tensor is on a GPU.
    _gpu: Optional[_cuda.Memory] = None
    # Whether the elements are not in the message.
    _is_elsewhere = False

    def __init__(self, request: Request) -> None:
        """Raises TypeError or ValueError for arguments that cannot be put into
        a message. The service checks everything else."""
        if not isinstance(request, Request):
            raise TypeError(f"the request is a {type(request).__name__}, not a "
                            "Request")
        spec: Any = request.spec
        if not isinstance(spec, Operator):
            raise TypeError(f"spec is {spec!r}; it must be an instance of "
                            "Onnx, OpenVINO or DirectML")
        tensor: Any = request.tensor
        array: Array = tensor
        region: Optional[Region] = None
        name: Optional[str] = None
        if type(tensor) is not np.ndarray:
            if isinstance(tensor, Region):
                region, tensor = tensor, tensor.array
            array, name = self._converted(tensor)
        self._request = request
        # The values have the same type as the tensor.
        self._data_type, bits, self._packed, self._dtype = _dtypes.kind_of(
            array.dtype, name, request.data_type)
        if type(spec) is AnyOnnx:
            spec = spec.operator_for(self._data_type)
        self._spec = spec
        self._array = array
        nbytes = -(-array.size * bits // 8)
        in_region = region is not None or self._gpu is not None
        # The number of tensor bytes to send.
        self.nbytes = 0 if in_region else nbytes
        # The message without the elements, and what precedes them.
        how: Any = (self._spec.__class__, request.output, request.index_offset,
                    self._data_type, array.shape, self.nbytes,
                    *vars(spec).values())
        try:
            self._header, self._before = _encoded(*how)
        except TypeError:  # an invalid or unhashable argument, e.g. a list
            self._header, self._before = _encoded.__wrapped__(*how)
        if (in_region or request.request_id or request.values_out is not None
                or request.indices_out is not None):
            self._add_fields(region, nbytes)

    def _converted(self, tensor: Any) -> Tuple[Array, Optional[str]]:
        """Returns the tensor as an array, and the short name of the element
        type if NumPy lacks it. For a tensor on a GPU, returns an array of the
        same shape and type."""
        on_gpu = _cuda.cuda_tensor_of(tensor)
        if on_gpu is None:
            array, name, self._torch_dtype = array_of(tensor)
            return array, name
        self._gpu = _cuda.Memory(on_gpu)
        return (np.broadcast_to(np.zeros((), on_gpu.dtype), on_gpu.shape),
                on_gpu.name)

    def _add_fields(self, region: Optional[Region], nbytes: int) -> None:
        """Adds the request's id and its regions to the message."""
        request = self._request
        if self._packed and (region is not None or self._gpu is not None
                             or request.values_out is not None):
            raise TypeError(f"elements of type {self._packed} cannot be in "
                            "shared memory or on a GPU, because they are sent "
                            "packed")
        more = topk_pb2.TopKRequest(
            request_id=converted("request_id", str, request.request_id))
        if request.values_out is not None:
            _name_output("values_out", request.values_out,
                         _dtypes.name_of(self._data_type), more.output.values)
        if request.indices_out is not None:
            _name_output("indices_out", request.indices_out,
                         self._spec._index_type, more.output.indices)
        if region is not None:
            self._is_elsewhere = True
            _name(region.memory,
                  np.asarray(self._array, self._dtype, order="C"),
                  more.tensor.shared_memory)
        if self._gpu is not None:
            self._add_outputs(more)
            if nbytes > 0:  # empty tensors have no memory
                self._is_elsewhere = True
                self._gpu.tensor.export(more.tensor.cuda_memory)
        # Parsers merge the two parts.
        self._header += more.SerializeToString()

    def _add_outputs(self, more: topk_pb2.TopKRequest) -> None:
        """Allocates the outputs on the GPU, and adds their regions to the
        request. Does nothing if k, the axis or the type of the indices is
        wrong, which is an error of the server."""
        assert self._gpu is not None
        request, k, axis = self._request, self._spec.k, self._spec.axis
        shape = [*self._array.shape]
        index = _dtypes.NUMPY_NAMES.get(self._spec._index_type)
        if index is None or not (
                -len(shape) <= axis < len(shape) and 0 < k <= shape[axis]):
            return
        shape[axis] = k
        for name, other, out, dtype, region in (
                ("values", "indices", request.values_out, None,
                 more.output.cuda_values),
                ("indices", "values", request.indices_out, np.dtype(index),
                 more.output.cuda_indices)):
            if request.output == other or out is not None:
                continue
            created = self._gpu.tensor.empty(tuple(shape), dtype)
            if created is not None:
                self._gpu.outputs[name] = created
                on_gpu = _cuda.cuda_tensor_of(created)
                if on_gpu is not None and 0 not in shape:
                    # Waits for earlier work in the stream, which may still use
                    # the memory.
                    on_gpu.export(region)

    def _data(self) -> Any:
        """Returns the elements in their wire format. Raises TypeError or
        ValueError if they cannot be packed."""
        data: Any = np.asarray(self._array, self._dtype, order="C")
        return _dtypes.pack(data, self._packed) if self._packed else data

    def is_streamed(self, wanted: Optional[bool]) -> bool:
        """Returns whether to use StreamTopK: the value of `wanted`, or by
        default, whether the tensor is large. Raises ValueError if streaming is
        wanted for a tensor in shared memory."""
        if self._is_elsewhere:
            if wanted:
                raise ValueError("a tensor in shared memory or on a GPU cannot "
                                 "be streamed")
            return False
        return (self.nbytes > _STREAMED_BYTES if wanted is None
                else bool(converted("stream", bool, wanted)))

    def message(self) -> bytes:
        """Returns the ComputeTopK message. Raises ValueError if it is too
        large for protobuf."""
        if self._is_elsewhere:
            return self._header
        size = len(self._header) + len(self._before) + self.nbytes
        if size > _MAX_MESSAGE_BYTES:
            raise ValueError(f"the request has {size} bytes, more than the "
                             f"limit of a message, {_MAX_MESSAGE_BYTES}: pass "
                             "stream=True to compute_topk()")
        return b"".join((self._header, self._before, self._data()))

    def chunks(self) -> Iterator[bytes]:
        """Returns the StreamTopK messages."""
        data = self._data().reshape(-1).view(np.uint8)
        size, header = _CHUNK_BYTES, self._header
        return itertools.chain(
            (_begin_field(topk_pb2.TopKRequestChunk.HEADER_FIELD_NUMBER,
                          len(header)) + header,),
            (b"".join((_begin_field(
                topk_pb2.TopKRequestChunk.DATA_FIELD_NUMBER,
                min(size, data.size - begin)), data[begin:begin + size]))
             for begin in range(0, data.size, size)))

    def decode(self, message: topk_pb2.TopKResponse,
               data: Optional[Dict[str, bytearray]] = None) -> Response:
        """Decodes a response. `data` has the bytes of the outputs if they are
        not in the message. Raises TopKError BAD_ANSWER if the type, the shape
        or the number of bytes of an output is wrong."""
        request = self._request
        values: Any = None
        indices: Any = None
        if request.output != "indices":
            dtype: Any = (self._dtype if message.values.data_type ==
                          self._data_type else None)
            values = self._output("values", message.values, dtype, data,
                                  request.values_out)
        if request.output != "values":
            dtype = _INDEX_TYPES.get(message.indices.data_type)
            indices = self._output("indices", message.indices, dtype, data,
                                   request.indices_out)
        if self._torch_dtype is not None:
            from_numpy: Any = sys.modules["torch"].from_numpy
            if values is not None:
                values = from_numpy(values).view(self._torch_dtype)
            if indices is not None:
                indices = from_numpy(indices)
        if self._gpu is not None:
            self._gpu.is_answered = True
        e = message.execution
        return Response(values, indices, message.request_id, Execution(
            e.backend, e.kernel, e.instruction_set, e.compute_nanoseconds))

    def _output(self, name: str, tensor: tensor_pb2.Tensor,
                dtype: Optional[DType], data: Optional[Dict[str, bytearray]],
                out: Optional[Region]) -> Any:
        """Returns one output as an array, or as a tensor on a GPU. `dtype` is
        None if the type is wrong."""
        shape, expected = tensor.shape[:], [*self._array.shape]
        expected[int(self._spec.axis)] = self._spec.k
        if dtype is None or shape != expected:
            raise bad_response(f"type {tensor.data_type}, shape {shape}",
                               "response." + name)
        if self._gpu is not None and name in self._gpu.outputs:
            if math.prod(shape) and not tensor.HasField("cuda_memory"):
                raise bad_response("not in the memory of the request",
                                   "response." + name)
            return self._gpu.outputs[name]
        array: Array
        if out is not None and tensor.HasField("shared_memory"):
            array = np.ndarray(shape, dtype, out.memory.buffer,
                               tensor.shared_memory.offset)
            return array
        content = data[name] if data else bytearray(tensor.data)
        count = math.prod(shape)
        packed = self._packed if name == "values" else None
        bits = _dtypes.WIDTHS[packed] if packed else 8 * dtype.itemsize
        if len(content) != -(-count * bits // 8):
            raise bad_response(f"{len(content)} bytes for shape {shape}",
                               "response." + name)
        if packed:
            return _dtypes.unpack(np.frombuffer(content, np.uint8), count,
                                  dtype, packed).reshape(shape)
        array = np.ndarray(shape, dtype, content)
        return array

    def explained(self, error: TopKError) -> TopKError:
        """Returns an error of this call. Adds what to do if the server cannot
        use a tensor on a GPU."""
        if self._gpu is not None:
            self._gpu.explain(error)
        return error

    def read_result(self, data: bytes) -> Union[Response, TopKError]:
        """Decodes a TopKResult of ComputeTopKMany."""
        result = parse(topk_pb2.TopKResult, data)
        if result.HasField("error"):
            return self.explained(from_status(result.error))
        return self.decode(result.response)


class StreamedResponse:
    """Assembles the response of a StreamTopK call from its messages."""

    def __init__(self, call: Call) -> None:
        self._call = call
        # None until a message has arrived.
        self.header: Optional[topk_pb2.TopKResponse] = None
        self._data = {"values": bytearray(), "indices": bytearray()}

    def add(self, message: bytes) -> None:
        """Adds the next message. Raises TopKError BAD_ANSWER if it is
        malformed."""
        chunk = parse(topk_pb2.TopKResponseChunk, message)
        kind: Any = chunk.WhichOneof("content")
        if kind == "header":
            self.header = chunk.header
            self._data["values"] += chunk.header.values.data
            self._data["indices"] += chunk.header.indices.data
        elif kind:
            self._data[kind] += getattr(chunk, kind)

    def response(self) -> Response:
        """Returns the complete response. Raises TopKError BAD_ANSWER if it is
        incomplete or wrong."""
        if self.header is None:
            raise bad_response("the stream ended without a header")
        return self._call.decode(self.header, self._data)
