"""Errors of calls."""

import contextlib
from typing import Any, Dict, Optional

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

_CODES = {code.value[0]: code for code in grpc.StatusCode}


class TopKError(Exception):
    """A failed call: the service rejected it or could not be reached.

    Attributes:
      code: a grpc.StatusCode.
      message: an English text with the violated rule and the offending value.
      reason: a stable UPPER_SNAKE identifier for programs, or "".
      field: the path of the invalid field, e.g. "onnx.k" (for topk(), "k"), or
        the subject whose quota is exhausted, or "".
      retry_delay: the server's retry delay in seconds; None if the server sent
        none.
    """

    def __init__(self, code: grpc.StatusCode, message: str, *,
                 reason: str = "", field: str = "",
                 retry_delay: Optional[float] = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.reason = reason
        self.field = field
        self.retry_delay = retry_delay

        # Whether part of the response arrived before the error.
        self._begun = False

    def __str__(self) -> str:
        about = ", ".join(filter(None, (self.reason, self.field)))
        return (f"{self.code.name}: {self.message}"
                + (f" ({about})" if about else "")
                + (f"; retry in {self.retry_delay:g} s" if self.retry_delay
                   else ""))


def bad_response(message: str, field: str = "") -> TopKError:
    """Returns the error for a response that does not match its request."""
    return TopKError(grpc.StatusCode.INTERNAL,
                     f"the server's response is wrong: {message}",
                     reason="BAD_ANSWER", field=field)


def from_status(status: status_pb2.Status) -> TopKError:
    """Converts a google.rpc.Status. Ignores corrupt details."""
    error = TopKError(_CODES.get(status.code, grpc.StatusCode.UNKNOWN),
                      status.message)
    info = error_details_pb2.ErrorInfo()
    bad = error_details_pb2.BadRequest()
    quota = error_details_pb2.QuotaFailure()
    retry = error_details_pb2.RetryInfo()
    details: Any = status.details
    for detail in details:
        with contextlib.suppress(DecodeError):
            if detail.Unpack(info):
                error.reason = info.reason
                error.field = info.metadata.get("field", error.field)
            elif detail.Unpack(bad) and bad.field_violations:
                error.field = bad.field_violations[0].field
            elif detail.Unpack(quota) and quota.violations:
                error.field = quota.violations[0].subject
            elif detail.Unpack(retry):
                delay = retry.retry_delay
                error.retry_delay = max(0.0, delay.seconds + delay.nanos / 1e9)
    return error


def from_rpc(rpc: Any, target: str, tls: bool) -> TopKError:
    """Converts a grpc.RpcError or grpc.aio.AioRpcError of a call to `target`.
    """
    if not hasattr(rpc, "code"):  # an interceptor raised a bare RpcError
        return TopKError(grpc.StatusCode.UNKNOWN, repr(rpc))
    code, details = rpc.code(), rpc.details() or ""
    trailing = getattr(rpc, "trailing_metadata", tuple)
    metadata: Dict[str, Any] = dict(tuple(trailing() or ()))
    encoded = metadata.get("grpc-status-details-bin")
    if code is grpc.StatusCode.UNKNOWN and encoded is None:
        # The server always sends details. An error without details is from a
        # proxy whose server died during the response.
        return TopKError(grpc.StatusCode.UNAVAILABLE,
                         f"the answer broke off: {details}",
                         reason="ANSWER_BROKE_OFF")  # servers never send this
    status = status_pb2.Status()
    try:
        status.ParseFromString(encoded or b"")
    except DecodeError:  # the service never sends malformed details
        status.Clear()
    # Use the code and message of the call, because proxies send no details.
    status.code, status.message = code.value[0], details
    error = from_status(status)
    if not error.reason and code in (grpc.StatusCode.UNAVAILABLE,
                                     grpc.StatusCode.DEADLINE_EXCEEDED):
        # gRPC's message may be only "Socket closed".
        error.message = (f"calling {target} {'with' if tls else 'without'} "
                         f"TLS: {details}")
    # HAProxy sends a delay without details.
    pushback = str(metadata.get("grpc-retry-pushback-ms", ""))
    if error.retry_delay is None and pushback.isdecimal():
        error.retry_delay = int(pushback) / 1e3
    return error
