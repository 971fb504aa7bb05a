"""The client for threads; topk_client.aio has the one for asyncio."""

import collections
import time
from typing import (Any, Callable, Deque, Iterable, Iterator, List, Optional,
                    Union)

import grpc
import numpy as np
from grpc_health.v1 import health_pb2

from topk_client._connection import _MAX_LIMIT, Attempts, Connection
from topk_client._stubs import topk_pb2
from topk_client.errors import TopKError, bad_answer, from_rpc
from topk_client.messages import Answer, Call, Request, StreamedAnswer
from topk_client.shared_memory import Region
from topk_client.specs import Spec


class Client(Connection):
    """A connection to one or several servers. Thread-safe; make one and keep
    it, and close() it, or use it in a with block. Connects at the first call.

    Calls go to the servers in turn (round robin), past those whose health check
    says NOT_SERVING. Every call that fails raises TopKError; a TypeError or
    ValueError is about its arguments, before anything is sent.

    Args:
      target: host:port, unix:path, dns:///name:port (all of whose addresses are
        used in turn), or a list of IP addresses with ports, with commas.
      timeout: how many seconds a call may take, if it does not say otherwise.
      max_attempts: how often a call that ends with UNAVAILABLE is sent, or with
        RESOURCE_EXHAUSTED where the server says when to try again, and then: 1
        .. 5; 1 = no retry, which many on one stream never have.
      user_agent: what the servers see before gRPC's own name.
      tls: TLS 1.2 or later, if this or any of the next four is given. The
        server is believed if an authority of tls_ca, or of this machine without
        it, has signed its certificate for the target's name.
      tls_ca, tls_cert, tls_key: PEM files of authorities, and of the client's
        own certificate and key. Read once: make a new client of renewed ones.
      tls_server_name: the name that the certificate must have instead.
      token: what each call carries, "authorization: Bearer ...".
      token_file: a file that has it, read for each call.
      token_over_plaintext: without TLS a token is for targets on this machine
        alone, unless this says otherwise.
    """

    _grpc = grpc

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections, and calls under way with CANCELLED."""
        for channel in self._channels:
            channel.close()

    def compute_topk(self, tensor: Union[np.ndarray, Region], spec: Spec, *,
                     stream: Optional[bool] = None,
                     timeout: Optional[float] = None,
                     **options: Any) -> Answer:
        """Answers one tensor, in one message or streamed: by default where that
        is faster, above 8 MiB, or where the server takes no such message, for
        whose limit a client asks once. The options are Request's."""
        call = Call(Request(tensor, spec, **options))
        attempts = self._attempts(timeout)
        limit = self._limit_for(call, attempts.seconds())
        streamed = call.is_streamed(stream, limit)
        once = self._stream_once if streamed else self._compute_once
        return self._retry(
            lambda seconds: once(call, limit, seconds), attempts, streamed)

    def stream_topk(self, tensor: Union[np.ndarray, Region], spec: Spec, *,
                    timeout: Optional[float] = None,
                    **options: Any) -> Answer:
        """Answers a tensor of any size, sent from where it lies in pieces. The
        options are Request's."""
        return self.compute_topk(tensor, spec, stream=True, timeout=timeout,
                                 **options)

    def compute_topk_many(
            self, requests: Iterable[Request], *,
            timeout: Optional[float] = None
            ) -> Iterator[Union[Answer, TopKError]]:
        """Answers many tensors on one stream, which the timeout bounds as a
        whole. Yields for each request, in order, its answer or its error, which
        ends nothing; raises if the stream breaks. Requests are taken from a
        thread of gRPC, ahead of the answers. To close the generator cancels
        what is under way."""
        pending: Deque[Call] = collections.deque()
        mistakes: List[BaseException] = []

        def messages() -> Iterator[bytes]:
            try:
                for request in requests:
                    call = Call(request)
                    message = call.message(
                        self._limit_for(call, self._seconds(timeout)))
                    pending.append(call)
                    yield message
            except Exception as mistake:
                mistakes.append(mistake)
                raise

        results = self._compute_topk_many(messages(), **self._how(timeout))
        try:
            for result in results:
                if not pending:
                    raise bad_answer("the server sent too many results")
                yield pending.popleft().result(result)
        except grpc.RpcError as error:
            if mistakes:  # of the caller's, not of the stream
                raise mistakes[0] from None
            raise from_rpc(error) from error
        finally:
            results.cancel()
        if pending:
            raise bad_answer("the server sent too few results")

    def get_capabilities(self, *, timeout: Optional[float] = None
                         ) -> topk_pb2.Capabilities:
        """Returns what the server serves, as the contract has it."""
        answer: topk_pb2.Capabilities = self._retry(
            self._capabilities_once, self._attempts(timeout), False)
        return answer

    def is_serving(self, service: str = "", *,
                   timeout: Optional[float] = None) -> bool:
        """Returns whether a service ("" = the whole server) is SERVING;
        TopKError NOT_FOUND for one that the server lacks. Reaches a server also
        while it does not serve; of several, any one."""
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            response = self._check(request.SerializeToString(),
                                   **self._how(timeout))
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        return bool(
            response.status == health_pb2.HealthCheckResponse.SERVING)

    def _limit_for(self, call: Call, timeout: float) -> int:
        """Returns the server's limit of messages, in bytes, as far as the call
        must heed it."""
        if self._asks_limit(call):
            try:
                self._learn_limit(self.get_capabilities(timeout=timeout))
            except TopKError as error:
                self._no_limit(error)
        return self._limit or _MAX_LIMIT

    def _retry(self, once: Callable[[float], Any], attempts: Attempts,
               streamed: bool) -> Any:
        while True:
            try:
                return once(attempts.seconds())
            except TopKError as error:
                pause = attempts.pause_after(error, streamed)
            time.sleep(pause)

    def _capabilities_once(self, timeout: float) -> topk_pb2.Capabilities:
        try:
            return self._get_capabilities(b"", **self._how(timeout))
        except grpc.RpcError as error:
            raise from_rpc(error) from error

    def _compute_once(self, call: Call, limit: int, timeout: float) -> Answer:
        try:
            return call.answer(
                self._compute_topk(call.message(limit), **self._how(timeout)))
        except grpc.RpcError as error:
            raise from_rpc(error) from error

    def _stream_once(self, call: Call, limit: int, timeout: float) -> Answer:
        chunks = self._stream_topk(call.chunks(limit), **self._how(timeout))
        answer = StreamedAnswer(call)
        try:
            for chunk in chunks:
                answer.add(chunk)
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        finally:
            chunks.cancel()
        return answer.answer()
