"""The code shared by the blocking and the asyncio client.

Shared logic is written as coroutines, which call methods that each client class
overrides. The methods of topk_client.Client block and never suspend, so this
client can run a coroutine with a single send().
"""

import dataclasses
import glob
import ipaddress
import json
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

from topk_client._dtypes import check_unmasked
from topk_client._stubs import topk_pb2
from topk_client.errors import TopKError, from_rpc
from topk_client.messages import (HEAVY_BYTES, ArrayLike, Call, M, Request,
                                  Response, StreamedResponse, TopK, parse)
from topk_client.specs import AnyOnnx, integer

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
# A connection is closed if the server acknowledges no bytes for this long.
_STUCK_MILLISECONDS = 10_000
# gRPC enforces the timeout above only if keepalive pings are enabled. Servers
# reject ping intervals below 5 minutes.
_PING_MILLISECONDS = 600_000
# The initial and the maximum backoff between connection attempts. gRPC's
# defaults are 1 s and 2 minutes. With 1 s, only two connection attempts would
# fit into a call's retries. If one of two servers behind an address is dead,
# both attempts may reach the dead server.
_FIRST_RECONNECT_MILLISECONDS = 100
_RECONNECT_MILLISECONDS = 10_000
# The minimum time between two DNS queries. A rolling update can replace all
# servers within gRPC's default of 30 s.
_RESOLVE_MILLISECONDS = 1000
# One year. Replaces None and longer timeouts, which gRPC may not support.
_MAX_TIMEOUT_SECONDS = 365 * 86400.0

# A client keeps its last message, up to this size, until the next one is
# encoded. Otherwise, malloc would return the memory to the system after each
# message, and page faults would halve the rate of messages of 1 MiB.
_KEPT_BYTES = 8 << 20

# The prefixes of targets that have no port.
_WITHOUT_PORTS = ("unix:", "unix-abstract:", "vsock:", "xds:", "google-c2p:")
# A host name, an IPv4 address or an IPv6 address in brackets; then a port.
_ADDRESS = re.compile(r"(\[[!-+\--~]+\]|[!-+\--9;-~]+):0*([0-9]{1,5})")

# The text options that environment variables such as TOPK_TLS_CA can set.
_VARIABLES = ("target", "tls_ca", "tls_cert", "tls_key", "tls_server_name",
              "token_file")
_FLAG_VARIABLES = ("tls", "token_over_plaintext")
_TRUE = ("1", "true", "on", "yes", "enable", "t", "y", "+")
_FALSE = ("0", "false", "off", "no", "disable", "f", "n", "-")

# The minimum length of a token in characters, as in the server.
_MIN_TOKEN = 16


def _finite(timeout: Optional[float]) -> float:
    """Returns a timeout that gRPC accepts; None means no deadline."""
    if timeout is None:
        return _MAX_TIMEOUT_SECONDS
    if not timeout >= 0:
        raise ValueError(
            f"timeout is {timeout}; it must be at least 0 seconds")
    # NumPy's float32 is too imprecise to compute a deadline.
    return min(float(timeout), _MAX_TIMEOUT_SECONDS)


def _checked_metadata(metadata: Metadata) -> Metadata:
    """Returns the metadata as a tuple. Raises TypeError or ValueError if gRPC
    would reject it. The errors do not contain values, which may be secret."""
    if not metadata:
        return ()
    try:
        pairs = tuple((key, value) for key, value in metadata)
    except (TypeError, ValueError):
        raise TypeError("metadata must be pairs of a key and a value") from None
    for key, value in pairs:
        if not (isinstance(key, str) and re.fullmatch("[0-9a-z_.-]+", key)):
            raise ValueError(f"metadata key {key!r} must consist of lowercase "
                             "letters, digits and _.-")
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if not (isinstance(value, bytes) if key.endswith("-bin") else
                isinstance(text, str) and text.isascii()
                and text.isprintable()):
            raise ValueError(f"the value of metadata {key!r} must be printable "
                             "ASCII, or bytes if the key ends with -bin")
    return pairs


# Servers that report NOT_SERVING still get calls, because a draining server
# still answers, and may be the only known server.
_SERVICE_CONFIG = json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})


