"""What can go wrong with a call."""

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

    def __str__(self) -> str:
        about = ", ".join(filter(None, (self.reason, self.field)))
        return f"{self.code.name}: {self.message}" + (
            f" ({about})" if about else "")


def bad_answer(message: str) -> TopKError:
    """Returns the error of an answer that is none."""
    return TopKError(grpc.StatusCode.INTERNAL, message, reason="BAD_ANSWER")


def from_status(status: status_pb2.Status) -> TopKError:
    """Reads a google.rpc.Status with its details."""
    error = TopKError(_CODES.get(status.code, grpc.StatusCode.UNKNOWN),
                      status.message)
    info = error_details_pb2.ErrorInfo()
    bad = error_details_pb2.BadRequest()
    quota = error_details_pb2.QuotaFailure()
    retry = error_details_pb2.RetryInfo()
    for detail in status.details:
        if detail.Unpack(info):
            error.reason = info.reason
            error.field = info.metadata.get("field", error.field)
        elif detail.Unpack(bad) and bad.field_violations:
            error.field = bad.field_violations[0].field
        elif detail.Unpack(quota) and quota.violations:
            error.field = quota.violations[0].subject
        elif detail.Unpack(retry):
            error.retry_delay = min(_MAX_RETRY_DELAY_SECONDS, max(
                0.0, (retry.retry_delay.seconds
                      + retry.retry_delay.nanos / 1e9)))
    return error


def from_trailers(code: grpc.StatusCode, details: Optional[str],
                  trailers: Any) -> TopKError:
    """Reads how a call ended: its code, its message, and the details in its
    trailing metadata."""
    status = status_pb2.Status()
    said = False
    for key, value in trailers or ():
        if key == "grpc-status-details-bin":
            said = True
            try:
                status.ParseFromString(value)
            except DecodeError:  # not the service's
                status.Clear()
    # The code and message of the call itself: proxies have no details.
    status.code = code.value[0]
    status.message = details or ""
    if code is grpc.StatusCode.UNKNOWN and not said:
        # No server's word, who all have better ones: a proxy whose server died
        # amid an answer ends the call without a status.
        return TopKError(grpc.StatusCode.UNAVAILABLE,
                         f"the answer broke off: {details}", reason=BROKE_OFF)
    return from_status(status)


def from_rpc(rpc: Any) -> TopKError:
    """Reads what gRPC raises, grpc.RpcError or grpc.aio.AioRpcError."""
    return from_trailers(rpc.code(), rpc.details(), rpc.trailing_metadata())
