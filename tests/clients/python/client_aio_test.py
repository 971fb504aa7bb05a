"""Tests the asyncio client with a real server. client_calls_test.py tests what
both Python clients do.

usage: client_aio_test.py TOPKD
"""

import asyncio
import threading
import unittest
from unittest import mock

import client_package
import numpy as np
import topk_client
import topk_client.aio
from topk_client import Onnx, Request, messages


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
                yield Request(np.zeros(17 << 20, np.uint8), Onnx(1))
                await asyncio.sleep(0)

        server = client_package.start(self.addCleanup,
                                      "--max-message-bytes", "16MiB")
        async with topk_client.aio.Client(
                server.target, retry=None) as client:
            for _ in range(20):
                with self.assertRaisesRegex(topk_client.TopKError,
                                            "^RESOURCE_EXHAUSTED:"):
                    async for _ in client.compute_topk_many(flood()):
                        pass

    async def test_a_cancelled_task_cancels_its_call(self):
        async def endless():
            yield Request(np.arange(5), Onnx(1))
            await asyncio.Event().wait()

        async def ask(answered):
            async for _ in self.client.compute_topk_many(endless()):
                answered.set()

        answered = asyncio.Event()
        task = asyncio.ensure_future(ask(answered))
        await asyncio.wait_for(answered.wait(), 30)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)

    async def test_large_messages_are_made_in_other_threads(self):
        x = np.arange(1 << 20, dtype=np.float32)
        threads = []

        message = messages.Call.message

        def noted(*arguments):
            threads.append(threading.get_ident())
            return message(*arguments)

        async def many(request):
            async for answer in self.client.compute_topk_many([request]):
                return answer

        with mock.patch.object(messages.Call, "message", noted):
            for call in (self.client.compute_topk(x, Onnx(1), stream=False),
                         many(Request(x, Onnx(1)))):
                self.assertEqual((await call).indices[0], x.size - 1)
        self.assertEqual(len(threads), 2)
        self.assertNotIn(threading.get_ident(), threads)


if __name__ == "__main__":
    unittest.main()
