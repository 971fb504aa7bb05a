"""How a client reaches its servers: what both clients have in common."""

import ipaddress
import json
import math
import os
import time
from typing import Any, Dict, List, Optional, Tuple, Union

import grpc
from grpc_health.v1 import health_pb2

from topk_client._stubs import topk_pb2
from topk_client.errors import BROKE_OFF, TopKError
from topk_client.messages import Call

Path = Union[str, "os.PathLike[str]"]

_SERVICE = "topk.v1.TopKService"
# gRPC stops retrying, silently, once a call has sent more than this; its
# default is 256 KiB. As much as the server's largest unary message.
_RETRY_BUFFER_BYTES = 65 << 20
# A connection that takes no bytes for so long is given up. gRPC sets the
# kernel's limit with pings alone, which servers refuse below 5 minutes.
_STUCK_MILLISECONDS = 10_000
_PING_MILLISECONDS = 600_000
# The pauses before a stream is sent again, in seconds. Three of them are longer
# than gRPC's own, 1 s, before it asks for a server that it has lost.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
# The longest pause before a server that was down is tried again; gRPC's own is
# two minutes.
_RECONNECT_MILLISECONDS = 10_000
# The limits of messages that a server may have, in bytes; protobuf has no
# larger messages.
_MIN_LIMIT, _MAX_LIMIT = 1024, 2**31 - 1
# As good as no deadline, and gRPC can count it.
_MAX_TIMEOUT_SECONDS = 365 * 86400.0


def _finite(timeout: float) -> float:
    if math.isnan(timeout):
        raise ValueError("the timeout is not a number")
    return min(timeout, _MAX_TIMEOUT_SECONDS)


def _service_config(max_attempts: int) -> str:
    # Streams have no retries of gRPC's: where a connection breaks while a
    # message of one is under way, gRPC 1.51 may leave a message out when it
    # sends them again.
    method: Dict[str, Any] = {"name": [
        {"service": _SERVICE, "method": name}
        for name in ("ComputeTopK", "GetCapabilities")]}
    if max_attempts > 1:
        method["retryPolicy"] = {
            "maxAttempts": max_attempts,
            "initialBackoff": "0.05s", "maxBackoff": "1s",
            "backoffMultiplier": 2,
            # Attempts waits for quota: gRPC would wait beyond the deadline and
            # then forget what the server said.
            "retryableStatusCodes": ["UNAVAILABLE"]}
    return json.dumps({
        "loadBalancingConfig": [{"round_robin": {}}],
        "healthCheckConfig": {"serviceName": _SERVICE},
        "methodConfig": [method]})


def _grpc_target(target: str) -> str:
    """A list of addresses is gRPC's ipv4 scheme, or ipv6 where they have
    brackets."""
    if "," in target and "/" not in target and not target.startswith("ipv"):
        return ("ipv6:" if target.startswith("[") else "ipv4:") + target
    return target


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0] or address
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _is_unix(target: str) -> bool:
    return target.startswith(("unix:", "unix-abstract:"))


def _is_local(target: str) -> bool:
    if _is_unix(target):
        return True
    for scheme in ("dns:", "ipv4:", "ipv6:"):
        if target.startswith(scheme):
            target = target[len(scheme):]
            break
    if target.startswith("///"):
        target = target[3:]
    return all(map(_is_loopback, target.split(",")))


def _read(path: Optional[Path]) -> Optional[bytes]:
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()


class Attempts:
    """How often, and until when, one call is sent. Where a server is
    unavailable, gRPC itself retries calls that are not streams, except for an
    answer that broke off."""

    def __init__(self, most: int, timeout: float) -> None:
        self._left = most
        self._deadline = time.monotonic() + timeout
        self._pause = _FIRST_PAUSE

    def seconds(self) -> float:
        """Returns how long the next one may take."""
        return self._deadline - time.monotonic()

    def pause_after(self, error: TopKError, streamed: bool) -> float:
        """Returns how many seconds to wait before the next, when one ended so.
        Raises the error if there is none, or none before the deadline."""
        told = error.retry_delay or 0.0
        again = error.reason == BROKE_OFF or (
            streamed and error.code == grpc.StatusCode.UNAVAILABLE) or (
                error.code == grpc.StatusCode.RESOURCE_EXHAUSTED and told > 0)
        pause = max(told, self._pause)
        self._left -= 1
        self._pause = min(4 * self._pause, _LONGEST_PAUSE)
        if not again or self._left <= 0 or pause >= self.seconds():
            raise error
        return pause


