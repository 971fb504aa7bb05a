"""Tests both Python clients with the arrays of other frameworks, and the fake
server for unit tests. PyTorch and ml_dtypes are tested if they are installed.

usage: client_frameworks_test.py TOPKD
"""

import unittest

import both_clients
import numpy as np
import topk_client
from both_clients import CLIENTS
from oracle import ML_DTYPES, TYPES, ml_dtypes, random_case
from topk_client import (DirectML, Onnx, OpenVINO, Request, TensorDesc,
                         _shards, messages)
from topk_client.merge import Partial, merge
from topk_client.testing import fake_server

try:
    import torch
except ImportError:
    torch = None


class Types(both_clients.ServerTest):
    """Tests of both clients. This class runs them for the blocking one."""

    flags = ("--allow-shared-memory",)

    def test_every_type_of_elements(self):
        dtypes = [dtype for name, dtype in TYPES.items() if name != "BF16"]
        dtypes += [getattr(ml_dtypes, name) for name in ML_DTYPES.values()
                   if hasattr(ml_dtypes, name)]
        for dtype in dtypes:
            x = np.array([1, 3, 1, 2]).astype(dtype)
            for largest, places in ((True, [1, 3]), (False, [0, 2])):
                with self.subTest(dtype=dtype, largest=largest):
                    values, indices = self.client.topk(x, 2, 0, largest)
                    self.assertEqual(values.dtype, x.dtype)
                    self.assertEqual(values.tobytes(), x[places].tobytes())
                    self.assertEqual(indices.tolist(), places)
                    self.assertEqual(indices.dtype, np.int64)
                    indices = self.client.topk(x, 2, 0, largest, False).indices
                    self.assertEqual(sorted(indices.tolist()), places)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_pytorch_tensors_stay_pytorch_tensors(self):
        kinds = ["float16", "bfloat16", "float32", "float64", "int8", "int16",
                 "int32", "int64", "uint8", "float8_e4m3fn", "float8_e5m2",
                 "float8_e8m0fnu", "uint16", "uint32", "uint64"]
        for name in kinds:
            dtype = getattr(torch, name, None)
            if dtype is None:  # added by a later version of PyTorch
                continue
            plain = torch.tensor([[1, 4, 2], [16, 8, 32]])
            for x in (plain.to(dtype), plain.T.to(dtype).T, plain.to(dtype)[0]):
                expected = torch.topk(x.to(torch.float64), 2)
                with self.subTest(dtype=dtype, shape=x.shape):
                    for values, indices in (
                            self.client.topk(x, 2),
                            *self.client.topk_many([x], 2),
                            self.client.compute_topk(
                                x, OpenVINO(2, -1, "max", "value", "i64"),
                                stream=True)):
                        self.assertIs(values.dtype, dtype)
                        self.assertIs(indices.dtype, torch.int64)
                        self.assertTrue(torch.equal(
                            values.to(torch.float64), expected.values))
                        self.assertTrue(torch.equal(indices, expected.indices))
        with self.assertRaisesRegex(TypeError, "does not support bool"):
            self.client.topk(torch.tensor([True]), 1)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_pytorch_bits_and_selected_outputs(self):
        # NaNs with payloads and both zeros.
        bits = torch.tensor([0x7FC1, -64, 0, -32768, 0x3F80],
                            dtype=torch.int16)
        x = bits.view(torch.bfloat16)
        response = self.client.compute_topk(x, Onnx(5), output="values")
        self.assertEqual(response.values.view(torch.int16).tolist(),
                         bits[[0, 1, 4, 2, 3]].tolist())
        self.assertIsNone(response.indices)
        response = self.client.compute_topk(x, Onnx(2), output="indices")
        self.assertIsNone(response.values)
        self.assertEqual(response.indices.tolist(), [0, 1])
        self.assertEqual(self.client.compute_topk(
            x, Onnx(2), data_type="bf16").indices.tolist(), [0, 1])
        for tensor, own, name in ((x, "bf16", "f16"), (bits, "int16", "f16"),
                                  (x, "bf16", "i16")):
            with self.assertRaisesRegex(
                    ValueError, f"^data_type is '{name}', .* are {own}: "):
                self.client.compute_topk(tensor, Onnx(2), data_type=name)
        with topk_client.SharedMemory(64) as memory:
            out = memory.array((2,), np.uint16)
            response = self.client.compute_topk(x, Onnx(2, largest=0),
                                                values_out=memory.region(out))
            self.assertEqual(response.values.dtype, torch.bfloat16)
            self.assertEqual(out.tolist(), [0, 0x8000])
            response.values[0] = 1  # in the same memory
            self.assertEqual(out[0], 0x3F80)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_pytorch_tensors_that_are_negated_lazily(self):
        x = torch.tensor([1j, 3j, 2j]).conj().imag
        self.assertTrue(x.is_neg())
        values, indices = self.client.topk(x, 1)
        self.assertEqual((values.tolist(), indices.tolist()), ([-1], [0]))

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_pytorch_tensors_that_are_refused(self):
        x = torch.ones(3, requires_grad=True)
        with self.assertRaisesRegex(TypeError, r"grad.* tensor\.detach\(\)$"):
            self.client.topk(x, 1)
        with self.assertRaisesRegex(TypeError, r"grad.* tensor\.detach\(\)$"):
            list(self.client.topk_many([x.bfloat16()], 1))
        self.assertEqual(self.client.topk(x.detach(), 1).indices.tolist(), [0])
        with self.assertRaisesRegex(TypeError, r"is on meta: .*tensor\.cpu"):
            self.client.topk(torch.ones(3, device="meta"), 1)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_pytorch_results_are_merged_as_arrays(self):
        x = torch.tensor([1.0, 5.0, 3.0, 4.0], dtype=torch.bfloat16)
        spec = Onnx(2)
        for options in ({}, {"data_type": "bf16"}):
            merged = merge(Partial.of(
                self.client.compute_topk(x[begin:begin + 2], spec,
                                         index_offset=begin), spec, **options)
                for begin in (0, 2))
            self.assertEqual(merged.indices.tolist(), [1, 3])
            if not options:
                self.assertEqual(merged.values.tolist(), [5.0, 4.0])
                self.assertEqual(merged.values.dtype, np.float32)
        self.addCleanup(_shards._client.cache_clear)
        for shared_memory in (False, True):  # as in a worker of Ray
            got = _shards.answer(x, 70, _shards.Question.of(
                2, 0, 1, True, "value", None, self.server.target, shared_memory,
                {}))
            self.assertEqual((got.values.tolist(), got.indices.tolist()),
                             ([5.0, 4.0], [71, 73]))


