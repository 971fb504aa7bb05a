"""TopK by a stable sort of NumPy, also of bfloat16."""

import numpy as np


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