def _grpc_target(target: str) -> str:
    """Returns the target with the scheme that gRPC needs for a list of
    addresses: ipv6 if they are in brackets, otherwise ipv4. Raises TypeError if
    the target is not a str, and ValueError if an address or a port is invalid.
    gRPC reports no error: it uses a port modulo 65536, and 0x50 as 0."""
    if not isinstance(target, str):
        raise TypeError(f"target is {target!r}, not a str")
    if target.startswith(_WITHOUT_PORTS):
        return target
    scheme = ""
    if "," in target and "/" not in target and not target.startswith("ipv"):
        scheme = "ipv6:" if target.startswith("[") else "ipv4:"
    full = scheme + target
    addresses = re.sub(r"\A(dns|ipv4|ipv6):(//.*/)?", "", full).split(",")
    found = [_ADDRESS.fullmatch(address) for address in addresses]
    expected = "host:port with a port of 1 .. 65535"
    try:
        hosts = [match[1] for match in found
                 if match and 1 <= int(match[2]) <= 65535]
        if len(hosts) < len(addresses):
            raise ValueError
        expected = ("a list of IPv4 addresses, or of IPv6 addresses in "
                    "brackets, each with a port")
        for host in hosts:
            if full.startswith("ipv6:"):
                ipaddress.IPv6Address(host[1:-1].partition("%")[0])
            elif len(hosts) > 1 or full.startswith("ipv4:"):
                ipaddress.IPv4Address(host)
    except ValueError:
        raise ValueError(
            f"target: {full[:64]!r} is not {expected}") from None
    return full


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
    addresses = re.sub(r"\A(dns:|ipv4:|ipv6:)?(///)?", "", target)
    return all(map(_is_loopback, addresses.split(",")))


def _checked_path(argument: str, path: Path) -> str:
    """Returns the path as a string. Raises TypeError if it is not a path:
    open() would take an int as a file descriptor, read it and close it."""
    if not isinstance(path, (str, os.PathLike)):
        # Do not print the value, which may be a private key.
        raise TypeError(f"{argument} is a {type(path).__name__}, not a path: "
                        "pass the name of the file")
    return os.fspath(path)


