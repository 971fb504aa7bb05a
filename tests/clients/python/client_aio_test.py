"""Tests the asyncio client with a real server. client_calls_test.py tests what
both Python clients do.

usage: client_aio_test.py TOPKD
"""

import asyncio
import logging
import socket
import sys
import threading
import unittest
from unittest import mock

import client_package
import grpc
import numpy as np
import topk_client
import topk_client.aio
from topk_client import DirectML, Onnx, Request, messages


async def endless():
    """Yields a request, and never ends."""
    yield Request(np.arange(5), Onnx(1))
    await asyncio.Event().wait()


class Loops(unittest.TestCase):
    def test_a_client_belongs_to_one_event_loop(self):
        server = client_package.start(self.addCleanup)
        client = topk_client.aio.Client(server.target)

        async def call():
            return await client.topk([3, 9], 1)

        async def many():
            return [result async for result in client.topk_many([[3, 9]], 1)]

        self.assertEqual(asyncio.run(call()).indices.tolist(), [1])
        for coroutine in (call(), many()):
            with self.assertRaisesRegex(
                    RuntimeError, r"another event loop: create a client for "
                    r"each asyncio\.run\(\)$"):
                asyncio.run(coroutine)
        asyncio.run(client.close())


class Aio(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = client_package.start(cls.addClassCleanup)

    async def asyncSetUp(self):
        self.client = topk_client.aio.Client(self.server.target)
        self.addAsyncCleanup(self.client.close)

    async def test_a_rejected_stream_reports_its_reason(self):
        async def flood():
            while True:
                yield Request(np.zeros(1 << 16), Onnx(1))
                await asyncio.sleep(0)

        server = client_package.start(self.addCleanup,
                                      "--max-message-bytes", "1024")
        async with topk_client.aio.Client(
                server.target, retry=None) as client:
            for _ in range(20):
                with self.assertRaisesRegex(topk_client.TopKError,
                                            "^RESOURCE_EXHAUSTED:"):
                    async for _ in client.compute_topk_many(flood()):
                        pass

    async def test_a_cancelled_task_cancels_its_call(self):
        async def ask(answered):
            async for _ in self.client.compute_topk_many(endless()):
                answered.set()

        answered = asyncio.Event()
        task = asyncio.ensure_future(ask(answered))
        await asyncio.wait_for(answered.wait(), 30)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)

    def silent_client(self):
        """Returns a client for a server that never responds."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        return topk_client.aio.Client(
            "127.0.0.1:%d" % listener.getsockname()[1])

    async def test_close_ends_calls_with_an_error(self):
        silent = self.silent_client()

        client = topk_client.aio.Client(self.server.target)
        results = client.compute_topk_many(endless())
        await results.__anext__()
        calls = [asyncio.ensure_future(call) for call in (
            silent.compute_topk(np.arange(5), Onnx(1)),
            silent.compute_topk(np.arange(5), Onnx(1), stream=True),
            silent.get_capabilities(), silent.is_serving(),
            results.__anext__())]
        cancelled = asyncio.ensure_future(silent.get_capabilities())
        for _ in range(10):
            await asyncio.sleep(0)  # let each call start waiting
        cancelled.cancel()
        await silent.close()
        await client.close()
        end, *errors = await asyncio.gather(cancelled, *calls,
                                            return_exceptions=True)
        if sys.version_info >= (3, 11):
            self.assertIsInstance(end, asyncio.CancelledError)
        for error in errors:
            self.assertIsInstance(error, topk_client.TopKError)
            self.assertEqual(error.code, grpc.StatusCode.CANCELLED)
            self.assertEqual(error.message, "the client was closed")

    async def test_close_ends_a_pause(self):
        forever = topk_client.Retry(2, initial=3600, maximum=3600)
        client = topk_client.aio.Client("unix:/nowhere/topk.sock",
                                        retry=forever, timeout=None)
        with self.assertLogs("topk_client", logging.DEBUG) as logs:
            calls = [asyncio.ensure_future(call) for call in (
                client.topk([1], 1), client.topk_many([[1]], 1).__anext__())]
            for _ in range(3000):
                await asyncio.sleep(0.01)
                if len(logs.output) == 2:
                    break
            await client.close()
            for call in calls:
                with self.assertRaisesRegex(topk_client.TopKError,
                                            "^CANCELLED: the client was closed$"
                                            ):
                    await asyncio.wait_for(call, 30)

    async def test_large_messages_are_made_in_other_threads(self):
        padded = DirectML(1, 0, "decreasing",
                          input_total_tensor_size_bytes=4 << 20)
        threads = []

        def noted(function):
            def call(*arguments, **options):
                threads.append(threading.get_ident())
                return function(*arguments, **options)
            return call

        async def many(request):
            async for answer in self.client.compute_topk_many([request]):
                return answer

        with mock.patch.object(np, "pad", noted(np.pad)), mock.patch.object(
                messages.Call, "message", noted(messages.Call.message)):
            for x, spec in ((np.arange(4, dtype=np.float32), padded),
                            (np.arange(1 << 20, dtype=np.float32), Onnx(1))):
                for call in (self.client.compute_topk(x, spec, stream=False),
                             many(Request(x, spec))):
                    self.assertEqual((await call).indices[0], x.size - 1)
        self.assertEqual(len(threads), 6)
        self.assertNotIn(threading.get_ident(), threads)


if __name__ == "__main__":
    unittest.main()
