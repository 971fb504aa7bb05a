"""The requests of one ComputeTopKMany, over as many streams as it takes.

A stream that fails so that it is retried continues with the requests that have
no response. A request whose response may be longer than the stream's channel
receives ends the stream, and begins the next one.
"""

import asyncio
import collections
import threading
from typing import Any, AsyncIterator, Deque, Iterator, Optional, Union

from topk_client._connection import Route
from topk_client._stubs import topk_pb2
from topk_client.errors import TopKError, bad_answer
from topk_client.messages import Answer, Call, Request, parse

# Converting a larger tensor may copy it for a millisecond or more.
_LARGE_BYTES = 1 << 20


async def prepare(request: Request) -> Call:
    """Returns Call(request), which another thread makes if the tensor is large:
    a copy would block the event loop."""
    tensor = getattr(request, "tensor", None)
    if getattr(tensor, "nbytes", 0) <= _LARGE_BYTES:
        return Call(request)
    return await asyncio.get_running_loop().run_in_executor(
        None, Call, request)


class _Pending:
    """Calls without a response, in order. Thread-safe: gRPC takes requests on
    a separate thread, also for a while after the end of a stream."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Deque[Call] = collections.deque()
        self._sent = 0  # on the current stream
        # The current stream's number.
        self.stream = 0
        # Of the caller's requests. gRPC must not see it: it would log a
        # traceback, or wait for requests until the deadline.
        self._mistake: Optional[BaseException] = None

    def _renew(self) -> None:
        with self._lock:
            self._sent = 0
            self.stream += 1

    def _has_unsent(self) -> bool:
        with self._lock:
            return self._sent < len(self._calls)

    def max_message_bytes(self) -> int:
        """Returns the upper bound of the first call's response, in bytes."""
        return self._calls[0].max_message_bytes()

    def _next(self, stream: int, route: Route) -> Optional[Call]:
        """Returns the stream's next call, None at its end. IndexError where the
        call is still to be taken from the caller."""
        with self._lock:
            if stream != self.stream:
                return None
            call = self._calls[self._sent]
            if call.max_message_bytes() > route.max_message_bytes:
                return None
            self._sent += 1
            return call

    def answer(self, data: bytes) -> Union[Answer, TopKError]:
        """Reads a result of the current stream. BAD_ANSWER if it cannot be that
        of the first call."""
        with self._lock:
            if not self._sent:
                raise bad_answer("more results than requests")
            self._sent -= 1
            call = self._calls.popleft()
        return call.result(parse(topk_pb2.TopKResult, data))

    def check_requests(self) -> None:
        """Raises what the caller's iterator or a request of it has raised."""
        if self._mistake is not None:
            raise self._mistake from None

    def check_end(self) -> None:
        """As check_requests(); BAD_ANSWER if the current stream has ended
        without all results."""
        self.check_requests()
        if self._sent:
            raise bad_answer("fewer results than requests")


class PendingCalls(_Pending):
    """Takes requests from an iterator."""

    def __init__(self, requests: Iterator[Any]) -> None:
        super().__init__()
        self._requests = requests
        self._taking = threading.Lock()

    def begin(self) -> bool:
        """Begins a stream. Returns whether there is a call for it."""
        self._renew()
        found = self._wait()
        self.check_requests()
        return found

    def _wait(self) -> bool:
        """Takes a request unless there is an unsent one. Returns whether there
        is one now."""
        # The thread that takes one may wait for the answer of an unsent one.
        if self._has_unsent():
            return True
        with self._taking:
            if self._has_unsent():
                return True
            if self._mistake is not None:
                return False
            try:
                call = Call(next(self._requests))
            except StopIteration:
                return False
            except BaseException as mistake:
                self._mistake = mistake
                return False
            with self._lock:
                self._calls.append(call)
            return True

    def messages(self, stream: int, route: Route, limit_for: Any
                 ) -> Iterator[bytes]:
        """Yields the requests of a stream, which ends where they raise."""
        while True:
            try:
                call = self._next(stream, route)
            except IndexError:
                if self._wait():
                    continue
                return
            if call is None:
                return
            try:
                message = call.message(limit_for(call))
            except Exception as mistake:
                self._mistake = mistake
                return
            yield message


class AsyncPendingCalls(_Pending):
    """Takes requests from an asynchronous iterator."""

    def __init__(self, requests: AsyncIterator[Any]) -> None:
        super().__init__()
        self._requests = requests
        self._taking: Optional["asyncio.Task[bool]"] = None

    async def begin(self) -> bool:
        """As PendingCalls's."""
        self._renew()
        found = await self._wait()
        self.check_requests()
        return found

    async def _wait(self) -> bool:
        """As PendingCalls's. To cancel it leaves the caller's iterator alone,
        which a cancellation would end: the next stream waits for the same
        request."""
        if self._has_unsent():
            return True
        if self._taking is None:
            self._taking = asyncio.ensure_future(self._take())
        return await asyncio.shield(self._taking)

    async def _take(self) -> bool:
        try:
            self._calls.append(
                await prepare(await self._requests.__anext__()))
        except StopAsyncIteration:
            return False  # for good: the task stays
        except BaseException as mistake:
            self._mistake = mistake
            return False
        self._taking = None
        return True

    def close(self) -> None:
        if self._taking is not None:
            self._taking.cancel()

    async def messages(self, stream: int, route: Route, limit_for: Any
                       ) -> AsyncIterator[bytes]:
        """As PendingCalls's."""
        while True:
            try:
                call = self._next(stream, route)
            except IndexError:
                if await self._wait():
                    continue
                return
            if call is None:
                return
            try:
                message = call.message(await limit_for(call))
            except Exception as mistake:
                self._mistake = mistake
                return
            yield message