class AsyncioTypes(Types):
    kind = both_clients.AioClient


class Fake(both_clients.ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fake = fake_server()
        target = fake.__enter__()
        cls.addClassCleanup(fake.__exit__, None, None, None)
        cls.fakes = [kind(target) for kind in CLIENTS]
        for client in cls.fakes:
            cls.addClassCleanup(client.close)

    def test_random_requests(self):
        rng = np.random.default_rng(20261128)
        cases = [random_case(rng) for _ in range(1000)]
        for number, case in enumerate(cases):
            case.check(self.fakes[0].compute_topk(
                **vars(case.request), stream=number % 2 == 0))
        for client in (*self.fakes, self.client):
            results = client.compute_topk_many(case.request for case in cases)
            for case, result in zip(cases, results):
                case.check(result)

    def test_errors_equal_those_of_the_server(self):
        x = np.zeros((2, 3))
        half, one = x.astype(np.float16), np.array(1)
        requests = [(x, Onnx(0)), (x, Onnx(4)), (x, Onnx(1, axis=2)),
                    (x, Onnx(1, axis=-3)), (x, OpenVINO(-1, 0, "min", "none")),
                    (x, OpenVINO(3, 0, "min", "none")), (x[0, 0], Onnx(1)),
                    (x[:0], Onnx(4)), (half, DirectML(1, -1, "increasing")),
                    (half, DirectML(9, 1, "increasing"))]
        # The messages of the following errors differ.
        requests += [(x, spec) for spec in (
            Onnx(1, largest=2), Onnx(1, sorted=-1), Onnx(1, largest=0,
                                                         version=10),
            Onnx(1, sorted=0, version=1), Onnx(1, version=2),
            Onnx(one.reshape(1), version=1), Onnx(one), Onnx(np.ones(2, int)),
            Onnx(one.astype(np.int32)), Onnx(np.zeros(1, int)),
            OpenVINO(1, 0, "up", "none"), OpenVINO(1, 0, "max", "up"),
            OpenVINO(1, 0, "max", "value", "u8"),
            OpenVINO(1, 0, "max", "value", "i64", version=1),
            OpenVINO(1, 0, "max", "none", stable=True),
            OpenVINO(1, 0, "max", "value", stable=True, version=3),
            OpenVINO(1, 0, "max", "value", version=2),
            OpenVINO(one.reshape(1), 0, "max", "value"),
            OpenVINO(one.astype(float), 0, "max", "value"),
            OpenVINO(one.astype(np.uint8), 0, "max", "value", version=1),
            DirectML(1, 0, "increasing"))]
        requests += [(half, spec) for spec in (
            DirectML(3, 1, "increasing", strict=True), DirectML(1, 1),
            DirectML(1, 1, "increasing", version=0),
            DirectML(1, 1, "increasing", version=2),
            DirectML(1, 1, "increasing", output_index=TensorDesc("i32")))]
        requests += [(x.astype(np.int8), Onnx(1, version=10)),
                     (half[:0], DirectML(1, 1, "increasing")),
                     (half[:, :0], DirectML(1, 0, "increasing"))]
        for tensor, spec in requests:
            with self.subTest(spec=spec):
                errors = []
                for client in (self.client, *self.fakes):
                    for call in (
                            lambda c=client: c.compute_topk(tensor, spec),
                            lambda c=client: c.compute_topk(tensor, spec,
                                                            stream=True)):
                        with self.assertRaises(topk_client.TopKError) as caught:
                            call()
                        errors.append(caught.exception)
                    errors += client.compute_topk_many([Request(tensor, spec)])
                if errors[0].field[-2:] == ".k" and "strict" not in str(spec):
                    self.assertEqual(len({str(e) for e in errors}), 1, errors)
                self.assertEqual(len({(error.code, error.reason, error.field)
                                      for error in errors}), 1, errors)

    def test_other_methods(self):
        errors = []
        for client in (self.client, *self.fakes):
            self.assertEqual(client.get_capabilities().build_version,
                             topk_client.__version__)
            for service in ("", "topk.v1.TopKService"):
                self.assertTrue(client.is_serving(service))
            with self.assertRaises(topk_client.TopKError) as caught:
                client.is_serving("nosuch")
            errors.append((str(caught.exception), caught.exception.field))
        self.assertEqual(len(set(errors)), 1, errors)
        with self.assertRaisesRegex(topk_client.TopKError, "^UNIMPLEMENTED: "):
            self.fakes[0].compute_topk(
                np.zeros(3, np.float16), DirectML(
                    1, 0, "increasing", output_value=TensorDesc(strides=[1])))
        for client in self.fakes:
            large = np.zeros(3 << 20)
            large[5] = 1
            self.assertEqual(client.topk(large, 1).indices.tolist(), [5])


if __name__ == "__main__":
    unittest.main()