def _system_authorities() -> Optional[bytes]:
    """Returns the CA certificates that this machine trusts, in PEM form. grpcio
    itself would trust only its own list. Returns None for that list, and for
    the list that the user has set for gRPC."""
    if os.environ.get("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    # OpenSSL would read certificates in folders only when needed.
    paths = ssl.get_default_verify_paths()
    for folder in os.environ.get(paths.openssl_capath_env,
                                 paths.openssl_capath).split(os.pathsep):
        for path in glob.glob(os.path.join(glob.escape(folder), "*.[0-9]*")):
            try:
                context.load_verify_locations(path)
            except OSError:  # not a readable certificate
                pass
    return "".join(map(ssl.DER_cert_to_PEM_cert, context.get_ca_certs(
        binary_form=True))).encode() or None


def _read_tls_files(ca: Optional[Path], key: Optional[Path],
                    certificate: Optional[Path]) -> List[Optional[bytes]]:
    """Returns the arguments of grpc.ssl_channel_credentials(). Raises
    ValueError for invalid files, which gRPC would not report."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def load_key(name: str) -> None:
        if certificate is not None:  # the empty password avoids a prompt
            context.load_cert_chain(certificate, name, password="")

    contents: Dict[str, bytes] = {}
    for argument, path, load in (
            ("tls_ca", ca, context.load_verify_locations),
            ("tls_cert", certificate, context.load_verify_locations),
            ("tls_key", key, load_key)):
        if path is None:
            continue
        name = _checked_path(argument, path)
        try:
            load(name)
            with open(name, "rb") as file:
                contents[argument] = file.read()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ValueError(
                f"{argument}: {_shown(name, error)}; the files must be in PEM "
                "form, and tls_key must have the key of tls_cert without a "
                "passphrase") from None
    return [_system_authorities() if ca is None else contents["tls_ca"],
            contents.get("tls_key"), contents.get("tls_cert")]


def _check_token(token: Any) -> str:
    """Returns the token. Raises TypeError or ValueError if no server would
    accept it. The error never contains a part of the token."""
    if not isinstance(token, str):
        raise TypeError(f"token is a {type(token).__name__}, not a str")
    if not re.fullmatch(r"[A-Za-z0-9._~+/=-]*", token):
        raise ValueError("a token must consist of letters, digits and "
                         "-._~+/=, without spaces or line breaks")
    if len(token) < _MIN_TOKEN:
        raise ValueError(f"a token of {len(token)} characters is too short; "
                         f"use at least {_MIN_TOKEN}")
    return token


def _read_token(path: Path) -> str:
    """Reads a token file. Raises ValueError if it has no valid token."""
    name = _checked_path("token_file", path)
    try:
        with open(name, "rb") as file:
            content = file.read()
        return _check_token(content.strip(b" \t\r\n").decode("latin-1"))
    except (OSError, ValueError) as error:
        raise ValueError(f"token_file: {_shown(name, error)}") from None


def _shown(name: str, error: Exception) -> str:
    """Returns the name of an unusable file and the reason. Omits the name if it
    may be a key or a token that was passed instead of the name of its file."""
    reason = getattr(error, "strerror", None) or str(error)
    if "\n" not in name and os.path.isdir(os.path.dirname(name)):
        return f"{name!r}: {reason}"
    return f"{reason}; pass the name of a file, with its folder"


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
    """Returns the request of topk(). Raises TypeError or ValueError if k is not
    an integer."""
    if type(k) is not int:
        check_unmasked("k", k)
        k = integer("k", k)
    return Request(tensor, AnyOnnx(k, axis, int(bool(largest)),
                                   int(bool(sorted)), 11))


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
    # Makes a unary call and returns the response, or an awaitable of it.
    _unary: Callable[[Any, bytes, Attempts], Any]
    _is_async = False
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
        grpc_target = _grpc_target(target)
        for name, text in (("user_agent", user_agent),
                           ("tls_server_name", tls_server_name)):
            if not isinstance(text, (str, type(None))):
                raise TypeError(f"{name} is a {type(text).__name__}, not a str")
        tls = tls or any(argument is not None for argument in (
            tls_ca, tls_cert, tls_key, tls_server_name))
        if tls and _is_unix(target):
            raise ValueError(f"{target} is a Unix socket, which has no TLS")
        if credentials is not None:
            if not isinstance(credentials, grpc.ChannelCredentials):
                raise TypeError(f"credentials is a {type(credentials).__name__}"
                                ", not a grpc.ChannelCredentials")
            if tls:
                raise ValueError("credentials replace the options for TLS: do "
                                 "not set both")
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
        self._metadata = _checked_metadata(metadata)
        self._arguments["metadata"] = self._metadata
        self._interceptors = interceptors
        self._token = (token if token is None or callable(token)
                       else _check_token(token))
        self._token_file = token_file
        if token_file is not None:
            self._token = _read_token(token_file)
        options: Dict[str, Any] = {
            "grpc.service_config": _SERVICE_CONFIG,
            "grpc.max_send_message_length": -1,
            "grpc.max_receive_message_length": -1,
            "grpc.keepalive_time_ms": _PING_MILLISECONDS,
            "grpc.keepalive_timeout_ms": _STUCK_MILLISECONDS,
            "grpc.initial_reconnect_backoff_ms": _FIRST_RECONNECT_MILLISECONDS,
            "grpc.max_reconnect_backoff_ms": _RECONNECT_MILLISECONDS,
            "grpc.dns_min_time_between_resolutions_ms": _RESOLVE_MILLISECONDS,
            # Leave retries to Attempts. gRPC's own retries may wait past the
            # deadline, and then lose the server's status. Also, gRPC 1.51 may
            # omit a message when it resends a stream after a connection breaks.
            "grpc.enable_retries": 0,
            "grpc.primary_user_agent":
                f"{user_agent} topk-client-python/{VERSION}".lstrip(),
        }
        if tls_server_name:
            options["grpc.ssl_target_name_override"] = tls_server_name
        if has_token and not self._is_secure:
            # A proxy must not see a token that is sent without TLS.
            options["grpc.enable_http_proxy"] = 0
        try:
            options.update(channel_options)
        except (TypeError, ValueError):
            raise TypeError("channel_options must be pairs of a name and a "
                            "value") from None
        self._grpc_target, self._options = grpc_target, list(options.items())
        self._tls = _read_tls_files(tls_ca, tls_key, tls_cert) if tls else None
        self._credentials = credentials
        self._lock = threading.Condition()  # notified when the client closes
        self._closed = False
        self._opened: Optional[Route] = None

    @classmethod
    def from_env(cls: Type[C], **options: Any) -> C:
        """Returns a client with the options in the environment variables that
        the command topk reads: TOPK_TARGET, TOPK_TLS, TOPK_TLS_CA,
        TOPK_TLS_CERT, TOPK_TLS_KEY, TOPK_TLS_SERVER_NAME, TOPK_TOKEN_FILE and
        TOPK_TOKEN_OVER_PLAINTEXT. `options` are other arguments of the client,
        and override the variables. Empty variables are ignored."""
        for name in (*_VARIABLES, *_FLAG_VARIABLES):
            variable = "TOPK_" + name.upper()
            value = os.environ.get(variable, "")
            if not value or name in options:
                continue
            if name in _VARIABLES:
                options[name] = value
            elif value.lower() in (*_TRUE, *_FALSE):
                options[name] = value.lower() in _TRUE
            else:
                raise ValueError(f"{variable}: {value!r} is not true or false")
        return cls(**options)

    def __getstate__(self) -> Dict[str, Any]:
        """Pickles the arguments. A copy of the client opens its own
        connections. Raises TypeError if an argument is a secret."""
        check_no_token(self._arguments)
        if self._credentials is not None:
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
                    credentials = self._credentials
                    if self._tls is not None:
                        credentials = grpc.ssl_channel_credentials(*self._tls)
                    self._opened = Route(
                        self._open(self._grpc.insecure_channel,
                                   self._grpc_target, self._options)
                        if credentials is None else
                        self._open(self._grpc.secure_channel, self._grpc_target,
                                   credentials, self._options))
        return self._opened

    def _error(self, rpc: Any, begun: bool = False) -> TopKError:
        """Converts an error of gRPC. `begun` says whether part of the response
        arrived before: then a proxy may have caused the error, unless close()
        has ended the call with CANCELLED."""
        error = from_rpc(rpc, self._arguments["target"], self._is_secure)
        error._begun = begun and not self._closed
        return error

    def _attempts(self, timeout: Optional[float], metadata: Metadata,
                  wait_for_ready: Optional[bool]) -> Attempts:
        """Returns the attempts of a call that begins now. Raises ValueError if
        the client is closed."""
        if self._closed:
            raise ValueError("the client is closed")
        merged = self._metadata
        if metadata:
            mine = _checked_metadata(metadata)
            names = {name for name, _ in mine}
            merged = (*(pair for pair in merged if pair[0] not in names), *mine)
        return Attempts(
            self._retry, self._timeout if timeout is None else _finite(timeout),
            merged,
            self._wait_for_ready if wait_for_ready is None else wait_for_ready)

    def _how(self, attempts: Attempts) -> Dict[str, Any]:
        """Returns the keyword arguments for an RPC. Raises TopKError if the
        client was closed, or if no time is left: with a timeout of 0, gRPC
        might still send the request."""
        if self._closed:
            self._check_not_closed()
        seconds = attempts.deadline - time.monotonic()
        if seconds <= 0:
            raise TopKError(grpc.StatusCode.DEADLINE_EXCEEDED,
                            "the timeout expired before the request was sent")
        metadata = attempts.metadata
        if self._token is not None:
            metadata = self._with_token(metadata)
        return {"timeout": seconds, "metadata": metadata,
                "wait_for_ready": attempts.wait_for_ready or None}

    def _with_token(self, metadata: Metadata) -> Metadata:
        if self._token_file is not None:
            try:
                self._token = _read_token(self._token_file)
            except ValueError:
                pass  # the last valid token stays in use
        token = self._token
        if "authorization" in dict(metadata):
            return metadata
        if callable(token):
            token = _check_token(token())
        return (*metadata, ("authorization", f"Bearer {token}"))

    async def _ask(self, method: Any, message: bytes, kind: Type[M],
                   attempts: Attempts) -> M:
        answer = self._unary(method, message, attempts)
        return parse(kind, await answer if self._is_async else answer)

    async def _capabilities(self, attempts: Attempts
                            ) -> topk_pb2.Capabilities:
        while True:
            try:
                return await self._ask(self._route().get_capabilities, b"",
                                       topk_pb2.Capabilities, attempts)
            except TopKError as error:
                pause = attempts.pause_after(error, "GetCapabilities")
            await self._sleep(pause)

    async def _serving(self, service: str, attempts: Attempts) -> bool:
        # These types are encoded like the messages of grpc.health.v1, whose
        # stubs would collide with those of grpcio-health-checking.
        request = wrappers_pb2.StringValue(value=service)
        response = await self._ask(
            self._route().check_health, request.SerializeToString(),
            wrappers_pb2.Int32Value, attempts)
        return bool(response.value == 1)  # SERVING

    async def _topk(self, request: Request,
                    attempts: Attempts) -> "TopK[Any]":
        try:
            return topk_result(await self._compute(request, None, attempts))
        except TopKError as error:
            _for_argument(error)
            raise

    async def _compute(self, request: Request, stream: Optional[bool],
                       attempts: Attempts) -> Response:
        call = Call(request)
        streamed = call.is_streamed(stream)
        make: Any = call.chunks if streamed else call.message
        while True:
            try:
                message = (await self._prepare(make)
                           if call.nbytes > HEAVY_BYTES else make())
                if streamed:
                    response = StreamedResponse(call)
                    await self._stream(message, response, attempts)
                    return response.response()
                if len(message) <= _KEPT_BYTES:
                    self._last_message = message
                route = self._opened or self._route()
                answer = self._unary(route.compute_topk, message, attempts)
                if self._is_async:
                    answer = await answer
                return call.decode(parse(topk_pb2.TopKResponse, answer))
            except TopKError as error:
                pause = attempts.pause_after(
                    call.explained(error),
                    "StreamTopK" if streamed else "ComputeTopK")
            await self._sleep(pause)
