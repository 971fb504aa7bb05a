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
    """Calls without a response, by number. gRPC may continue to read requests
    for a while after a stream has ended. The last request that it takes is then
    sent by the next stream."""

    def __init__(self) -> None:
        self._calls: Dict[int, Call] = {}
        self._taken = self._received = 0
        # The memory of the calls taken and received. Each is written by one
        # thread at a time.
        self._taken_bytes = self._received_bytes = 0
        # Whether no more requests are taken.
        self._ended = False
        # The error raised by the caller's iterator or by an invalid request.
        # gRPC must not see the error. Otherwise, gRPC might log a traceback, or
        # wait for requests until the deadline.
        self._mistake: Optional[BaseException] = None

    def _add(self, call: Call) -> None:
        self._calls[self._taken] = call
        self._taken += 1  # before _is_full() can become true
        self._taken_bytes += call.nbytes + _CALL_BYTES

    def _pop(self) -> Call:
        """Returns the call of the next result."""
        call = self._calls.pop(self._received, None)
        if call is None:
            raise bad_response("more results than requests")
        self._received += 1
        self._received_bytes += call.nbytes + _CALL_BYTES
        return call

    def _is_full(self) -> bool:
        return self._taken_bytes - self._received_bytes > _AHEAD_BYTES

    def _fail(self, mistake: BaseException) -> None:
        self._mistake = mistake
        self._ended = True

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
    """Takes requests from an iterator, in a thread of gRPC for each stream."""

    def __init__(self, requests: Iterator[Any]) -> None:
        super().__init__()
        self._requests = requests
        self._taking = threading.Lock()  # held while the iterator runs
        self._changed = threading.Condition()
        self._waiting = 0  # threads in _take() that wait for results

    def close(self) -> None:
        """Takes no more requests."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def result(self, data: bytes) -> Union[Response, TopKError]:
        """Reads the next result. Raises BAD_ANSWER if it is not valid."""
        call = self._pop()
        # A thread that starts to wait later sees that the call was removed.
        if self._waiting:
            with self._changed:
                self._changed.notify_all()
        return call.read_result(data)

    def _take(self, number: int) -> None:
        """Takes request `number`, unless another thread takes it."""
        def may_take() -> bool:
            return self._ended or number < self._taken or not self._is_full()
        if not may_take():
            with self._changed:
                self._waiting += 1
                self._changed.wait_for(may_take)
                self._waiting -= 1
        with self._taking:
            if number < self._taken or self._ended:
                return
            try:
                self._add(Call(next(self._requests)))
            except StopIteration:
                self._ended = True
            except BaseException as mistake:
                self._fail(mistake)

    def messages(self) -> Iterator[bytes]:
        """Yields the request messages of a stream. Ends the stream if a request
        is invalid."""
        number = self._received
        while True:
            # The iterator of another stream may wait for the response to a call
            # that this one sends again.
            if number >= self._taken:
                self._take(number)
            call = self._calls.get(number)
            if call is None:
                return
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
        self._changed = asyncio.Event()

    def close(self) -> None:
        """Takes no more requests."""
        self._ended = True
        self._changed.set()
        if self._taking is not None:
            self._taking.cancel()

    def result(self, data: bytes) -> Union[Response, TopKError]:
        """Reads the next result. Raises BAD_ANSWER if it is not valid."""
        call = self._pop()
        self._changed.set()
        return call.read_result(data)

    async def _call(self, number: int) -> Optional[Call]:
        """Returns a call, and takes the next request if needed. Returns None
        if there are no more requests. Cancelling the stream does not cancel the
        caller's iterator, because cancellation would end the iterator. The next
        stream waits for the same request."""
        while (number >= self._taken and not self._ended
               and self._is_full()):
            self._changed.clear()
            await self._changed.wait()
        if number >= self._taken and not self._ended:
            if self._taking is None or self._taking.done():
                self._taking = asyncio.ensure_future(self._take())
            await asyncio.shield(self._taking)
        return self._calls.get(number)

    async def _take(self) -> None:
        try:
            self._add(Call(await self._requests.__anext__()))
        except StopAsyncIteration:
            self._ended = True
        except BaseException as mistake:
            self._fail(mistake)

    async def messages(self) -> AsyncIterator[bytes]:
        """See PendingCalls.messages()."""
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
