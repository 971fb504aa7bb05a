"""Channels: grpcio's or, where the module topk_client_transport is installed,
those of gRPC's C++ library in the same form, except for asyncio. See
client/python/transport.

The environment variable TOPK_CLIENT_TRANSPORT names the one to be used: grpcio,
or compiled, which is an ImportError if it is not installed.
"""

import os
import threading
from typing import Any, Iterable, Iterator, List, Optional, Sequence, Tuple

import grpc
import grpc.aio

from topk_client.errors import CODES

Options = Sequence[Tuple[str, Any]]
# PEM: the authorities, the key and the certificate.
Pem = Optional[Tuple[Optional[bytes], Optional[bytes], Optional[bytes]]]

_chosen = os.environ.get("TOPK_CLIENT_TRANSPORT", "")
if _chosen not in ("", "grpcio", "compiled"):
    raise ImportError(f"TOPK_CLIENT_TRANSPORT is {_chosen!r}, not grpcio or "
                      "compiled")
_compiled: Any = None
if _chosen != "grpcio":
    try:
        import topk_client_transport as _compiled
    except ImportError:
        if _chosen:
            raise


def _after_fork() -> None:
    """gRPC's C++ library has no threads in a forked process."""
    global _compiled
    _compiled = None


if _compiled is not None and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _open_grpcio(module: Any, target: str, options: Options, pem: Pem) -> Any:
    if pem is None:
        return module.insecure_channel(target, options)
    return module.secure_channel(target, grpc.ssl_channel_credentials(*pem),
                                 options)


def open_channel(target: str, options: Options, pem: Pem) -> Any:
    """Returns a channel whose calls block, with TLS if `pem` is not None."""
    if _compiled is None:
        return _open_grpcio(grpc, target, options, pem)
    return _Channel(_compiled.Channel(target, options, pem))


def open_asyncio_channel(target: str, options: Options, pem: Pem) -> Any:
    """Returns a channel of grpc.aio."""
    return _open_grpcio(grpc.aio, target, options, pem)


_Metadata = Sequence[Tuple[str, str]]


class _Error(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, details: str,
                 trailers: List[Tuple[str, Any]]) -> None:
        super().__init__(code, details)
        self._code, self._details, self._trailers = code, details, trailers

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> List[Tuple[str, Any]]:
        return self._trailers


def _error(end: Any) -> _Error:
    return _Error(CODES.get(end.code, grpc.StatusCode.UNKNOWN), end.details,
                  end.trailers)


class _Stream:
    """A call of several messages each way: an iterator over the responses. The
    requests are taken by a thread, ahead of the responses."""

    def __init__(self, stream: Any, requests: Iterable[bytes]) -> None:
        self._stream = stream
        self._requests = requests
        self._wrong_request = False
        self._over = False
        self._room = threading.Semaphore(0)
        threading.Thread(target=self._send, daemon=True,
                         name="topk_client requests").start()

    def _send(self) -> None:
        stream = self._stream
        try:
            for request in self._requests:
                if not stream.write(request):
                    self._room.acquire()
                if self._over:
                    return
            stream.close_writes()
        except BaseException:  # of the iterator: the reader reports it
            self._wrong_request = True
            stream.cancel()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        stream = self._stream
        while True:
            message: Optional[bytes] = stream.read()
            if message is not None:
                return message
            end = stream.end()
            if end is not None:
                self._over = True
            self._room.release()
            if end is None:
                continue
            if self._wrong_request:
                raise _Error(grpc.StatusCode.UNKNOWN,
                             "Exception iterating requests!", [])
            if end.code:
                raise _error(end)
            raise StopIteration

    def cancel(self) -> None:
        self._over = True
        self._stream.cancel()
        self._room.release()


class _Channel:
    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self.close = channel.close

    def unary_unary(self, method: str) -> Any:
        call = self._channel.call

        def invoke(request: bytes, timeout: Optional[float] = None,
                   metadata: _Metadata = ()) -> bytes:
            response, end = call(method, request, timeout, metadata)
            if end.code:
                raise _error(end)
            return response
        return invoke

    def stream_stream(self, method: str) -> Any:
        def invoke(requests: Iterable[bytes], timeout: Optional[float] = None,
                   metadata: _Metadata = ()) -> _Stream:
            return _Stream(self._channel.open(method, timeout, metadata),
                           requests)
        return invoke
