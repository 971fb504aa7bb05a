"""The asyncio client: topk_client.Client with awaitable calls."""

from __future__ import annotations

import asyncio
from collections.abc import (AsyncGenerator, AsyncIterable, Awaitable,
                             Iterable, Iterator)
from typing import TYPE_CHECKING, Any, TypeVar, overload

import grpc
import grpc.aio

from topk_client._connection import (Attempts, Connection, Options,
                                     topk_request, topk_result)
from topk_client._dtypes import Array
from topk_client._many import AsyncPendingCalls
from topk_client._stubs import topk_pb2
from topk_client.errors import TopKError
from topk_client.messages import (A, ArrayLike, Request, Response,
                                  StreamedResponse, Tensor, TopK)
from topk_client.shared_memory import Region
from topk_client.specs import Spec

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


async def _each(items: Iterable[T] | AsyncIterable[T]
                ) -> AsyncGenerator[T, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def _cancellations() -> int:
    """Returns how often the current task has been cancelled, or always 0 before
    Python 3.11, where tasks do not count cancellations."""
    return int(getattr(asyncio.current_task(), "cancelling", lambda: 0)())


class _End:
    """The status with which the server ended a stream. Since 1.62, grpcio
    replaces this status with INTERNAL if a later write fails."""

    def __init__(self, call: Any) -> None:
        self.status: grpc.aio.AioRpcError | None = None
        call.add_done_callback(self._note)

    def _note(self, call: Any) -> None:
        async def read() -> grpc.aio.AioRpcError:
            return grpc.aio.AioRpcError(
                await call.code(), grpc.aio.Metadata(),
                await call.trailing_metadata(), await call.details(), "")

        # The status has arrived, so read() does not suspend. Read the status
        # now, before gRPC can replace it.
        reading = read()
        try:
            reading.send(None)
        except StopIteration as done:
            self.status = self.status or done.value
        reading.close()

    def is_ok(self) -> bool:
        return (self.status is not None
                and self.status.code() is grpc.StatusCode.OK)


class Client(Connection):
    """topk_client.Client for asyncio, with the same arguments and errors.

    A client belongs to the event loop of its first call. Calls in another loop,
    as in a second asyncio.run(), raise RuntimeError. Cancelling the task of a
    call cancels the call."""

    _grpc = grpc.aio
    _loop: asyncio.AbstractEventLoop | None = None
    _closing: asyncio.Future[None] | None = None  # done when the client closes

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. Calls in flight fail with CANCELLED."""
        channel = self._channel_to_close()
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(None)
        if channel is not None:
            await channel.close()

    @overload
    async def topk(
            self, tensor: Tensor[A], k: int,
            axis: int = -1, largest: bool = True, sorted: bool = True,
            **options: Unpack[Options]) -> TopK[A]: ...

    @overload
    async def topk(
            self, tensor: ArrayLike, k: int,
            axis: int = -1, largest: bool = True, sorted: bool = True,
            **options: Unpack[Options]) -> TopK[Array]: ...

    async def topk(self, tensor: Any, k: int, axis: int = -1,
                   largest: bool = True, sorted: bool = True,
                   **options: Unpack[Options]) -> TopK[Any]:
        """See topk_client.Client.topk."""
        return await self._topk(
            topk_request(tensor, k, axis, largest, sorted),
            self._attempts(**options))

    @overload
    def topk_many(
            self, tensors: Iterable[Tensor[A]] | AsyncIterable[Tensor[A]],
            k: int, axis: int = -1, largest: bool = True, sorted: bool = True,
            **options: Unpack[Options]) -> AsyncGenerator[TopK[A], None]: ...

    @overload
    def topk_many(
            self, tensors: Iterable[ArrayLike] | AsyncIterable[ArrayLike],
            k: int, axis: int = -1, largest: bool = True, sorted: bool = True,
            **options: Unpack[Options]
            ) -> AsyncGenerator[TopK[Array], None]: ...

    async def topk_many(
            self, tensors: Iterable[Any] | AsyncIterable[Any],
            k: int, axis: int = -1, largest: bool = True, sorted: bool = True,
            **options: Unpack[Options]) -> AsyncGenerator[TopK[Any], None]:
        """See topk_client.Client.topk_many. `tensors` may be an asynchronous
        iterable."""
        results = self.compute_topk_many(
            (topk_request(tensor, k, axis, largest, sorted)
             async for tensor in _each(tensors)), **options)
        try:
            async for result in results:
                yield topk_result(result)
        finally:
            await results.aclose()

    async def compute_topk(
            self, tensor: ArrayLike | Region, spec: Spec, *,
            output: str = "both", values_out: Region | None = None,
            indices_out: Region | None = None, request_id: str = "",
            index_offset: int = 0, data_type: str | None = None,
            stream: bool | None = None, **options: Unpack[Options]
            ) -> Response:
        """See topk_client.Client.compute_topk."""
        return await self._compute(
            Request(tensor, spec, output, values_out, indices_out, request_id,
                    index_offset, data_type), stream,
            self._attempts(**options))

    async def compute_topk_many(
            self, requests: Iterable[Request] | AsyncIterable[Request],
            **options: Unpack[Options]
            ) -> AsyncGenerator[Response | TopKError, None]:
        """See topk_client.Client.compute_topk_many. `requests` may be an
        asynchronous iterable."""
        attempts = self._attempts(**options)
        pending = AsyncPendingCalls(_each(requests))
        try:
            while True:
                results = self._route().compute_topk_many(
                    pending.messages(), **self._how(attempts))
                end = _End(results)
                begun = False
                error: TopKError | None = None
                responses = results.__aiter__()
                before = _cancellations()
                try:
                    while True:
                        result = await self._checked(responses.__anext__())
                        begun = True
                        yield pending.result(result)
                        before = _cancellations()
                except StopAsyncIteration:
                    pass
                except asyncio.CancelledError:
                    # gRPC may cancel a call whose requests end.
                    if _cancellations() == before:
                        pending.check_requests()
                    raise
                except grpc.RpcError as rpc:
                    pending.check_requests()
                    if not end.is_ok():
                        error = self._error(end.status or rpc, begun)
                finally:
                    results.cancel()
                if error is None:
                    pending.check_end()
                    return
                await self._sleep(
                    attempts.pause_after(error, "ComputeTopKMany"))
        finally:
            pending.close()

    async def get_capabilities(self, **options: Unpack[Options]
                               ) -> topk_pb2.Capabilities:
        """See topk_client.Client.get_capabilities."""
        return await self._capabilities(self._attempts(**options))

    async def is_serving(self, service: str = "",
                         **options: Unpack[Options]) -> bool:
        """See topk_client.Client.is_serving."""
        return await self._serving(service, self._attempts(**options))

    def _attempts(self, **options: Any) -> Attempts:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise RuntimeError("the client belongs to another event loop: "
                               "create a client for each asyncio.run()")
        return super()._attempts(**options)

    def _open(self, make: Any, *arguments: Any) -> Any:
        return make(*arguments, interceptors=self._interceptors)

    async def _sleep(self, seconds: float) -> None:
        self._check_not_closed()
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._closing], timeout=seconds)

    async def _prepare(self, function: Any) -> Any:
        return await asyncio.to_thread(function)

    async def _unary(self, method: Any, message: bytes,
                     attempts: Attempts) -> bytes:
        try:
            return await self._checked(method(message, **self._how(attempts)))
        except grpc.RpcError as error:
            raise self._error(error) from error

    async def _stream(self, chunks: Iterator[bytes], response: StreamedResponse,
                      attempts: Attempts) -> None:
        messages = self._route().stream_topk(chunks, **self._how(attempts))
        end = _End(messages)

        async def read() -> None:
            async for message in messages:
                response.add(message)

        try:
            await self._checked(read())
        except grpc.RpcError as rpc:
            if not end.is_ok():
                raise self._error(end.status or rpc,
                                  response.header is not None) from rpc
        finally:
            messages.cancel()

    async def _checked(self, awaitable: Awaitable[T]) -> T:
        """Awaits a part of a call. Raises TopKError if close() cancels the
        call."""
        before = _cancellations()
        try:
            return await awaitable
        except asyncio.CancelledError:
            if _cancellations() == before:  # the task was not cancelled
                self._check_not_closed()
            raise
