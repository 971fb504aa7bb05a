"""Tensors in the memory of an NVIDIA GPU, for a server on the same machine.

The server opens the memory that CUDA exports from this process, so the elements
stay on the GPU. Only the driver is needed, which this module calls with ctypes.
"""

import ctypes
import functools
import sys
import threading
from typing import Any, Dict, Optional, Tuple

import numpy as np

from topk_client._dtypes import DType

LIBRARY = "libcuda.so.1"
# The PyTorch types that NumPy lacks: the short name, and a PyTorch type of the
# same size that NumPy has.
TORCH_TYPES = {
    "torch.bfloat16": ("bf16", "int16"),
    "torch.float8_e4m3fn": ("f8e4m3", "uint8"),
    "torch.float8_e5m2": ("f8e5m2", "uint8"),
    "torch.float8_e8m0fnu": ("f8e8m0", "uint8"),
}
# How long memory is kept if a call ends without a response. The server stops
# using the memory within milliseconds after it notices the end of the call.
_KEPT_SECONDS = 2.0
# CU_POINTER_ATTRIBUTE_CONTEXT, and the sizes of CUipcMemHandle and CUuuid.
_CONTEXT = 1
_HANDLE_BYTES = 64
_UUID_BYTES = 16

_ADVICE = ("copy the tensor to the CPU, in PyTorch with tensor.cpu(), in CuPy "
           "with tensor.get()")


def resolved(tensor: Any) -> Any:
    """Returns a PyTorch tensor whose memory contains its elements, not their
    negatives as that of x.conj().imag. Raises TypeError if the tensor requires
    grad."""
    if tensor.requires_grad:
        raise TypeError("the tensor requires grad, but the values would have "
                        "no gradient: pass tensor.detach()")
    return tensor.resolve_neg()


@functools.lru_cache(maxsize=None)
def _driver(library: str) -> Any:
    try:
        return ctypes.CDLL(library)
    except OSError as error:
        raise TypeError("the tensor is on a GPU whose memory cannot be shared "
                        f"({error}): {_ADVICE}") from None


def _call(name: str, *arguments: Any) -> None:
    """Calls a function of the driver. Raises ValueError if it fails."""
    driver = _driver(LIBRARY)
    result = getattr(driver, name)(*arguments)
    if result:
        text = ctypes.c_char_p()
        driver.cuGetErrorName(result, ctypes.byref(text))
        raise ValueError(
            "the tensor's memory cannot be shared with the server: "
            f"{name.partition('_')[0]} failed with "
            f"{(text.value or b'').decode() or result}. Memory from "
            "cudaMallocAsync, managed memory and PyTorch's "
            "expandable_segments (see PYTORCH_CUDA_ALLOC_CONF) cannot be "
            f"shared. Use another allocator, or {_ADVICE}")


def _export(pointer: int, nbytes: int, stream: Any, region: Any) -> None:
    """Sets `region` to `nbytes` bytes of memory. First waits for the work in a
    stream, or in all streams if `stream` is not an integer."""
    context, device = ctypes.c_void_p(), ctypes.c_int()
    begin, size = ctypes.c_uint64(), ctypes.c_size_t()
    handle = ctypes.create_string_buffer(_HANDLE_BYTES)
    uuid = ctypes.create_string_buffer(_UUID_BYTES)
    at, by = ctypes.c_uint64(pointer), ctypes.byref
    _call("cuPointerGetAttribute", by(context), _CONTEXT, at)
    _call("cuCtxPushCurrent_v2", context)  # this thread may have no context
    try:
        if isinstance(stream, int):
            _call("cuStreamSynchronize", ctypes.c_void_p(stream))
        else:
            _call("cuCtxSynchronize")
        _call("cuCtxGetDevice", by(device))
        _call("cuDeviceGetUuid_v2", uuid, device)
        _call("cuMemGetAddressRange_v2", by(begin), by(size), at)
        _call("cuIpcGetMemHandle", handle, begin)
    finally:
        _call("cuCtxPopCurrent_v2", by(ctypes.c_void_p()))
    region.ipc_handle, region.device_uuid = handle.raw, uuid.raw
    region.offset, region.byte_size = pointer - begin.value, nbytes


