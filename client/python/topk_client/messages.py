"""Converts between NumPy arrays and the messages of requests and answers.

Tensor bytes are not put into a protobuf message, which would copy them three
times. This module encodes the surrounding fields itself, and copies the bytes
once, into the message that is passed to gRPC. Call rate, relative to a stub
that sends prepared messages:

    tensor        protobuf   this module
    1, 64 KiB       0.95       0.98
    1, 4 MiB        0.2        0.7 to 0.9
"""

import dataclasses
import functools
import itertools
import math
import sys
from typing import (Any, Iterator, List, NamedTuple, Optional, Protocol, Tuple,
                    Type, TypeVar, Union)

import grpc
import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError, Message

from topk_client import _dtypes
from topk_client._dtypes import Array, DType
from topk_client._outputs import Output, Outputs
from topk_client._stubs import tensor_pb2, topk_pb2
from topk_client.errors import TopKError, bad_answer, from_status
from topk_client.shared_memory import Region
from topk_client.specs import Operator, Spec, integer

# Larger tensors are streamed. Smaller tensors are faster in a single message,
# because grpcio, unlike gRPC in C++, passes each chunk to another thread.
_STREAMED_BYTES = 8 << 20
# Chunks of 1 to 4 MiB are equally fast.
_CHUNK_BYTES = 2 << 20
# Upper bound on the bytes of the tags and lengths around a message's data.
_DATA_FIELDS = 32
# Tensors up to this size are sent without asking for the server's limit.
LARGE_BYTES = 48 << 10
# Encoding more bytes than this may take a millisecond or longer.
HEAVY_BYTES = 1 << 20
# The longest input that DirectML allows: 2^32 elements of 8 bytes.
_MAX_INPUT_BYTES = 8 << 32
# Upper bound on the size of a response without its shapes and data.
_AROUND_DATA = 16 << 10
# The encoded tag of TopKResult.response.
_RESPONSE_TAG = topk_pb2.TopKResult.RESPONSE_FIELD_NUMBER << 3 | 2
# The DLPack device types whose memory the CPU can read: CPU memory and pinned
# memory.
_CPU_DEVICES = (1, 3, 11)
# The exceptions that may be raised while reading an invalid answer.
_BAD = (KeyError, OverflowError, TypeError, ValueError)

_SELECTIONS = {
    "both": topk_pb2.OUTPUT_SELECTION_UNSPECIFIED,
    "values": topk_pb2.OUTPUT_SELECTION_VALUES_ONLY,
    "indices": topk_pb2.OUTPUT_SELECTION_INDICES_ONLY,
}


class SupportsDLPack(Protocol):
    """An array that another library exports with DLPack."""

    def __dlpack__(self) -> Any:
        ...

    def __dlpack_device__(self) -> Tuple[Any, int]:
        ...


M = TypeVar("M", bound=Message)
# An array, PyTorch tensor, buffer or list of numbers. Copied only if needed.
ArrayLike = Union[npt.ArrayLike, SupportsDLPack]


