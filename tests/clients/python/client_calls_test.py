"""Tests the calls of both Python clients with a real server.

usage: client_calls_test.py TOPKD
"""

import asyncio
import concurrent.futures
import fractions
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import both_clients
import client_package
import grpc
import harness
import numpy as np
import topk_client
import topk_stubs
from both_clients import CLIENTS
from oracle import oracle, random_case
from topk_client import DirectML, Onnx, OpenVINO, Request, messages
from topk_client._stubs import topk_pb2

X = np.array([3, 9, 1, 7, 5], np.float32)
RAMP = np.arange(9)
MIB = 1 << 20


class OfBoth(both_clients.ServerTest):
    """Tests of both clients. This class runs them for the blocking one."""

    def fails(self, code, call, *arguments, **options):
        """Makes a call that must fail with `code`. Returns the error."""
        with self.assertRaises(topk_client.TopKError) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.code, code)
        return caught.exception

    def one_request(self):
        """Yields a request, and ends when the test does."""
        stop = threading.Event()
        self.addCleanup(stop.set)
        yield Request(X, Onnx(1))
        stop.wait(60)

    def assert_right(self, answer, x, spec, axis=-1):
        values, indices = oracle(x, "", axis % x.ndim, spec.k,
                                 spec._selection[0])
        self.assertEqual(answer.values.tobytes(), values.tobytes())
        np.testing.assert_array_equal(answer.indices, indices)

    def test_data_type_names_the_type_of_bits(self):
        bits = np.array([0x3F80, 0xC000, 0x4040], np.uint16)  # 1, -2, 3
        for x, name in ((bits, "bf16"), (bits.astype(">u2"), "bf16"),
                        (bits.view("V2"), "bf16"), (bits.view("i2"), "bf16"),
                        (np.array([56, 184, 64], np.uint8), "f8e4m3"),
                        (X[:3], "f32")):
            answer = self.client.compute_topk(x, OpenVINO(
                2, 0, "max", "value"), data_type=name)
            self.assertEqual(answer.indices.tolist(),
                             [1, 0] if x is not bits and name == "f32"
                             else [2, 0])
            self.assertEqual(answer.values.tobytes(), x[answer.indices].astype(
                x.dtype.newbyteorder("<")).tobytes())

    def test_large_arrays_are_streamed_with_the_same_result(self):
        x = np.random.default_rng(2).standard_normal((2, 1 << 19), np.float32)
        for spec in (Onnx(10), Onnx(300000, largest=0)):  # small, large answer
            self.assert_right(self.client.compute_topk(x, spec, stream=True),
                              x, spec)
            self.assert_right(self.client.compute_topk(x, spec, stream=False),
                              x, spec)

    def test_many_small_and_large_answers_are_all_received(self):
        sizes = [3, 7, 200000, 5, 600000, 1]
        answers = list(self.client.compute_topk_many(
            [Request(np.zeros(n, np.float32), Onnx(n)) for n in sizes]))
        self.assertEqual([answer.values.size for answer in answers], sizes)

    def test_answers(self):
        answer = self.client.compute_topk(X, Onnx(2))
        self.assertEqual(answer.execution.backend, "cpu")
        self.assertGreater(answer.execution.compute_nanoseconds, 0)
        answer.values[0] = answer.indices[0] = 1  # writable
        empty = self.client.compute_topk(np.zeros((0, 5), np.float32), Onnx(2))
        self.assertEqual(empty.values.shape, (0, 2))

    def test_errors_have_code_reason_and_field(self):
        for stream in (False, True):
            error = self.fails(grpc.StatusCode.INVALID_ARGUMENT,
                               self.client.compute_topk, X, Onnx(7),
                               stream=stream)
            self.assertEqual(error.reason, "K_EXCEEDS_DIMENSION")
            self.assertEqual(error.field, "onnx.k")
            self.assertIn("7", error.message)
            self.assertIsNone(error.retry_delay)
            self.assertIn("K_EXCEEDS_DIMENSION", str(error))
        # The error arrives while the tensor is being sent.
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, self.client.compute_topk,
                   np.zeros(1 << 24), Onnx(1 << 25), stream=True)

    def test_invalid_arguments(self):
        small = OpenVINO(1, 0, "max", "value")
        wrong = (({"tensor": X.astype(complex)}, TypeError, "complex"),
                 ({"data_type": "f12"}, ValueError, "'f12'"),
                 ({"output": "none"}, ValueError, ""),
                 ({"spec": DirectML(1, 0, "upwards")}, ValueError,
                  "^axis_direction is 'upwards'; it must be increasing or "
                  "decreasing$"),
                 ({"spec": DirectML(1, 0, feature_level="1_1")}, ValueError,
                  "^feature_level is '1_1'; it must be 1_0 or 2_0 or "),
                 ({"spec": Onnx(1.0)}, TypeError, "^k is 1.0, not an integer$"),
                 ({"spec": Onnx(1, axis=-0.0)}, TypeError, "^axis is -0.0, "),
                 ({"spec": Onnx(1, axis=np.array([]))}, TypeError, "^axis is "),
                 ({"spec": Onnx(1, axis=1 << 63)}, ValueError,
                  "^axis is 9223372036854775808, which does not fit in a "
                  "signed 64-bit integer$"),
                 ({"spec": OpenVINO(1, 0, b"max", "value")}, TypeError,
                  "^mode is b'max', not a str$"),
                 ({"spec": OpenVINO(1, 0, "max", "value", stable=2)}, TypeError,
                  "^stable is 2, not a bool$"),
                 ({"spec": DirectML(1, 0, feature_level=1)}, TypeError,
                  "^feature_level is 1, not a str$"),
                 ({"spec": {"k": 1}}, TypeError,
                  "^spec is {'k': 1}; it must be an instance of Onnx, "),
                 ({"tensor": np.array([b"abc"])}, TypeError,
                  r"^the service does not support \|S3; its types are "),
                 ({"data_type": np.float32}, TypeError, "^the data type is "),
                 ({"values_out": X}, TypeError, "^values_out is a ndarray, "),
                 ({"index_offset": 1.0}, TypeError, "^index_offset is 1.0, "),
                 ({"request_id": 5}, TypeError, "^request_id is 5, not a str$"),
                 ({"request_id": "\ud800"}, ValueError,
                  r"^request_id is '\\ud800', which is not valid Unicode$"),
                 ({"stream": "yes"}, TypeError, "^stream is 'yes', not a bool"),
                 ({"tensor": np.ma.array(X, mask=X > 3)}, TypeError,
                  "masked array.* pass tensor.filled"),
                 # Elements that are out of range for a small type.
                 ({"spec": small, "data_type": "u3",
                   "tensor": np.array([1, 9], np.uint8)}, ValueError,
                  "^9 has more than the 3 bits of u3$"),
                 *(({"spec": small, "data_type": name, "tensor": x}, kind, "")
                   for x, name, kind in (
                       (np.array([16], np.uint8), "u4", ValueError),
                       (np.array([-9], np.int8), "i4", ValueError),
                       (np.array([8], np.int8), "i4", ValueError),
                       (np.array([2], np.uint8), "u1", ValueError),
                       (np.zeros(3), "u4", ValueError))),
                 # Numbers of another type with the same size.
                 *(({"data_type": name, "tensor": X.astype(kind)}, ValueError,
                    f"^data_type is '{name}', but the elements are {kind}: ")
                   for kind, name in (
                       ("int32", "f32"), ("uint32", "f32"), ("float32", "i32"),
                       ("float16", "bf16"), ("uint8", "i8"), ("uint16", "f16"),
                       ("int8", "f8e4m3"), ("int8", "u4"), ("uint32", "bf16"))))
        # Make valid calls first, with arguments that compare equal to invalid
        # ones below: a cache must not confuse them.
        self.client.compute_topk(X, Onnx(1, axis=0), index_offset=1)
        self.client.compute_topk(X, OpenVINO(1, 0, "max", "value", stable=True))
        for arguments, kind, text in wrong:
            with self.assertRaisesRegex(kind, text, msg=arguments):
                self.client.compute_topk(
                    **{"tensor": X, "spec": Onnx(1), **arguments})
        with self.assertRaisesRegex(TypeError, "^the request is a ndarray, "):
            list(self.client.compute_topk_many([X]))
        for timeout in (float("nan"), -1, float("-inf"), np.float32("nan"),
                        np.int8(-1)):
            with self.assertRaisesRegex(ValueError, "^timeout is .*seconds"):
                self.kind(self.server.target, timeout=timeout)
            with self.assertRaisesRegex(ValueError, "^timeout is .*seconds"):
                self.client.compute_topk(X, Onnx(1), timeout=timeout)
        for timeout in ("1", 1j):
            with self.assertRaises(TypeError):
                self.client.compute_topk(X, Onnx(1), timeout=timeout)
        for key, value in (("Upper", "secret"), ("a b", "secret"),
                           ("\u00e9", "secret"), ("a\n", "secret"),
                           ("", "secret"), (":a", "secret"),
                           ("a", "secret\n"), ("a", "secret\0"),
                           ("a", "secret\u00e9"), ("a", b"secret\xff"),
                           ("a", 7), ("a", None), ("a-bin", "secret")):
            for call in (
                    self.client.get_capabilities,
                    lambda **how: self.client.compute_topk(X, Onnx(1), **how),
                    lambda **how: list(self.client.topk_many([X], 1, **how))):
                with self.assertRaisesRegex(ValueError, "metadata") as caught:
                    call(metadata=[("good", "value"), (key, value)])
                self.assertNotIn("secret", str(caught.exception))

    def test_integers_and_bools_may_be_of_any_type(self):
        for one in (1, True, np.bool_(True), np.int8(1), np.uint64(1)):
            zero = type(one)(0)
            answer = self.client.compute_topk(X, Onnx(one, axis=zero,
                                                      largest=one),
                                              index_offset=zero)
            self.assertEqual(answer.values.shape, (1,))
            self.client.compute_topk(X, OpenVINO(
                one, zero, "max", "value", stable=one))
            self.client.compute_topk(X, Onnx(1, largest=np.bool_(one)))
            self.client.compute_topk(X, DirectML(one, zero, "increasing",
                                                 strict=zero))

    def test_many_continue_after_errors(self):
        results = self.client.compute_topk_many(
            Request(X, Onnx(6 if number % 10 == 3 else 1 + number % 5),
                    request_id=str(number)) for number in range(300))
        for number, result in enumerate(results):
            if number % 10 == 3:
                self.assertEqual(result.reason, "K_EXCEEDS_DIMENSION")
                continue
            self.assert_right(result, X, Onnx(1 + number % 5))
            self.assertEqual(result.request_id, str(number))
        self.assertEqual(number, 299)

    def test_an_invalid_request_among_many_raises(self):
        good = Request(X, Onnx(1))
        bad = Request(np.zeros(5, complex), Onnx(1))
        results = self.client.compute_topk_many([good, bad, good])
        next(results)
        with self.assertRaises(TypeError):
            next(results)

    def test_a_call_with_the_timeout_0_is_not_sent(self):
        requests = [Request(X, Onnx(1))]
        with self.kind(self.server.target, timeout=0) as client:
            for call in (
                    lambda: self.client.compute_topk(X, Onnx(1), timeout=0),
                    lambda: self.client.compute_topk(X, Onnx(1), stream=True,
                                                     timeout=0),
                    lambda: list(self.client.compute_topk_many(requests,
                                                               timeout=0)),
                    lambda: self.client.get_capabilities(timeout=0),
                    lambda: self.client.is_serving(timeout=0),
                    lambda: client.compute_topk(X, Onnx(1))):
                error = self.fails(grpc.StatusCode.DEADLINE_EXCEEDED, call)
                self.assertIn("before the request was sent", error.message)

    def test_timeouts_may_be_of_any_real_type(self):
        # Numbers of NumPy must not set the precision of the deadline.
        for timeout in (None, float("inf"), 1e300, np.float16("inf"),
                        np.float32(30), np.float16(30), np.int8(30),
                        fractions.Fraction(30)):
            with self.kind(self.server.target, timeout=timeout) as client:
                self.assertEqual(
                    client.compute_topk(RAMP, Onnx(1)).indices[0], 8)
            self.client.compute_topk(RAMP, Onnx(1), timeout=timeout)

    def test_a_draining_server_still_answers(self):
        server = client_package.start(self.addCleanup, "--drain-delay", "60")
        with self.kind(server.target, retry=None) as client:
            client.compute_topk(RAMP, Onnx(1))
            server.process.send_signal(signal.SIGTERM)
            harness.poll("NOT_SERVING", lambda: not client.is_serving())
            client.compute_topk(RAMP, Onnx(1))
        server.kill()

    def test_a_closed_client_makes_no_calls(self):
        client = self.kind(self.server.target)
        client.close()
        for call in (lambda: client.compute_topk(RAMP, Onnx(1)),
                     lambda: client.compute_topk(np.arange(99999), Onnx(1)),
                     lambda: list(client.compute_topk_many([])),
                     client.get_capabilities, client.is_serving):
            with self.assertRaisesRegex(ValueError, "^the client is closed$"):
                call()

    def test_capabilities_and_health(self):
        capabilities = self.client.get_capabilities()
        self.assertGreater(capabilities.limits.max_elements, 0)
        self.assertEqual(
            {o.spec.version for o in capabilities.operators
             if o.spec.dialect == topk_pb2.DIALECT_ONNX}, {1, 10, 11, 24})
        pyproject = (client_package.PACKAGE / "pyproject.toml").read_text()
        self.assertIn(f'\nversion = "{capabilities.build_version}"\n',
                      pyproject)
        self.assertTrue(self.client.is_serving())
        self.assertTrue(self.client.is_serving("topk.v1.TopKService"))
        self.assertTrue(self.client.is_serving("grpc.health.v1.Health"))
        self.fails(grpc.StatusCode.NOT_FOUND, self.client.is_serving,
                   "no.such.Service")

    def test_metadata_and_interceptors(self):
        interceptors, seen = both_clients.interceptors(self.kind)
        trace = ("traceparent", f"00-{'a' * 32}-{'b' * 16}-01")
        with self.kind(self.server.target,
                       interceptors=interceptors) as client:
            client.topk(RAMP, 1, metadata=[trace])
            client.compute_topk(X, Onnx(1), metadata=[trace])
            client.get_capabilities(metadata=(trace,))
            client.is_serving(metadata=(trace,))
            self.assertEqual([headers[trace[0]] for headers in seen],
                             [trace[1]] * 4)
            client.compute_topk(X, Onnx(1))
            self.assertNotIn(trace[0], seen[-1])
            answer = client.compute_topk(X, Onnx(1), stream=True)
            self.assertEqual(answer.indices[0], 1)
            error = self.fails(grpc.StatusCode.INVALID_ARGUMENT,
                               client.compute_topk, X, Onnx(7), stream=True)
            self.assertEqual(error.reason, "K_EXCEEDS_DIMENSION")
            results = client.compute_topk_many([Request(X, Onnx(1))] * 3)
            next(results)
            results.close()  # cancels the call

    def test_closing_the_results_cancels_the_stream(self):
        cancelled = threading.Event()

        def answer(requests, context):
            context.add_callback(cancelled.set)
            return both_clients.answer_each(requests, context)

        target = both_clients.start_fake(self.addCleanup,
                                         ComputeTopKMany=answer)
        with self.kind(target) as client:
            results = client.topk_many(
                (request.tensor for request in self.one_request()), 1)
            next(results)
            results.close()
            self.assertTrue(cancelled.wait(30))

    def test_requests_may_depend_on_results_also_when_a_stream_is_retried(self):
        for target in (self.server.target,
                       both_clients.start_quitting(self.addCleanup)):
            answered = threading.Semaphore(0)

            def requests(answered=answered):
                for _ in range(5):
                    yield Request(X, Onnx(1))
                    self.assertTrue(answered.acquire(timeout=30))
                raise KeyError("mine")

            with self.kind(target, timeout=30) as client:
                results = client.compute_topk_many(requests())
                for _ in range(5):
                    next(results)
                    answered.release()
                with self.assertRaisesRegex(KeyError, "mine"):
                    next(results)

    @mock.patch("topk_client._many._AHEAD_BYTES", 0)
    def test_a_retried_stream_continues_although_the_read_ahead_is_full(self):
        target = both_clients.start_quitting(self.addCleanup)
        with self.kind(target, timeout=30) as client:
            results = list(client.compute_topk_many([Request(X, Onnx(1))] * 5))
        self.assertEqual(len(results), 5)

    def test_a_deadline_ends_a_stream_of_requests(self):
        with self.assertRaisesRegex(topk_client.TopKError, "^DEADLINE_"):
            list(self.client.compute_topk_many(self.one_request(),
                                               timeout=0.1))

    def test_close_ends_streams_of_requests(self):
        def requests(closes):
            if closes:
                client.close()
            yield from self.one_request()

        for closes_first in (False, True):
            client = self.kind(self.server.target)
            results = client.compute_topk_many(requests(closes_first))
            if not closes_first:
                next(results)
                client.close()
            with self.assertRaisesRegex(topk_client.TopKError, "^CANCELLED:"):
                next(results)

    def test_close_ends_calls(self):
        arrived, stop = threading.Semaphore(0), threading.Event()

        def answer(*_):
            arrived.release()
            stop.wait(30)
            return b""

        def answer_stream(*_):
            yield answer()

        target = both_clients.start_fake(self.addCleanup, ComputeTopK=answer,
                                         StreamTopK=answer_stream)
        self.addCleanup(stop.set)
        client = self.kind(target)
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            calls = [threads.submit(client.compute_topk, X, Onnx(1),
                                    stream=stream) for stream in (False, True)]
            for _ in calls:
                self.assertTrue(arrived.acquire(timeout=30))
            client.close()
            for call in calls:
                with self.assertRaisesRegex(topk_client.TopKError,
                                            "^CANCELLED:"):
                    call.result(30)