class CudaTensor:
    """A contiguous tensor on a GPU: an object with __cuda_array_interface__.

    Attributes:
      tensor: the object of the library that allocated the memory.
      shape, dtype: as in NumPy.
      name: the short name of the element type if NumPy lacks the type.
    """

    name: Optional[str] = None

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        interface = self._interface = tensor.__cuda_array_interface__
        self.shape: Tuple[int, ...] = tuple(interface["shape"])
        self.dtype: DType = np.dtype(interface["typestr"])
        steps = np.empty(self.shape, np.void).strides
        strides = interface.get("strides")
        if strides is not None and self.nbytes and any(
                n > 1 and s != step * self.dtype.itemsize
                for n, s, step in zip(self.shape, strides, steps)):
            raise TypeError("the tensor is on a GPU and not contiguous: copy "
                            "it with ascontiguousarray()")
        if interface.get("mask") is not None:
            raise TypeError("the tensor has a mask, which is not supported")

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def pointer(self) -> int:
        """Returns the address of the first element."""
        return int(self._interface["data"][0])

    def stream(self) -> Any:
        """Returns the stream that uses the memory, or None if unknown."""
        return self._interface.get("stream")

    def empty(self, shape: Tuple[int, ...], index: Optional[DType]
              ) -> Optional["CudaTensor"]:
        """Returns a new tensor on the same GPU, of the same type, or of the
        NumPy type `index`. Returns None if this library cannot create one."""
        return None

    def export(self, region: Any) -> None:
        """Sets a CudaMemoryRegion to the tensor's memory, after the work that
        uses the memory. Raises ValueError if the memory cannot be shared."""
        _export(self.pointer(), self.nbytes, self.stream(), region)


class _Torch(CudaTensor):
    def __init__(self, tensor: Any) -> None:
        torch: Any = sys.modules["torch"]
        self.tensor = resolved(tensor).contiguous()
        self.shape = tuple(tensor.shape)
        self.name, bits = TORCH_TYPES.get(str(tensor.dtype), (None, None))
        self.dtype = torch.empty(
            0, dtype=tensor.dtype if bits is None else getattr(torch, bits)
        ).numpy().dtype

    def pointer(self) -> int:
        return int(self.tensor.data_ptr())

    def stream(self) -> Any:
        cuda: Any = sys.modules["torch"].cuda
        return cuda.current_stream(self.tensor.device).cuda_stream

    def empty(self, shape: Tuple[int, ...], index: Optional[DType]
              ) -> Optional[CudaTensor]:
        torch: Any = sys.modules["torch"]
        return _Torch(torch.empty(
            shape, device=self.tensor.device, dtype=self.tensor.dtype
            if index is None else getattr(torch, index.name)))


class _CuPy(CudaTensor):
    def __init__(self, tensor: Any) -> None:
        cupy: Any = sys.modules["cupy"]
        with tensor.device:
            super().__init__(cupy.ascontiguousarray(tensor))

    def empty(self, shape: Tuple[int, ...], index: Optional[DType]
              ) -> Optional[CudaTensor]:
        cupy: Any = sys.modules["cupy"]
        with self.tensor.device:
            return _CuPy(cupy.empty(shape, index or self.dtype))


def cuda_tensor_of(tensor: Any) -> Optional[CudaTensor]:
    """Returns a tensor on an NVIDIA GPU, copied on the GPU if it is not
    contiguous or not resolved(). Returns None for all other objects. Raises
    TypeError if the tensor requires grad, has a mask, or cannot be made
    contiguous."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return _Torch(tensor) if tensor.device.type == "cuda" else None
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None and isinstance(tensor, cupy.ndarray):
        return _CuPy(tensor)
    if hasattr(tensor, "__cuda_array_interface__"):
        return CudaTensor(tensor)
    return None


class Memory:
    """The tensor and the outputs of a call. If the call ends without a
    response, their memory is not freed until the server has noticed."""

    def __init__(self, tensor: CudaTensor) -> None:
        self.tensor = tensor
        # By name: "values" and "indices".
        self.outputs: Dict[str, CudaTensor] = {}
        self.is_answered = False

    def __del__(self) -> None:
        if self.is_answered or sys.is_finalizing():
            return
        kept = [self.tensor, self.outputs]
        timer = threading.Timer(_KEPT_SECONDS, kept.clear)
        timer.daemon = True
        timer.start()

    @staticmethod
    def explain(error: Any) -> None:
        """Says what to do if a server cannot use this memory."""
        if (error.reason.startswith("CUDA_MEMORY_")
                or error.reason == "SHARED_MEMORY_REMOTE"):
            error.message += f". Otherwise, {_ADVICE}"
