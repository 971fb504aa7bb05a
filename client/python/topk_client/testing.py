"""A fake server, for unit tests of code that uses topk_client."""

import concurrent.futures
import contextlib
import math
import re
from typing import Any, Callable, Dict, Generator, Iterator, List, Sequence

import grpc
import numpy as np
from google.protobuf import wrappers_pb2
from google.rpc import error_details_pb2, status_pb2

from topk_client import _dtypes
from topk_client._connection import VERSION
from topk_client._stubs import directml_pb2, tensor_pb2, topk_pb2
from topk_client.errors import TopKError

_FLOATS = ("f16", "f32", "f64")
_INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
# The element types of each version of an operator.
_TYPES: Dict[str, Dict[int, Sequence[str]]] = {
    "onnx": {1: _FLOATS, 10: _FLOATS, 11: _FLOATS + _INTS,
             24: (*_FLOATS, *_INTS, "bf16")},
    "openvino": dict.fromkeys((1, 3, 11),
                              tuple(map(_dtypes.name_of, _dtypes.NUMBERS))),
    "directml": dict.fromkeys((0, 1), ("f16", "f32", *_INTS)),
}
# The version that added an attribute.
_ADDED = {"largest": 11, "sorted": 11, "index_element_type": 3, "stable": 11,
          "axis_direction": 1}


@contextlib.contextmanager
def fake_server() -> Generator[str, None, None]:
    """Runs a server in this process, on a loopback address, until the end of
    the with block. Yields the target for Client:

        with fake_server() as target, topk_client.Client(target) as client:
            values, indices = client.topk([3, 1, 2], k=2)

    NumPy computes the results, which equal those of topkd. An invalid k, axis,
    rank, type, version or attribute causes an error with the same reason. There
    are no limits, TLS or tokens, and no checks of DirectML's feature levels.
    GetCapabilities returns only the version. Shared memory is UNIMPLEMENTED."""
    rpc: Any = grpc
    unary = rpc.unary_unary_rpc_method_handler
    services = {
        "topk.v1.TopKService": {
            "ComputeTopK": _handler(unary, topk_pb2.TopKRequest, _response),
            "ComputeTopKMany": rpc.stream_stream_rpc_method_handler(
                _compute_topk_many, topk_pb2.TopKRequest.FromString,
                topk_pb2.TopKResult.SerializeToString),
            "GetCapabilities": _handler(
                unary, topk_pb2.GetCapabilitiesRequest,
                lambda _: topk_pb2.Capabilities(build_version=VERSION)),
            # A stream of one message.
            "StreamTopK": _handler(rpc.stream_unary_rpc_method_handler,
                                   topk_pb2.TopKRequestChunk, _stream_topk)},
        "grpc.health.v1.Health": {
            "Check": _handler(unary, wrappers_pb2.StringValue, _health)}}
    server = rpc.server(
        concurrent.futures.ThreadPoolExecutor(64),  # a thread for each stream
        [rpc.method_handlers_generic_handler(name, methods)
         for name, methods in services.items()],
        options=[("grpc.max_receive_message_length", -1)])
    target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield target
    finally:
        server.stop(None).wait()


def _handler(make: Any, kind: Any, respond: Callable[[Any], Any]) -> Any:
    """Returns a handler of messages of type `kind`."""
    def handle(request: Any, context: Any) -> Any:
        try:
            return respond(request)
        except TopKError as error:
            context.set_trailing_metadata((
                ("grpc-status-details-bin",
                 _status(error).SerializeToString()),))
            context.abort(error.code, error.message)

    return make(handle, kind.FromString, _serialized)


def _serialized(message: Any) -> Any:
    return message.SerializeToString()


def _compute_topk_many(requests: Iterator[topk_pb2.TopKRequest], _: Any
                       ) -> Iterator[topk_pb2.TopKResult]:
    for request in requests:
        try:
            yield topk_pb2.TopKResult(response=_response(request))
        except TopKError as error:
            yield topk_pb2.TopKResult(error=_status(error))


def _stream_topk(messages: Iterator[topk_pb2.TopKRequestChunk]
                 ) -> topk_pb2.TopKResponseChunk:
    first, *chunks = messages
    first.header.tensor.data = b"".join(chunk.data for chunk in chunks)
    return topk_pb2.TopKResponseChunk(header=_response(first.header))


def _health(request: wrappers_pb2.StringValue) -> wrappers_pb2.Int32Value:
    if request.value not in ("", "topk.v1.TopKService",
                             "grpc.health.v1.Health"):
        raise TopKError(
            grpc.StatusCode.NOT_FOUND,
            f'the server has no service "{request.value}"',
            reason="SERVICE_UNKNOWN", field="service")
    return wrappers_pb2.Int32Value(value=1)  # SERVING


def _status(error: TopKError) -> Any:
    status: Any = status_pb2.Status(code=error.code.value[0],
                                    message=error.message)
    status.details.add().Pack(error_details_pb2.ErrorInfo(
        reason=error.reason, domain="topk.v1", metadata={"field": error.field}))
    return status


def _check(valid: bool, reason: str, field: str, message: str = "") -> None:
    if not valid:
        raise TopKError(grpc.StatusCode.INVALID_ARGUMENT,
                        message or f"{field} is missing or not allowed",
                        reason=reason, field=field)


def _check_type(number: int, allowed: Sequence[str], field: str) -> str:
    name = _dtypes.name_of(number)
    _check(name in allowed, "DATA_TYPE_NOT_ALLOWED", field)
    return name


