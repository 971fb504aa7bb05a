"""Tests both Python clients with tensors on a GPU. The server and the driver in
this process simulate a GPU (tests/support/cuda). PyTorch and CuPy are replaced
by modules with the few functions that the client calls.

usage: client_cuda_test.py TOPKD LIBCUDA
"""

import contextlib
import ctypes
import gc
import os
import pathlib
import signal
import subprocess
import sys
import types
import unittest

import both_clients
import client_package
import grpc
import numpy as np
import topk_client
from oracle import oracle
from topk_client import DirectML, Onnx, OpenVINO, _cuda

LIBRARY = os.path.abspath(sys.argv.pop(1))
_DRIVER = ctypes.CDLL(LIBRARY)


def _check(result):
    assert result == 0, result


class Array:
    """An array on the GPU, like CuPy's. The CPU can access its memory."""

    device = contextlib.nullcontext()
    stream = 7

    def __init__(self, shape, dtype):
        dtype = np.dtype(dtype)
        size = max(1, int(np.prod(shape)) * dtype.itemsize) + 64
        pointer = ctypes.c_uint64()
        _check(_DRIVER.cuMemAlloc_v2(ctypes.byref(pointer),
                                     ctypes.c_size_t(size)))
        self.base = pointer.value
        # Not at the beginning of the allocation.
        memory = (ctypes.c_char * (size - 64)).from_address(self.base + 64)
        self.array = np.ndarray(shape, dtype, memory)

    def free(self):
        if hasattr(self, "array"):
            del self.array
            _check(_DRIVER.cuMemFree_v2(ctypes.c_uint64(self.base)))

    __del__ = free

    @classmethod
    def of(cls, values):
        values = np.asarray(values)
        created = cls(values.shape, values.dtype)
        created.array[...] = values
        return created

    @property
    def shape(self):
        return self.array.shape

    @property
    def __cuda_array_interface__(self):
        a = self.array
        return {"shape": a.shape, "typestr": a.dtype.str, "version": 3,
                "data": (a.ctypes.data if a.size else 0, False),
                "strides": None if a.flags.c_contiguous else a.strides,
                "stream": self.stream}


class TorchTensor:
    """A PyTorch tensor on the GPU, of the types that NumPy lacks too."""

    requires_grad = False
    device = types.SimpleNamespace(type="cuda")

    def __init__(self, array, dtype, is_neg=False):
        self.memory, self.dtype, self.shape = array, dtype, array.array.shape
        self.is_neg = is_neg

    def resolve_neg(self):
        if not self.is_neg:
            return self
        return TorchTensor(Array.of(-self.memory.array), self.dtype)

    def contiguous(self):
        if self.memory.array.flags.c_contiguous:
            return self
        return TorchTensor(Array.of(self.memory.array), self.dtype,
                           self.is_neg)

    def data_ptr(self):
        return self.memory.array.ctypes.data

    def tolist(self):
        return self.memory.array.tolist()


def _torch_empty(shape, dtype, device=None):
    bits = {"torch.bfloat16": "int16"}.get(dtype, dtype)
    if device is None:
        return types.SimpleNamespace(numpy=lambda: np.empty(shape, bits))
    return TorchTensor(Array(shape, bits), dtype)


TORCH = types.SimpleNamespace(
    Tensor=TorchTensor, empty=_torch_empty, int16="int16", int64="int64",
    cuda=types.SimpleNamespace(
        current_stream=lambda device: types.SimpleNamespace(cuda_stream=0)))
CUPY = types.SimpleNamespace(
    ndarray=Array, empty=Array,
    ascontiguousarray=lambda a: (
        a if a.array.flags.c_contiguous else Array.of(a.array)))


class Plain:
    """An object of another library with __cuda_array_interface__."""

    def __init__(self, array, **changes):
        self.owner = array
        self.__cuda_array_interface__ = {
            **array.__cuda_array_interface__, **changes}


