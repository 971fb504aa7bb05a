"""The code shared by the blocking and the asyncio client.

Shared logic is written as coroutines, which call methods that each client class
overrides. The methods of topk_client.Client block and never suspend, so this
client can run a coroutine with a single send().
"""

import contextlib
import dataclasses
import glob
import ipaddress
import logging
import math
import os
import re
import ssl
import threading
import time
from typing import (Any, Awaitable, Callable, Dict, Iterator, List, Optional,
                    Sequence, Tuple, Type, TypedDict, TypeVar, Union)

import grpc
from google.protobuf import wrappers_pb2

from topk_client._stubs import topk_pb2
from topk_client.errors import TopKError, from_rpc
from topk_client.messages import (HEAVY_BYTES, ArrayLike, Call, Request,
                                  Response, StreamedResponse, TopK, parse)
from topk_client.specs import AnyOnnx, converted, integer

VERSION = "0.1.0"

Path = Union[str, "os.PathLike[str]"]
# A bearer token, or a function that returns it.
Token = Union[str, Callable[[], str]]
# Names and values of request headers, in the form that gRPC expects.
Metadata = Sequence[Tuple[str, Union[str, bytes]]]
C = TypeVar("C", bound="Connection")


class Options(TypedDict, total=False):
    """The options of all calls."""

    timeout: Optional[float]
    metadata: Metadata
    wait_for_ready: Optional[bool]


_LOGGER = logging.getLogger("topk_client")
_SERVICE = "topk.v1.TopKService"
_CHANNEL_OPTIONS: Dict[str, Any] = {
    # Servers that report NOT_SERVING still get calls, because a draining server
    # still answers, and may be the only known server.
    "grpc.service_config": '{"loadBalancingConfig": [{"round_robin": {}}]}',
    "grpc.max_send_message_length": -1,
    "grpc.max_receive_message_length": -1,
    # A connection is closed if the server acknowledges no bytes for 10 seconds.
    # gRPC enforces this only if keepalive pings are enabled. Servers reject
    # ping intervals below 5 minutes.
    "grpc.keepalive_timeout_ms": 10_000,
    "grpc.keepalive_time_ms": 600_000,
    # The initial and the maximum backoff between connection attempts. With
    # gRPC's default of 1 s, only two connection attempts would fit into a
    # call's retries. If one of two servers behind an address is dead, both
    # attempts may reach the dead server.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 10_000,
    # A rolling update can replace all servers within gRPC's default of 30 s.
    "grpc.dns_min_time_between_resolutions_ms": 1000,
    # Leave retries to Attempts. gRPC's own retries may wait past the deadline,
    # and then lose the server's status. Also, gRPC 1.51 may omit a message when
    # it resends a stream after a connection breaks.
    "grpc.enable_retries": 0,
}
# One year. Replaces None and longer timeouts, which gRPC may not support.
_MAX_TIMEOUT_SECONDS = 365 * 86400.0

# A client keeps its last message, up to this size, until the next one is
# encoded. Otherwise, malloc would return the memory to the system after each
# message, and page faults would halve the rate of messages of 1 MiB.
_KEPT_BYTES = 8 << 20

# The prefixes of targets that have no port.
_WITHOUT_PORTS = ("unix:", "unix-abstract:", "vsock:", "xds:", "google-c2p:")

# The text options that environment variables such as TOPK_TLS_CA can set.
_VARIABLES = ("target", "tls_ca", "tls_cert", "tls_key", "tls_server_name",
              "token_file")
_FLAG_VARIABLES = ("tls", "token_over_plaintext")
_TRUE = ("1", "true", "on", "yes", "enable", "t", "y")
_FALSE = ("0", "false", "off", "no", "disable", "f", "n")


def _finite(timeout: Optional[float]) -> float:
    """Returns a timeout that gRPC accepts; None means no deadline."""
    if timeout is None:
        return _MAX_TIMEOUT_SECONDS
    if isinstance(timeout, str) or not hasattr(timeout, "__float__"):
        raise TypeError(f"timeout is {timeout!r}, not a number of seconds")
    if not timeout >= 0:
        raise ValueError(
            f"timeout is {timeout}; it must be at least 0 seconds")
    # NumPy's float32 is too imprecise to compute a deadline.
    return min(float(timeout), _MAX_TIMEOUT_SECONDS)


