"""Errors of calls."""

import re
from typing import Any, List, Optional, Tuple

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

_CODES = {code.value[0]: code for code in grpc.StatusCode}
# Longer delays, which only a faulty or malicious server sends, are shortened.
_MAX_RETRY_DELAY_SECONDS = 86400.0

# Appended to hints about lost connections, because a server that has too many
# connections closes new ones.
_OR_TOO_MANY = (", or have too many connections (topkd's --max-connections and "
                "--max-connections-per-client)")
# gRPC reports the cause of a failed connection only as text. A hint applies if
# its pattern is found in the text, and its TLS flag is None or matches the
# client. OpenSSL and BoringSSL use different texts for the same error.
_HINTS: List[Tuple[str, Optional[bool], str]] = [
    ("Connection refused", None,
     "no server listens at the target: start topkd, or pass another target"),
    ("No such file or directory", None,
     "the socket does not exist: start a server with topkd --listen unix:PATH"),
    # gRPC 1.83 and later use the second text.
    ("DNS resolution failed|address lookup failed", None,
     "the host name of the target cannot be resolved; the target is HOST:PORT"),
    # gRPC reports the first text for HTTP/1, and the second for other protocols.
    ("Trying to connect an http1.x server|Failed parsing HTTP/2", None,
     "the port does not serve gRPC: use the port of topkd's --listen, not that "
     "of its metrics"),
    ("wrong version number|WRONG_VERSION_NUMBER", True,
     "the server does not use TLS: leave out the tls arguments"),
    ("certificate verify failed|CERTIFICATE_VERIFY_FAILED", True,
     "pass the authority that signed the server's certificate: tls_ca"),
    ("Hostname Verification Check failed|is not in peer certificate", True,
     "the server's certificate has another name: pass tls_server_name"),
    ("Socket closed|Connection reset", True,
     "the server may require a client certificate (pass tls_cert and tls_key)" +
     _OR_TOO_MANY),
    ("Socket closed|Connection reset", False,
     "the server may require TLS (pass tls=True or tls_ca)" + _OR_TOO_MANY),
]


class TopKError(Exception):
    """A failed call: the service rejected it or could not be reached.

    Attributes:
      code: a grpc.StatusCode.
      message: an English text with the violated rule and the offending value.
      reason: a stable UPPER_SNAKE identifier for programs, or "".
      field: the path of the invalid field, e.g. "onnx.k", or the subject whose
        quota is exhausted, or "".
      retry_delay: the server's retry delay in seconds, at most a day; None if
        the server sent none.
      hint: how to fix the error, or "" if the client does not know.
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
        self.hint = ""

        # False if the server forbids a retry.
        self._may_retry = True
        # Whether part of the response arrived before the error.
        self._begun = False

    def __str__(self) -> str:
        about = ", ".join(filter(None, (self.reason, self.field)))
        text = _printable(f"{self.code.name}: {self.message}" + (
            f" ({about})" if about else ""))
        if self.retry_delay:
            text += f"; retry in {self.retry_delay:g} s"
        return text + (f"\nhint: {self.hint}" if self.hint else "")


def _printable(text: str) -> str:
    """Escapes control characters: the text may come from a server and be
    printed to a terminal."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in text)


def add_hint(error: TopKError, *, tls: bool, has_token: bool) -> TopKError:
    """Sets the error's hint and returns the error. `tls` and `has_token` tell
    whether the client uses TLS and a token."""
    if error.code is grpc.StatusCode.UNAVAILABLE:
        error.hint = next((hint for pattern, over_tls, hint in _HINTS
                           if re.search(pattern, error.message)
                           and over_tls in (None, tls)), "")
    elif error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        error.hint = "check the target, or pass a longer timeout"
    elif error.reason == "CERTIFICATE_NOT_VALID":
        error.hint = "renew the certificate of tls_cert"
    elif error.code is grpc.StatusCode.UNAUTHENTICATED:
        error.hint = ("the server does not accept the token" if has_token else
                      "the server requires a token: pass token or token_file")
    elif error.reason == "SHARED_MEMORY_NOT_ALLOWED":
        error.hint = ("pass the tensor itself, or start the server with topkd "
                      "--allow-shared-memory")
    elif error.code is grpc.StatusCode.UNIMPLEMENTED and not error.reason:
        error.hint = "the server is not topkd, or has a different version"
    return error


def bad_answer(message: str, field: str = "") -> TopKError:
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
        try:
            if detail.Unpack(info):
                error.reason = info.reason
                error.field = info.metadata.get("field", error.field)
            elif detail.Unpack(bad) and bad.field_violations:
                error.field = bad.field_violations[0].field
            elif detail.Unpack(quota) and quota.violations:
                error.field = quota.violations[0].subject
            elif detail.Unpack(retry):
                delay = retry.retry_delay
                error.retry_delay = min(_MAX_RETRY_DELAY_SECONDS, max(
                    0.0, delay.seconds + delay.nanos / 1e9))
        except DecodeError:
            pass
    return error


def from_rpc(rpc: Any, max_message_bytes: int) -> TopKError:
    """Converts an exception of gRPC: grpc.RpcError, grpc.aio.AioRpcError, or
    the KeyError that grpc.aio raises for an undefined status code.
    `max_message_bytes` is the channel's limit for received messages."""
    if isinstance(rpc, KeyError):
        return TopKError(grpc.StatusCode.UNKNOWN,
                         f"the server ended the call with status {rpc}, which "
                         "there is not")
    if not hasattr(rpc, "code"):  # an interceptor raised a bare RpcError
        return TopKError(grpc.StatusCode.UNKNOWN, repr(rpc))
    code, details = rpc.code(), rpc.details()
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and (
            details or "").endswith(f" vs. {max_message_bytes})"):
        return bad_answer("a message is longer than any response to this "
                          f"request: {details}")
    status = status_pb2.Status()
    trailing = getattr(rpc, "trailing_metadata", tuple)
    metadata = {key: value for key, value in trailing() or ()}
    encoded = metadata.get("grpc-status-details-bin")
    try:
        status.ParseFromString(encoded or b"")
    except DecodeError:  # the service never sends malformed details
        status.Clear()
    # Use the code and message of the call, because proxies send no details.
    status.code = code.value[0]
    status.message = details or ""
    if code is grpc.StatusCode.UNKNOWN and encoded is None:
        # The server always sends details. An error without details is from a
        # proxy whose server died during the response.
        return TopKError(grpc.StatusCode.UNAVAILABLE,
                         f"the answer broke off: {details}",
                         reason="ANSWER_BROKE_OFF")  # servers never send this
    error = from_status(status)
    # As in gRPC's own retries, any value other than a number of milliseconds
    # >= 0 forbids a retry.
    pushback = metadata.get("grpc-retry-pushback-ms")
    if pushback is not None and not re.fullmatch(r"[0-9]+", str(pushback)):
        error._may_retry = False
    elif pushback is not None and error.retry_delay is None:
        error.retry_delay = min(float(pushback) / 1e3,
                                _MAX_RETRY_DELAY_SECONDS) or None
    return error
