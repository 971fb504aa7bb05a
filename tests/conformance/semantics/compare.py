"""Asks ONNX Runtime, OpenVINO, PyTorch and `topk` for the same TopK where they
differ, and prints their answers.

usage: compare.py TOPK      `pip install numpy onnx onnxruntime openvino torch`
"""

import io
import json
import subprocess
import sys
import warnings

import numpy as np

import topk_model

NAN = float("nan")
F32 = np.float32
# A title, the elements, their type, k.
CASES = [
    ("a NaN first", [NAN, 1, 3, 2, 0, 5, 4], F32, 3),
    ("a NaN within", [1, 3, NAN, 2, 0, 5, 4], F32, 3),
    ("two NaN", [1, NAN, 3, NAN, 0, 5, 4], F32, 5),
    ("ties of NaN", [1, 2, NAN, NAN, NAN, NAN, NAN], F32, 3),
    ("ties", [7, 7, 7, 7, 7, 7, 7, 7], F32, 3),
    ("i64 beyond 32 bits", [2**40 + 1, 2**40, 5], np.int64, 2),
    ("u64 above i64", [2**63, 1, 2**64 - 1], np.uint64, 2),
    ("u16", [1, 65535, 7], np.uint16, 2),
    ("k = 0", [1, 2, 3], F32, 0),
    ("k > n", [1, 2, 3], F32, 4),
]


def onnx_runtime(array, k):
    import onnx
    import onnxruntime
    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        topk_model.topk_model(element, list(array.shape), k), options,
        providers=["CPUExecutionProvider"])
    return session.run(None, {"x": array})


def openvino(array, k):
    import openvino
    from openvino import opset11
    x = opset11.parameter(array.shape, openvino.Type(array.dtype))
    model = openvino.Model(
        opset11.topk(x, opset11.constant(k, np.int64), 0, "max", "value",
                     "i64").outputs(), [x])
    compiled = openvino.Core().compile_model(model, "CPU")
    return list(compiled(array).values())


def pytorch(array, k):
    import torch
    values, indices = torch.topk(torch.from_numpy(array), k)
    return values.numpy(), indices.numpy()


def topk(array, k):
    file = io.BytesIO()
    np.save(file, array)
    done = subprocess.run(
        [sys.argv[1], "run", "-", "--k", str(k), "--local", "--json"],
        input=file.getvalue(), capture_output=True, check=True)
    found = json.loads(done.stdout)
    return np.array(found["values"], array.dtype), found["indices"]


def shown(value):
    """A number as the table has it."""
    value = value.item() if hasattr(value, "item") else value
    for power in (40, 63, 64):
        for more in (-1, 0, 1):
            if value == 2**power + more:
                return f"2^{power}" + (f"{more:+}" if more else "")
    return f"{value:g}"


def answer(library, array, k):
    try:
        values, indices = library(array, k)
    except Exception:  # whatever a library raises
        return "refused"
    if len(values) == 0:
        return "nothing"
    return (f"{' '.join(map(shown, values))} at "
            f"{' '.join(str(index) for index in indices)}")


def main():
    warnings.filterwarnings("ignore")
    for name, elements, dtype, k in CASES:
        array = np.array(elements, dtype)
        print(f"{name}: {' '.join(map(shown, array))}, k = {k}")
        for library in (onnx_runtime, openvino, pytorch, topk):
            print(f"  {library.__name__:12} {answer(library, array, k)}")


if __name__ == "__main__":
    main()
