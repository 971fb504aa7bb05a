"""Tracks the requests of one compute_topk_many() call, which may need several
streams: after a retryable failure, a new stream continues with the requests
that have no response.
"""

import asyncio
import threading
from typing import Any, AsyncIterator, Dict, Iterator, Optional, Union

from topk_client.errors import TopKError, bad_response
from topk_client.messages import HEAVY_BYTES, Call, Response

# No further request is taken while the calls without a response need more memory
# than this. Each needs its tensor, and less than _CALL_BYTES for its objects.
_AHEAD_BYTES = 64 << 20
_CALL_BYTES = 4096


class _Pending:
    """Calls without a response, by number. gRPC may read requests on a separate
    thread, and may continue for a while after a stream has ended. The last
    request that it takes is then sent by the next stream."""

    def __init__(self) -> None:
        self._calls: Dict[int, Call] = {}
        self._taken = self._received = 0
        # The memory of the calls taken and received. Each is written by one
        # thread at a time.
        self._taken_bytes = self._received_bytes = 0
        # Whether no more requests are taken.
        self._ended = False
        # Whether a request waits until _may_take().
        self._waits = False
        # The error raised by the caller's iterator or by an invalid request.
        # gRPC must not see the error. Otherwise, gRPC might log a traceback, or
        # wait for requests until the deadline.
        self._mistake: Optional[BaseException] = None

    def _add(self, request: Any) -> None:
        call = Call(request)
        self._calls[self._taken] = call
        self._taken_bytes += call.nbytes + _CALL_BYTES
        self._taken += 1

    def _may_take(self, number: int) -> bool:
        """Returns whether _call(number) need not wait for responses."""
        return (number < self._taken or self._ended
                or self._taken_bytes - self._received_bytes <= _AHEAD_BYTES)

    def _wake(self) -> None:
        """Lets _take() check _may_take() again, after it has set `_waits`."""
        raise NotImplementedError

    def close(self) -> None:
        """Takes no more requests."""
        self._ended = True
        if self._waits:
            self._wake()

    def _fail(self, mistake: BaseException) -> None:
        self._mistake = mistake
        self._ended = True

    def result(self, data: bytes) -> Union[Response, TopKError]:
        """Reads the next result. Raises BAD_ANSWER if it is not valid."""
        call = self._calls.pop(self._received, None)
        if call is None:
            raise bad_response("more results than requests")
        self._received += 1
        self._received_bytes += call.nbytes + _CALL_BYTES
        if self._waits:
            self._wake()
        return call.read_result(data)

    def check_requests(self) -> None:
        """Raises the error of the caller's iterator or of an invalid request,
        if any."""
        if self._mistake is not None:
            raise self._mistake from None

    def check_end(self) -> None:
        """Like check_requests(). Also raises BAD_ANSWER if results are missing
        although the stream has ended without an error."""
        self.check_requests()
        if self._calls or not self._ended:
            raise bad_response("fewer results than requests")


class PendingCalls(_Pending):
    """Takes requests from an iterator."""

    def __init__(self, requests: Iterator[Any]) -> None:
        super().__init__()
        self._requests = requests
        self._taking = threading.Lock()
        self._room = threading.Condition()

    def _wake(self) -> None:
        with self._room:
            self._waits = False
            self._room.notify_all()

    def _take(self, number: int) -> Optional[Call]:
        """Returns a call, and takes the next request if needed. Returns None if
        there are no more requests."""
        if not self._may_take(number):
            with self._room:
                while True:
                    self._waits = True
                    if self._may_take(number):
                        break
                    self._room.wait()
        # Check without the lock to avoid a deadlock: the caller's iterator runs
        # with the lock held, and may wait for the response to an earlier call.
        if number >= self._taken:
            with self._taking:
                try:
                    if number >= self._taken and not self._ended:
                        self._add(next(self._requests))
                except StopIteration:
                    self._ended = True
                except BaseException as mistake:
                    self._fail(mistake)
        return self._calls.get(number)

    def messages(self) -> Iterator[bytes]:
        """Yields the request messages of a stream. Ends the stream if a request
        is invalid."""
        number = self._received
        while call := self._calls.get(number) or self._take(number):
            try:
                message = call.message()
            except Exception as mistake:
                self._fail(mistake)
                return
            number += 1
            yield message


class AsyncPendingCalls(_Pending):
    """Takes requests from an asynchronous iterator."""

    def __init__(self, requests: AsyncIterator[Any]) -> None:
        super().__init__()
        self._requests = requests
        self._taking: Optional["asyncio.Task[None]"] = None
        self._room = asyncio.Event()

    def _wake(self) -> None:
        self._room.set()

    async def _call(self, number: int) -> Optional[Call]:
        """See PendingCalls._call(). Cancelling the stream does not cancel the
        caller's iterator, because cancellation would end the iterator. The next
        stream waits for the same request."""
        while not self._may_take(number):
            self._waits = True
            self._room.clear()
            await self._room.wait()
        if number >= self._taken and not self._ended:
            if self._taking is None or self._taking.done():
                self._taking = asyncio.ensure_future(self._take())
            await asyncio.shield(self._taking)
        return self._calls.get(number)

    async def _take(self) -> None:
        try:
            self._add(await self._requests.__anext__())
        except StopAsyncIteration:
            self._ended = True
        except BaseException as mistake:
            self._fail(mistake)

    def close(self) -> None:
        super().close()
        if self._taking is not None:
            self._taking.cancel()

    async def messages(self) -> AsyncIterator[bytes]:
        number = self._received
        while call := await self._call(number):
            try:
                # A large copy must not block the event loop.
                message = (await asyncio.to_thread(call.message)
                           if call.nbytes > HEAVY_BYTES else call.message())
            except Exception as mistake:
                self._fail(mistake)
                return
            number += 1
            yield message