def checked_metadata(metadata: Metadata) -> Metadata:
    """Returns the metadata as a tuple. Raises TypeError or ValueError if gRPC
    would reject it. The errors do not contain values, which may be secret."""
    pairs = tuple(metadata)
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2
               for pair in pairs):
        raise TypeError("metadata must consist of pairs of a name and a value, "
                        "such as [('tenant', 'a')]; pass dict.items()")
    pairs = tuple((key, value) for key, value in pairs)
    for key, value in pairs:
        if not (isinstance(key, str) and re.fullmatch("[0-9a-z_.-]+", key)):
            raise ValueError(f"metadata key {key!r} must consist of lowercase "
                             "letters, digits and _.-")
        if not (isinstance(value, bytes) if key.endswith("-bin") else
                isinstance(value, str) and re.fullmatch("[ -~]*", value)):
            raise ValueError(f"the value of metadata {key!r} must be printable "
                             "ASCII, or bytes if the key ends with -bin")
    return pairs


def _grpc_target(target: str) -> str:
    """Returns the target with the scheme that gRPC needs for a list of
    addresses: ipv6 if they are in brackets, otherwise ipv4. Raises ValueError
    for addresses without a port, for which gRPC would use 443, and for a list
    of names, which gRPC does not support."""
    if not isinstance(target, str):
        raise TypeError(f"target is {target!r}, not a str")
    if target.startswith(_WITHOUT_PORTS):
        return target
    full = target
    if "," in target and "/" not in target and not target.startswith("ipv"):
        full = ("ipv6:" if target.startswith("[") else "ipv4:") + target
    addresses = re.sub(r"\A(dns|ipv4|ipv6):(//.*/)?", "", full).split(",")
    try:
        for address in addresses:
            match = re.fullmatch(r"(\[.+\]|[^:\s]+):([0-9]{1,5})", address)
            # gRPC would use a port modulo 65536.
            if not match or not 1 <= int(match[2]) <= 65535:
                raise ValueError
            if full.startswith("ipv6:"):
                ipaddress.IPv6Address(match[1][1:-1].partition("%")[0])
            elif len(addresses) > 1 or full.startswith("ipv4:"):
                ipaddress.IPv4Address(match[1])
    except ValueError:
        raise ValueError(
            f"target is {target[:64]!r}; it must be host:port with a port of "
            "1 .. 65535, unix:path, or a list of IPv4 addresses, or of IPv6 "
            "addresses in brackets, with ports") from None
    return full


def _is_unix(target: str) -> bool:
    return target.startswith(("unix:", "unix-abstract:"))


def _is_local(target: str) -> bool:
    addresses = re.sub(r"\A(dns:|ipv4:|ipv6:)?(///)?", "", target).split(",")
    return _is_unix(target) or all(re.fullmatch(
        r"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]+)?", address)
        for address in addresses)


def _system_authorities() -> Optional[bytes]:
    """Returns the CA certificates that this machine trusts, in PEM form. grpcio
    itself would trust only its own list. Returns None for that list, and for
    the list that the user has set for gRPC."""
    if os.environ.get("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"):
        return None
    context = ssl.create_default_context()
    # OpenSSL would read certificates in folders only when needed.
    folders = os.environ.get("SSL_CERT_DIR",
                             ssl.get_default_verify_paths().openssl_capath)
    for folder in folders.split(os.pathsep):
        for path in glob.glob(os.path.join(glob.escape(folder), "*.[0-9]*")):
            with contextlib.suppress(OSError):  # not a readable certificate
                context.load_verify_locations(path)
    return "".join(map(ssl.DER_cert_to_PEM_cert, context.get_ca_certs(
        binary_form=True))).encode() or None


