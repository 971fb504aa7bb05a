"""The client for asyncio: topk_client.Client with awaitable calls."""

import asyncio
import collections
from typing import (Any, AsyncIterable, AsyncIterator, Awaitable, Callable,
                    Deque, Iterable, List, Optional, Union)

import grpc
import grpc.aio
import numpy as np
from grpc_health.v1 import health_pb2

from topk_client._connection import _MAX_LIMIT, Attempts, Connection
from topk_client._stubs import topk_pb2
from topk_client.errors import (TopKError, bad_answer, from_rpc,
                                from_trailers)
from topk_client.messages import Answer, Call, Request, StreamedAnswer
from topk_client.shared_memory import Region
from topk_client.specs import Spec


async def _each(requests: Union[Iterable[Request], AsyncIterable[Request]]
                ) -> AsyncIterator[Request]:
    if isinstance(requests, AsyncIterable):
        async for request in requests:
            yield request
    else:
        for request in requests:
            yield request


class _End:
    """How the server ended a stream. grpcio from 1.62 on forgets that if it
    fails to write afterwards, and says INTERNAL instead."""

    def __init__(self, call: Any) -> None:
        self._status: Any = None
        call.add_done_callback(self._note)

    def _note(self, call: Any) -> None:
        async def read() -> Any:
            return (await call.code(), await call.details(),
                    await call.trailing_metadata())

        # All of it is there, and must be read before gRPC goes on.
        reading = read()
        try:
            reading.send(None)
        except StopIteration as done:
            self._status = self._status or done.value
        reading.close()

    def error(self, rpc: grpc.RpcError) -> Optional[TopKError]:
        """Returns the error that gRPC's stands for; None if the server had
        ended the stream well."""
        if self._status is None:
            return from_rpc(rpc)
        if self._status[0] == grpc.StatusCode.OK:
            return None
        return from_trailers(*self._status)


class Client(Connection):
    """topk_client.Client, with its arguments and errors. To be made in the
    event loop in which it is used. Who cancels a call's task cancels the
    call."""

    _grpc = grpc.aio

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connections, and the calls under way."""
        for channel in self._channels:
            await channel.close()

    async def compute_topk(self, tensor: Union[np.ndarray, Region], spec: Spec,
                           *, stream: Optional[bool] = None,
                           timeout: Optional[float] = None,
                           **options: Any) -> Answer:
        """As topk_client.Client's."""
        call = Call(Request(tensor, spec, **options))
        attempts = self._attempts(timeout)
        limit = await self._limit_for(call, attempts.seconds())
        streamed = call.is_streamed(stream, limit)
        once = self._stream_once if streamed else self._compute_once
        return await self._retry(
            lambda seconds: once(call, limit, seconds), attempts, streamed)

    async def stream_topk(self, tensor: Union[np.ndarray, Region], spec: Spec,
                          *, timeout: Optional[float] = None,
                          **options: Any) -> Answer:
        """As topk_client.Client's."""
        return await self.compute_topk(tensor, spec, stream=True,
                                       timeout=timeout, **options)

    async def compute_topk_many(
            self, requests: Union[Iterable[Request], AsyncIterable[Request]],
            *, timeout: Optional[float] = None
            ) -> AsyncIterator[Union[Answer, TopKError]]:
        """As topk_client.Client's; the requests may come from an asynchronous
        iterable."""
        pending: Deque[Call] = collections.deque()
        mistakes: List[BaseException] = []

        async def messages() -> AsyncIterator[bytes]:
            try:
                async for request in _each(requests):
                    call = Call(request)
                    message = call.message(
                        await self._limit_for(call, self._seconds(timeout)))
                    pending.append(call)
                    yield message
            except Exception as mistake:
                mistakes.append(mistake)
                raise

        results = self._compute_topk_many(messages(), **self._how(timeout))
        end = _End(results)
        try:
            async for result in results:
                if not pending:
                    raise bad_answer("the server sent too many results")
                yield pending.popleft().result(result)
        except (grpc.RpcError, asyncio.CancelledError) as rpc:
            if mistakes:  # of the caller's, for which gRPC cancels the call
                raise mistakes[0] from None
            if not isinstance(rpc, grpc.RpcError):
                raise
            error = end.error(rpc)
            if error:
                raise error from rpc
        finally:
            results.cancel()
        if pending:
            raise bad_answer("the server sent too few results")

    async def get_capabilities(self, *, timeout: Optional[float] = None
                               ) -> topk_pb2.Capabilities:
        """As topk_client.Client's."""
        answer: topk_pb2.Capabilities = await self._retry(
            self._capabilities_once, self._attempts(timeout), False)
        return answer

    async def is_serving(self, service: str = "", *,
                         timeout: Optional[float] = None) -> bool:
        """As topk_client.Client's."""
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            response = await self._check(request.SerializeToString(),
                                         **self._how(timeout))
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        return bool(
            response.status == health_pb2.HealthCheckResponse.SERVING)

    async def _limit_for(self, call: Call, timeout: float) -> int:
        """Returns the server's limit of messages, in bytes, as far as the call
        must heed it."""
        if self._asks_limit(call):
            try:
                self._learn_limit(await self.get_capabilities(timeout=timeout))
            except TopKError as error:
                self._no_limit(error)
        return self._limit or _MAX_LIMIT

    async def _retry(self, once: Callable[[float], Awaitable[Any]],
                     attempts: Attempts, streamed: bool) -> Any:
        while True:
            try:
                return await once(attempts.seconds())
            except TopKError as error:
                pause = attempts.pause_after(error, streamed)
            await asyncio.sleep(pause)

    async def _capabilities_once(self, timeout: float) -> topk_pb2.Capabilities:
        try:
            return await self._get_capabilities(b"", **self._how(timeout))
        except grpc.RpcError as error:
            raise from_rpc(error) from error

    async def _compute_once(self, call: Call, limit: int,
                            timeout: float) -> Answer:
        try:
            return call.answer(await self._compute_topk(
                call.message(limit), **self._how(timeout)))
        except grpc.RpcError as error:
            raise from_rpc(error) from error

    async def _stream_once(self, call: Call, limit: int,
                           timeout: float) -> Answer:
        chunks = self._stream_topk(call.chunks(limit), **self._how(timeout))
        end = _End(chunks)
        answer = StreamedAnswer(call)
        try:
            async for chunk in chunks:
                answer.add(chunk)
        except grpc.RpcError as rpc:
            error = end.error(rpc)
            if error:
                raise error from rpc
        finally:
            chunks.cancel()
        return answer.answer()
