"""Tests topk() and topk_many() of both Python clients: the tensors that they
accept and the types that they return. ml_dtypes, pandas, polars, pyarrow and
PyTorch are tested if they are installed.

usage: client_topk_test.py TOPKD
"""

import array
import types
import unittest

import both_clients
import numpy as np
import topk_client
from oracle import ML_DTYPES, TYPES, ml_dtypes
from topk_client import Onnx, OpenVINO, _shards
from topk_client.merge import Partial, merge

try:
    import pandas
    import polars
    import pyarrow
except ImportError:
    pandas = None
try:
    import torch
except ImportError:
    torch = None


class DLPack:
    """An array that supports DLPack but not __array__, on a given device."""

    def __init__(self, x, device):
        self.x = x
        self._device = device

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._device, 0


class ArrayMethod:
    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.x, dtype)


def with_null(**attributes):
    """Returns an array with a null, which NumPy converts to NaN."""
    tensor = ArrayMethod(np.array([1, np.nan]))
    vars(tensor).update(attributes)
    return tensor


class TopK(both_clients.ServerTest):
    """Tests of both clients. This class runs them for the blocking one."""

    flags = ("--allow-shared-memory",)

    def assert_selected(self, tensor, values, indices, **options):
        got, places = self.client.topk(tensor, len(values), **options)
        self.assertEqual(got.tolist(), values)
        self.assertEqual(places.tolist(), indices)
        self.assertEqual(places.dtype, np.int64)
        if isinstance(places, np.ndarray):
            memoryview(places.reshape(-1))[0]  # the byte order is native
        return got

    def test_all_kinds_of_tensors(self):
        x = np.array([3, 9, 1, 9], np.float32)
        for tensor in (x, x.tolist(), tuple(x), ArrayMethod(x), memoryview(x),
                       array.array("f", x), DLPack(x, 1)):
            with self.subTest(tensor=type(tensor)):
                self.assert_selected(tensor, [9, 9, 3], [1, 3, 0])
        self.assertEqual(self.assert_selected([3, 9], [9], [1]).dtype, np.int64)

    def test_integers_are_not_rounded(self):
        big, more = 2**63 + 1, 2**64 - 1
        for tensor, dtype in (
                ([1, big, big - 1], "u8"), ([[1, big, big - 1]], "u8"),
                ((np.int64(1), big, np.uint64(big - 1)), "u8"),
                ([np.array([-1, 2**53 + 1, 2**53]),
                  np.array([5, 6, 7], np.uint64)], "i8")):
            values, indices = self.client.topk(tensor, 2)
            self.assertEqual(values.dtype, dtype)
            self.assertEqual(indices.reshape(-1, 2)[0].tolist(), [1, 2])
            self.assertEqual(values.tolist(), np.take_along_axis(
                np.array(tensor, object), indices, -1).tolist())
        self.assertEqual(self.client.topk([0.5, big - 1], 1).values.dtype, "f8")
        for tensor in ([0.5, big], [[np.inf], [np.uint64(big)]],
                       [np.array([0.5]), np.array([big])]):
            with self.assertRaisesRegex(
                    ValueError, f"^the tensor has the integer {big}, which f64 "
                    "cannot hold exactly, and floats$"):
                self.client.topk(tensor, 1)
        for tensor in ([-1, big], [0, more + 1], [-2**63 - 1]):
            with self.assertRaisesRegex(
                    ValueError, rf"integers from {min(tensor)} to {max(tensor)}"
                    ", which fit neither in i64 nor in u64$"):
                self.client.topk(tensor, 1)

    def test_directions_and_axes(self):
        x = np.array([[3, 9], [1, 4]], np.uint16)
        self.assert_selected(x, [[1, 4], [3, 9]], [[1, 1], [0, 0]], axis=0,
                             largest=False)
        self.assert_selected(x, [[9, 3], [4, 1]], [[1, 0], [1, 0]])
        values, _ = self.client.topk(x, 1, sorted=False)
        self.assertEqual(values.dtype, np.uint16)

    def test_many(self):
        results = list(self.client.topk_many([[1, 5], [[7.5, 2.5]]], 1,
                                             largest=False))
        self.assertEqual([(v.tolist(), i.tolist()) for v, i in results],
                         [([1], [0]), ([[2.5]], [[1]])])

    def test_tensors_that_are_refused(self):
        with self.assertRaisesRegex(TypeError, "on another device: copy it"):
            self.client.topk(DLPack(np.arange(3.0), 2), 1)
        for tensor in ([object()], [1.0, None], [[1.0], [None]]):
            with self.assertRaisesRegex(TypeError, "^the tensor is a list, "):
                self.client.topk(tensor, 1)
        with self.assertRaisesRegex(TypeError, r"is a set, .* list\(tensor\)"):
            self.client.topk({1, 2}, 1)

    def test_masks_and_nulls_are_refused(self):
        masked = np.ma.array([1.0, 2.0], mask=[False, True])
        column = with_null(null_count=1)
        for tensor, text in (
                (masked, r"masked array.* pass tensor.filled\(value\)$"),
                ([masked, masked], "masked"), ([[1.0, np.ma.masked]], "masked"),
                (column, r"nulls.*\.fill_null\(value\)"),  # pyarrow
                (with_null(itercolumns=lambda: [column]), "nulls"),
                (with_null(null_count=lambda: 1), "nulls"),  # polars
                (with_null(dtype=types.SimpleNamespace(na_value=None),
                           isna=lambda: [False, True]),
                 r"nulls.*\.fillna\(value\)"),  # pandas
                ([column, column], "nulls")):
            with self.assertRaisesRegex(TypeError, text):
                self.client.topk(tensor, 1)
            with self.assertRaisesRegex(TypeError, text):
                list(self.client.topk_many([tensor], 1))

    @unittest.skipUnless(pandas, "pandas, polars or pyarrow is not installed")
    def test_columns(self):
        for make in (pyarrow.array, lambda x: pyarrow.chunked_array([x]),
                     polars.Series, lambda x: pandas.array(x, "Int64"),
                     lambda x: pandas.Series(x, dtype="Int64"),
                     lambda x: pandas.Series(x, dtype="int64[pyarrow]")):
            got = self.assert_selected(make([3, 9, 1]), [9], [1])
            self.assertEqual(got.dtype, np.int64)
            with self.assertRaisesRegex(TypeError, "nulls"):
                self.client.topk(make([3, None, 1]), 1)
        for columns in ("Int64", {"a": "int64[pyarrow]", "b": "Int64"},
                      {"a": "Int64", "b": "int64"}):
            table = pandas.DataFrame({"a": [3, 9], "b": [4, 1]}).astype(columns)
            got = self.assert_selected(table, [[4, 3], [9, 1]],
                                       [[1, 0], [0, 1]])
            self.assertEqual(got.dtype, np.int64)
            with self.assertRaisesRegex(TypeError, "nulls"):
                self.client.topk(table.where(table > 3), 1)
        table = pandas.DataFrame({"a": [3, 9], "b": [2**63 + 1, 2**63]})
        got = self.assert_selected(table, [[2**63 + 1, 3], [2**63, 9]],
                                   [[1, 0], [1, 0]])
        self.assertEqual(got.dtype, np.uint64)
        for column, text in (("text", "does not convert to numbers"),
                             (pandas.Timestamp(0), "not support datetime64")):
            with self.assertRaisesRegex(TypeError, text):
                self.client.topk(table.assign(c=column), 1)
        for column in (pandas.Series([3, 1, None], dtype="category"),
                       pandas.Categorical(["1", None])):
            for tensor in (column, pandas.DataFrame({"a": column})):
                with self.assertRaisesRegex(TypeError, "nulls"):
                    self.client.topk(tensor, 1)
        self.assert_selected(pandas.Series([3, 9], dtype="category"), [9], [1])
        id, more = np.array([2**62, 2**62 + 1]), np.array([1, 2], np.uint64)
        for make in (pandas.DataFrame, polars.DataFrame, pyarrow.table):
            got = self.assert_selected(make({"id": id, "n": more}),
                                       [[2**62 + 1, 2]], [[1, 1]], axis=0)
            self.assertEqual(got.dtype, np.int64)
            with self.assertRaisesRegex(
                    ValueError, f"the integer {2**62 + 1}, which f64 cannot"):
                self.client.topk(make({"id": id, "s": [0.5, np.inf]}), 1)
            self.assert_selected(make({"id": id[:1], "s": [0.5]}),
                                 [[2**62]], [[0]])
        for encoded in (
                pyarrow.RunEndEncodedArray.from_arrays([2, 3], [1.0, None]),
                pyarrow.DictionaryArray.from_arrays([0, 1], [1.0, None])):
            for tensor in (encoded, pyarrow.chunked_array([encoded])):
                with self.assertRaisesRegex(TypeError, "nulls"):
                    self.client.topk(tensor, 1)
        for make in (pyarrow.table, polars.DataFrame):
            got = self.assert_selected(make({"a": [3, 9], "b": [4, 1]}),
                                       [[4, 3], [9, 1]], [[1, 0], [0, 1]])
            self.assertEqual(got.dtype, np.int64)
            with self.assertRaisesRegex(TypeError, "nulls"):
                self.client.topk(make({"a": [3, None], "b": [4, 1]}), 1)
        rows = polars.Array(polars.Float64, 2)
        with self.assertRaisesRegex(TypeError, "nulls"):
            self.client.topk(polars.Series([[1, 2], [3, None]], dtype=rows), 1)
        for x in (pandas.Series([3, np.nan]), polars.Series([3.0, np.nan])):
            self.assertTrue(np.isnan(self.client.topk(x, 1)[0][0]))

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


class Asyncio(TopK):
    kind = both_clients.AioClient


if __name__ == "__main__":
    unittest.main()
