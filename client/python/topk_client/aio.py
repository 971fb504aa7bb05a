"""The client for asyncio: topk_client.Client with awaitable calls."""

import asyncio
from typing import (Any, AsyncIterable, AsyncIterator, Iterable, Optional,
                    Union)

import grpc
import grpc.aio
import numpy as np

from topk_client._connection import (MAX_LIMIT, Connection, Prepare, Route,
                                     Sleep, Steps, T, Unary)
from topk_client._many import AsyncPendingCalls, in_thread
from topk_client._stubs import topk_pb2
from topk_client.errors import TopKError
from topk_client.messages import Answer, Call, Request, parse
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


def _cancellations() -> int:
    """Returns how often the current task has been cancelled; 0 before Python
    3.11, which lacks the count."""
    return int(getattr(asyncio.current_task(), "cancelling", lambda: 0)())


class _End:
    """How the server ended a stream. grpcio from 1.62 on forgets that if it
    fails to write afterwards, and says INTERNAL instead."""

    def __init__(self, call: Any, route: Route) -> None:
        self._route = route
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
        except KeyError:  # a status that there is not
            pass
        reading.close()

    def error(self, rpc: Exception) -> Optional[TopKError]:
        """Returns the error that gRPC's stands for; None if the server had
        ended the stream well."""
        if self._status is None:
            return self._route.error(rpc)
        if self._status[0] == grpc.StatusCode.OK:
            return None
        return self._route.error_of_status(*self._status)


class Client(Connection):
    """topk_client.Client for asyncio, with the same arguments and errors.
    Create it in the event loop that uses it. Cancelling a call's task cancels
    the call."""

    _grpc = grpc.aio

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections; calls in flight end with CANCELLED."""
        for channel in self._channels_to_close():
            await channel.close()

    async def compute_topk(self, tensor: Union[np.ndarray, Region], spec: Spec,
                           *, stream: Optional[bool] = None,
                           timeout: Optional[float] = None,
                           **options: Any) -> Answer:
        """As topk_client.Client's."""
        return await self._run(
            self._compute(tensor, spec, stream, timeout, options))

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
        attempts = self._attempts(timeout)
        pending = AsyncPendingCalls(_each(requests))

        async def limit_for(call: Call) -> int:
            if self._must_ask(call, attempts):
                await self._run(self._ask_limit(attempts))
            return self._limit or MAX_LIMIT

        try:
            while unsent := await pending.begin():
                route = self._route(unsent[0].max_message_bytes)
                results = route.compute_topk_many(
                    pending.messages(unsent, route, limit_for),
                    **self._how(attempts.seconds()))
                end = _End(results, route)
                begun = False
                error: Optional[TopKError] = None
                before = _cancellations()
                try:
                    async for result in results:
                        begun = True
                        yield pending.answer(result)
                        before = _cancellations()
                except (grpc.RpcError, KeyError) as rpc:
                    pending.check_requests()
                    error = end.error(rpc)
                except asyncio.CancelledError:
                    self._check_cancelled(before)
                    raise
                finally:
                    results.cancel()
                if error is None:
                    pending.check_end()
                else:
                    await asyncio.sleep(attempts.pause_after(
                        self._broken(error, begun)))
        finally:
            pending.close()

    async def get_capabilities(self, *, timeout: Optional[float] = None
                               ) -> topk_pb2.Capabilities:
        """As topk_client.Client's."""
        return await self._run(self._capabilities(self._attempts(timeout)))

    async def is_serving(self, service: str = "", *,
                         timeout: Optional[float] = None) -> bool:
        """As topk_client.Client's."""
        return await self._run(self._serving(service, timeout))

    async def _run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    result = await self._do(step)
                except TopKError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as done:
            value: T = done.value
            return value

    async def _do(self, step: Any) -> Any:
        before = _cancellations()
        try:
            if isinstance(step, Unary):
                try:
                    return await step.method(step.message,
                                             **self._how(step.seconds))
                except (grpc.RpcError, KeyError) as error:
                    raise step.route.error(error) from error
            if isinstance(step, Prepare):
                return await in_thread(step.function, step.argument)
            if isinstance(step, Sleep):
                return await asyncio.sleep(step.seconds)
            chunks = step.route.stream_topk(step.chunks,
                                            **self._how(step.seconds))
            end = _End(chunks, step.route)
            try:
                async for chunk in chunks:
                    step.answer.add(parse(topk_pb2.TopKResponseChunk, chunk))
            except (grpc.RpcError, KeyError) as rpc:
                error = end.error(rpc)
                if error:
                    raise self._broken(error, step.answer.begun) from rpc
            finally:
                chunks.cancel()
        except asyncio.CancelledError:
            self._check_cancelled(before)
            raise

    def _check_cancelled(self, before: int) -> None:
        """TopKError if close() has cancelled a call: its task, which had been
        cancelled `before` times, has not been cancelled again."""
        if _cancellations() == before:
            self._check_not_closed()
