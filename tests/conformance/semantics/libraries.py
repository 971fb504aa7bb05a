"""Computes requests with ONNX Runtime, onnx's reference evaluator, OpenVINO,
PyTorch and NumPy.

A library is a function from a Question to (values, indices). It raises the
library's own exception if the library rejects the request.
"""

import dataclasses

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import openvino
import torch
from openvino import opset1, opset3, opset11

from stable_topk import stable_topk

onnxruntime.set_default_logger_severity(4)
torch.set_num_threads(1)
CORE = openvino.Core()


@dataclasses.dataclass
class Question:
    """A request and its NumPy form: the tensor as an array, and K as a number
    and as an array of the type that was sent."""

    request: object
    array: np.ndarray
    axis: int
    k: int
    k_array: np.ndarray
    largest: bool
    order: str  # "value", "index" or "any"
    stable: bool


def _onnx_model(question):
    """Returns a model that is the operator with the given attributes."""
    onnx_topk = question.request.onnx
    version = question.request.spec.version
    element = onnx.helper.np_dtype_to_tensor_dtype(question.array.dtype)
    attributes = {name: getattr(onnx_topk, name)
                  for name in ("axis", "largest", "sorted")
                  if onnx_topk.HasField(name)}
    inputs, constants = ["x"], []
    if version == 1 and not onnx_topk.k.HasField("tensor"):
        attributes["k"] = question.k
    elif question.k_array is not None:
        inputs.append("k")
        constants.append(onnx.numpy_helper.from_array(question.k_array, "k"))
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("TopK", inputs, ["v", "i"], **attributes)],
        "topk",
        [onnx.helper.make_tensor_value_info("x", element,
                                            question.array.shape)],
        [onnx.helper.make_tensor_value_info("v", element, None),
         onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, None)],
        constants)
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", version)],
        ir_version=10)


def onnx_runtime(question):
    model = _onnx_model(question).SerializeToString()
    session = onnxruntime.InferenceSession(
        model, providers=["CPUExecutionProvider"])
    if question.array.dtype.name == "bfloat16":
        value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            question.array.view(np.uint16), onnx.TensorProto.BFLOAT16)
        values, indices = session.run_with_ort_values(None, {"x": value})
        return values.numpy(), indices.numpy()
    return session.run(None, {"x": question.array})


def onnx_reference(question):
    evaluator = onnx.reference.ReferenceEvaluator(_onnx_model(question))
    return evaluator.run(None, {"x": question.array})


def openvino_cpu(question):
    said = question.request.openvino
    array = question.array
    kind = (openvino.Type.bf16 if array.dtype.name == "bfloat16"
            else openvino.Type(array.dtype))
    x = opset11.parameter(list(array.shape), kind)
    k = opset11.constant(question.k_array)
    common = (x, k, said.axis, said.mode, said.sort)
    index = said.index_element_type or "i32"
    version = question.request.spec.version
    if version == 1:
        node = opset1.topk(*common)
    elif version == 3:
        node = opset3.topk(*common, index)
    else:
        node = opset11.topk(*common, index, said.stable)
    # f32, because processors with bf16 would round to bf16.
    compiled = CORE.compile_model(
        openvino.Model(node.outputs(), [x]), "CPU",
        {"INFERENCE_PRECISION_HINT": "f32"})
    call = compiled.create_infer_request()
    tensor = openvino.Tensor(kind, list(array.shape))
    tensor.data.view(np.uint8)[...] = array.view(np.uint8)
    call.set_input_tensor(tensor)
    call.infer()
    values, indices = (call.get_output_tensor(i).data for i in (0, 1))
    return values.view(array.dtype), indices


def pytorch(question):
    if question.array.dtype.name == "bfloat16":
        x = torch.from_numpy(question.array.view(np.int16)).view(torch.bfloat16)
    else:
        x = torch.from_numpy(question.array)
    values, indices = torch.topk(x, question.k, question.axis,
                                 question.largest, True)
    if question.array.dtype.name == "bfloat16":
        values = values.view(torch.int16)
    return values.numpy().view(question.array.dtype), indices.numpy()


def numpy_stable(question):
    return stable_topk(question.array, question.axis, question.k,
                       question.largest)


def versions():
    return {module.__name__: module.__version__
            for module in (onnxruntime, onnx, openvino, torch, np)}
