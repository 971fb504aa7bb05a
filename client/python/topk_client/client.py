"""The client for threads; topk_client.aio has the one for asyncio."""

import time
from typing import (Any, Coroutine, Iterable, Iterator, Optional, Tuple,
                    TypeVar, Union)

import grpc

from topk_client._connection import (MAX_LIMIT, Connection, Route, pair_of,
                                     topk_request)
from topk_client._dtypes import Array
from topk_client._many import PendingCalls
from topk_client._stubs import topk_pb2
from topk_client.errors import TopKError
from topk_client.messages import (Answer, ArrayLike, Call, Request,
                                  StreamedAnswer, parse)
from topk_client.shared_memory import Region
from topk_client.specs import Spec

T = TypeVar("T")


class Client(Connection):
    """A connection to one or several servers. Thread-safe. Create one client
    in each process and reuse it; close() it, or use it in a with block. It
    connects at the first call.

    Calls are distributed over the servers by round robin; servers whose health
    check reports NOT_SERVING are skipped. Every call that fails raises
    TopKError. TypeError and ValueError report wrong arguments; nothing has been
    sent then.

    Args:
      target: host:port, unix:path, dns:///name:port (all of whose addresses are
        used in turn), or a comma-separated list of IP addresses with ports.
      timeout: the default timeout of a call, in seconds; None = no deadline. A
        call whose own timeout is None uses this default. A call with the
        timeout 0 ends with DEADLINE_EXCEEDED without being sent.
      max_attempts: attempts of a call of any method except is_serving that ends
        with UNAVAILABLE, or with RESOURCE_EXHAUSTED and a retry delay, which is
        waited for if it ends before the deadline: 1 .. 5; 1 = no retry.
      user_agent: the prefix of the user-agent header, before gRPC's own name.
      tls: whether to use TLS 1.2 or later; implied by any of the next four. The
        server's certificate must be signed for the target's name by an
        authority of tls_ca, by default by one that this machine trusts.
      tls_ca, tls_cert, tls_key: PEM files of the authorities, and of the
        client's certificate and key. They are read once; create a new client
        after a renewal.
      tls_server_name: the name that the certificate must have instead.
      token: the bearer token that each call sends.
      token_file: a file with the token, read for each call; ValueError if it
        has no valid token when the client is created. The last valid token
        stays in use if the file becomes invalid.
      token_over_plaintext: whether to send the token without TLS to targets
        that are not on this machine.
    """

    _grpc = grpc

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; calls in flight end with CANCELLED."""
        for channel in self._channels_to_close():
            channel.close()

    def topk(self, tensor: ArrayLike, k: int, axis: int = -1,
             largest: bool = True, sorted: bool = True, *,
             timeout: Optional[float] = None) -> Tuple[Array, Array]:
        """Returns (values, indices) of the k largest or smallest elements along
        an axis, of any type that the service supports: new arrays of the
        tensor's type and of int64. Of equal elements, the first ones are
        selected; NaN is larger than all numbers. Takes arrays, PyTorch tensors
        on the CPU (of bfloat16 the values are float32, which has them all),
        buffers, what has __dlpack__, and lists."""
        return pair_of(self._run(self._compute(
            topk_request(tensor, k, axis, largest, sorted), None, timeout)))

    def topk_many(self, tensors: Iterable[ArrayLike], k: int, axis: int = -1,
                  largest: bool = True, sorted: bool = True, *,
                  timeout: Optional[float] = None
                  ) -> Iterator[Tuple[Array, Array]]:
        """Yields topk()'s result for each tensor, in order, over one stream;
        raises the first one's error."""
        return map(pair_of, self.compute_topk_many(
            (topk_request(tensor, k, axis, largest, sorted)
             for tensor in tensors), timeout=timeout))

    def compute_topk(self, tensor: Union[ArrayLike, Region], spec: Spec, *,
                     output: str = "both", values_out: Optional[Region] = None,
                     indices_out: Optional[Region] = None, request_id: str = "",
                     index_offset: int = 0, data_type: Optional[str] = None,
                     stream: Optional[bool] = None,
                     timeout: Optional[float] = None) -> Answer:
        """Answers one tensor with an operator's exact terms. Request documents
        the arguments. stream: whether to send the tensor in pieces, from where
        it lies; by default where that is faster, above 8 MiB, or where the
        server takes no such message, for whose limit a client asks once."""
        return self._run(self._compute(
            Request(tensor, spec, output, values_out, indices_out, request_id,
                    index_offset, data_type), stream, timeout))

    def compute_topk_many(
            self, requests: Iterable[Request], *,
            timeout: Optional[float] = None
            ) -> Iterator[Union[Answer, TopKError]]:
        """Answers many tensors on one stream, which the timeout bounds as a
        whole. Yields for each request, in order, its answer or its error, which
        ends nothing; raises if the stream breaks and no attempt is left, each
        of which continues with the requests that have no answer. Requests are
        taken from a thread of gRPC, ahead of the answers; what their iterator
        raises is raised here after the answers before it, as is
        REQUEST_TOO_LARGE for one that exceeds the server's limit of messages.
        To close the generator cancels what is in flight."""
        attempts = self._attempts(timeout)
        pending = PendingCalls(iter(requests))

        def limit_for(call: Call) -> int:
            if self._must_ask(call, attempts):
                self._run(self._ask_limit(attempts))
            return self._limit or MAX_LIMIT

        while unsent := pending.begin():
            route = self._route(unsent[0].max_message_bytes)
            results = route.compute_topk_many(
                pending.messages(unsent, route, limit_for),
                **self._how(attempts.seconds()))
            begun = False
            try:
                for result in results:
                    begun = True
                    yield pending.answer(result)
            except grpc.RpcError as rpc:
                pending.check_requests()
                time.sleep(attempts.pause_after(
                    self._broken(route.error(rpc), begun)))
            else:
                pending.check_end()
            finally:
                results.cancel()

    def get_capabilities(self, *, timeout: Optional[float] = None
                         ) -> topk_pb2.Capabilities:
        """Returns the server's Capabilities message."""
        return self._run(self._capabilities(self._attempts(timeout)))

    def is_serving(self, service: str = "", *,
                   timeout: Optional[float] = None) -> bool:
        """Returns whether a service ("" = the whole server) is SERVING;
        TopKError NOT_FOUND for one that the server lacks. Reaches a server also
        while it does not serve; of several, any one."""
        return self._run(self._serving(service, timeout))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            coroutine.send(None)
        except StopIteration as done:
            value: T = done.value
            return value
        raise AssertionError("it must not wait")

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _prepare(self, function: Any, argument: Any) -> Any:
        return function(argument)

    async def _unary(self, route: Route, method: Any, message: bytes,
                     seconds: float) -> bytes:
        try:
            response: bytes = method(message, **self._how(seconds))
            return response
        except grpc.RpcError as error:
            raise route.error(error) from error

    async def _stream(self, route: Route, chunks: Iterator[bytes],
                      answer: StreamedAnswer, seconds: float) -> None:
        responses = route.stream_topk(chunks, **self._how(seconds))
        try:
            for response in responses:
                answer.add(parse(topk_pb2.TopKResponseChunk, response))
        except grpc.RpcError as error:
            raise self._broken(route.error(error), answer.begun) from error
        finally:
            responses.cancel()