class OfAsyncio(OfBoth):
    kind = both_clients.AioClient


class Calls(both_clients.ServerTest):
    """Tests of the blocking client only."""

    def test_threads_share_a_client(self):
        rng = np.random.default_rng(1)
        cases = [random_case(rng) for _ in range(400)]
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            answers = threads.map(lambda case: self.client.compute_topk(
                **vars(case.request), stream=case.values.size % 2), cases)
            for case, answer in zip(cases, answers):
                case.check(answer)

    def test_options_from_the_environment(self):
        with mock.patch.dict(os.environ, {
                "TOPK_TARGET": self.server.target, "TOPK_TLS": "no",
                "TOPK_TLS_CA": "", "TOPK_TOKEN_OVER_PLAINTEXT": "on"}):
            for kind in (topk_client.Client, topk_client.aio.Client):
                self.assertEqual(kind.from_env(timeout=9)._arguments, {
                    **kind("a:1", timeout=9)._arguments,
                    "target": self.server.target,
                    "token_over_plaintext": True})
            with topk_client.Client.from_env() as client:
                client.compute_topk(X, Onnx(1))
            self.assertEqual(topk_client.Client.from_env(
                target="b:2", tls=True)._arguments["target"], "b:2")
            os.environ["TOPK_TOKEN_FILE"] = "not read"
            topk_client.Client.from_env(token="0" * 16)
            os.environ["TOPK_TLS"] = "maybe"
            with self.assertRaisesRegex(ValueError, "^TOPK_TLS: 'maybe' is "):
                topk_client.Client.from_env()

    def test_other_generated_stubs_do_not_conflict(self):
        with tempfile.TemporaryDirectory() as folder:
            topk_stubs.generate_stubs(folder)
            subprocess.run(
                [sys.executable, "-c",
                 "import topk.v1.topk_pb2, topk_client\n"
                 "import google.rpc.error_details_pb2, sys\n"
                 "assert not {'dask', 'ray'} & set(sys.modules)\n"],
                env=dict(os.environ, PYTHONPATH=os.pathsep.join(
                    [folder, *sys.path])), check=True)

    def test_many_read_ahead_only_as_much_as_documented(self):
        taken = 0

        def requests(count, size):
            nonlocal taken
            for taken in range(1, count + 1):
                yield Request(np.zeros(size, np.float32), Onnx(1))

        for count, size, ahead in ((200, 1 << 18, 64), (20000, 1, 16000)):
            results = self.client.compute_topk_many(requests(count, size))
            next(results)
            harness.poll("requests ahead", lambda: taken >= ahead)
            # Nothing may change after a few more.
            time.sleep(0.3)
            self.assertLess(taken, 1.1 * ahead)
            self.assertEqual(sum(1 for _ in results), count - 1)
            self.assertEqual(taken, count)
        # Closing the generator ends the thread that waits.
        results = self.client.compute_topk_many(requests(200, 1 << 18))
        next(results)
        results.close()
        harness.poll("the end of the thread", lambda: not any(
            "consume_request" in str(thread) for thread in
            threading.enumerate()))

    def test_an_exception_of_the_iterator_is_raised_after_its_results(self):
        for exception in (ValueError("a"), SystemExit("b"), GeneratorExit("c")):
            def requests(exception=exception):
                yield Request(X, Onnx(1))
                yield Request(X, Onnx(2))
                raise exception

            results = self.client.compute_topk_many(requests(), timeout=60)
            begin = time.monotonic()
            for k in (1, 2):
                self.assertEqual(next(results).values.size, k)
            with self.assertRaises(type(exception)) as caught:
                next(results)
            self.assertIs(caught.exception, exception)
            self.assertLess(time.monotonic() - begin, 30)


