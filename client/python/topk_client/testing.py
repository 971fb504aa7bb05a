"""A fake server, for unit tests of code that uses topk_client."""

import concurrent.futures
import contextlib
import math
import re
from typing import Any, Generator, Iterator

import grpc
import numpy as np
from google.rpc import error_details_pb2, status_pb2

from topk_client import _dtypes
from topk_client._stubs import directml_pb2, health_pb2, tensor_pb2, topk_pb2
from topk_client.errors import TopKError


@contextlib.contextmanager
def fake_server() -> Generator[str, None, None]:
    """Runs a server in this process, on a loopback address, until the end of
    the with block. Yields the target for Client:

        with fake_server() as target, topk_client.Client(target) as client:
            values, indices = client.topk([3, 1, 2], k=2)

    NumPy computes the results, which equal those of topkd. An invalid k, axis
    or rank causes the same error as with topkd. An invalid mode or sort of
    OpenVINO is an error too. The server checks no other rules of the operators,
    and has no limits, no TLS and no tokens.
    GetCapabilities, shared memory, K tensors, strides and DirectML's output
    descriptions are UNIMPLEMENTED."""
    rpc: Any = grpc
    unary = rpc.unary_unary_rpc_method_handler
    stream = rpc.stream_stream_rpc_method_handler
    handlers = [rpc.method_handlers_generic_handler(service, methods)
                for service, methods in (
                    ("topk.v1.TopKService", {
                        "ComputeTopK": unary(_compute_topk),
                        "ComputeTopKMany": stream(_compute_topk_many),
                        "StreamTopK": stream(_stream_topk)}),
                    ("grpc.health.v1.Health", {"Check": unary(_health)}))]
    server = rpc.server(
        concurrent.futures.ThreadPoolExecutor(64),  # a thread for each stream
        handlers, options=[("grpc.max_receive_message_length", -1)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def _compute_topk(message: bytes, context: Any) -> bytes:
    request = topk_pb2.TopKRequest.FromString(message)
    return _response_or_abort(request, context).SerializeToString()


def _compute_topk_many(messages: Iterator[bytes], _: Any) -> Iterator[bytes]:
    for request in map(topk_pb2.TopKRequest.FromString, messages):
        try:
            result = topk_pb2.TopKResult(response=_response(request))
        except TopKError as error:
            result = topk_pb2.TopKResult(error=_status(error))
        yield result.SerializeToString()


def _stream_topk(messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
    first, *chunks = map(topk_pb2.TopKRequestChunk.FromString, messages)
    first.header.tensor.data = b"".join(chunk.data for chunk in chunks)
    yield topk_pb2.TopKResponseChunk(
        header=_response_or_abort(first.header, context)).SerializeToString()


def _health(_: bytes, __: Any) -> bytes:
    response = health_pb2.HealthCheckResponse
    return response(status=response.SERVING).SerializeToString()


def _status(error: TopKError) -> Any:
    status: Any = status_pb2.Status(code=error.code.value[0],
                                    message=error.message)
    status.details.add().Pack(error_details_pb2.ErrorInfo(
        reason=error.reason, domain="topk.v1", metadata={"field": error.field}))
    return status


def _response_or_abort(request: topk_pb2.TopKRequest,
                       context: Any) -> topk_pb2.TopKResponse:
    try:
        return _response(request)
    except TopKError as error:
        context.set_trailing_metadata((("grpc-status-details-bin",
                                        _status(error).SerializeToString()),))
        context.abort(error.code, error.message)
        raise


def _check(valid: bool, reason: str, field: str, message: str) -> None:
    if not valid:
        raise TopKError(grpc.StatusCode.INVALID_ARGUMENT, message,
                        reason=reason, field=field)


def _response(request: topk_pb2.TopKRequest) -> topk_pb2.TopKResponse:
    dialect: Any = request.WhichOneof("attributes")
    operator = getattr(request, dialect)
    tensor, shape = request.tensor, [*request.tensor.shape]
    rank, least, order = len(shape), -len(shape), "value"
    if dialect == "onnx":
        largest = not operator.HasField("largest") or operator.largest == 1
        index_type = "i64"
    elif dialect == "openvino":
        for name, value, allowed in (
                ("mode", operator.mode, ("max", "min")),
                ("sort", operator.sort, ("none", "index", "value"))):
            _check(value in allowed, "ATTRIBUTE_VALUE", f"openvino.{name}",
                   f'{name} = "{value}" is not allowed')
        largest, order = operator.mode == "max", operator.sort
        index_type = operator.index_element_type or "i32"
    else:
        largest = (operator.axis_direction
                   != directml_pb2.AXIS_DIRECTION_INCREASING)
        index_type, least = "u32", 0
    k = operator.k if dialect == "directml" else operator.k.value
    if (dialect != "directml" and operator.k.HasField("tensor")
            or {field.name for message in (tensor, operator, request.output)
                for field, _ in message.ListFields()}
            & {"strides", "shared_memory", "output_value", "output_index",
               "values", "indices"}):
        raise TopKError(grpc.StatusCode.UNIMPLEMENTED,
                        "the fake server does not support this request")
    _check(rank > 0, "RANK_ZERO", "tensor.shape", "the tensor is a scalar; it "
           "needs at least one dimension to select along")
    axis = operator.axis if operator.HasField("axis") else -1
    _check(least <= axis < rank, "AXIS_RANGE", f"{dialect}.axis",
           f"axis = {axis} is outside {least} .. {rank - 1} for a tensor of "
           f"rank {rank}")
    axis %= rank
    _check(k >= 1, "K_NOT_POSITIVE", f"{dialect}.k",
           f"k = {k} must be at least 1")
    _check(k <= shape[axis], "K_EXCEEDS_DIMENSION", f"{dialect}.k",
           f"k = {k} exceeds dimension {shape[axis]} along axis {axis}")

    name = _dtypes.name_of(tensor.data_type)
    if name in _dtypes.WIDTHS:
        array = _dtypes.unpack(np.frombuffer(tensor.data, np.uint8),
                               math.prod(shape), np.dtype(np.uint8), name)
    else:  # the bits of the elements, without padding
        array = np.frombuffer(
            tensor.data, f"<u{int(re.findall('[0-9]+', name)[0]) // 8}",
            math.prod(shape))
    array = array.reshape(shape)
    keys = _dtypes.ordered_keys(np.moveaxis(array, axis, -1), name)
    chosen = np.argsort(~keys if largest else keys, -1, "stable")[..., :k]
    if order == "index":
        chosen.sort(-1)
    indices = np.moveaxis(chosen, -1, axis)
    values = np.take_along_axis(array, indices, axis)
    if name in _dtypes.WIDTHS:
        values = _dtypes.pack(values, name)
    response = topk_pb2.TopKResponse(
        request_id=request.request_id,
        execution=topk_pb2.ExecutionInfo(backend="fake"))
    if request.output.selection != topk_pb2.OUTPUT_SELECTION_INDICES_ONLY:
        response.values.CopyFrom(tensor_pb2.Tensor(
            data_type=tensor.data_type, shape=indices.shape,
            data=values.tobytes()))
    if request.output.selection != topk_pb2.OUTPUT_SELECTION_VALUES_ONLY:
        response.indices.CopyFrom(tensor_pb2.Tensor(
            data_type=_dtypes.number_of(index_type), shape=indices.shape,
            data=(indices + request.index_offset).astype(
                _dtypes.NUMPY_NAMES[index_type]).tobytes()))
    return response
