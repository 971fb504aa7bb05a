"""Triton's client with tensors in CUDA memory, and a topkd with a simulated GPU.
Replaces cuda-python by the few functions that Triton's client calls.

usage: cuda_shared_memory_test.py TOPKD LIBCUDA     with the Python of build/oip
"""

import ctypes
import enum
import os
import sys
import types
import unittest

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

import client_package

DRIVER = ctypes.CDLL(os.path.abspath(sys.argv.pop(1)))


class Error(enum.IntEnum):
    """Both cudaError_t and CUresult."""

    cudaSuccess = 0
    CUDA_SUCCESS = 0
    cudaErrorInvalidValue = 1


def _malloc(size):
    pointer = ctypes.c_uint64()
    return Error(DRIVER.cuMemAlloc_v2(ctypes.byref(pointer),
                                      ctypes.c_size_t(size))), pointer.value


def _handle(pointer):
    handle = ctypes.create_string_buffer(64)
    error = Error(DRIVER.cuIpcGetMemHandle(handle, ctypes.c_uint64(pointer)))
    return error, types.SimpleNamespace(reserved=handle.raw)


def _copy(to, source, size, _kind, _stream):
    ctypes.memmove(to, source, size)
    return (Error.cudaSuccess,)


CUDART = types.SimpleNamespace(
    cudaError_t=Error,
    cudaIpcMemHandle_t=types.SimpleNamespace,
    cudaMemcpyKind=types.SimpleNamespace(cudaMemcpyDefault=4),
    cudaDeviceAttr=types.SimpleNamespace(cudaDevAttrUnifiedAddressing=41),
    cudaGetErrorString=lambda error: (Error.cudaSuccess, error.name.encode()),
    cudaGetDevice=lambda: (Error.cudaSuccess, 0),
    cudaSetDevice=lambda device: (Error.cudaSuccess,),
    cudaDeviceGetAttribute=lambda attribute, device: (Error.cudaSuccess, 1),
    cudaMalloc=_malloc,
    cudaFree=lambda pointer: (
        Error(DRIVER.cuMemFree_v2(ctypes.c_uint64(pointer))),),
    cudaIpcGetMemHandle=_handle,
    cudaMemcpyAsync=_copy,
    cudaStreamCreate=lambda: (Error.cudaSuccess, 1),
    cudaStreamSynchronize=lambda stream: (Error.cudaSuccess,),
    cudaStreamDestroy=lambda stream: (Error.cudaSuccess,))
CUDA = types.SimpleNamespace(
    CUresult=Error, cuDeviceGet=lambda device: (Error.CUDA_SUCCESS, device),
    cuDevicePrimaryCtxGetState=lambda device: (Error.CUDA_SUCCESS, 0, 1))
sys.modules["cuda"] = types.SimpleNamespace(cuda=CUDA, cudart=CUDART)

import tritonclient.utils.cuda_shared_memory as shm  # noqa: E402


class CudaSharedMemory(unittest.TestCase):
    def test_tensors_and_outputs_in_cuda_memory(self):
        server = client_package.start(self.addCleanup, "--allow-cuda-memory")
        client = triton.InferenceServerClient(server.target)
        self.addCleanup(client.close)
        self.assertIn("cuda_shared_memory",
                      client.get_server_metadata().extensions)
        client.unregister_cuda_shared_memory()
        x = np.random.default_rng(1).random((40, 500), np.float32)
        sizes = {"x": x.nbytes, "values": 40 * 7 * 4, "indices": 40 * 7 * 8}
        memory = {}
        for name, size in sizes.items():
            memory[name] = shm.create_shared_memory_region(name, size, 0)
            client.register_cuda_shared_memory(
                name, shm.get_raw_handle(memory[name]), 0, size)
        status = client.get_cuda_shared_memory_status().regions
        self.assertEqual({name: (row.device_id, row.byte_size)
                          for name, row in status.items()},
                         {name: (0, size) for name, size in sizes.items()})
        shm.set_shared_memory_region(memory["x"], [x])
        tensor = triton.InferInput("X", x.shape, "FP32")
        tensor.set_shared_memory("x", x.nbytes)
        outputs = []
        for name in ("values", "indices"):
            outputs.append(triton.InferRequestedOutput(name))
            outputs[-1].set_shared_memory(name, sizes[name])
        for _ in range(3):
            client.infer("onnx_topk", [tensor], outputs=outputs,
                         parameters={"k": 7})
        expected = np.argsort(-x, axis=1, kind="stable")[:, :7]
        indices = shm.get_contents_as_numpy(memory["indices"], np.int64,
                                            [40, 7])
        values = shm.get_contents_as_numpy(memory["values"], np.float32,
                                           [40, 7])
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_array_equal(
            values, np.take_along_axis(x, expected, 1))

        # Registered memory stays open, although its owner has freed it.
        shm.destroy_shared_memory_region(memory.pop("x"))
        client.infer("onnx_topk", [tensor], parameters={"k": 7})
        client.unregister_cuda_shared_memory("x")
        with self.assertRaisesRegex(InferenceServerException,
                                    "Unable to find shared memory region"):
            client.infer("onnx_topk", [tensor], parameters={"k": 7})
        client.unregister_cuda_shared_memory()
        self.assertFalse(client.get_cuda_shared_memory_status().regions)


if __name__ == "__main__":
    unittest.main()
