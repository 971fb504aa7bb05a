"""Tests the Python client's shared memory with a real server.

usage: client_shared_memory_test.py TOPKD
"""

import gc
import os
import pickle
import subprocess
import sys
import unittest

import both_clients
import numpy as np
from oracle import oracle
from topk_client import DirectML, Onnx, OpenVINO, Request, SharedMemory


class Shared(both_clients.ServerTest):
    flags = ("--allow-shared-memory",)

    def setUp(self):
        self.memory = SharedMemory(1 << 20)
        self.addCleanup(self.memory.close)
        self.x = self.memory.array((40, 500), np.float32, 64)
        self.x[...] = np.random.default_rng(6).random(self.x.shape)
        self.values, self.indices = oracle(self.x, "", 1, 7)

    def assert_right(self, answer):
        np.testing.assert_array_equal(answer.values, self.values)
        np.testing.assert_array_equal(answer.indices, self.indices)

    def test_a_tensor_in_shared_memory(self):
        tensor = self.memory.region(self.x)
        for kind in both_clients.CLIENTS:
            with kind(self.server.target) as client:
                self.assert_right(client.compute_topk(tensor, Onnx(7)))
                for answer in client.compute_topk_many(
                        Request(tensor, Onnx(7)) for _ in range(5)):
                    self.assert_right(answer)

    def test_a_tensor_in_shared_memory_must_be_contiguous(self):
        with self.assertRaisesRegex(
                ValueError, "must be in .*, contiguous and little-endian$"):
            self.client.compute_topk(self.memory.region(self.x.T), Onnx(7))

    def test_results_are_written_to_shared_memory(self):
        values = self.memory.array((40, 7), np.float32, 200000)
        indices = self.memory.array((40, 7), np.int64, 300000)
        for stream in (False, True):
            values[...] = indices[...] = 0
            answer = self.client.compute_topk(
                self.memory.region(self.x) if not stream else self.x.copy(),
                Onnx(7), stream=stream,
                values_out=self.memory.region(values),
                indices_out=self.memory.region(indices))
            self.assert_right(answer)
            np.testing.assert_array_equal(values, self.values)
            np.testing.assert_array_equal(indices, self.indices)
            self.assertTrue(np.shares_memory(answer.values, values))
            self.assertTrue(np.shares_memory(answer.indices, indices))

    def test_outputs_have_the_types_of_their_arrays(self):
        for field, dtype, spec, expected in (
                ("values_out", "f8", Onnx(7), "float64, .*elements are f32"),
                ("values_out", "i4", Onnx(7), "int32, .*elements are f32"),
                ("indices_out", "i4", Onnx(7), "int32, .*elements are i64"),
                ("indices_out", "i8", OpenVINO(7, 1, "max", "value"),
                 "int64, .*elements are i32"),
                ("indices_out", "i8", DirectML(7, 1, "decreasing"),
                 "int64, .*elements are u32"),
                ("values_out", ">f4", Onnx(7), "little-endian")):
            out = self.memory.array((40, 7), dtype, 200000)
            with self.assertRaisesRegex(ValueError, expected):
                self.client.compute_topk(
                    self.x, spec, **{field: self.memory.region(out)})
        out = self.memory.array((40, 7), np.int32, 200000)
        self.client.compute_topk(self.x, OpenVINO(7, 1, "max", "value"),
                                 indices_out=self.memory.region(out))
        np.testing.assert_array_equal(out, self.indices)

    def test_another_process_attaches(self):
        # Strided, so that the region's strides are pickled too.
        region, total = self.memory.region(self.x.T), self.x.T.sum()
        child = subprocess.run(
            [sys.executable, "-c",
             "import pickle, sys\n"
             "region = pickle.load(sys.stdin.buffer)\n"
             "print(region.array.sum())\n"
             "region.array[1, 2] = 7\n"
             "region.memory.close()\n"],
            input=pickle.dumps(region), stdout=subprocess.PIPE, check=True,
            env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        self.assertEqual(np.float32(child.stdout), total)
        self.assertEqual(self.x[2, 1], 7)
        with SharedMemory.attach(self.memory.name) as same:
            self.assertEqual(same.array(self.x.shape, np.float32, 64)[2, 1], 7)
        self.assertTrue(os.path.exists("/dev/shm" + self.memory.name))
        with self.assertRaises(FileNotFoundError):
            SharedMemory.attach("/topk-none")
        with self.assertRaises(ValueError):
            SharedMemory.attach("topk")

    def test_arrays_outlive_the_name(self):
        path = "/dev/shm" + self.memory.name
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with self.assertRaises(FileExistsError):
            SharedMemory(1, self.memory.name)
        self.memory.close()
        self.assertFalse(os.path.exists(path))
        x, values = self.x, self.values
        self.memory = self.x = None
        gc.collect()
        np.testing.assert_array_equal(oracle(x, "", 1, 7)[0],
                                      values)
        for name in ("topk", "/topk/x", "/"):
            with self.assertRaises((ValueError, OSError)):
                SharedMemory(1, name)
        for nbytes in (-1, 0, 1 << 62):
            with self.assertRaises(OSError):
                SharedMemory(nbytes)
        forgotten = SharedMemory(1)
        path = "/dev/shm" + forgotten.name
        del forgotten
        gc.collect()
        self.assertFalse(os.path.exists(path))
        with SharedMemory(10) as memory, self.assertRaises(ValueError):
            memory.offset_of(np.zeros(1))


if __name__ == "__main__":
    unittest.main()
