"""TopK by a stable sort of NumPy, also of bfloat16."""

import ml_dtypes
import numpy as np

# The element types of ONNX TopK-24.
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
          "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
          "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32,
          "u64": np.uint64}


def stable_topk(x, axis, k, largest):
    """Returns (values, indices). Equal elements keep their order."""
    # Convert bfloat16, because ml_dtypes sorts NaN wrongly.
    keys = x.astype(np.float32) if x.dtype.name == "bfloat16" else x
    if largest:  # reverse the input and the result
        order = np.argsort(np.flip(keys, axis), axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(order, axis)
    else:
        order = np.argsort(keys, axis, kind="stable")
    order = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, order, axis), order