def _read_tls_files(ca: Optional[Path], key: Optional[Path],
                    certificate: Optional[Path]) -> List[Optional[bytes]]:
    """Returns the arguments of grpc.ssl_channel_credentials(). Raises
    ValueError for invalid files, which gRPC would not report."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def load_key(path: Path) -> None:
        if certificate is not None:  # the empty password avoids a prompt
            context.load_cert_chain(certificate, path, password="")

    chain = _read("tls_cert", certificate, context.load_verify_locations)
    return [_system_authorities() if ca is None else
            _read("tls_ca", ca, context.load_verify_locations),
            _read("tls_key", key, load_key), chain]


def _read(argument: str, path: Optional[Path],
          check: Optional[Callable[[Path], object]] = None) -> Optional[bytes]:
    """Returns the content of a file. Raises ValueError if it cannot be read or
    checked. The error contains the path only if its folder exists or if the
    file has no secret, in case a caller passes the content of the file."""
    if path is None:
        return None
    try:
        if check is not None:
            check(path)
        with open(os.fspath(path), "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        name = os.fsdecode(path)
        shown = f"{name!r}: " if os.path.isdir(os.path.dirname(name)) or (
            argument in ("tls_ca", "tls_cert") and "-----" not in name) else ""
        raise ValueError(f"{argument}: {shown}{reason}") from None


def _check_token(token: Any, argument: str = "token") -> str:
    """Returns the token. Raises TypeError if it is not a str, and ValueError if
    no server would accept it. The error never contains a part of the token."""
    if not isinstance(token, str):
        raise TypeError(f"{argument}: a token must be a str, not a "
                        + type(token).__name__)
    if not re.fullmatch(r"[A-Za-z0-9._~+/=-]{16,}", token):
        raise ValueError(f"{argument}: a token must consist of at least 16 "
                         "letters, digits and -._~+/=, without spaces or "
                         "newlines")
    return token


def _read_token(path: Path) -> str:
    """Reads a token file. Raises ValueError if it has no valid token."""
    content = _read("token_file", path) or b""
    return _check_token(content.strip().decode("latin-1"), "token_file")


def check_no_token(arguments: Dict[str, Any]) -> None:
    """Raises TypeError if the arguments of a client contain a token. Pickles
    are sent between machines, logged and stored."""
    if isinstance(arguments.get("token"), str) or "authorization" in dict(
            arguments.get("metadata") or ()):
        raise TypeError("a client with a token cannot be pickled, or the token "
                        "would be in the pickle: pass token_file")


def is_retried(error: TopKError) -> bool:
    """Returns whether another attempt may succeed, after the error's delay."""
    # CANCELLED and INTERNAL errors without a reason are not from topkd. gRPC
    # reports them if the server dies after a proxy has forwarded part of the
    # response.
    return (
        error.code is grpc.StatusCode.UNAVAILABLE
        or error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        and bool(error.retry_delay)
        or error._begun and not error.reason and error.code in (
            grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL))


@dataclasses.dataclass(frozen=True)
class Retry:
    """How often a call is attempted, and the pauses between the attempts. With
    the defaults, all pauses take 2.1 s in total.

    Attributes:
      attempts: the maximum number of attempts, at least 1.
      initial: the first pause in seconds.
      maximum: the longest pause in seconds. The server may ask for longer ones.
      multiplier: the factor by which each pause is longer than the previous
        one, at least 1.
    """

    attempts: int = 4
    initial: float = 0.1
    maximum: float = 2.0
    multiplier: float = 4.0

    def __post_init__(self) -> None:
        for name, value, least in (
                ("attempts", integer("attempts", self.attempts), 1),
                ("initial", self.initial, 0),
                ("maximum", self.maximum, self.initial),
                ("multiplier", self.multiplier, 1)):
            if not hasattr(value, "__float__"):
                raise TypeError(f"{name} is {value!r}, not a number")
            if not least <= value < math.inf:
                raise ValueError(f"{name} is {value}; it must be finite and at "
                                 f"least {least}")


class Attempts:
    """The remaining attempts of a call, its deadline, its metadata, and whether
    each attempt waits for a connection."""

    def __init__(self, retry: Retry, timeout: float, metadata: Metadata = (),
                 wait_for_ready: bool = False) -> None:
        self.metadata = metadata
        self.wait_for_ready = wait_for_ready
        self._retry = retry
        self._failed = 0
        self.deadline = time.monotonic() + timeout
        self._pause = retry.initial

    def seconds(self) -> float:
        """Returns the time until the deadline."""
        return max(0.0, self.deadline - time.monotonic())

    def pause_after(self, error: TopKError, method: str = "") -> float:
        """Returns the seconds to wait before the next attempt, always less than
        the time until the deadline, and logs the error. Raises the error if the
        call must not be retried. If the server's retry delay ends after the
        deadline, the error message says so."""
        told = error.retry_delay or 0.0
        self._failed += 1
        if not is_retried(error) or self._failed >= self._retry.attempts:
            raise error
        pause = max(told, self._pause)
        if pause >= self.seconds():
            if told:
                error.message += (" (not retried: its retry delay ends after "
                                  "the deadline)")
            raise error
        self._pause = min(self._retry.multiplier * self._pause,
                          self._retry.maximum)
        _LOGGER.debug("%s: attempt %d of %d failed, retrying in %.3g s: %s",
                      method, self._failed, self._retry.attempts, pause, error)
        return pause