class Gpu(both_clients.ServerTest):
    """Tests of both clients. This class runs them for the blocking one."""

    flags = ("--allow-cuda-memory",)

    def setUp(self):
        _cuda.LIBRARY = LIBRARY
        sys.modules["cupy"] = CUPY
        self.addCleanup(sys.modules.pop, "cupy")
        self.x = np.random.default_rng(5).random((40, 500), np.float32)
        self.values, self.indices = oracle(self.x, "", 1, 7)

    def tearDown(self):
        self.assertEqual(_DRIVER.FakeContexts(), 0)

    def assert_right(self, result, kind=None):
        for got, wanted in zip(result, (self.values, self.indices)):
            if kind is not None:
                self.assertIs(type(got), kind)
            np.testing.assert_array_equal(getattr(got, "array", got), wanted)

    def test_cupy_arrays_stay_on_the_gpu(self):
        x = Array.of(self.x)
        before = _DRIVER.FakeSynchronized()
        self.assert_right(self.client.topk(x, 7), Array)
        self.assertGreater(_DRIVER.FakeSynchronized(), before)
        for result in self.client.topk_many([x, x], 7):
            self.assert_right(result, Array)
        response = self.client.compute_topk(
            x, OpenVINO(7, 1, "max", "value", "i32"), request_id="a")
        self.assert_right(response, Array)
        self.assertEqual(response.indices.array.dtype, np.int32)
        self.assertEqual(response.request_id, "a")
        self.assertEqual(response.execution.backend, "cuda")
        response = self.client.compute_topk(x, Onnx(7), output="values")
        self.assertIsNone(response.indices)
        response = self.client.compute_topk(x, Onnx(7), output="indices")
        self.assertIsNone(response.values)
        np.testing.assert_array_equal(response.indices.array, self.indices)

    def test_other_objects_give_arrays(self):
        x = Array.of(self.x)
        for stream in (7, None):
            self.assert_right(self.client.topk(Plain(x, stream=stream), 7),
                              np.ndarray)

    def test_outputs_in_shared_memory(self):
        with client_package.start(self.addCleanup, *self.flags,
                                  "--allow-shared-memory") as server, \
                topk_client.Client(server.target) as client, \
                topk_client.SharedMemory(1 << 16) as memory:
            out = memory.array(self.values.shape, np.float32)
            response = client.compute_topk(
                Array.of(self.x), Onnx(7), values_out=memory.region(out))
            np.testing.assert_array_equal(out, self.values)
            self.assertIs(type(response.indices), Array)

    def test_directml(self):
        x = Array.of(np.array([1, 3, 2], np.float16))
        values, indices = self.client.compute_topk(
            x, DirectML(1, 0, "decreasing"))
        self.assertEqual((values.array.tolist(), indices.array.tolist()),
                         ([3], [1]))

    def test_strides(self):
        x = Array.of(self.x.T)
        x.array = x.array.T
        self.assert_right(self.client.topk(x, 7), Array)
        with self.assertRaisesRegex(TypeError, "ascontiguousarray"):
            self.client.topk(Plain(x), 7)

    def test_pytorch(self):
        sys.modules["torch"] = TORCH
        self.addCleanup(sys.modules.pop, "torch")
        bits = np.array([0x3F80, 0x4000, -0x8000, 0x4040], np.int16)
        x = TorchTensor(Array.of(bits), "torch.bfloat16")
        values, indices = self.client.topk(x, 2)
        self.assertEqual((values.tolist(), indices.tolist()),
                         ([0x4040, 0x4000], [3, 1]))
        self.assertEqual((values.dtype, indices.dtype),
                         ("torch.bfloat16", "int64"))
        x.requires_grad = True
        with self.assertRaisesRegex(TypeError, "detach"):
            self.client.topk(x, 2)
        # The memory of a tensor with strides and negated elements is neither
        # in order nor right.
        strided = Array.of(-self.x.T)
        strided.array = strided.array.T
        x = TorchTensor(strided, "float32", is_neg=True)
        values, indices = self.client.topk(x, 7)
        self.assert_right((values.memory, indices.memory))

    def test_empty_tensors_and_outputs(self):
        for output in self.client.topk(Array((0, 5), np.float32), 2):
            self.assertIs(type(output), Array)
            self.assertEqual(output.shape, (0, 2))

    def test_operators_report_wrong_arguments(self):
        x = Array.of(self.x)
        for k, axis, field in ((501, 1, "k"), (0, 1, "k"), (1, 2, "axis")):
            with self.assertRaises(topk_client.TopKError) as caught:
                self.client.topk(x, k, axis)
            self.assertEqual(caught.exception.field, field)
        with self.assertRaisesRegex(TypeError, "type u4 cannot be in .* GPU"):
            self.client.compute_topk(Array.of(np.zeros(4, np.uint8)),
                                     OpenVINO(1, 0, "max", "value"),
                                     data_type="u4")
        with self.assertRaisesRegex(ValueError, "streamed"):
            self.client.compute_topk(x, Onnx(7), stream=True)

    def test_memory_that_cannot_be_shared(self):
        x = Array.of(self.x)
        _DRIVER.FakeForbidExport(ctypes.c_uint64(x.base))
        with self.assertRaisesRegex(
                ValueError, "cuIpcGetMemHandle failed with "
                            "CUDA_ERROR_INVALID_VALUE.*expandable_segments.*"
                            "cpu()"):
            self.client.topk(x, 7)
        _cuda.LIBRARY = "libcuda-absent.so"
        with self.assertRaisesRegex(TypeError, "libcuda-absent.*cpu()"):
            self.client.topk(x, 7)

    def test_servers_that_cannot_use_the_memory(self):
        x = Array.of(self.x)
        for flags, reason in (((), "CUDA_MEMORY_NOT_ALLOWED"),
                              (("--allow-cuda-memory", "--backend", "cpu"),
                               "CUDA_MEMORY_NO_DEVICE")):
            server = client_package.start(self.addCleanup, *flags)
            with topk_client.Client(server.target) as client:
                for call in (client.topk,
                             lambda *x: list(client.topk_many([x[0]], x[1]))):
                    with self.assertRaisesRegex(topk_client.TopKError,
                                                r"tensor\.cpu\(\)") as caught:
                        call(x, 7)
                    self.assertEqual(caught.exception.reason, reason)
                    self.assertEqual(caught.exception.code,
                                     grpc.StatusCode.UNIMPLEMENTED)

    def test_memory_is_kept_if_a_call_is_not_answered(self):
        kept = []
        timer = _cuda.threading.Timer
        _cuda.threading.Timer = lambda seconds, function: kept.append(
            function.__self__) or timer(3600, lambda: None)
        self.addCleanup(setattr, _cuda.threading, "Timer", timer)
        x = Array.of(self.x)
        self.client.topk(x, 7)
        gc.collect()
        self.assertEqual(kept, [])
        with self.assertRaises(topk_client.TopKError):
            self.client.topk(x, 7, timeout=0)
        gc.collect()
        self.assertIs(kept[0][0].tensor, x)
        self.assertEqual(set(kept[0][1]),
                         {"values", "indices"})

    def test_processes_that_die_do_not_harm_the_server(self):
        if type(self) is not Gpu:
            self.skipTest("the same for both clients")
        script = f"""
import sys
sys.argv = ["", {client_package.TOPKD!r}, {LIBRARY!r}]
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import client_cuda_test as t
t._cuda.LIBRARY = t.LIBRARY
sys.modules["cupy"] = t.CUPY
x = t.Array.of(t.np.random.default_rng(1).random((2000, 2000), t.np.float32))
with t.topk_client.Client({self.server.target!r}) as client:
    print(flush=True)
    while True:
        client.topk(x, 100)
"""
        for _ in range(3):
            with subprocess.Popen([sys.executable, "-c", script],
                                  stdout=subprocess.PIPE) as process:
                process.stdout.readline()
                self.assert_right(self.client.topk(Array.of(self.x), 7))
                process.send_signal(signal.SIGKILL)
            for path in pathlib.Path("/dev/shm").glob(
                    f"topk-cuda-{process.pid}-*"):
                path.unlink()
        response = self.client.compute_topk(Array.of(self.x), Onnx(7))
        self.assert_right(response)
        self.assertEqual(response.execution.backend, "cuda")


class AsyncioGpu(Gpu):
    kind = both_clients.AioClient


if __name__ == "__main__":
    unittest.main()
