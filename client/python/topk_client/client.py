"""The blocking client. topk_client.aio has the asyncio client."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar, overload

import grpc

from topk_client._connection import (Attempts, Connection, Options,
                                     topk_request, topk_result)
from topk_client._dtypes import Array
from topk_client._many import PendingCalls
from topk_client._stubs import topk_pb2
from topk_client.errors import TopKError
from topk_client.messages import (A, ArrayLike, Request, Response,
                                  StreamedResponse, Tensor, TopK)
from topk_client.shared_memory import Region
from topk_client.specs import Spec

if TYPE_CHECKING:
    from typing_extensions import Unpack

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
      retry: how often a call is attempted; see Retry. None = no retries. All
        methods except is_serving retry on UNAVAILABLE, and on
        RESOURCE_EXHAUSTED with a retry delay that ends before the deadline.
        Errors of single requests on a stream are not retried. Each retry is
        logged for debugging, with the logger "topk_client".
      wait_for_ready: whether an attempt waits for a connection until the
        deadline, instead of failing while no server can be reached.
      metadata: headers to send with each call, such as [("tenant", "a")], as
        pairs of a lowercase name and a value. Values are printable ASCII, or
        bytes if the name ends with "-bin".
      user_agent: a prefix for the user-agent header, before this client's name.
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
        the target's name. With TLS, required for a list of addresses.
      credentials: a grpc.ChannelCredentials, instead of the options for TLS. A
        token may be sent with any credentials. The client cannot be pickled.
      token: the bearer token to send with each call, or a function that returns
        it. The function is called before each attempt, in the thread that makes
        the call (for the asyncio client, in the event loop) or in a thread of
        gRPC. So it must be thread-safe and fast. Its exceptions end the call.
      token_file: a file with the token, instead of `token`, read again for
        each call. Raises ValueError if it has no valid token when the client is
        created. If it becomes invalid later, the last valid token stays in use.
      token_over_plaintext: whether the token may be sent without TLS to targets
        on other machines.
      interceptors: client interceptors of grpc, or of grpc.aio for the asyncio
        client. They see each attempt, with serialized messages.
      channel_options: pairs of a name and a value, such as
        [("grpc.http_proxy", "http://proxy:3128")], for the gRPC channel. They
        override this client's own options.

    All calls take `timeout`, `wait_for_ready` and `metadata`. The metadata of a
    call replaces headers of the client that have the same names.
    """

    _grpc = grpc
    _threads: ThreadPoolExecutor | None = None  # of topk_async()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. Calls in flight fail with CANCELLED."""
        channel = self._channel_to_close()
        if channel is not None:
            channel.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    @overload
    def topk(
            self, tensor: Tensor[A], k: int,
            axis: int = -1, largest: bool = True, sorted: bool = True,
            **options: Unpack[Options]) -> TopK[A]: ...

    @overload
    def topk(
            self, tensor: ArrayLike, k: int,
            axis: int = -1, largest: bool = True, sorted: bool = True,
            **options: Unpack[Options]) -> TopK[Array]: ...

    def topk(self, tensor: Any, k: int, axis: int = -1,
             largest: bool = True, sorted: bool = True,
             **options: Unpack[Options]) -> TopK[Any]:
        """Returns (values, indices) of the k largest or smallest elements along
        an axis.

        The element type may be any type that the service supports. Both results
        are new: the values have the tensor's type, the indices are int64. Among
        equal elements, those with the lowest indices are selected. NaN is
        larger than all numbers.

        The tensor may be an array, a PyTorch tensor, a buffer, an object with
        __dlpack__, or a list. The results are PyTorch tensors for a PyTorch
        tensor, otherwise NumPy arrays. Gradients do not pass through the
        server: tensors that require grad raise TypeError.

        The tensor may also be on an NVIDIA GPU if the server is on the same
        machine, uses this GPU and was started with --allow-cuda-memory: a
        PyTorch tensor, a CuPy array, or a contiguous object with
        __cuda_array_interface__. The elements stay on the GPU. So do the
        results for PyTorch and CuPy, which are tensors of the same library.

        The operator is ONNX TopK, version 11 (version 24 for bfloat16), or
        OpenVINO TopK-11 for the types that ONNX lacks. The field of an error is
        the argument's name."""
        return self._run(self._topk(
            topk_request(tensor, k, axis, largest, sorted),
            self._attempts(**options)))

    @overload
    def topk_async(
            self, tensor: Tensor[A], k: int,
            axis: int = -1, largest: bool = True, sorted: bool = True,
            **options: Unpack[Options]) -> Future[TopK[A]]: ...

    @overload
    def topk_async(
            self, tensor: ArrayLike, k: int,
            axis: int = -1, largest: bool = True, sorted: bool = True,
            **options: Unpack[Options]) -> Future[TopK[Array]]: ...

    def topk_async(self, *arguments: Any, **options: Any) -> Future[TopK[Any]]:
        """Starts topk() in one of 32 threads of this client, or queues the call
        until a thread is free, when its timeout begins. Do not change the
        tensor until the future is done. close() cancels queued calls."""
        with self._lock:
            if self._closed:
                raise ValueError("the client is closed")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(32, "topk_client")
            topk: Any = self.topk
            return self._threads.submit(topk, *arguments, **options)

    @overload
    def topk_many(
            self, tensors: Iterable[Tensor[A]], k: int,
            axis: int = -1, largest: bool = True, sorted: bool = True,
            **options: Unpack[Options]) -> Generator[TopK[A], None, None]: ...

    @overload
    def topk_many(
            self, tensors: Iterable[ArrayLike], k: int,
            axis: int = -1, largest: bool = True, sorted: bool = True,
            **options: Unpack[Options]
            ) -> Generator[TopK[Array], None, None]: ...

    def topk_many(self, tensors: Iterable[Any], k: int, axis: int = -1,
                  largest: bool = True, sorted: bool = True,
                  **options: Unpack[Options]
                  ) -> Generator[TopK[Any], None, None]:
        """Yields the result of topk() for each tensor, in order, over one
        stream. The tensors may differ in shape and type, but each needs at
        least k elements along the axis. Raises the error of the first tensor
        that fails, after the results of the tensors before it. A tensor larger
        than the server's --max-message-bytes may also end the tensors in
        flight. Closing the generator cancels them. For a different k for each
        tensor, or to continue after an error, see compute_topk_many()."""
        results = self.compute_topk_many(
            (topk_request(tensor, k, axis, largest, sorted)
             for tensor in tensors), **options)
        try:
            yield from map(topk_result, results)
        finally:
            results.close()

    def compute_topk(
            self, tensor: ArrayLike | Region, spec: Spec, *,
            output: str = "both", values_out: Region | None = None,
            indices_out: Region | None = None, request_id: str = "",
            index_offset: int = 0, data_type: str | None = None,
            stream: bool | None = None, **options: Unpack[Options]
            ) -> Response:
        """Applies an operator, with the exact semantics of its specification,
        to one tensor.

        See Request for the other arguments. `stream` selects whether to send
        the tensor in chunks, without copying the whole tensor first. The
        default is to stream large tensors. A message above the server's limit
        (--max-message-bytes, at least 16 MiB) causes RESOURCE_EXHAUSTED."""
        return self._run(self._compute(
            Request(tensor, spec, output, values_out, indices_out, request_id,
                    index_offset, data_type), stream,
            self._attempts(**options)))

    def compute_topk_many(
            self, requests: Iterable[Request], **options: Unpack[Options]
            ) -> Generator[Response | TopKError, None, None]:
        """Computes many requests over one stream. The timeout bounds the whole
        call.

        Yields the response or the error of each request, in order. An error of
        one request does not end the stream. If the stream breaks, a retry
        continues with the requests that have no response. Raises if no attempts
        are left.

        A gRPC thread reads ahead in `requests`, until the requests without a
        response have 64 MiB of tensors, or are about 16,000. If the iterator
        raises, the responses to the requests before it are yielded first. A
        request above the server's --max-message-bytes ends the call. Closing
        the generator cancels the requests in flight."""
        attempts = self._attempts(**options)
        pending = PendingCalls(iter(requests))
        try:
            while True:
                results = self._route().compute_topk_many(
                    pending.messages(), **self._how(attempts))
                begun = False
                try:
                    for result in results:
                        begun = True
                        yield pending.result(result)
                except grpc.RpcError as rpc:
                    pending.check_requests()
                    self._pause(attempts.pause_after(
                        self._error(rpc, begun), "ComputeTopKMany"))
                else:
                    pending.check_end()
                    return
                finally:
                    _end(results)
        finally:
            pending.close()

    def get_capabilities(self, **options: Unpack[Options]
                         ) -> topk_pb2.Capabilities:
        """Returns the server's Capabilities message."""
        return self._run(self._capabilities(self._attempts(**options)))

    def is_serving(self, service: str = "",
                   **options: Unpack[Options]) -> bool:
        """Returns whether a service ("" = the whole server) is SERVING. Raises
        TopKError NOT_FOUND if the server has no such service. Also reaches
        servers that are NOT_SERVING. With several servers, asks any of them.
        Raises UNAVAILABLE after one attempt, without retries, so that the
        answer is current. To wait for a server, pass wait_for_ready=True."""
        return self._run(self._serving(service, self._attempts(**options)))

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
        """Sleeps until close() at the latest. Waits for the channel meanwhile,
        because gRPC does not establish new connections while no thread waits
        for any event. After a short pause, gRPC would log an error if the
        channel were then closed."""
        with self._lock:
            ready: Any = (
                None if self._closed or self._opened is None or seconds < 0.05
                else self._grpc.channel_ready_future(self._opened.channel))
            self._lock.wait_for(lambda: self._closed, seconds)
        if ready is not None:
            ready.cancel()

    async def _prepare(self, function: Any) -> Any:
        return function()

    async def _unary(self, method: Any, message: bytes,
                     attempts: Attempts) -> bytes:
        try:
            response: bytes = method(message, **self._how(attempts))
            return response
        except grpc.RpcError as error:
            raise self._error(error) from error

    async def _stream(self, chunks: Iterator[bytes], response: StreamedResponse,
                      attempts: Attempts) -> None:
        messages = self._route().stream_topk(chunks, **self._how(attempts))
        try:
            for message in messages:
                response.add(message)
        except grpc.RpcError as error:
            raise self._error(error, response.header is not None) from error
        finally:
            _end(messages)