def _check_attributes(operator: Any, dialect: str, version: int) -> None:
    for field, value in operator.ListFields():
        name = f"{dialect}.{field.name}"
        _check(version >= _ADDED.get(field.name, 0), "ATTRIBUTE_NOT_IN_VERSION",
               name)
        _check(field.name not in ("largest", "sorted") or value in (0, 1),
               "ATTRIBUTE_NOT_BOOLEAN", name)
    if dialect == "openvino":
        for key, allowed in (("mode", ("max", "min")),
                             ("sort", ("none", "index", "value")),
                             ("index_element_type", ("", "i32", "i64"))):
            _check(getattr(operator, key) in allowed, "ATTRIBUTE_VALUE",
                   f"openvino.{key}")
        _check(not operator.stable or operator.sort != "none",
               "STABLE_WITHOUT_SORT", "openvino.stable")
    elif dialect == "directml":
        _check(not version or operator.axis_direction > 0, "ATTRIBUTE_MISSING",
               "directml.axis_direction")


def _array(tensor: tensor_pb2.Tensor, name: str, shape: List[int]
           ) -> _dtypes.Array:
    # The bits of the elements, because NumPy may lack their type.
    if name in _dtypes.WIDTHS:
        return _dtypes.unpack(np.frombuffer(tensor.data, np.uint8),
                              math.prod(shape), np.dtype(np.uint8),
                              name).reshape(shape)
    dtype = np.dtype(f"<u{int(re.findall('[0-9]+', name)[0]) // 8}")
    return np.ndarray(shape, dtype, tensor.data)


def _response(request: topk_pb2.TopKRequest) -> topk_pb2.TopKResponse:
    dialect: Any = request.WhichOneof("attributes")
    operator, version = getattr(request, dialect), request.spec.version
    tensor, shape = request.tensor, [*request.tensor.shape]
    rank, least, order = len(shape), -len(shape), "value"
    _check(version in _TYPES[dialect], "UNKNOWN_VERSION", "spec.version")
    _check_attributes(operator, dialect, version)
    name = _check_type(tensor.data_type, _TYPES[dialect][version],
                       "tensor.data_type")
    _check(rank > 0, "RANK_ZERO", "tensor.shape", "the tensor is a scalar; it "
           "needs at least one dimension to select along")
    k = int(operator.k if dialect == "directml" else operator.k.value)
    strict, index_type = False, "i64"
    if dialect == "onnx":
        largest = not operator.HasField("largest") or operator.largest == 1
    elif dialect == "openvino":
        largest, order = operator.mode == "max", operator.sort
        index_type = operator.index_element_type or "i32"
    else:
        largest = (operator.axis_direction
                   != directml_pb2.AXIS_DIRECTION_INCREASING)
        index_type, least, strict = "u32", 0, operator.strict
        if operator.output_index.data_type:
            index_type = _check_type(
                operator.output_index.data_type, ("u32", "u64"),
                "directml.output_index.data_type")
        for number, size in enumerate(shape):
            _check(size > 0, "SIZE_RANGE", f"tensor.shape[{number}]")
    used = {field.name for message in (tensor, request.output)
            for field, _ in message.ListFields()}
    if not used <= {"data_type", "shape", "data", "selection"}:
        raise TopKError(grpc.StatusCode.UNIMPLEMENTED,
                        "the fake server does not support this request")
    axis = operator.axis if operator.HasField("axis") else -1
    _check(least <= axis < rank, "AXIS_RANGE", f"{dialect}.axis",
           f"axis = {axis} is outside {least} .. {rank - 1} for a tensor of "
           f"rank {rank}")
    axis %= rank
    _check(k >= 1, "K_NOT_POSITIVE", f"{dialect}.k",
           f"k = {k} must be at least 1")
    _check(k <= shape[axis], "K_EXCEEDS_DIMENSION", f"{dialect}.k",
           f"k = {k} exceeds dimension {shape[axis]} along axis {axis}")
    _check(not strict or k < shape[axis], "K_EQUALS_DIMENSION", f"{dialect}.k")
    _check(request.index_offset >= 0, "INDEX_OFFSET_NEGATIVE", "index_offset")
    maximum = min(np.iinfo(_dtypes.NUMPY_NAMES[index_type]).max, 2**63 - 1)
    _check(shape[axis] - 1 + request.index_offset <= maximum,
           "INDEX_TYPE_TOO_SMALL", "index_offset")
    # Three dimensions, because NumPy cannot index tensors of a high rank.
    array = _array(tensor, name, shape).reshape(
        math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:]))
    keys = _dtypes.ordered_keys(array, name)
    indices = np.argsort(~keys if largest else keys, 1, "stable")[:, :k]
    if order == "index":
        indices.sort(1)
    values = np.take_along_axis(array, indices, 1)
    if name in _dtypes.WIDTHS:
        values = _dtypes.pack(values, name)
    shape[axis] = k
    response = topk_pb2.TopKResponse(
        values=tensor_pb2.Tensor(data_type=tensor.data_type, shape=shape,
                                 data=values.tobytes()),
        indices=tensor_pb2.Tensor(
            data_type=_dtypes.number_of(index_type), shape=shape,
            data=(indices + request.index_offset).astype(
                _dtypes.NUMPY_NAMES[index_type]).tobytes()),
        request_id=request.request_id,
        execution=topk_pb2.ExecutionInfo(backend="fake"))
    if request.output.selection == topk_pb2.OUTPUT_SELECTION_INDICES_ONLY:
        response.ClearField("values")
    if request.output.selection == topk_pb2.OUTPUT_SELECTION_VALUES_ONLY:
        response.ClearField("indices")
    return response
