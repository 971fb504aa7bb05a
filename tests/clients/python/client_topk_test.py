"""Tests topk() and topk_many() of both Python clients: the tensors that they
accept and the types that they return. pandas, polars and pyarrow are tested if
they are installed.

usage: client_topk_test.py TOPKD
"""

import array
import types
import unittest

import both_clients
import numpy as np
import topk_client

try:
    import pandas
    import polars
    import pyarrow
except ImportError:
    pandas = None


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

    def assert_selected(self, tensor, values, indices, **options):
        got, places = self.client.topk(tensor, len(values), **options)
        self.assertEqual(got.tolist(), values)
        self.assertEqual(places.tolist(), indices)
        self.assertEqual(places.dtype, np.int64)
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
        self.assertEqual(self.client.topk([0.5, big], 1).values.dtype, "f8")
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
        results = self.client.topk_many([[1, 5], [1]], 2)
        self.assertEqual(next(results)[0].tolist(), [5, 1])
        with self.assertRaisesRegex(topk_client.TopKError, r"\(K_EXCEEDS_DIM"):
            next(results)

    def test_tensors_that_are_refused(self):
        with self.assertRaisesRegex(TypeError, "on another device: copy it"):
            self.client.topk(DLPack(np.arange(3.0), 2), 1)
        for tensor in ([object()], [1.0, None], [[1.0], [None]]):
            with self.assertRaisesRegex(TypeError, "^the tensor is a list, "):
                self.client.topk(tensor, 1)

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
        with self.assertRaisesRegex(TypeError, r"masked.* k\.filled"):
            self.client.topk(masked.data, np.ma.array([1], mask=[True]))

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
        for types in ("Int64", {"a": "int64[pyarrow]", "b": "Int64"},
                      {"a": "Int64", "b": "int64"}):
            table = pandas.DataFrame({"a": [3, 9], "b": [4, 1]}).astype(types)
            got = self.assert_selected(table, [[4, 3], [9, 1]],
                                       [[1, 0], [0, 1]])
            self.assertEqual(got.dtype, np.int64)
            with self.assertRaisesRegex(TypeError, "nulls"):
                self.client.topk(table.where(table > 3), 1)
        table = pandas.DataFrame({"a": [3, 9], "b": [2**63 + 1, 2**63]})
        got = self.assert_selected(table, [[2**63 + 1, 3], [2**63, 9]],
                                   [[1, 0], [1, 0]])
        self.assertEqual(got.dtype, np.uint64)
        table = pandas.DataFrame({"a": [3, 9], "b": [4.5, 1]}, dtype="Float64")
        self.assertEqual(self.assert_selected(
            table, [[4.5, 3], [9, 1]], [[1, 0], [0, 1]]).dtype, np.float64)
        with self.assertRaisesRegex(TypeError, "does not convert to numbers"):
            self.client.topk(table.assign(c="text"), 1)
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


class Asyncio(TopK):
    kind = both_clients.AioClient


if __name__ == "__main__":
    unittest.main()
