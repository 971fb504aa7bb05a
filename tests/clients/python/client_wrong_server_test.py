"""Tests the Python client with retry delays, which it must obey, and with
results that are not those of its requests. client_answer_cases_test.py and
wrong_servers_test.py have all other invalid responses.

usage: client_wrong_server_test.py TOPKD     which is not used
"""

import asyncio
import concurrent.futures
import threading
import time
import unittest

import client_package  # noqa: F401, makes topk_client importable
import grpc
import numpy as np
import topk_client
import topk_client.aio
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2, status_pb2
from topk_client import Onnx, Request, _shards
from topk_client._stubs import tensor_pb2, topk_pb2

X = np.array([3.0, 9.0, 1.0], np.float32)


def right_answer():
    response = topk_pb2.TopKResponse()
    response.values.data_type = tensor_pb2.DATA_TYPE_F32
    response.values.data = np.float32([9]).tobytes()
    response.indices.data_type = tensor_pb2.DATA_TYPE_I64
    response.indices.data = np.int64([1]).tobytes()
    response.values.shape.append(1)
    response.indices.shape.append(1)
    return response


class WrongServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # One for all: gRPC complains of events that come after a loop's end.
        loop = asyncio.new_event_loop()
        cls.addClassCleanup(loop.close)
        cls.in_loop = loop.run_until_complete

    def start(self, **methods):
        """Starts a server with these methods; returns its target."""
        unary = ("ComputeTopK", "GetCapabilities")
        handlers = {name: (grpc.unary_unary_rpc_method_handler(method)
                           if name in unary else
                           grpc.stream_stream_rpc_method_handler(method))
                    for name, method in methods.items()}
        server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(2),
            handlers=(grpc.method_handlers_generic_handler(
                "topk.v1.TopKService", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        return f"127.0.0.1:{port}"

    def start_many(self, messages):
        """Starts a server that answers a stream of requests by messages."""
        def answer(requests, _):
            list(requests)
            yield from [message.SerializeToString() for message in messages]
        return self.start(ComputeTopKMany=answer)

    def assert_bad(self, ask):
        with self.assertRaises(topk_client.TopKError) as caught:
            ask()
        self.assertEqual(caught.exception.reason, "BAD_ANSWER")
        self.assertEqual(caught.exception.code, grpc.StatusCode.INTERNAL)

    def test_results_belong_to_their_requests(self):
        response = right_answer()
        response.request_id = "a"
        messages = []
        target = self.start_many(messages)
        requests = [Request(X, Onnx(1), request_id="a")]
        with topk_client.Client(target) as client:
            for request_id in ("", "a"):
                messages[:] = [topk_pb2.TopKResult(
                    response=response, request_id=request_id)]
                self.assertEqual(
                    len(list(client.compute_topk_many(requests))), 1)
            messages[:] = [topk_pb2.TopKResult(
                response=response, request_id="b")]
            self.assert_bad(lambda: list(client.compute_topk_many(requests)))
            response.request_id = "b"
            messages[:] = [topk_pb2.TopKResult(response=response)]
            self.assert_bad(lambda: list(client.compute_topk_many(requests)))

    def test_a_wrong_number_of_results_is_rejected(self):
        result = topk_pb2.TopKResult(response=right_answer())
        messages = []
        target = self.start_many(messages)
        requests = [Request(X, Onnx(1))] * 2

        async def ask():
            async with topk_client.aio.Client(target) as client:
                async for _ in client.compute_topk_many(requests):
                    pass

        with topk_client.Client(target) as client:
            for messages[:] in ([], [result], [result] * 3,
                                [topk_pb2.TopKResult()] * 2):
                self.assert_bad(
                    lambda: list(client.compute_topk_many(requests)))
                self.assert_bad(lambda: self.in_loop(ask()))

    def test_many_retries_only_requests_without_a_result(self):
        seen = []

        def quits_after_three(requests, context):
            for number, request in enumerate(requests):
                if number == 3:
                    context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
                message = topk_pb2.TopKRequest.FromString(request)
                seen.append(message.request_id)
                response = right_answer()
                response.request_id = message.request_id
                yield topk_pb2.TopKResult(
                    response=response).SerializeToString()

        target = self.start(ComputeTopKMany=quits_after_three)
        names = [str(number) for number in range(8)]
        requests = [Request(X, Onnx(1), request_id=name) for name in names]

        async def ask():
            async def each():
                for request in requests:
                    await asyncio.sleep(0)
                    yield request

            async with topk_client.aio.Client(target) as client:
                return [answer.request_id async for answer in
                        client.compute_topk_many(each())]

        with topk_client.Client(target) as client:
            self.assertEqual([answer.request_id for answer in
                              client.compute_topk_many(iter(requests))], names)
        self.assertEqual(seen, names)
        self.assertEqual(self.in_loop(ask()), names)
        with topk_client.Client(target, max_attempts=2) as client:
            answers = client.compute_topk_many(requests)
            for _ in range(6):
                next(answers)
            with self.assertRaises(topk_client.TopKError) as caught:
                next(answers)
        self.assertEqual(caught.exception.code, grpc.StatusCode.UNAVAILABLE)

    def start_quitting(self):
        """Starts a server that ends the first stream after the second request,
        and answers all others."""
        streams = []

        def answer(requests, context):
            streams.append(None)
            for number, _ in enumerate(requests):
                if len(streams) == 1 and number == 1:
                    context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
                yield topk_pb2.TopKResult(
                    response=right_answer()).SerializeToString()

        return self.start(ComputeTopKMany=answer)

    def test_requests_may_depend_on_results_when_the_stream_is_retried(self):
        answered = threading.Semaphore(0)

        def requests():
            for _ in range(5):
                yield Request(X, Onnx(1))
                self.assertTrue(answered.acquire(timeout=30))

        async def ask(target):
            answered = asyncio.Semaphore(0)

            async def requests():
                for _ in range(5):
                    yield Request(X, Onnx(1))
                    await answered.acquire()

            count = 0
            async with topk_client.aio.Client(target, timeout=30) as client:
                async for _ in client.compute_topk_many(requests()):
                    count += 1
                    answered.release()
            return count

        count = 0
        with topk_client.Client(self.start_quitting(), timeout=30) as client:
            for _ in client.compute_topk_many(requests()):
                count += 1
                answered.release()
        self.assertEqual(count, 5)
        self.assertEqual(self.in_loop(ask(self.start_quitting())), 5)

    def test_an_exception_of_the_iterator_survives_a_retry(self):
        answered = threading.Semaphore(0)

        def requests():
            yield Request(X, Onnx(1))
            yield Request(X, Onnx(1))
            answered.acquire(timeout=30)
            answered.acquire(timeout=30)
            raise KeyError("mine")

        with topk_client.Client(self.start_quitting(), timeout=30) as client:
            results = client.compute_topk_many(requests())
            for _ in range(2):
                next(results)
                answered.release()
            with self.assertRaisesRegex(KeyError, "mine"):
                next(results)

    def test_many_small_and_large_answers_are_all_received(self):
        def answer(requests, _):
            for request in requests:
                k = topk_pb2.TopKRequest.FromString(request).onnx.k.value
                response = right_answer()
                response.values.shape[:] = response.indices.shape[:] = [k]
                response.values.data = bytes(4 * k)
                response.indices.data = bytes(8 * k)
                yield topk_pb2.TopKResult(
                    response=response).SerializeToString()

        target = self.start(ComputeTopKMany=answer)
        sizes = [3, 7, 200000, 5, 600000, 1]
        requests = [Request(np.zeros(n, np.float32), Onnx(n)) for n in sizes]

        async def ask():
            async with topk_client.aio.Client(target) as client:
                return [answer.values.size async for answer in
                        client.compute_topk_many(requests)]

        with topk_client.Client(target) as client:
            self.assertEqual([answer.values.size for answer in
                              client.compute_topk_many(requests)], sizes)
        self.assertEqual(self.in_loop(ask()), sizes)

    def test_a_shard_takes_no_longer_than_one_timeout(self):
        target, calls = self.reject_with_delay(3, 100_000_000)
        begin = time.monotonic()
        with self.assertRaises(topk_client.TopKError) as caught:
            _shards.answer(X, 0, _shards.Question.of(
                1, 0, 1, True, "value", None, [target, target], False,
                {"timeout": 6}))
        self.assertEqual(caught.exception.code,
                         grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertLess(time.monotonic() - begin, 6)
        self.assertEqual(len(calls), 4)

    def test_corrupt_details_and_text_for_terminals(self):
        status = status_pb2.Status(code=3)
        for kind in ("ErrorInfo", "BadRequest", "QuotaFailure", "RetryInfo"):
            status.details.add(
                type_url=f"type.googleapis.com/google.rpc.{kind}",
                value=b"\xff" * 9)
        for details in (b"\xff" * 9, status.SerializeToString()):
            def fail(_, context, details=details):
                context.set_trailing_metadata(
                    (("grpc-status-details-bin", details),))
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "\x1b[2J\u009b")

            target = self.start(ComputeTopK=fail)
            with topk_client.Client(target) as client:
                with self.assertRaises(topk_client.TopKError) as caught:
                    client.compute_topk(X, Onnx(1))
            self.assertEqual(str(caught.exception),
                             "INVALID_ARGUMENT: \\x1b[2J\\x9b")

    def ask_one_that_pushes_back(self, milliseconds):
        """Asks a server that is unavailable twice and says to wait; returns
        when it was asked, and the answer or the error."""
        asked = []

        def answer(_, context):
            asked.append(time.monotonic())
            if len(asked) < 3:
                context.set_trailing_metadata(
                    (("grpc-retry-pushback-ms", str(milliseconds)),))
                context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
            return right_answer().SerializeToString()

        target = self.start(ComputeTopK=answer)
        try:
            with topk_client.Client(target) as client:
                return asked, client.compute_topk(X, Onnx(1))
        except topk_client.TopKError as error:
            return asked, error

    def test_retry_delays_are_obeyed(self):
        asked, answer = self.ask_one_that_pushes_back(300)
        self.assertNotIsInstance(answer, topk_client.TopKError, asked)
        self.assertEqual(answer.indices[0], 1)
        self.assertEqual(len(asked), 3)
        for before, after in zip(asked, asked[1:]):
            self.assertGreaterEqual(after - before, 0.295)

    def test_permanent_errors_are_not_retried(self):
        asked, error = self.ask_one_that_pushes_back(-1)
        self.assertEqual(error.code, grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(len(asked), 1)

    def reject_with_delay(self, seconds, nanos=0):
        """Starts a server that rejects every call with a retry delay; returns
        its target and a list with an item for each call."""
        details = status_pb2.Status(
            code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message="full")
        details.details.add().Pack(error_details_pb2.RetryInfo(
            retry_delay=duration_pb2.Duration(seconds=seconds, nanos=nanos)))
        calls = []

        def reject(_, context):
            calls.append(None)
            milliseconds = min(seconds * 1000, 2**31 - 1)
            context.set_trailing_metadata(
                (("grpc-status-details-bin", details.SerializeToString()),
                 ("grpc-retry-pushback-ms", str(milliseconds))))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")

        def reject_stream(requests, context):
            list(requests)
            reject(None, context)
            yield b""

        return self.start(
            ComputeTopK=reject,
            GetCapabilities=reject,
            StreamTopK=reject_stream), calls

    def test_a_delay_beyond_the_deadline_is_returned_at_once(self):
        async def ask(target, method, *arguments):
            async with topk_client.aio.Client(target, timeout=20) as client:
                await getattr(client, method)(*arguments)

        for told, delay in ((30, 30), (1 << 40, 86400), ((1 << 63) - 1, 86400)):
            target, calls = self.reject_with_delay(told)
            begin = time.monotonic()
            with topk_client.Client(target, timeout=20) as client:
                for once in (
                        lambda: client.compute_topk(X, Onnx(1)),
                        lambda: client.stream_topk(X, Onnx(1)),
                        client.get_capabilities,
                        lambda: self.in_loop(ask(
                            target, "compute_topk", X, Onnx(1))),
                        lambda: self.in_loop(ask(
                            target, "stream_topk", X, Onnx(1))),
                        lambda: self.in_loop(ask(target, "get_capabilities")),
                        lambda: _shards.answer(X, 0, _shards.Question.of(
                            1, 0, 1, True, "value", None, [target, target],
                            False, {"timeout": 20}))):
                    with self.assertRaises(topk_client.TopKError) as caught:
                        once()
                    self.assertEqual(caught.exception.code,
                                     grpc.StatusCode.RESOURCE_EXHAUSTED)
                    self.assertEqual(caught.exception.retry_delay, delay)
            self.assertLess(time.monotonic() - begin, 10)
            self.assertEqual(len(calls), 8)  # a shard asks both

    def test_a_delay_before_the_deadline_is_obeyed(self):
        target, calls = self.reject_with_delay(0, 150_000_000)
        with topk_client.Client(target, max_attempts=3) as client:
            for once in (lambda: client.compute_topk(X, Onnx(1)),
                         lambda: client.stream_topk(X, Onnx(1)),
                         client.get_capabilities):
                calls.clear()
                begin = time.monotonic()
                with self.assertRaises(topk_client.TopKError) as caught:
                    once()
                self.assertAlmostEqual(caught.exception.retry_delay, 0.15)
                self.assertEqual(len(calls), 3)
                self.assertGreaterEqual(time.monotonic() - begin, 0.3)

    def test_no_delay_is_negative(self):
        target, calls = self.reject_with_delay(-5)
        with topk_client.Client(target) as client:
            with self.assertRaises(topk_client.TopKError) as caught:
                client.compute_topk(X, Onnx(1))
        self.assertEqual(caught.exception.retry_delay, 0)
        self.assertEqual(len(calls), 1)

    def test_invalid_timeouts_are_rejected(self):
        target = self.start(
            ComputeTopK=lambda *_: right_answer().SerializeToString())
        for wrong in (float("nan"), -1, float("-inf")):
            with self.assertRaisesRegex(ValueError, "^timeout: .*seconds"):
                topk_client.Client(target, timeout=wrong)
        with topk_client.Client(target, timeout=float("inf")) as client:
            self.assertEqual(client.compute_topk(X, Onnx(1)).values[0], 9)
            self.assertEqual(
                client.compute_topk(X, Onnx(1), timeout=1e300).values[0], 9)
            for wrong in (float("nan"), -0.5):
                with self.assertRaisesRegex(ValueError, "^timeout: .*seconds"):
                    client.compute_topk(X, Onnx(1), timeout=wrong)

    def test_a_call_without_a_status_is_retried(self):
        calls = []

        def answer(_, context):
            calls.append(None)
            if len(calls) % 3:
                context.abort(grpc.StatusCode.UNKNOWN, "gone")
            return right_answer().SerializeToString()

        target = self.start(ComputeTopK=answer)

        async def ask():
            async with topk_client.aio.Client(target) as client:
                return await client.compute_topk(X, Onnx(1))

        with topk_client.Client(target) as client:
            for one in (client.compute_topk(X, Onnx(1)), self.in_loop(ask())):
                self.assertEqual(one.indices[0], 1)
        self.assertEqual(len(calls), 6)
        with topk_client.Client(target, max_attempts=2) as client:
            with self.assertRaises(topk_client.TopKError) as caught:
                client.compute_topk(X, Onnx(1))
        self.assertEqual(caught.exception.code, grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(caught.exception.reason, "ANSWER_BROKE_OFF")
        self.assertEqual(len(calls), 8)

    def test_a_stream_is_retried_from_its_start(self):
        sent = []

        def answer(requests, context):
            sent.append(b"".join(
                topk_pb2.TopKRequestChunk.FromString(one).data
                for one in requests))
            if len(sent) % 3:
                context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
            yield topk_pb2.TopKResponseChunk(
                header=right_answer()).SerializeToString()

        target = self.start(StreamTopK=answer)

        async def ask():
            async with topk_client.aio.Client(target) as client:
                return await client.stream_topk(X, Onnx(1))

        with topk_client.Client(target) as client:
            for one in (client.stream_topk(X, Onnx(1)), self.in_loop(ask())):
                self.assertEqual(one.indices[0], 1)
        self.assertEqual(sent, [X.tobytes()] * 6)
        with topk_client.Client(target, max_attempts=2) as client:
            with self.assertRaises(topk_client.TopKError) as caught:
                client.stream_topk(X, Onnx(1))
        self.assertEqual(caught.exception.code, grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(len(sent), 8)


if __name__ == "__main__":
    unittest.main()