@dataclasses.dataclass(eq=False)
class Request:
    """One tensor and the operator to apply to it.

    Attributes:
      tensor: an array, anything that can be converted to one (see ArrayLike),
        or a region of shared memory. A non-contiguous array is copied once,
        except that DirectML takes transposed and broadcast arrays as they are,
        with strides.
      spec: Onnx, OpenVINO or DirectML.
      output: "both", "values" or "indices". An output that is not requested is
        neither computed nor sent.
      values_out, indices_out: regions to write the outputs to. The answer's
        arrays are then in these regions.
      request_id: returned with the answer and written to the server's log.
      index_offset: added to every index. For a tensor that is a shard of a
        longer axis, this is the shard's start on the axis.
      data_type: the element type, if it differs from the array's dtype: "bf16"
        for bits in uint16, "f8e4m3" for bits in uint8. For types of less than a
        byte ("u1", "u2", "u3", "u4", "u6", "i4", "nf4", "f4e2m1"), pass one
        element per uint8 with bits 0 .. 2^width - 1; "i4" also takes int8. The
        elements are packed for transport and unpacked in the answer.
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
    """How an answer was computed. Never affects the outputs."""

    backend: str
    kernel: str
    instruction_set: str
    compute_nanoseconds: int


@dataclasses.dataclass(eq=False)
class Answer:
    """The selected elements and their indices. Unpacks into (values, indices).

    Attributes:
      values: an array of the tensor's type and shape, but with k elements along
        the axis; None if not requested.
      indices: the positions along the axis, of the operator's index type; None
        if not requested.
      request_id: the request_id of the request.
      execution: how the answer was computed.

    The arrays are writable. The arrays are in shared memory if the request had
    regions for the outputs. Otherwise, the caller owns the arrays.
    """

    values: Optional[Array]
    indices: Optional[Array]
    request_id: str
    execution: Execution

    def __iter__(self) -> Iterator[Optional[Array]]:
        return iter((self.values, self.indices))


def check_no_nulls(tensor: Any) -> None:
    """Raises TypeError for masked arrays, and for nulls of pyarrow, polars and
    pandas. NumPy would ignore masks, and convert nulls to NaNs, which are above
    all numbers."""
    _dtypes.check_unmasked("tensor", tensor)
    parts: Any = ()
    nulls: Any = 0
    if issubclass(type(tensor), (list, tuple)):
        if not set(map(type, tensor)) <= {bool, int, float}:  # fast path
            parts = tensor
    elif hasattr(tensor, "itercolumns"):  # a table of pyarrow
        parts = tensor.itercolumns()
    elif hasattr(tensor, "null_count") and hasattr(tensor, "__array__"):
        nulls = tensor.null_count
        if callable(nulls):  # polars
            if hasattr(tensor, "reshape"):  # a Series of arrays
                tensor = tensor.reshape((-1,))
            nulls = tensor.null_count()
    elif not isinstance(getattr(getattr(tensor, "dtype", None), "na_value",
                                0.0), float):  # a nullable type of pandas
        nulls = tensor.isna()
    if np.asarray(nulls).any():
        raise TypeError("the tensor has nulls, which are not supported: pass "
                        "tensor.fill_null(value), or tensor.fillna(value) in "
                        "pandas")
    for part in parts:
        check_no_nulls(part)


def array_of(tensor: Any) -> Tuple[Array, bool]:
    """Converts a tensor to an array. Also returns whether the array holds the
    bits of bfloat16. Raises TypeError for masked arrays, nulls, and tensors on
    other devices."""
    check_no_nulls(tensor)
    torch = sys.modules.get("torch")
    is_torch = torch is not None and isinstance(tensor, torch.Tensor)
    device = getattr(tensor, "__dlpack_device__", None)
    if (tensor.device.type != "cpu" if is_torch else
            device is not None and device()[0] not in _CPU_DEVICES):
        raise TypeError(
            f"the tensor is on {getattr(tensor, 'device', 'another device')}: "
            "copy it to the CPU first, in PyTorch with tensor.cpu()")
    if torch is not None and is_torch:
        tensor = tensor.detach()
        if tensor.dtype is torch.bfloat16:  # NumPy has no bfloat16
            return tensor.view(torch.int16).numpy().view(np.uint16), True
    elif device is not None and not hasattr(tensor, "__array__"):
        return np.from_dlpack(tensor), False
    array: Array = np.asarray(tensor)
    if array.dtype == object:
        raise TypeError(f"the tensor is a {type(tensor).__name__}, which NumPy "
                        "does not convert to numbers: replace None and nulls, "
                        "and pass tensor.to_numpy(dtype) in pandas")
    return array, False


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def _end_of_varint(data: bytes, begin: int) -> int:
    while begin < len(data) and data[begin] > 127:
        begin += 1
    return begin + 1


def _begin_field(number: int, size: int) -> bytes:
    """Returns the tag and the length of a bytes or message field."""
    return _varint(number << 3 | 2) + _varint(size)


def _before_data(number: int, tensor: tensor_pb2.Tensor, nbytes: int) -> bytes:
    """Encodes a field with a tensor, up to but excluding its `nbytes` bytes of
    data."""
    inner = tensor.SerializeToString() + _begin_field(
        tensor_pb2.Tensor.DATA_FIELD_NUMBER, nbytes)
    return _begin_field(number, len(inner) + nbytes) + inner


def _in_place(array: Array) -> Tuple[Array, Tuple[int, ...]]:
    """Returns a flat view of the memory from the array's first to its last
    element, and the array's strides in elements. Returns the array itself and
    no strides if a stride is negative or not a whole number of elements, or if
    the view would have more elements than the array."""
    width = array.dtype.itemsize
    steps = [s if n > 1 else 0 for n, s in zip(array.shape, array.strides)]
    span = 1 + sum((n - 1) * s for n, s in zip(array.shape, steps)) // width
    if not array.size or span > array.size or any(
            s < 0 or s % width for s in steps):
        return array, ()
    return (np.lib.stride_tricks.as_strided(array, (span,), (width,)),
            tuple(s // width for s in steps))


def _name(memory: Any, array: Array, padding: int, region: Any) -> None:
    """Sets `region` to the part of the shared memory that holds a contiguous
    array. Raises ValueError if the array is not in that memory."""
    region.name = memory.name
    region.offset = memory.offset_of(array)
    region.byte_size = array.nbytes + padding


def parse(kind: Type[M], data: Optional[bytes]) -> M:
    """Parses a message of type `kind`. Raises BAD_ANSWER if it is malformed."""
    try:
        if data is None:  # with grpc.aio, a call may end without a message
            raise DecodeError
        return kind.FromString(data)
    except DecodeError:
        raise bad_answer(
            "not a message that the method returns") from None


_Plain = Tuple[bytes, Tuple[int, ...], int, Optional[DType]]


class _Head(NamedTuple):
    """The common part of requests that differ only in their elements, ids and
    regions.

    Attributes:
      header: the request without elements, id and regions.
      outputs: the outputs that the answer must have. None if the service must
        reject the request, for the reason in `mistake`.
      max_message_bytes: an upper bound on the bytes of one response message.
      plain: for each requested output, the encoded fields before its elements,
        its shape, its length in bytes, and its type (None = the tensor's).
        Empty if an output has strides.
      before: the ComputeTopK message without an id, up to the elements.
      nbytes: the length of the elements and the padding after them.
      padding: the length of the padding.
    """

    header: topk_pb2.TopKRequest
    outputs: Optional[Outputs]
    mistake: str
    max_message_bytes: int
    plain: Tuple[_Plain, ...]
    before: bytes
    nbytes: int
    padding: int

    @classmethod
    def of(cls, kind: Any, data_type: Any, bits: int, shape: Tuple[int, ...],
           strides: Tuple[int, ...], size: int, output: str,
           index_offset: Any, /, **attributes: Any) -> "_Head":
        index_offset = integer("index_offset", index_offset)
        header = topk_pb2.TopKRequest(index_offset=index_offset)
        spec = kind(**attributes)._converted()
        spec._fill_request(header)
        if output not in _SELECTIONS:
            raise ValueError(f"output is {output!r}; it must be one of "
                             + ", ".join(_SELECTIONS))
        header.output.selection = _SELECTIONS[output]
        nbytes = -(-size * bits // 8)
        padded = spec.input_total_tensor_size_bytes
        padding = max(0, padded - nbytes)
        if padded > _MAX_INPUT_BYTES:  # the server rejects this length
            padding = 0
        nbytes += padding
        before = header.SerializeToString()
        header.tensor.data_type = data_type
        header.tensor.shape.extend(shape)
        header.tensor.strides.extend(strides)
        before += _before_data(topk_pb2.TopKRequest.TENSOR_FIELD_NUMBER,
                               header.tensor, nbytes)
        try:
            outputs = Outputs.of(spec, data_type, bits, shape, index_offset)
        except _BAD as error:
            return cls(header, None, str(error), _AROUND_DATA, (), before,
                       nbytes, padding)
        plain: List[_Plain] = []
        most = _AROUND_DATA + 40 * len(shape)
        for number, name, out, dtype in (
                (1, "values", outputs.values, None),
                (2, "indices", outputs.indices, outputs.index_type)):
            if output in ("both", name):
                most += out.nbytes
                plain.append((_before_data(number, tensor_pb2.Tensor(
                    data_type=out.data_type, shape=out.shape), out.nbytes),
                    tuple(out.shape), out.nbytes, dtype))
        if outputs.values.strides or outputs.indices.strides:
            plain = []
        return cls(header, outputs, "", most, tuple(plain), before, nbytes,
                   padding)


# typed=True distinguishes 1, True and 1.0, which are not all valid arguments.
_recent_head = functools.lru_cache(maxsize=256, typed=True)(_Head.of)


def _head_of(kind: Any, attributes: Any, *how: Any) -> _Head:
    """Returns the common part of requests with an operator of type `kind`. The
    result is shared and must not be changed."""
    try:
        return _recent_head(kind, *how, **attributes)
    except TypeError:  # an invalid or unhashable argument (K tensor, list)
        return _Head.of(kind, *how, **attributes)


def _check_types(request: Any) -> None:
    """Raises a clear TypeError for objects of a wrong class, which would fail
    later with an arbitrary message."""
    if not isinstance(request, Request):
        raise TypeError(f"the request is a {type(request).__name__}, not a "
                        "Request")
    if not isinstance(request.spec, Operator):
        raise TypeError(f"spec is {request.spec!r}; it must be an instance of "
                        "Onnx, OpenVINO or DirectML")
    if not isinstance(request.request_id, str):
        raise TypeError(f"request_id is {request.request_id!r}, not a str")
    for name, out in (("values_out", request.values_out),
                      ("indices_out", request.indices_out)):
        if out is not None and not isinstance(out, Region):
            raise TypeError(f"{name} is a {type(out).__name__}, not a Region")


class Call:
    """Encodes the messages of one request and decodes its answer."""

    def __init__(self, request: Request) -> None:
        """Raises TypeError or ValueError for arguments that cannot be put into
        a message. The service checks everything else."""
        _check_types(request)
        region = request.tensor if isinstance(request.tensor, Region) else None
        array, name = region.array if region else request.tensor, None
        # Whether the values are bfloat16 and must be returned as float32.
        self._widens = False
        if type(array) is not np.ndarray:
            array, self._widens = array_of(array)
            name = "bf16" if self._widens else None
        self._request = request
        # The values have the same type as the tensor.
        data_type, bits, self._packed, self._dtype = _dtypes.kind_of(
            array.dtype, request.data_type or name)
        if self._packed and (region is not None
                             or request.values_out is not None):
            raise TypeError(f"elements of type {self._packed} cannot be in "
                            "shared memory, because they are sent packed")
        shape = array.shape
        strides: Tuple[int, ...] = ()
        if request.spec._takes_strides and not (self._packed
                                                or array.flags.c_contiguous):
            array, strides = _in_place(array)
        self._array = array
        self._head = head = _head_of(
            type(request.spec), vars(request.spec), data_type, bits, shape,
            strides, array.size, request.output, request.index_offset)
        # The number of tensor bytes to send.
        self.nbytes = head.nbytes if region is None else 0
        # The outputs that the answer must have. None if the service must reject
        # the request.
        self.outputs = head.outputs
        self._id = b""
        if request.request_id:
            text = request.request_id.encode()
            self._id = _begin_field(
                topk_pb2.TopKRequest.REQUEST_ID_FIELD_NUMBER, len(text)) + text
        self.max_message_bytes = head.max_message_bytes + len(self._id)
        # The request without elements, and the encoded fields that precede the
        # elements. Do not modify `head`, which is cached and shared.
        self._header, self._before = head.header, self._id + head.before
        outs = (request.values_out, request.indices_out)
        has_outs = outs != (None, None)
        # The outputs for the fast path of read(), or () to disable the path.
        self._plain = () if self._packed or has_outs else head.plain
        if region is None and not has_outs:
            return
        self._header = header = topk_pb2.TopKRequest()
        header.CopyFrom(head.header)
        if region is not None:
            _name(region.memory, self._contiguous(), head.padding,
                  header.tensor.shared_memory)
        for out, named in zip(outs, (header.output.values,
                                     header.output.indices)):
            if out is not None:  # _name() rejects copies of strided arrays
                _name(out.memory, np.asarray(out.array, order="C"), 0, named)
        self._before = topk_pb2.TopKRequest(
            output=header.output).SerializeToString() + self._before

    def _contiguous(self) -> Array:
        return np.asarray(self._array, self._dtype, order="C")

    def _data(self) -> Any:
        """Returns the elements in their wire format. Raises TypeError or
        ValueError if they cannot be packed."""
        data = self._contiguous()
        if self._packed:
            data = _dtypes.pack(data, self._packed)
        if self._head.padding:
            data = np.pad(data.reshape(-1).view(np.uint8),
                          (0, self._head.padding))
        return data

    def is_streamed(self, wanted: Optional[bool], limit: int) -> bool:
        """Returns whether to use StreamTopK: the value of `wanted`, or by
        default, whether streaming is faster or the message exceeds the server's
        `limit` in bytes. Raises ValueError if streaming is wanted for a tensor
        in shared memory."""
        if isinstance(self._request.tensor, Region):
            if wanted:
                raise ValueError("a tensor in shared memory cannot be streamed")
            return False
        if wanted is not None:
            return wanted
        return (self.nbytes > _STREAMED_BYTES
                or len(self._before) + self.nbytes > limit)

    def message(self, limit: int) -> bytes:
        """Returns the ComputeTopK message. Raises TopKError REQUEST_TOO_LARGE
        if it exceeds `limit`, the server's limit in bytes."""
        if isinstance(self._request.tensor, Region):
            return self._id + self._header.SerializeToString()
        size = len(self._before) + self.nbytes
        if size > limit:
            raise TopKError(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"a request message of {size} bytes exceeds the server's limit "
                f"of {limit} (--max-message-bytes); stream=True has none",
                reason="REQUEST_TOO_LARGE", field="tensor.data")
        return b"".join((self._before, self._data()))

    def chunks(self, limit: int) -> Iterator[bytes]:
        """Returns the StreamTopK messages, each below `limit`, the server's
        limit in bytes. Chunks begin at multiples of 64 bytes, so no element is
        split."""
        data = self._data().reshape(-1).view(np.uint8)
        size = min(_CHUNK_BYTES, (limit - _DATA_FIELDS) // 64 * 64)
        header = self._id + self._header.SerializeToString()
        return itertools.chain(
            (_begin_field(topk_pb2.TopKRequestChunk.HEADER_FIELD_NUMBER,
                          len(header)) + header,),
            (b"".join((_begin_field(
                topk_pb2.TopKRequestChunk.DATA_FIELD_NUMBER,
                min(size, data.size - begin)), data[begin:begin + size]))
             for begin in range(0, data.size, size)))

    def read(self, data: bytes, begin: int = 0) -> Answer:
        """Decodes and checks the TopKResponse in `data` that starts at `begin`.
        Fast path: if the fields are encoded as expected, each output is copied
        once, without protobuf. Otherwise falls back to answer()."""
        arrays: List[Optional[Array]] = []
        end = begin
        # `data` is None if grpcio received a truncated message.
        for before, shape, nbytes, dtype in self._plain if data else ():
            if not data.startswith(before, end):
                break
            start = end + len(before)
            end = start + nbytes
            if end > len(data):
                break
            view: Array = np.ndarray(
                shape, self._dtype if dtype is None else dtype, data, start)
            arrays.append(view.copy())
        if arrays and len(arrays) == len(self._plain):
            rest = parse(topk_pb2.TopKResponse, data[end:])
            if not (rest.HasField("values") or rest.HasField("indices")):
                if len(arrays) < 2:
                    arrays.insert(self._request.output == "values", None)
                return self._answer_of(rest, *arrays)
        return self.answer(parse(topk_pb2.TopKResponse,
                                 data[begin:] if begin else data))

    def answer(self, response: topk_pb2.TopKResponse,
               values: Optional[bytearray] = None,
               indices: Optional[bytearray] = None) -> Answer:
        """Decodes an answer. `values` and `indices` are the outputs' bytes, by
        default those in the message. Raises TopKError BAD_ANSWER if the answer
        does not match this request."""
        request, outputs = self._request, self.outputs
        if outputs is None:
            raise bad_answer("the server accepted an invalid request: "
                             f"{self._head.mistake}")
        wanted = (request.output != "indices", request.output != "values")
        sent = (response.HasField("values"), response.HasField("indices"))
        if sent != wanted:
            raise bad_answer(
                "an output is missing, or not wanted by the request",
                "response." + ("values" if sent[0] != wanted[0] else "indices"))
        try:
            return self._answer_of(
                response,
                self._read("values", response.values, outputs.values,
                           self._dtype, values, request.values_out)
                if wanted[0] else None,
                self._read("indices", response.indices, outputs.indices,
                           outputs.index_type, indices, request.indices_out)
                if wanted[1] else None)
        except _BAD as error:
            raise bad_answer(str(error)) from error

    def _answer_of(self, response: topk_pb2.TopKResponse,
                   values: Optional[Array], indices: Optional[Array]) -> Answer:
        """Returns an answer with these arrays and the response's other fields.
        """
        request_id = response.request_id
        self._check_id(request_id, "response.request_id")
        if indices is not None and self.outputs is not None:
            self.outputs.check_range(indices)
        if self._widens and values is not None and not self._request.values_out:
            values = (values.astype(np.uint32) << 16).view(np.float32)
        e = response.execution
        return Answer(values, indices, request_id, Execution(
            e.backend, e.kernel, e.instruction_set, e.compute_nanoseconds))

    def _check_id(self, sent: str, field: str) -> None:
        if sent != self._request.request_id:
            raise bad_answer(f"request_id {sent[:64]!r}, expected "
                             f"{self._request.request_id!r}", field)

    def read_result(self, data: bytes) -> Union[Answer, TopKError]:
        """Decodes a TopKResult of ComputeTopKMany."""
        if data and data[0] == _RESPONSE_TAG:
            begin = _end_of_varint(data, 1)
            if data.startswith(_varint(len(data) - begin), 1):
                return self.read(data, begin)  # this is the only field
        result = parse(topk_pb2.TopKResult, data)
        if result.request_id:
            self._check_id(result.request_id, "request_id")
        if result.HasField("response"):
            return self.answer(result.response)
        if result.error.code:
            return from_status(result.error)
        raise bad_answer("an empty result")

    def _read(self, name: str, tensor: tensor_pb2.Tensor, output: Output,
              dtype: DType, data: Optional[bytearray],
              out: Optional[Region]) -> Array:
        """Returns one output as an array: from `data`, from the tensor message,
        or from the requested region `out`. Raises BAD_ANSWER if the message
        does not describe this output."""
        field = "response." + name
        if out is None and not tensor.HasField("shared_memory"):
            buffer: Any = bytearray(tensor.data) if data is None else data
            offset = 0
            output.check(tensor, len(buffer), field, "data")
        else:
            asked, sent = (getattr(self._header.output, name),
                           tensor.shared_memory)
            if out is None or (sent.name, sent.offset) != (asked.name,
                                                           asked.offset):
                raise bad_answer("the output is not where the request wants it",
                                 f"{field}.shared_memory")
            buffer, offset = out.memory.buffer, asked.offset
            output.check(tensor, sent.byte_size, field, "shared_memory")
        shape = output.shape
        if self._packed and output.data_type == self._header.tensor.data_type:
            return _dtypes.unpack(
                np.frombuffer(buffer, np.uint8), math.prod(shape),
                dtype, self._packed).reshape(shape)
        strides = ([s * dtype.itemsize for s in output.strides]
                   if output.strides else None)
        # Raises an error unless all elements are in the buffer.
        return np.ndarray(shape, dtype, buffer, offset, strides)


class StreamedAnswer:
    """Assembles the answer of a StreamTopK call from its messages."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._header: Optional[topk_pb2.TopKResponse] = None
        self._data = {"values": bytearray(), "indices": bytearray()}

    @property
    def begun(self) -> bool:
        """Whether a message has arrived."""
        return self._header is not None

    def add(self, chunk: topk_pb2.TopKResponseChunk) -> None:
        """Adds the next message. Raises TopKError BAD_ANSWER if the message is
        empty or out of order, or makes an output too long."""
        kind: Any = chunk.WhichOneof("content")
        if (kind == "header") != (self._header is None):
            raise bad_answer("a chunk arrived before the header, or a second "
                             "header")
        if kind == "header":
            self._header = chunk.header
            self._append("values", chunk.header.values.data)
            self._append("indices", chunk.header.indices.data)
        elif kind is None:
            raise bad_answer("an empty message")
        else:
            data = getattr(chunk, kind)  # protobuf copies the bytes
            if not data:
                raise bad_answer("a chunk has no bytes",
                                 f"response.{kind}.data")
            self._append(kind, data)

    def answer(self) -> Answer:
        """Returns the complete answer. Raises TopKError BAD_ANSWER if it is
        incomplete or wrong."""
        if self._header is None:
            raise bad_answer("the stream ended without a header")
        return self._call.answer(self._header, self._data["values"],
                                 self._data["indices"])

    def _append(self, name: str, data: bytes) -> None:
        size, outputs = len(self._data[name]) + len(data), self._call.outputs
        # No bytes are expected if the service must reject the request.
        expected = getattr(outputs, name).nbytes if outputs else 0
        if size > expected:
            raise bad_answer(f"{size} bytes or more, expected {expected}",
                             f"response.{name}.data")
        self._data[name] += data
