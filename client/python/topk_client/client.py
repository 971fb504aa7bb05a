"""The blocking client. topk_client.aio has the asyncio client."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator, Iterable, Iterator
from typing import Any, TypeVar

import grpc

from topk_client._connection import (MAX_LIMIT, Attempts, Connection, Metadata,
                                     pair_of, topk_request)
from topk_client._dtypes import Array
from topk_client._many import PendingCalls
from topk_client._stubs import topk_pb2
from topk_client.errors import TopKError
from topk_client.messages import (LARGE_BYTES, Answer, ArrayLike, Call,
                                  Request, StreamedAnswer)
from topk_client.shared_memory import Region
from topk_client.specs import Spec

T = TypeVar("T")


def _end(responses: Any) -> None:
    """Cancels a call that has not ended. An interceptor may have replaced the
    call with a generator, which has no cancel()."""
    getattr(responses, "cancel",
            getattr(responses, "close", lambda: None))()


class Client(Connection):
    """A connection to one or more servers. Thread-safe.

    Create one client per process and reuse it. Call close(), or use the client
    in a with block. The client connects on the first call. A pickled client has
    the same arguments and opens its own connections. A client with a token
    cannot be pickled, but a client with a token_file can.

    Calls are distributed over the servers round-robin. Servers whose health
    check reports NOT_SERVING are skipped. A failed call raises TopKError. Wrong
    arguments raise TypeError or ValueError before anything is sent.

    Args:
      target: host:port, unix:path, dns:///name:port (all addresses of the name
        are used in turn), or a comma-separated list of IP addresses with ports.
      timeout: the default timeout of a call in seconds; None = no deadline.
        Used by calls whose own timeout is None. A call with timeout 0 fails
        with DEADLINE_EXCEEDED without being sent.
      max_attempts: the maximum number of attempts per call, 1 .. 5; 1 = no
        retries. All methods except is_serving retry on UNAVAILABLE, and on
        RESOURCE_EXHAUSTED with a retry delay that ends before the deadline.
      user_agent: a prefix for the user-agent header, before gRPC's own name.
      tls: whether to use TLS 1.2 or later. Any of the next four arguments
        implies TLS. The server's certificate must be valid for the target's
        name and signed by a CA in tls_ca, or if tls_ca is None by a CA that
        this machine trusts. SSL_CERT_FILE and SSL_CERT_DIR override the
        machine's CAs, as for OpenSSL, and GRPC_DEFAULT_SSL_ROOTS_FILE_PATH
        overrides both.
      tls_ca, tls_cert, tls_key: PEM files with the CA certificates, the
        client's certificate and its key. They are read once: after a change,
        create a new client.
      tls_server_name: the name expected in the server's certificate, instead of
        the target's name.
      token: the bearer token to send with each call.
      token_file: a file with the token, read again for each call. Raises
        ValueError if it has no valid token when the client is created. If it
        becomes invalid later, the last valid token stays in use.
      token_over_plaintext: whether the token may be sent without TLS to targets
        on other machines.
      interceptors: client interceptors of grpc, or of grpc.aio for the asyncio
        client. They see each attempt, with serialized messages.

    All calls take `timeout` and `metadata`: headers to send, such as
    [("traceparent", ...)], as pairs of a lowercase name and a value. Values are
    printable ASCII, or bytes if the name ends with "-bin".
    """

    _grpc = grpc

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. Calls in flight fail with CANCELLED."""
        channel = self._channel_to_close()
        if channel is not None:
            channel.close()

    def topk(self, tensor: ArrayLike, k: int, axis: int = -1,
             largest: bool = True, sorted: bool = True, *,
             timeout: float | None = None,
             metadata: Metadata = ()) -> tuple[Array, Array]:
        """Returns (values, indices) of the k largest or smallest elements along
        an axis.

        The element type may be any type that the service supports. Both results
        are new arrays: the values have the tensor's type, the indices are
        int64. Among equal elements, those with the lowest indices are selected.
        NaN is larger than all numbers.

        The tensor may be an array, a PyTorch tensor on the CPU, a buffer, an
        object with __dlpack__, or a list. For a bfloat16 PyTorch tensor the
        values are float32, which represents them exactly."""
        return pair_of(self._run(self._compute(
            topk_request(tensor, k, axis, largest, sorted), None, timeout,
            metadata)))

    def topk_many(self, tensors: Iterable[ArrayLike], k: int, axis: int = -1,
                  largest: bool = True, sorted: bool = True, *,
                  timeout: float | None = None, metadata: Metadata = ()
                  ) -> Generator[tuple[Array, Array], None, None]:
        """Yields the result of topk() for each tensor, in order, over one
        stream. The tensors may differ in shape and type, but each needs at
        least k elements along the axis. Raises the error of the first tensor
        that fails, after the results of the tensors before it. Closing the
        generator cancels the tensors in flight. For a different k for each
        tensor, or to continue after an error, see compute_topk_many()."""
        results = self.compute_topk_many(
            (topk_request(tensor, k, axis, largest, sorted)
             for tensor in tensors), timeout=timeout, metadata=metadata)
        try:
            yield from map(pair_of, results)
        finally:
            results.close()

    def compute_topk(
            self, tensor: ArrayLike | Region, spec: Spec, *,
            output: str = "both", values_out: Region | None = None,
            indices_out: Region | None = None, request_id: str = "",
            index_offset: int = 0, data_type: str | None = None,
            stream: bool | None = None, timeout: float | None = None,
            metadata: Metadata = ()) -> Answer:
        """Applies an operator, with the exact semantics of its specification,
        to one tensor.

        See Request for the other arguments. `stream` selects whether to send
        the tensor in chunks, without copying the whole tensor first. The
        default is to stream above 8 MiB, where streaming is faster, and when
        the message would exceed the server's size limit. The client asks for
        the limit once."""
        return self._run(self._compute(
            Request(tensor, spec, output, values_out, indices_out, request_id,
                    index_offset, data_type), stream, timeout, metadata))

    def compute_topk_many(
            self, requests: Iterable[Request], *,
            timeout: float | None = None, metadata: Metadata = ()
            ) -> Generator[Answer | TopKError, None, None]:
        """Computes many requests over one stream. The timeout bounds the whole
        call.

        Yields the answer or the error of each request, in order. An error of
        one request does not end the stream. If the stream breaks, a retry
        continues with the unanswered requests. Raises if no attempts are left.

        A gRPC thread reads ahead in `requests`. If the iterator raises, or a
        request exceeds the server's message size limit (REQUEST_TOO_LARGE), the
        answers to the requests before it are yielded first. Closing the
        generator cancels the requests in flight."""
        attempts = self._attempts(timeout, metadata)
        pending = PendingCalls(iter(requests))

        def limit_for(call: Call) -> int:
            if call.nbytes > LARGE_BYTES:
                return self._run(self._limit_for(attempts, call))
            return self._limit or MAX_LIMIT  # faster than a coroutine

        while True:
            results = self._route().compute_topk_many(
                pending.messages(limit_for), **self._how(attempts))
            begun = False
            try:
                for result in results:
                    begun = True
                    yield pending.answer(result)
            except grpc.RpcError as rpc:
                pending.check_requests()
                self._pause(attempts.pause_after(
                    self._broken(self._error(rpc), begun)))
            else:
                pending.check_end()
                return
            finally:
                _end(results)

    def get_capabilities(self, *, timeout: float | None = None,
                         metadata: Metadata = ()) -> topk_pb2.Capabilities:
        """Returns the server's Capabilities message."""
        return self._run(self._capabilities(self._attempts(timeout, metadata)))

    def is_serving(self, service: str = "", *, timeout: float | None = None,
                   metadata: Metadata = ()) -> bool:
        """Returns whether a service ("" = the whole server) is SERVING. Raises
        TopKError NOT_FOUND if the server has no such service. Also reaches
        servers that are NOT_SERVING. With several servers, asks any of them."""
        return self._run(self._serving(
            service, self._attempts(timeout, metadata)))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            coroutine.send(None)
        except StopIteration as done:
            value: T = done.value
            return value
        raise AssertionError("it must not wait")

    def _open(self, make: Any, *arguments: Any) -> Any:
        return self._grpc.intercept_channel(make(*arguments),
                                            *self._interceptors)

    async def _sleep(self, seconds: float) -> None:
        self._pause(seconds)

    def _pause(self, seconds: float) -> None:
        """Sleeps. Waits for the channel meanwhile, because gRPC does not
        establish new connections while no thread waits for any event."""
        with self._lock:
            ready: Any = (None if self._closed or self._opened is None else
                          self._grpc.channel_ready_future(self._opened.channel))
        time.sleep(seconds)
        if ready is not None:
            ready.cancel()

    async def _prepare(self, function: Any, argument: Any) -> Any:
        return function(argument)

    async def _unary(self, method: Any, message: bytes,
                     attempts: Attempts) -> bytes:
        try:
            response: bytes = method(message, **self._how(attempts))
            return response
        except grpc.RpcError as error:
            raise self._error(error) from error

    async def _stream(self, chunks: Iterator[bytes], answer: StreamedAnswer,
                      attempts: Attempts) -> None:
        responses = self._route().stream_topk(chunks, **self._how(attempts))
        try:
            for response in responses:
                answer.add(response)
        except grpc.RpcError as error:
            raise self._broken(self._error(error), answer.begun) from error
        finally:
            _end(responses)