class Loops(unittest.TestCase):
    """Tests of the asyncio client only."""

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


class Limits(unittest.TestCase):
    def test_only_messages_that_the_caller_requests_exceed_the_limit(self):
        server = client_package.start(self.addCleanup, "--max-message-bytes",
                                      "16MiB")
        for kind in CLIENTS:
            with kind(server.target) as client:
                for size in (8 * MIB, 8 * MIB + 1, 16 * MIB, 20 * MIB + 1):
                    x = np.zeros(size, np.uint8)
                    x[size - 2] = 7
                    for stream in (None, True):
                        answer = client.compute_topk(x, Onnx(1), stream=stream)
                        self.assertEqual(answer.indices[0], size - 2)
                for call in (
                        lambda: client.compute_topk(x, Onnx(1), stream=False),
                        lambda: list(client.topk_many([x], 1))):
                    with self.assertRaisesRegex(
                            topk_client.TopKError,
                            "^RESOURCE_EXHAUSTED: .*larger than max"):
                        call()

    def test_messages_of_2_gib_are_errors(self):
        x = np.zeros(1 << 31, np.uint8)
        for kind in CLIENTS:
            with kind("127.0.0.1:1") as client:
                for call in (
                        lambda: client.compute_topk(x, Onnx(1), stream=False),
                        lambda: list(client.compute_topk_many(
                            [Request(x, Onnx(1))]))):
                    with self.assertRaisesRegex(
                            ValueError, "^the request has 21474836.. bytes, "
                            "more than .*: pass stream=True"):
                        call()


if __name__ == "__main__":
    unittest.main()
