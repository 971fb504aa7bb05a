"""The Python client's calls against a real server and NumPy.

usage: client_calls_test.py TOPKD
"""

import concurrent.futures
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import client_package
import grpc
import harness
import numpy as np
import topk_client
import topk_stubs
from numpy_oracle_test import SMALL, numbers, oracle
from topk_client import DirectML, Onnx, OpenVINO, Request, TensorDesc, _dtypes
from topk_client._stubs import tensor_pb2, topk_pb2

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

ALL = ["float16", "float32", "float64", "int8", "int16", "int32", "int64",
       "uint8", "uint16", "uint32", "uint64"]


def elements(dtype, shape, seed=1):
    """Returns random elements with ties and, among floats, NaNs and zeros."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 100, shape).astype(dtype)
    if x.dtype.kind == "f":
        few = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], dtype)
        x = np.where(rng.random(shape) < 0.3, rng.choice(few, shape), x)
    return x


# Small types that ml_dtypes has.
ML_DTYPES = {"U2": "uint2", "U4": "uint4", "I4": "int4",
             "F4E2M1": "float4_e2m1fn", "F8E4M3": "float8_e4m3fn",
             "F8E5M2": "float8_e5m2", "F8E8M0": "float8_e8m0fnu"}


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = client_package.start(cls.addClassCleanup)
        cls.client = topk_client.Client(cls.server.target)
        cls.addClassCleanup(cls.client.close)

    def assert_same(self, answer, values, indices, index_type):
        """By bytes: NaNs have theirs, and zeros their signs."""
        self.assertEqual(answer.values.dtype, values.dtype)
        self.assertEqual(answer.values.shape, values.shape)
        self.assertEqual(answer.values.tobytes(), values.tobytes())
        self.assertEqual(answer.indices.dtype, index_type)
        np.testing.assert_array_equal(answer.indices, indices)

    def check(self, x, spec, axis, k, largest, by_index, index_type, **how):
        answer = self.client.compute_topk(x, spec, **how)
        values, indices = oracle(x, "", axis, k, largest, by_index)
        self.assert_same(answer, np.ascontiguousarray(values), indices,
                         index_type)

    def test_every_data_type_has_a_numpy_type(self):
        names = [name[len("DATA_TYPE_"):].lower()
                 for name, number in tensor_pb2.DataType.items() if number]
        # These come as the bits of uint8 alone.
        self.assertEqual(sorted(names), sorted(
            list(_dtypes.NUMPY_NAMES) + ["u1", "u3", "u6", "nf4"]))
        self.assertEqual(sorted(_dtypes.NUMPY_NAMES.values()), sorted(
            ALL + ["bfloat16"] + list(ML_DTYPES.values())))
        widths = {name.lower(): width for name, width in SMALL.items()
                  if width < 8}
        self.assertEqual(_dtypes.WIDTHS, widths)

    def test_every_dialect_version_and_type_equals_numpy(self):
        floats = ALL[:3]
        for dtype in ALL:
            x = elements(dtype, (4, 30, 5))
            for stream in (False, True):
                how = {"stream": stream}
                for version in (1, 10, 11, 24):
                    if version > 10 or dtype in floats:
                        self.check(x, Onnx(7, axis=1, version=version), 1, 7,
                                   True, False, np.int64, **how)
                self.check(x, Onnx(3, largest=0, sorted=0), -1, 3, False,
                           False, np.int64, **how)
                for version in (1, 3, 11):
                    self.check(x, OpenVINO(4, 0, "min", "index",
                                           version=version), 0, 4, False, True,
                               np.int32, **how)
                self.check(x, OpenVINO(2, -2, "max", "value", "i64",
                                       stable=True), 1, 2, True, False,
                           np.int64, **how)
                if dtype == "float64":
                    continue  # DirectML lacks it
                self.check(x, DirectML(9, 1, "increasing"), 1, 9, False, False,
                           np.uint32, **how)
                self.check(x, DirectML(
                    9, 1, "decreasing", feature_level="5_0",
                    output_index=TensorDesc("u64")), 1, 9, True, False,
                    np.uint64, **how)
                if dtype in floats[:2]:
                    self.check(x, DirectML(5, 2, version=0), 2, 5, True, False,
                               np.uint32, **how)

    def test_bfloat16_as_bits_in_uint16(self):
        bits = elements("float32", (6, 50)).view(np.uint32) >> 16
        x = bits.astype(np.uint16)
        values, indices = oracle(x, "BF16", 1, 8, True, False)
        for stream in (False, True):
            answer = self.client.compute_topk(x, Onnx(8), data_type="bf16",
                                              stream=stream)
            self.assert_same(answer, values, indices, np.int64)

    def test_small_types_as_bits_in_uint8(self):
        rng = np.random.default_rng(5)
        for name, width in SMALL.items():
            for shape, axis in (((7, 45), 1), ((33, 7), 0), ((5,), 0)):
                x = rng.integers(0, 1 << width, shape, np.uint8)
                values, indices = oracle(x, name, axis, 4, False, False)
                for stream in (False, True):
                    answer = self.client.compute_topk(
                        x, OpenVINO(4, axis, "min", "value"), stream=stream,
                        data_type=name.lower())
                    self.assert_same(answer, values, indices, np.int32)
                indices = self.client.compute_topk(
                    x, OpenVINO(4, axis, "min", "value"), output="indices",
                    data_type=name.lower())
                self.assertIsNone(indices.values)
        many = list(self.client.compute_topk_many(
            topk_client.Request(np.array([1, 3, 0, 2], np.uint8),
                                OpenVINO(k, 0, "max", "value"),
                                data_type="u3") for k in (1, 4)))
        self.assertEqual([list(a.values) for a in many], [[3], [3, 2, 1, 0]])

    def test_signed_small_types_keep_their_sign(self):
        x = np.array([[-8, 7, -1], [0, 5, -3]], np.int8)
        answer = self.client.compute_topk(x, OpenVINO(2, 1, "max", "value"),
                                          data_type="i4")
        np.testing.assert_array_equal(answer.values, [[7, -1], [5, 0]])
        self.assertEqual(answer.values.dtype, np.int8)

    def test_values_outside_the_type_are_rejected(self):
        spec = OpenVINO(1, 0, "max", "value")
        for x, name in ((np.array([16], np.uint8), "u4"),
                        (np.array([-9], np.int8), "i4"),
                        (np.array([8], np.int8), "i4"),
                        (np.array([2], np.uint8), "u1")):
            with self.assertRaises(ValueError):
                self.client.compute_topk(x, spec, data_type=name)
        with self.assertRaises(TypeError):
            self.client.compute_topk(np.zeros(3), spec, data_type="u4")
        with self.assertRaises(topk_client.TopKError) as caught:
            self.client.compute_topk(np.zeros(3, np.uint8), Onnx(1),
                                     data_type="u4")
        self.assertEqual(caught.exception.reason, "DATA_TYPE_NOT_ALLOWED")

    @unittest.skipUnless(ml_dtypes, "ml_dtypes is not installed")
    def test_small_types_of_ml_dtypes(self):
        rng = np.random.default_rng(6)
        for name, numpy_name in ML_DTYPES.items():
            if not hasattr(ml_dtypes, numpy_name):
                continue  # an old one
            dtype = getattr(ml_dtypes, numpy_name)
            codes = rng.integers(0, 1 << SMALL[name], (6, 50), np.uint8)
            bits = codes
            if name == "I4":
                bits = (codes ^ 8) - np.uint8(8)
            x = bits.view(dtype)
            values, indices = oracle(codes, name, 1, 8, True, False)
            if name == "I4":
                values = (values ^ 8) - np.uint8(8)
            # The same values as in ml_dtypes.
            ours = [numbers(np.uint8(c), name) for c in codes.reshape(-1)]
            np.testing.assert_array_equal(
                x.reshape(-1).astype(np.float64), ours)
            for stream in (False, True):
                answer = self.client.compute_topk(
                    x, OpenVINO(8, 1, "max", "value"), stream=stream)
                self.assert_same(answer, values.view(dtype), indices, np.int32)

    @unittest.skipUnless(ml_dtypes, "ml_dtypes is not installed")
    def test_bfloat16_of_ml_dtypes(self):
        bits = (elements("float32", (6, 50)).view(np.uint32) >> 16).astype(
            np.uint16)
        x = bits.view(ml_dtypes.bfloat16)
        values, indices = oracle(bits, "BF16", 1, 8, True, False)
        for stream in (False, True):
            answer = self.client.compute_topk(x, Onnx(8), stream=stream)
            self.assert_same(answer, values.view(ml_dtypes.bfloat16), indices,
                             np.int64)

    def test_any_memory_layout_of_the_array(self):
        x = elements("float32", (4, 30, 5))
        swapped = x.astype(">f4")
        for spec, axis, kind in ((Onnx(3, axis=0), 0, np.int64),
                                 (DirectML(3, 0, "decreasing"), 0, np.uint32)):
            for lying in (x.T, x[::-1], x[:, ::3], x[:, :, 1],
                          x.transpose(1, 0, 2), np.asfortranarray(x),
                          np.broadcast_to(x[:, 0], (3, 4, 5))):
                self.check(lying, spec, axis, 3, True, False, kind)
                self.check(lying, spec, axis, 3, True, False, kind,
                           stream=True)
            answer = self.client.compute_topk(swapped, spec)
            values, indices = oracle(x, "", axis, 3, True, False)
            self.assert_same(answer, values, indices, kind)

    def test_outputs_have_the_requested_strides(self):
        x = elements("int32", (4, 6))
        values, indices = oracle(x, "", 1, 2, True, False)
        answer = self.client.compute_topk(x, DirectML(
            2, 1, "decreasing",
            output_value=TensorDesc(sizes=(4, 2), strides=(1, 4)),
            output_index=TensorDesc(total_tensor_size_bytes=64)))
        self.assertEqual(answer.values.strides, (4, 16))
        np.testing.assert_array_equal(answer.values, values)
        np.testing.assert_array_equal(answer.indices, indices)

    def test_inputs_may_be_padded(self):
        x = elements("float16", (3, 5))
        for lying, axis in ((x, 1), (x.T, 0)):
            spec = DirectML(2, axis, "decreasing",
                            input_total_tensor_size_bytes=64)
            self.check(lying, spec, axis, 2, True, False, np.uint32)
            self.check(lying, spec, axis, 2, True, False, np.uint32,
                       stream=True)
        with self.assertRaisesRegex(topk_client.TopKError, "less than the 32"):
            self.client.compute_topk(x, DirectML(
                2, 0, "decreasing", input_total_tensor_size_bytes=28))
        for total in (1 << 40, 1 << 62):
            with self.assertRaises(topk_client.TopKError) as caught:
                self.client.compute_topk(x, DirectML(
                    2, 0, "decreasing", input_total_tensor_size_bytes=total))
            self.assertEqual(caught.exception.reason, "TOTAL_SIZE_RANGE")

    def test_large_arrays_are_streamed_with_the_same_result(self):
        x = np.random.default_rng(2).standard_normal((2, 1 << 19), np.float32)
        for spec in (Onnx(10), Onnx(300000, largest=0)):  # a large answer too
            streamed = self.client.stream_topk(x, spec)
            whole = self.client.compute_topk(x, spec, stream=False)
            values, indices = oracle(x, "", 1, spec.k, bool(spec.largest),
                                     False)
            self.assert_same(streamed, values, indices, np.int64)
            self.assert_same(whole, values, indices, np.int64)
        # Larger than a message may be: streamed unless told otherwise.
        x = np.zeros(17 << 20, np.float32)
        x[123456] = 1
        answer = self.client.compute_topk(x, Onnx(1))
        self.assertEqual(answer.indices[0], 123456)
        with self.assertRaises(topk_client.TopKError) as caught:
            self.client.compute_topk(x, Onnx(1), stream=False)
        self.assertEqual(caught.exception.code,
                         grpc.StatusCode.RESOURCE_EXHAUSTED)

    def test_threads_share_a_client(self):
        arrays = [elements("int64", (3, 400), seed) for seed in range(64)]

        def ask(x):
            return self.client.compute_topk(x, Onnx(5), stream=x[0, 0] % 2)

        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            for x, answer in zip(arrays, threads.map(ask, arrays)):
                values, indices = oracle(x, "", 1, 5, True, False)
                self.assert_same(answer, values, indices, np.int64)

    def test_other_generated_stubs_do_not_conflict(self):
        with tempfile.TemporaryDirectory() as folder:
            topk_stubs.generate_stubs(folder)
            subprocess.run(
                [sys.executable, "-c",
                 "import topk.v1.topk_pb2, topk_client\n"
                 "import google.rpc.error_details_pb2\n"],
                env=dict(os.environ, PYTHONPATH=os.pathsep.join(
                    [folder, *sys.path])), check=True)

    def test_options(self):
        x = elements("float32", (5,))
        answer = self.client.compute_topk(
            x, Onnx(np.array([2])), request_id="mine", index_offset=1000)
        self.assertEqual(answer.request_id, "mine")
        self.assertEqual(answer.execution.backend, "cpu")
        self.assertGreater(answer.execution.compute_nanoseconds, 0)
        self.assertTrue((answer.indices >= 1000).all())
        answer.values[0] = answer.indices[0] = 1  # the caller's own
        answer = self.client.compute_topk(x, Onnx(np.int64(2)),
                                          output="values")
        self.assertIsNone(answer.indices)
        answer = self.client.stream_topk(x, Onnx(2), output="indices")
        self.assertIsNone(answer.values)
        empty = self.client.compute_topk(np.zeros((0, 5), np.float32), Onnx(2))
        self.assertEqual(empty.values.shape, (0, 2))

    def test_errors_have_code_reason_and_field(self):
        x = elements("float32", (5,))
        for stream in (False, True):
            with self.assertRaises(topk_client.TopKError) as caught:
                self.client.compute_topk(x, Onnx(7), stream=stream)
            error = caught.exception
            self.assertEqual(error.code, grpc.StatusCode.INVALID_ARGUMENT)
            self.assertEqual(error.reason, "K_EXCEEDS_DIMENSION")
            self.assertEqual(error.field, "onnx.k")
            self.assertIn("7", error.message)
            self.assertIsNone(error.retry_delay)
            self.assertIn("K_EXCEEDS_DIMENSION", str(error))
        with self.assertRaises(topk_client.TopKError):  # while it is sent
            self.client.stream_topk(np.zeros(1 << 24), Onnx(1 << 25))
        wrong = (({"tensor": x.astype(complex)}, TypeError, "complex"),
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
                  "^axis is 9223372036854775808, which exceeds 64 bits$"),
                 ({"spec": OpenVINO(1, 0, b"max", "value")}, TypeError,
                  "^mode is b'max', not a str$"),
                 ({"spec": OpenVINO(1, 0, "max", "value", stable=2)}, TypeError,
                  "^stable is 2, not a bool$"),
                 ({"spec": DirectML(1, 0, "increasing", output_value={})},
                  TypeError, "^output_value is {}, not a TensorDesc$"),
                 ({"spec": DirectML(1, 0, "increasing", output_value=TensorDesc(
                     sizes="11"))}, TypeError, "^sizes is '11', not integers$"),
                 ({"spec": {"k": 1}}, TypeError, "^spec is {'k': 1}, not an "),
                 ({"tensor": np.array([b"abc"])}, TypeError,
                  r"^the service does not support \|S3; its types are "),
                 ({"data_type": np.float32}, TypeError, "^the data type is "),
                 ({"values_out": x}, TypeError, "^values_out is a ndarray, "),
                 ({"request_id": None}, TypeError, "^request_id is None, "),
                 ({"index_offset": 1.0}, TypeError, "^index_offset is 1.0, "),
                 ({"tensor": np.ma.array(x, mask=x > 3)}, TypeError,
                  "masked array.* pass tensor.filled"))
        # The first of each has valid arguments that are equal.
        self.client.compute_topk(x, Onnx(1, axis=0), index_offset=1)
        self.client.compute_topk(x, OpenVINO(1, 0, "max", "value", stable=True))
        for arguments, kind, text in wrong:
            with self.assertRaisesRegex(kind, text):
                self.client.compute_topk(
                    **{"tensor": x, "spec": Onnx(1), **arguments})
        with self.assertRaisesRegex(TypeError, "^a request is a ndarray, "):
            list(self.client.compute_topk_many([x]))

    def test_integers_and_bools_may_be_of_any_type(self):
        x = elements("float32", (5,))
        for one in (1, True, np.bool_(True), np.int8(1), np.uint64(1)):
            zero = type(one)(0)
            answer = self.client.compute_topk(x, Onnx(one, axis=zero,
                                                      largest=one),
                                              index_offset=zero)
            self.assertEqual(answer.values.shape, (1,))
            self.client.compute_topk(x, OpenVINO(
                one, zero, "max", "value", stable=one))
            self.client.compute_topk(x, DirectML(
                one, zero, "increasing", strict=zero, output_value=TensorDesc(
                    sizes=np.array([1], np.int16), strides=[one])))

    def test_many_are_answered_in_order_with_their_errors(self):
        arrays = [elements("float32", (3, 40), seed) for seed in range(300)]

        def requests():
            for number, x in enumerate(arrays):
                k = 41 if number % 10 == 3 else 1 + number % 40
                yield Request(x, Onnx(k), request_id=str(number))

        results = list(self.client.compute_topk_many(requests()))
        self.assertEqual(len(results), len(arrays))
        for number, (x, result) in enumerate(zip(arrays, results)):
            if number % 10 == 3:
                self.assertEqual(result.reason, "K_EXCEEDS_DIMENSION")
                continue
            values, indices = oracle(x, "", 1, 1 + number % 40, True, False)
            self.assert_same(result, values, indices, np.int64)
            self.assertEqual(result.request_id, str(number))

    def test_an_invalid_request_among_many_raises(self):
        good = Request(elements("float32", (5,)), Onnx(1))
        bad = Request(np.zeros(5, complex), Onnx(1))
        results = self.client.compute_topk_many([good, bad, good])
        next(results)
        with self.assertRaises(TypeError):
            next(results)

    def test_an_exception_of_the_iterator_is_raised_after_its_results(self):
        x = elements("float32", (5,))
        for exception in (ValueError("a"), SystemExit("b"), GeneratorExit("c")):
            def requests(exception=exception):
                yield Request(x, Onnx(1))
                yield Request(x, Onnx(2))
                raise exception

            results = self.client.compute_topk_many(requests(), timeout=60)
            begin = time.monotonic()
            for k in (1, 2):
                self.assertEqual(next(results).values.size, k)
            with self.assertRaises(type(exception)) as caught:
                next(results)
            self.assertIs(caught.exception, exception)
            self.assertLess(time.monotonic() - begin, 30)

    def test_many_returns_results_before_all_requests_exist(self):
        asked = threading.Semaphore(1)

        def requests():  # endless: each waits for the answer before
            while asked.acquire(timeout=30):
                yield Request(np.arange(9, dtype=np.int32), Onnx(1))

        results = self.client.compute_topk_many(requests())
        for _ in range(5):
            self.assertEqual(next(results).indices[0], 8)
            asked.release()
        results.close()  # cancels it
        asked.release()

    def test_a_deadline_ends_a_call(self):
        x = np.random.default_rng(3).standard_normal(1 << 23)
        for stream in (False, True):
            with self.assertRaises(topk_client.TopKError) as caught:
                self.client.compute_topk(x[:1 << 22], Onnx(1 << 22),
                                         stream=stream, timeout=0.001)
            self.assertEqual(caught.exception.code,
                             grpc.StatusCode.DEADLINE_EXCEEDED)

        stop = threading.Event()
        self.addCleanup(stop.set)

        def requests():
            yield Request(x[:9], Onnx(1))
            stop.wait(30)

        with self.assertRaises(topk_client.TopKError) as caught:
            list(self.client.compute_topk_many(requests(), timeout=0.1))
        self.assertEqual(caught.exception.code,
                         grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertFalse(stop.is_set())

    def test_a_call_with_the_timeout_0_is_not_sent(self):
        x = np.arange(9)
        requests = [Request(x, Onnx(1))]
        with topk_client.Client(self.server.target, timeout=0) as client:
            for call in (
                    lambda: self.client.compute_topk(x, Onnx(1), timeout=0),
                    lambda: self.client.stream_topk(x, Onnx(1), timeout=0),
                    lambda: list(self.client.compute_topk_many(requests,
                                                               timeout=0)),
                    lambda: self.client.get_capabilities(timeout=0),
                    lambda: self.client.is_serving(timeout=0),
                    lambda: client.compute_topk(x, Onnx(1))):
                with self.assertRaises(topk_client.TopKError) as caught:
                    call()
                self.assertEqual(caught.exception.code,
                                 grpc.StatusCode.DEADLINE_EXCEEDED)
                self.assertIn("before the request was sent",
                              caught.exception.message)

    def test_the_timeout_none_is_no_deadline(self):
        with topk_client.Client(self.server.target, timeout=None) as client:
            self.assertEqual(
                client.compute_topk(np.arange(9), Onnx(1)).indices[0], 8)

    def test_a_draining_server_is_reported_as_such(self):
        server = client_package.start(self.addCleanup, "--drain-delay", "60")
        with topk_client.Client(server.target, max_attempts=1) as client:
            client.compute_topk(np.arange(9), Onnx(1))
            server.process.send_signal(signal.SIGTERM)

            def error():
                try:
                    client.compute_topk(np.arange(9), Onnx(1))
                    return None
                except topk_client.TopKError as error:
                    return error

            found = harness.poll("an error", error)
            self.assertEqual(found.code, grpc.StatusCode.UNAVAILABLE)
            self.assertIn("the server is draining", found.message)
            self.assertNotIn("unhealthy", found.message)
        server.kill()

    def test_close_cancels(self):
        client = topk_client.Client(self.server.target)
        stop = threading.Event()
        self.addCleanup(stop.set)

        def requests():
            yield Request(np.arange(9), Onnx(1))
            stop.wait(30)

        results = client.compute_topk_many(requests())
        next(results)
        client.close()
        with self.assertRaises(topk_client.TopKError) as caught:
            next(results)
        self.assertEqual(caught.exception.code, grpc.StatusCode.CANCELLED)
        for call in (lambda: client.compute_topk(np.arange(9), Onnx(1)),
                     lambda: client.compute_topk(np.arange(99999), Onnx(1)),
                     lambda: list(client.compute_topk_many(requests())),
                     client.get_capabilities, client.is_serving):
            with self.assertRaisesRegex(ValueError, "^the client is closed$"):
                call()

    def test_close_before_the_first_request_cancels(self):
        client = topk_client.Client(self.server.target)

        def requests():
            client.close()
            yield Request(np.arange(9), Onnx(1))

        with self.assertRaises(topk_client.TopKError) as caught:
            next(client.compute_topk_many(requests()))
        self.assertEqual(caught.exception.code, grpc.StatusCode.CANCELLED)

    def test_capabilities_and_health(self):
        capabilities = self.client.get_capabilities()
        self.assertEqual(
            {(o.spec.dialect, o.spec.version) for o in capabilities.operators
             if o.spec.dialect == topk_pb2.DIALECT_ONNX},
            {(topk_pb2.DIALECT_ONNX, v) for v in (1, 10, 11, 24)})
        pyproject = (client_package.PACKAGE / "pyproject.toml").read_text()
        self.assertIn(f'\nversion = "{capabilities.build_version}"\n',
                      pyproject)
        self.assertTrue(self.client.is_serving())
        self.assertTrue(self.client.is_serving("topk.v1.TopKService"))
        with self.assertRaises(topk_client.TopKError) as caught:
            self.client.is_serving("no.such.Service")
        self.assertEqual(caught.exception.code, grpc.StatusCode.NOT_FOUND)

    def test_no_server(self):
        with topk_client.Client("unix:/nowhere/topk.sock") as client:
            with self.assertRaises(topk_client.TopKError) as caught:
                client.compute_topk(np.arange(3), Onnx(1), timeout=5)
        self.assertEqual(caught.exception.code, grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    unittest.main()
