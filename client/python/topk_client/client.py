"""The client for threads; topk_client.aio has the one for asyncio."""

import time
from typing import Any, Callable, Iterable, Iterator, Optional, Union

import grpc
import numpy as np
from grpc_health.v1 import health_pb2

from topk_client._connection import _MAX_LIMIT, Attempts, Connection
from topk_client._many import PendingCalls
from topk_client._stubs import topk_pb2
from topk_client.errors import TopKError
from topk_client.messages import (Answer, Call, Request, StreamedAnswer,
                                  parse)
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
      max_attempts: attempts of a call of any method that ends with UNAVAILABLE,
        or with RESOURCE_EXHAUSTED and a retry delay, which is waited for if it
        ends before the deadline: 1 .. 5; 1 = no retry.
      user_agent: what the servers see before gRPC's own name.
      tls: TLS 1.2 or later, if this or any of the next four is given. The
        server is believed if an authority of tls_ca, or of this machine without
        it, has signed its certificate for the target's name.
      tls_ca, tls_cert, tls_key: PEM files of authorities, and of the client's
        own certificate and key. Read once: make a new client of renewed ones.
      tls_server_name: the name that the certificate must have instead.
      token: what each call carries, "authorization: Bearer ...".
      token_file: a file that has it, read for each call; ValueError if it has
        none when the client is made. The last good token stays if the file goes
        bad.
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
        for channel in self._channels_to_close():
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
            lambda seconds: once(call, limit, seconds), attempts)

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
        ends nothing; raises if the stream breaks and no attempt is left, each
        of which continues with the requests that have no answer. Requests are
        taken from a thread of gRPC, ahead of the answers. To close the
        generator cancels what is in flight."""
        attempts = self._attempts(timeout)
        pending = PendingCalls(iter(requests))

        def limit_for(call: Call) -> int:
            return self._limit_for(call, attempts.seconds())

        while pending.wait():
            route = self._route(pending.max_message_bytes())
            results = route.compute_topk_many(
                pending.messages(pending.begin(), route, limit_for),
                **self._how(attempts.seconds()))
            begun = False
            try:
                for result in results:
                    begun = True
                    yield pending.answer(result)
            except grpc.RpcError as rpc:
                if pending.mistake:  # of the caller's, not of the stream
                    raise pending.mistake from None
                time.sleep(attempts.pause_after(
                    self._broken(route.error(rpc), begun)))
            else:
                pending.check_end()
            finally:
                results.cancel()

    def get_capabilities(self, *, timeout: Optional[float] = None
                         ) -> topk_pb2.Capabilities:
        """Returns what the server serves, as the contract has it."""
        answer: topk_pb2.Capabilities = self._retry(
            self._capabilities_once, self._attempts(timeout))
        return answer

    def is_serving(self, service: str = "", *,
                   timeout: Optional[float] = None) -> bool:
        """Returns whether a service ("" = the whole server) is SERVING;
        TopKError NOT_FOUND for one that the server lacks. Reaches a server also
        while it does not serve; of several, any one."""
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            response = parse(
                health_pb2.HealthCheckResponse, self._health.check_health(
                    request.SerializeToString(), **self._how(timeout)))
        except grpc.RpcError as error:
            raise self._health.error(error) from error
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

    def _retry(self, once: Callable[[float], Any], attempts: Attempts) -> Any:
        while True:
            try:
                return once(attempts.seconds())
            except TopKError as error:
                pause = attempts.pause_after(error)
            time.sleep(pause)

    def _capabilities_once(self, timeout: float) -> topk_pb2.Capabilities:
        route = self._route()
        try:
            return parse(topk_pb2.Capabilities, route.get_capabilities(
                b"", **self._how(timeout)))
        except grpc.RpcError as error:
            raise route.error(error) from error

    def _compute_once(self, call: Call, limit: int, timeout: float) -> Answer:
        route = self._route(call.max_message_bytes())
        try:
            response = route.compute_topk(call.message(limit),
                                          **self._how(timeout))
        except grpc.RpcError as error:
            raise route.error(error) from error
        return call.answer(parse(topk_pb2.TopKResponse, response))

    def _stream_once(self, call: Call, limit: int, timeout: float) -> Answer:
        route = self._route(call.max_message_bytes())
        chunks = route.stream_topk(call.chunks(limit), **self._how(timeout))
        answer = StreamedAnswer(call)
        try:
            for chunk in chunks:
                answer.add(parse(topk_pb2.TopKResponseChunk, chunk))
        except grpc.RpcError as error:
            raise self._broken(route.error(error), answer.begun) from error
        finally:
            chunks.cancel()
        return answer.answer()