class Route:
    """A channel and its methods. The methods take and return bytes, so that
    this package, not gRPC, reports malformed responses."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.compute_topk = channel.unary_unary(f"/{_SERVICE}/ComputeTopK")
        self.stream_topk = channel.stream_stream(f"/{_SERVICE}/StreamTopK")
        self.compute_topk_many = channel.stream_stream(
            f"/{_SERVICE}/ComputeTopKMany")
        self.get_capabilities = channel.unary_unary(
            f"/{_SERVICE}/GetCapabilities")
        self.check_health = channel.unary_unary("/grpc.health.v1.Health/Check")


def topk_request(tensor: ArrayLike, k: int, axis: int, largest: bool,
                 sorted: bool) -> Request:
    """Returns the request of topk(). Raises TypeError if k is not an integer,
    or `largest` or `sorted` is not a bool."""
    return Request(tensor, AnyOnnx(
        integer("k", k), axis, int(converted("largest", bool, largest)),
        int(converted("sorted", bool, sorted)), 11))


def _for_argument(error: TopKError) -> TopKError:
    """Replaces a field such as onnx.k by the name of the argument of topk()."""
    error.field = re.sub(r"\A(onnx|openvino)\.", "", error.field)
    return error


def topk_result(result: Union[Response, TopKError]) -> "TopK[Any]":
    """Returns the result of topk_request(), or raises the error."""
    if isinstance(result, TopKError):
        raise _for_argument(result)
    return TopK(result.values, result.indices)


class Connection:
    """A connection to one or more servers; see Client."""

    _grpc: Any  # grpc or grpc.aio
    # Sleeps for a number of seconds.
    _sleep: Callable[[float], Awaitable[None]]
    # Calls a function, which may copy a large tensor.
    _prepare: Callable[[Any], Awaitable[Any]]
    # Calls make(*arguments), which opens a channel, and adds the interceptors.
    _open: Callable[..., Any]
    # Makes a unary call.
    _unary: Callable[[Any, bytes, Attempts], Awaitable[bytes]]
    # Makes a StreamTopK call and adds its messages to the response.
    _stream: Callable[[Iterator[bytes], StreamedResponse, Attempts],
                      Awaitable[None]]

    def __init__(
            self, target: str = "localhost:50051", *,
            timeout: Optional[float] = 60.0,
            retry: Optional[Retry] = Retry(), wait_for_ready: bool = False,
            metadata: Metadata = (), user_agent: str = "", tls: bool = False,
            tls_ca: Optional[Path] = None, tls_cert: Optional[Path] = None,
            tls_key: Optional[Path] = None,
            tls_server_name: Optional[str] = None,
            credentials: Optional[grpc.ChannelCredentials] = None,
            token: Optional[Token] = None, token_file: Optional[Path] = None,
            token_over_plaintext: bool = False,
            interceptors: Sequence[Any] = (),
            channel_options: Sequence[Tuple[str, Any]] = ()) -> None:
        self._arguments = {name: value for name, value in locals().items()
                           if name != "self"}
        if not isinstance(retry, (Retry, type(None))):
            raise TypeError(f"retry is {retry!r}, not a Retry or None")
        if (tls_cert is None) != (tls_key is None):
            raise ValueError("tls_cert and tls_key must be set together")
        if token is not None and token_file is not None:
            raise ValueError("token and token_file must not both be set")
        tls, wait_for_ready, token_over_plaintext = (
            converted(name, bool, self._arguments[name] or False)
            for name in ("tls", "wait_for_ready", "token_over_plaintext"))
        for name in ("metadata", "interceptors", "channel_options"):
            if not hasattr(self._arguments[name], "__iter__"):
                raise TypeError(f"{name} is {self._arguments[name]!r}, not a "
                                "sequence")
        grpc_target = _grpc_target(target)
        tls = tls or any(argument is not None for argument in (
            tls_ca, tls_cert, tls_key, tls_server_name))
        if tls and _is_unix(target):
            raise ValueError(f"{target} is a Unix socket, which has no TLS")
        if tls and tls_server_name is None and "," in target:
            raise ValueError("tls_server_name is required with TLS if the "
                             "target is a list of addresses")
        for name, value, kind in (
                ("user_agent", user_agent, str),
                ("tls_server_name", tls_server_name, str),
                ("credentials", credentials, grpc.ChannelCredentials)):
            if not isinstance(value, (kind, type(None))):
                raise TypeError(f"{name} is a {type(value).__name__}, not a "
                                f"{kind.__name__}")
        if credentials is not None and tls:
            raise ValueError("credentials replace the options for TLS: do not "
                             "set both")
        self._is_secure = tls or credentials is not None
        has_token = token is not None or token_file is not None
        if has_token and not (self._is_secure or token_over_plaintext
                              or _is_local(target)):
            raise ValueError(
                f"the token would go to {target} without TLS; use TLS, or "
                "token_over_plaintext if the network is trusted")
        self._timeout = _finite(timeout)
        self._last_message = b""
        self._retry = retry or Retry(attempts=1)
        self._wait_for_ready = wait_for_ready
        self._metadata = checked_metadata(metadata)
        self._arguments["metadata"] = self._metadata
        self._interceptors = interceptors
        self._token = (token if token is None or callable(token)
                       else _check_token(token))
        self._token_file = token_file
        if token_file is not None:
            self._token = _read_token(token_file)
        options = {
            **_CHANNEL_OPTIONS, "grpc.primary_user_agent":
            f"{user_agent} topk-client-python/{VERSION}".lstrip()}
        if tls_server_name:
            options["grpc.ssl_target_name_override"] = tls_server_name
        if has_token and not self._is_secure:
            # A proxy must not see a token that is sent without TLS.
            options["grpc.enable_http_proxy"] = 0
        options.update(channel_options)
        self._grpc_target, self._options = grpc_target, list(options.items())
        self._credentials = (
            credentials if not tls else grpc.ssl_channel_credentials(
                *_read_tls_files(tls_ca, tls_key, tls_cert)))
        self._lock = threading.Condition()  # notified when the client closes
        self._closed = False
        self._opened: Optional[Route] = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._arguments['target']!r})"

    @classmethod
    def from_env(cls: Type[C], **options: Any) -> C:
        """Returns a client with the options in the environment variables that
        the command topk reads: TOPK_TARGET, TOPK_TLS, TOPK_TLS_CA,
        TOPK_TLS_CERT, TOPK_TLS_KEY, TOPK_TLS_SERVER_NAME, TOPK_TOKEN_FILE and
        TOPK_TOKEN_OVER_PLAINTEXT. `options` are other arguments of the client,
        and override the variables; `token` overrides TOPK_TOKEN_FILE. Empty
        variables are ignored."""
        if options.get("token") is not None:
            options.setdefault("token_file", None)
        for name in (*_VARIABLES, *_FLAG_VARIABLES):
            variable = "TOPK_" + name.upper()
            value: Any = os.environ.get(variable, "")
            if name in _FLAG_VARIABLES and value:
                if value.lower() not in (*_TRUE, *_FALSE):
                    raise ValueError(f"{variable}: {value!r} is not true or "
                                     "false")
                value = value.lower() in _TRUE
            if value != "":
                options.setdefault(name, value)
        return cls(**options)

    def __getstate__(self) -> Dict[str, Any]:
        """Pickles the arguments. A copy of the client opens its own
        connections. Raises TypeError if an argument is a secret."""
        check_no_token(self._arguments)
        if self._arguments["credentials"] is not None:
            raise TypeError("a client with credentials cannot be pickled: pass "
                            "tls_ca, tls_cert and tls_key")
        return self._arguments

    def __setstate__(self, arguments: Dict[str, Any]) -> None:
        Connection.__init__(self, **arguments)

    def _channel_to_close(self) -> Any:
        """Marks the client as closed. Returns its channel, or None."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
            self._last_message = b""
            return self._opened and self._opened.channel

    def _check_not_closed(self) -> None:
        """Raises TopKError if the client was closed after the call had
        begun."""
        if self._closed:
            raise TopKError(grpc.StatusCode.CANCELLED, "the client was closed")

    def _route(self) -> Route:
        """Returns the channel. Opens it for the first call, so that a process
        can be forked before."""
        if self._opened is None:
            with self._lock:
                if self._opened is None:
                    self._check_not_closed()
                    self._opened = Route(
                        self._open(self._grpc.insecure_channel,
                                   self._grpc_target, self._options)
                        if self._credentials is None else
                        self._open(self._grpc.secure_channel, self._grpc_target,
                                   self._credentials, self._options))
        return self._opened

    def _error(self, rpc: Any, begun: bool = False) -> TopKError:
        """Converts an error of gRPC. `begun` says whether part of the response
        arrived before: then a proxy may have caused the error, unless close()
        has ended the call with CANCELLED."""
        error = from_rpc(rpc, self._arguments["target"], self._is_secure)
        error._begun = begun and not self._closed
        return error

    def _attempts(self, *, timeout: Optional[float] = None,
                  metadata: Metadata = (),
                  wait_for_ready: Optional[bool] = None,
                  **unknown: Any) -> Attempts:
        """Returns the attempts of a call that begins now. Raises ValueError if
        the client is closed, and TypeError for unknown options."""
        if unknown:
            raise TypeError(f"unknown options: {', '.join(unknown)}; the "
                            "options of all calls are timeout, metadata and "
                            "wait_for_ready")
        if self._closed:
            raise ValueError("the client is closed")
        merged = self._metadata
        if metadata:
            mine = checked_metadata(metadata)
            names = {name for name, _ in mine}
            merged = (*(pair for pair in merged if pair[0] not in names), *mine)
        return Attempts(
            self._retry, self._timeout if timeout is None else _finite(timeout),
            merged,
            self._wait_for_ready if wait_for_ready is None else
            converted("wait_for_ready", bool, wait_for_ready))

    def _how(self, attempts: Attempts) -> Dict[str, Any]:
        """Returns the keyword arguments for an RPC. Raises TopKError if the
        client was closed, or if no time is left: with a timeout of 0, gRPC
        might still send the request."""
        self._check_not_closed()
        seconds = attempts.deadline - time.monotonic()
        if seconds <= 0:
            raise TopKError(grpc.StatusCode.DEADLINE_EXCEEDED,
                            "the timeout expired before the request was sent")
        metadata = attempts.metadata
        if self._token is not None and "authorization" not in dict(metadata):
            metadata = (*metadata,
                        ("authorization", f"Bearer {self._current_token()}"))
        return {"timeout": seconds, "metadata": metadata,
                "wait_for_ready": attempts.wait_for_ready or None}

    def _current_token(self) -> Any:
        if self._token_file is not None:
            with contextlib.suppress(ValueError):  # keeps the last valid token
                self._token = _read_token(self._token_file)
        token = self._token
        return _check_token(token()) if callable(token) else token

    async def _capabilities(self, attempts: Attempts
                            ) -> topk_pb2.Capabilities:
        while True:
            try:
                return parse(topk_pb2.Capabilities, await self._unary(
                    self._route().get_capabilities, b"", attempts))
            except TopKError as error:
                pause = attempts.pause_after(error, "GetCapabilities")
            await self._sleep(pause)

    async def _serving(self, service: str, attempts: Attempts) -> bool:
        # These types are encoded like the messages of grpc.health.v1, whose
        # stubs would collide with those of grpcio-health-checking.
        request = wrappers_pb2.StringValue(value=service)
        response = parse(wrappers_pb2.Int32Value, await self._unary(
            self._route().check_health, request.SerializeToString(), attempts))
        return bool(response.value == 1)  # SERVING

    async def _topk(self, request: Request,
                    attempts: Attempts) -> "TopK[Any]":
        try:
            return topk_result(await self._compute(request, None, attempts))
        except TopKError as error:
            raise _for_argument(error)

    async def _compute(self, request: Request, stream: Optional[bool],
                       attempts: Attempts) -> Response:
        call = Call(request)
        streamed = call.is_streamed(stream)
        make: Any = call.chunks if streamed else call.message
        while True:
            message = (await self._prepare(make)
                       if call.nbytes > HEAVY_BYTES else make())
            try:
                if streamed:
                    response = StreamedResponse(call)
                    await self._stream(message, response, attempts)
                    return response.response()
                if len(message) <= _KEPT_BYTES:
                    self._last_message = message
                answer = await self._unary(self._route().compute_topk, message,
                                           attempts)
                return call.decode(parse(topk_pb2.TopKResponse, answer))
            except TopKError as error:
                pause = attempts.pause_after(
                    call.explained(error),
                    "StreamTopK" if streamed else "ComputeTopK")
            await self._sleep(pause)
