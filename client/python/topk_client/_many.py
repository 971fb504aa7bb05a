"""Tracks the requests of one compute_topk_many() call, which may need several
streams.

After a retryable failure, a new stream continues with the requests that have no
response. If a response may be longer than the stream's channel can receive, the
stream ends before that request, and the next stream begins with the request.
"""

import asyncio
import collections
import threading
from typing import Any, AsyncIterator, Deque, Iterator, Optional, Union

from topk_client._connection import Route
from topk_client.errors import TopKError, bad_answer
from topk_client.messages import HEAVY_BYTES, Answer, Call


class _Pending:
    """Calls without a response, in order. Thread-safe: gRPC reads requests on a
    separate thread, and may continue for a while after a stream has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Deque[Call] = collections.deque()
        # The part of _calls that the current stream has not sent yet. Each
        # stream has its own deque, because gRPC may still read the deque of an
        # ended stream.
        self._unsent: Deque[Call] = collections.deque()
        # The error raised by the caller's iterator or by an invalid request.
        # gRPC must not see the error. Otherwise, gRPC might log a traceback, or
        # wait for requests until the deadline.
        self._mistake: Optional[BaseException] = None

    def _renew(self) -> Deque[Call]:
        with self._lock:
            self._unsent = self._calls.copy()
            return self._unsent

    def _add(self, call: Call) -> None:
        with self._lock:
            self._calls.append(call)
            self._unsent.append(call)

    def answer(self, data: bytes) -> Union[Answer, TopKError]:
        """Reads the next result of the current stream. Raises BAD_ANSWER if the
        result does not match the first pending call."""
        if len(self._calls) <= len(self._unsent):
            raise bad_answer("more results than requests")
        return self._calls.popleft().read_result(data)

    def check_requests(self) -> None:
        """Raises the error of the caller's iterator or of an invalid request,
        if any."""
        if self._mistake is not None:
            raise self._mistake from None

    def check_end(self) -> None:
        """Like check_requests(). Also raises BAD_ANSWER if the current stream
        has ended before all results arrived."""
        self.check_requests()
        if len(self._calls) > len(self._unsent):
            raise bad_answer("fewer results than requests")


class PendingCalls(_Pending):
    """Takes requests from an iterator."""

    def __init__(self, requests: Iterator[Any]) -> None:
        super().__init__()
        self._requests = requests
        self._taking = threading.Lock()

    def begin(self) -> Deque[Call]:
        """Begins a stream and returns its unsent calls. Returns no calls only
        if all calls have been answered."""
        unsent = self._renew()
        self._wait(unsent)
        self.check_requests()
        return unsent

    def _wait(self, unsent: Deque[Call]) -> bool:
        """If the stream has no unsent call, takes the next request. Returns
        whether the stream has an unsent call now."""
        # Check without the lock to avoid a deadlock: the caller's iterator runs
        # with the lock held, and may wait for the answer to an unsent call.
        if not unsent:
            with self._taking:
                try:
                    if (not unsent and unsent is self._unsent
                            and self._mistake is None):
                        self._add(Call(next(self._requests)))
                except StopIteration:
                    pass
                except BaseException as mistake:
                    self._mistake = mistake
        return bool(unsent) and unsent is self._unsent

    def messages(self, unsent: Deque[Call], route: Route, limit_for: Any
                 ) -> Iterator[bytes]:
        """Yields the request messages of a stream. Ends the stream if a request
        is invalid."""
        most = route.max_message_bytes
        while self._wait(unsent) and unsent[0].max_message_bytes <= most:
            try:
                message = unsent[0].message(limit_for(unsent[0]))
            except Exception as mistake:
                self._mistake = mistake
                return
            unsent.popleft()
            yield message


class AsyncPendingCalls(_Pending):
    """Takes requests from an asynchronous iterator."""

    def __init__(self, requests: AsyncIterator[Any]) -> None:
        super().__init__()
        self._requests = requests
        self._taking: Optional["asyncio.Task[None]"] = None

    async def begin(self) -> Deque[Call]:
        unsent = self._renew()
        await self._wait(unsent)
        self.check_requests()
        return unsent

    async def _wait(self, unsent: Deque[Call]) -> bool:
        """See PendingCalls._wait(). Cancelling the call does not cancel the
        caller's iterator, because cancellation would end the iterator. The next
        stream waits for the same request."""
        if not unsent:
            if self._taking is None:
                self._taking = asyncio.ensure_future(self._take())
            await asyncio.shield(self._taking)
        return bool(unsent)

    async def _take(self) -> None:
        try:
            self._add(Call(await self._requests.__anext__()))
        except StopAsyncIteration:
            return  # _taking stays set, so that no more requests are taken
        except BaseException as mistake:
            self._mistake = mistake
            return
        self._taking = None

    def close(self) -> None:
        if self._taking is not None:
            self._taking.cancel()

    async def messages(self, unsent: Deque[Call], route: Route, limit_for: Any
                       ) -> AsyncIterator[bytes]:
        most = route.max_message_bytes
        while await self._wait(unsent) and unsent[0].max_message_bytes <= most:
            call = unsent[0]
            try:
                limit = await limit_for(call)
                # A large copy must not block the event loop.
                message = (await asyncio.to_thread(call.message, limit)
                           if call.nbytes > HEAVY_BYTES
                           else call.message(limit))
            except Exception as mistake:
                self._mistake = mistake
                return
            unsent.popleft()
            yield message