class Connection:
    """A connection to one or several servers; see Client."""

    _grpc: Any  # grpc or grpc.aio, whichever makes the channels

    def __init__(
            self, target: str = "localhost:50051", *, timeout: float = 60.0,
            max_attempts: int = 4, user_agent: str = "", tls: bool = False,
            tls_ca: Optional[Path] = None, tls_cert: Optional[Path] = None,
            tls_key: Optional[Path] = None,
            tls_server_name: Optional[str] = None,
            token: Optional[str] = None, token_file: Optional[Path] = None,
            token_over_plaintext: bool = False) -> None:
        if not 1 <= max_attempts <= 5:
            raise ValueError(f"max_attempts is {max_attempts}, not 1 .. 5")
        tls = tls or any((tls_ca, tls_cert, tls_key, tls_server_name))
        if tls and _is_unix(target):
            raise ValueError(f"{target} is a Unix socket, which has no TLS")
        has_token = token is not None or token_file is not None
        if has_token and not (tls or token_over_plaintext
                              or _is_local(target)):
            raise ValueError(
                f"the token would go to {target} in plain text; use TLS, or "
                "token_over_plaintext if that way is safe")
        self._timeout = _finite(timeout)
        # Of messages, in bytes; asked for before the first large one is sent.
        self._limit: Optional[int] = None
        self._max_attempts = max_attempts
        self._token, self._token_file = token, token_file
        self._metadata()  # a file that cannot be read is an error now
        options: List[Tuple[str, Any]] = [
            ("grpc.service_config", _service_config(max_attempts)),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.per_rpc_retry_buffer_size", _RETRY_BUFFER_BYTES),
            ("grpc.keepalive_time_ms", _PING_MILLISECONDS),
            ("grpc.keepalive_timeout_ms", _STUCK_MILLISECONDS),
            ("grpc.max_reconnect_backoff_ms", _RECONNECT_MILLISECONDS),
        ]
        if user_agent:
            options.append(("grpc.primary_user_agent", user_agent))
        if tls_server_name:
            options.append(("grpc.ssl_target_name_override", tls_server_name))
        if has_token and not tls:
            # A token for this machine is not one for the proxy.
            options.append(("grpc.enable_http_proxy", 0))
        credentials = grpc.ssl_channel_credentials(
            _read(tls_ca), _read(tls_key),
            _read(tls_cert)) if tls else None

        def connect(*more: Tuple[str, Any]) -> Any:
            where, what = _grpc_target(target), (*options, *more)
            if credentials is None:
                return self._grpc.insecure_channel(where, what)
            return self._grpc.secure_channel(where, credentials, what)

        # Who asks a server that does not serve wants to hear just that.
        calls, health = connect(), connect(
            ("grpc.inhibit_health_checking", 1))
        self._channels = (calls, health)
        # Requests go as the bytes that they are.
        self._compute_topk = calls.unary_unary(
            f"/{_SERVICE}/ComputeTopK",
            response_deserializer=topk_pb2.TopKResponse.FromString)
        self._stream_topk = calls.stream_stream(
            f"/{_SERVICE}/StreamTopK",
            response_deserializer=topk_pb2.TopKResponseChunk.FromString)
        self._compute_topk_many = calls.stream_stream(
            f"/{_SERVICE}/ComputeTopKMany",
            response_deserializer=topk_pb2.TopKResult.FromString)
        self._get_capabilities = calls.unary_unary(
            f"/{_SERVICE}/GetCapabilities",
            response_deserializer=topk_pb2.Capabilities.FromString)
        self._check = health.unary_unary(
            "/grpc.health.v1.Health/Check",
            response_deserializer=health_pb2.HealthCheckResponse.FromString)

    def _metadata(self) -> List[Tuple[str, str]]:
        token = self._token
        if self._token_file is not None:
            with open(self._token_file, encoding="ascii") as file:
                token = file.read().strip()
        if token is None:
            return []
        return [("authorization", f"Bearer {token}")]

    def _seconds(self, timeout: Optional[float]) -> float:
        return self._timeout if timeout is None else _finite(timeout)

    def _attempts(self, timeout: Optional[float]) -> Attempts:
        return Attempts(self._max_attempts, self._seconds(timeout))

    def _how(self, timeout: Optional[float]) -> Dict[str, Any]:
        """Returns what every call is given."""
        return {"timeout": self._seconds(timeout),
                "metadata": self._metadata()}

    def _asks_limit(self, call: Call) -> bool:
        return self._limit is None and call.is_large()

    def _learn_limit(self, capabilities: topk_pb2.Capabilities) -> None:
        """Keeps the server's limit of messages for all calls."""
        told = capabilities.limits.max_message_bytes or _MAX_LIMIT
        self._limit = min(max(told, _MIN_LIMIT), _MAX_LIMIT)

    def _no_limit(self, error: TopKError) -> None:
        """Takes an error in place of capabilities. The call that needs them is
        sent all the same, and has an error of its own."""
        if error.code == grpc.StatusCode.UNIMPLEMENTED:
            self._limit = _MAX_LIMIT
