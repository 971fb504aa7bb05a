"""Tensors in the memory of an NVIDIA GPU, for a server on the same machine.

The server opens the memory that CUDA exports from this process, so the elements
stay on the GPU. Only the driver is needed, which this module calls with ctypes.
"""

import ctypes
import dataclasses
import functools
import math
import sys
import threading
from typing import Any, Callable, Dict, Optional, Tuple

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


def _no_output(shape: Tuple[int, ...], index: Optional[DType]) -> Any:
    return None


@dataclasses.dataclass
class CudaTensor:
    """A contiguous tensor on a GPU.

    Attributes:
      tensor: the object of the library that allocated the memory.
      shape, dtype: as in NumPy.
      pointer: the address of the first element.
      stream: the stream that uses the memory, or None if unknown.
      empty: returns a new tensor of the library on the same GPU, of the same
        type, or of the NumPy type `index`, or None if the library is unknown.
      name: the short name of the element type if NumPy lacks the type.
    """

    tensor: Any
    shape: Tuple[int, ...]
    dtype: DType
    pointer: int
    stream: Any
    empty: Callable[[Tuple[int, ...], Optional[DType]], Any] = _no_output
    name: Optional[str] = None

    def export(self, region: Any) -> None:
        """Sets a CudaMemoryRegion to the tensor's memory, after the work that
        uses the memory. Raises ValueError if the memory cannot be shared."""
        _export(self.pointer, math.prod(self.shape) * self.dtype.itemsize,
                self.stream, region)


def _of_interface(tensor: Any) -> CudaTensor:
    interface = tensor.__cuda_array_interface__
    shape = tuple(interface["shape"])
    dtype = np.dtype(str(interface["typestr"]))
    strides = interface.get("strides")
    if strides is not None and 0 not in shape and any(
            n > 1 and s != step * dtype.itemsize for n, s, step in zip(
                shape, strides, np.empty(shape, np.void).strides)):
        raise TypeError("the tensor is on a GPU and not contiguous: copy it "
                        "with ascontiguousarray()")
    if interface.get("mask") is not None:
        raise TypeError("the tensor has a mask, which is not supported")
    return CudaTensor(tensor, shape, dtype, int(interface["data"][0]),
                      interface.get("stream"))


def _of_torch(tensor: Any) -> CudaTensor:
    torch: Any = sys.modules["torch"]
    tensor = resolved(tensor).contiguous()
    device, dtype = tensor.device, tensor.dtype
    name, bits = TORCH_TYPES.get(str(dtype), (None, None))
    return CudaTensor(
        tensor, tuple(tensor.shape),
        torch.empty(0, dtype=dtype if bits is None else getattr(torch, bits)
                    ).numpy().dtype,
        int(tensor.data_ptr()), torch.cuda.current_stream(device).cuda_stream,
        lambda shape, index: torch.empty(
            shape, device=device,
            dtype=dtype if index is None else getattr(torch, index.name)), name)


def _of_cupy(tensor: Any) -> CudaTensor:
    cupy: Any = sys.modules["cupy"]
    device = tensor.device
    with device:
        array = _of_interface(cupy.ascontiguousarray(tensor))
    dtype = array.dtype

    def empty(shape: Tuple[int, ...], index: Optional[DType]) -> Any:
        with device:
            return cupy.empty(shape, index or dtype)

    array.empty = empty
    return array


def cuda_tensor_of(tensor: Any) -> Optional[CudaTensor]:
    """Returns a tensor on an NVIDIA GPU, copied on the GPU if it is not
    contiguous or not resolved(). Returns None for all other objects. Raises
    TypeError if the tensor requires grad, has a mask, or cannot be made
    contiguous."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return _of_torch(tensor) if tensor.device.type == "cuda" else None
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None and isinstance(tensor, cupy.ndarray):
        return _of_cupy(tensor)
    if hasattr(tensor, "__cuda_array_interface__"):
        return _of_interface(tensor)
    return None


class Memory:
    """The tensor and the outputs of a call. If the call ends without a
    response, their memory is not freed until the server has noticed."""

    def __init__(self, tensor: CudaTensor) -> None:
        self.tensor = tensor
        # By name: "values" and "indices".
        self.outputs: Dict[str, Any] = {}
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
