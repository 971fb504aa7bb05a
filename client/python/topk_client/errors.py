"""What can go wrong with a call."""

import re
from typing import Any, Optional

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

# The reason of an answer that broke off, which no server gives.
BROKE_OFF = "ANSWER_BROKE_OFF"
_CODES = {code.value[0]: code for code in grpc.StatusCode}
# No server has more to wait for: what is longer is a mistake, or an attack.
_MAX_RETRY_DELAY_SECONDS = 86400.0


class TopKError(Exception):
    """A call that failed: the service refused it, or could not be reached.

    Attributes:
      code: a grpc.StatusCode.
      message: in English, with the rule and the value that breaks it.
      reason: an UPPER_SNAKE word to program against, "" where there is none.
      field: the path of the wrong field, e.g. "onnx.k", or whose quota is used
        up; "" where there is none.
      retry_delay: in how many seconds to retry, at most a day; None where the
        server does not say.
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

        # False where the server forbids a retry.
        self._may_retry = True
        # Whether a part of the response had arrived.
        self._begun = False

    def __str__(self) -> str:
        about = ", ".join(filter(None, (self.reason, self.field)))
        return _printable(f"{self.code.name}: {self.message}" + (
            f" ({about})" if about else ""))


def _printable(text: str) -> str:
    """Escapes what a terminal would obey: the text may be a server's."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in text)


def bad_answer(message: str, field: str = "") -> TopKError:
    """Returns the error of a response that cannot belong to its request."""
    return TopKError(grpc.StatusCode.INTERNAL,
                     f"the server's response is wrong: {message}",
                     reason="BAD_ANSWER", field=field)


def _seconds(retry: error_details_pb2.RetryInfo) -> float:
    return min(_MAX_RETRY_DELAY_SECONDS, max(
        0.0, retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9))


def _add_detail(error: TopKError, detail: Any) -> None:
    """Adds what one of the google.rpc details says. DecodeError for one that is
    corrupt."""
    info = error_details_pb2.ErrorInfo()
    bad = error_details_pb2.BadRequest()
    quota = error_details_pb2.QuotaFailure()
    retry = error_details_pb2.RetryInfo()
    if detail.Unpack(info):
        error.reason = info.reason
        error.field = info.metadata.get("field", error.field)
    elif detail.Unpack(bad) and bad.field_violations:
        error.field = bad.field_violations[0].field
    elif detail.Unpack(quota) and quota.violations:
        error.field = quota.violations[0].subject
    elif detail.Unpack(retry):
        error.retry_delay = _seconds(retry)


def from_status(status: status_pb2.Status) -> TopKError:
    """Reads a google.rpc.Status with its details, except those that are
    corrupt."""
    error = TopKError(_CODES.get(status.code, grpc.StatusCode.UNKNOWN),
                      status.message)
    for detail in status.details:
        try:
            _add_detail(error, detail)
        except DecodeError:
            pass
    return error


def _add_pushback(error: TopKError, milliseconds: str) -> None:
    """Adds the trailer that gRPC's own retries obey: anything but a number of
    milliseconds >= 0 forbids a retry."""
    if not re.fullmatch(r"[0-9]+", milliseconds):
        error._may_retry = False
    elif error.retry_delay is None:
        digits = milliseconds.lstrip("0")[:20]
        error.retry_delay = min(int(digits or 0) / 1e3,
                                _MAX_RETRY_DELAY_SECONDS) or None


def from_trailers(code: grpc.StatusCode, details: Optional[str],
                  trailers: Any, max_message_bytes: int) -> TopKError:
    """Reads how a call ended: its code, its message, and the details in its
    trailing metadata. The channel receives messages of up to
    `max_message_bytes` bytes."""
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and (
            details or "").endswith(f" vs. {max_message_bytes})"):
        return bad_answer("a message longer than any response to the request: "
                          f"{details}")
    status = status_pb2.Status()
    metadata = {key: value for key, value in trailers or ()}
    encoded = metadata.get("grpc-status-details-bin")
    try:
        status.ParseFromString(encoded or b"")
    except DecodeError:  # not the service's
        status.Clear()
    # The code and message of the call itself: proxies have no details.
    status.code = code.value[0]
    status.message = details or ""
    if code is grpc.StatusCode.UNKNOWN and encoded is None:
        # Not a server's status, all of which have details: a proxy whose server
        # died during a response ends the call without a status.
        return TopKError(grpc.StatusCode.UNAVAILABLE,
                         f"the answer broke off: {details}", reason=BROKE_OFF)
    error = from_status(status)
    if "grpc-retry-pushback-ms" in metadata:
        _add_pushback(error, str(metadata["grpc-retry-pushback-ms"]))
    return error


def from_rpc(rpc: Any, max_message_bytes: int) -> TopKError:
    """Reads what gRPC raises: grpc.RpcError, grpc.aio.AioRpcError, or the
    KeyError of grpc.aio for a status that there is not."""
    if isinstance(rpc, KeyError):
        return TopKError(grpc.StatusCode.UNKNOWN,
                         f"the server ended the call with status {rpc}, which "
                         "there is not")
    return from_trailers(rpc.code(), rpc.details(), rpc.trailing_metadata(),
                         max_message_bytes)
