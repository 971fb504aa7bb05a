"""The Python client for asyncio against a real server and NumPy.

usage: client_aio_test.py TOPKD
"""

import asyncio
import unittest

import client_package
import grpc
import numpy as np
import topk_client
import topk_client.aio
from numpy_oracle_test import oracle
from topk_client import DirectML, Onnx, OpenVINO, Request


class Aio(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = client_package.start(cls.addClassCleanup)

    async def asyncSetUp(self):
        # NumPy's sorts block the loop, and unittest would have asyncio say so.
        asyncio.get_running_loop().slow_callback_duration = 60
        self.client = topk_client.aio.Client(self.server.target)
        self.addAsyncCleanup(self.client.close)

    def assert_right(self, answer, x, k):
        values, indices = oracle(x, "", x.ndim - 1, k, True, False)
        self.assertEqual(answer.values.tobytes(), values.tobytes())
        np.testing.assert_array_equal(answer.indices, indices)

    async def test_calls_at_once(self):
        rng = np.random.default_rng(4)
        arrays = [rng.standard_normal((3, 50 + n), np.float32)
                  for n in range(50)]
        specs = (Onnx(9), OpenVINO(9, 1, "max", "value"),
                 DirectML(9, 1, "decreasing"))
        answers = await asyncio.gather(*(
            self.client.compute_topk(x, specs[n % 3], stream=n % 2 == 0)
            for n, x in enumerate(arrays)))
        for x, answer in zip(arrays, answers):
            self.assert_right(answer, x, 9)

    async def test_a_large_array_is_streamed(self):
        x = np.random.default_rng(5).standard_normal((2, 1 << 19), np.float32)
        for k in (10, 200000):
            self.assert_right(await self.client.compute_topk(x, Onnx(k)), x, k)
            self.assert_right(await self.client.stream_topk(x, Onnx(k)), x, k)

    async def test_many_from_either_iterable(self):
        arrays = [np.random.default_rng(n).random((2, 30)) for n in range(100)]
        requests = [Request(x, Onnx(31 if n == 7 else 5))
                    for n, x in enumerate(arrays)]

        async def later():
            for request in requests:
                await asyncio.sleep(0)
                yield request

        for source in (requests, later()):
            results = [result async for result
                       in self.client.compute_topk_many(source)]
            self.assertEqual(len(results), len(arrays))
            for n, (x, result) in enumerate(zip(arrays, results)):
                if n == 7:
                    self.assertEqual(result.reason, "K_EXCEEDS_DIMENSION")
                else:
                    self.assert_right(result, x, 5)

    async def test_an_invalid_request_among_many_raises(self):
        requests = [Request(np.arange(5), Onnx(1)),
                    Request(np.zeros(5, complex), Onnx(1))]
        with self.assertRaises(TypeError):
            async for _ in self.client.compute_topk_many(requests):
                pass

    async def test_an_exception_of_the_iterator_is_raised_after_its_results(
            self):
        for exception in (ValueError("a"), asyncio.CancelledError("b")):
            async def requests(exception=exception):
                yield Request(np.arange(5), Onnx(1))
                raise exception

            results = self.client.compute_topk_many(requests())
            self.assertEqual((await results.__anext__()).indices[0], 4)
            # Python 3.9 makes another CancelledError of one.
            with self.assertRaises(type(exception)):
                await asyncio.wait_for(results.__anext__(), 30)

    async def test_a_request_may_depend_on_the_result_before(self):
        answered = asyncio.Semaphore(0)

        async def requests():
            for number in range(20):
                yield Request(np.arange(5), Onnx(1), request_id=str(number))
                await answered.acquire()

        count = 0
        async for result in self.client.compute_topk_many(requests(),
                                                          timeout=30):
            self.assertEqual(result.request_id, str(count))
            count += 1
            answered.release()
        self.assertEqual(count, 20)

    async def test_errors(self):
        # Often: gRPC may be about to write when a stream is refused.
        for number in range(30):
            for size in (5, 1 << 20):
                with self.assertRaises(topk_client.TopKError) as caught:
                    await self.client.compute_topk(
                        np.zeros(size), Onnx(2, axis=3),
                        stream=number % 3 != 0)
                self.assertEqual(caught.exception.code,
                                 grpc.StatusCode.INVALID_ARGUMENT)
                self.assertEqual(caught.exception.field, "onnx.axis")

    async def test_a_rejected_stream_reports_its_reason(self):
        async def endless():
            while True:
                yield Request(np.zeros(1 << 16), Onnx(1))
                await asyncio.sleep(0)

        server = client_package.start(self.addCleanup,
                                      "--max-message-bytes", "1024")
        async with topk_client.aio.Client(
                server.target, max_attempts=1) as client:
            for _ in range(20):
                with self.assertRaises(topk_client.TopKError) as caught:
                    async for _ in client.compute_topk_many(endless()):
                        pass
                self.assertEqual(caught.exception.code,
                                 grpc.StatusCode.RESOURCE_EXHAUSTED)

    async def test_a_cancelled_task_cancels_its_call(self):
        async def requests():
            yield Request(np.arange(5), Onnx(1))
            await asyncio.Event().wait()

        async def ask(answered):
            async for _ in self.client.compute_topk_many(requests()):
                answered.set()

        answered = asyncio.Event()
        task = asyncio.ensure_future(ask(answered))
        await asyncio.wait_for(answered.wait(), 30)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)

    async def test_a_deadline_ends_a_call(self):
        async def requests():
            yield Request(np.arange(5), Onnx(1))
            await asyncio.Event().wait()

        with self.assertRaises(topk_client.TopKError) as caught:
            async for _ in self.client.compute_topk_many(requests(),
                                                         timeout=0.1):
                pass
        self.assertEqual(caught.exception.code,
                         grpc.StatusCode.DEADLINE_EXCEEDED)

    async def test_capabilities_and_health(self):
        capabilities = await self.client.get_capabilities()
        self.assertGreater(capabilities.limits.max_elements, 0)
        self.assertTrue(await self.client.is_serving())
        with self.assertRaises(topk_client.TopKError) as caught:
            await self.client.is_serving("no.such.Service")
        self.assertEqual(caught.exception.code, grpc.StatusCode.NOT_FOUND)


if __name__ == "__main__":
    unittest.main()
