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
from topk_client.messages import Answer, Call, parse


class _Pending:
    """Calls without a response, in order. Thread-safe: gRPC takes requests on
    a separate thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Deque[Call] = collections.deque()
        self._sent = 0  # on the current stream
        self._stream = 0
        # Of the caller's requests, which ends everything.
        self.mistake: Optional[BaseException] = None

    def begin(self) -> int:
        """Begins a stream with the first call. Returns its number."""
        with self._lock:
            self._sent = 0
            self._stream += 1
            return self._stream

    def max_message_bytes(self) -> int:
        """Returns the upper bound of the first call's response, in bytes."""
        return self._calls[0].max_message_bytes()

    def next(self, stream: int, route: Route) -> Optional[Call]:
        """Returns the stream's next call, None at its end. IndexError where the
        call is still to be taken from the caller."""
        with self._lock:
            if stream != self._stream:
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

    def check_end(self) -> None:
        """BAD_ANSWER if the current stream has ended without all results."""
        if self._sent:
            raise bad_answer("fewer results than requests")


class PendingCalls(_Pending):
    """Takes requests from an iterator."""

    def __init__(self, requests: Iterator[Any]) -> None:
        super().__init__()
        self._requests = requests
        self._taking = threading.Lock()

    def wait(self, count: int = 1) -> bool:
        """Takes a request if there are fewer than `count`. Returns whether
        there are as many."""
        with self._taking:
            if len(self._calls) >= count:
                return True
            try:
                call = Call(next(self._requests))
            except StopIteration:
                return False
            with self._lock:
                self._calls.append(call)
            return True

    def messages(self, stream: int, route: Route, limit_for: Any
                 ) -> Iterator[bytes]:
        try:
            while True:
                try:
                    call = self.next(stream, route)
                except IndexError:
                    if self.wait(self._sent + 1):
                        continue
                    return
                if call is None:
                    return
                yield call.message(limit_for(call))
        except Exception as mistake:
            self.mistake = mistake
            raise


class AsyncPendingCalls(_Pending):
    """Takes requests from an asynchronous iterator."""

    def __init__(self, requests: AsyncIterator[Any]) -> None:
        super().__init__()
        self._requests = requests
        self._taking: Optional["asyncio.Task[bool]"] = None

    async def wait(self, count: int = 1) -> bool:
        """As PendingCalls's. To cancel it leaves the caller's iterator alone,
        which a cancellation would end: the next stream waits for the same
        request."""
        while len(self._calls) < count:
            if self._taking is None:
                self._taking = asyncio.ensure_future(self._take())
            if not await asyncio.shield(self._taking):
                return False
        return True

    async def _take(self) -> bool:
        try:
            self._calls.append(Call(await self._requests.__anext__()))
        except StopAsyncIteration:
            return False  # for good: the task stays
        self._taking = None
        return True

    def close(self) -> None:
        if self._taking is not None:
            self._taking.cancel()

    async def messages(self, stream: int, route: Route, limit_for: Any
                       ) -> AsyncIterator[bytes]:
        try:
            while True:
                try:
                    call = self.next(stream, route)
                except IndexError:
                    if await self.wait(self._sent + 1):
                        continue
                    return
                if call is None:
                    return
                yield call.message(await limit_for(call))
        except Exception as mistake:
            self.mistake = mistake
            raise
