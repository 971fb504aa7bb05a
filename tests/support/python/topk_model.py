"""An ONNX model that consists of one TopK, for ONNX Runtime."""

import onnx
from onnx import helper


def topk_model(element, shape, k, axis=-1, largest=True):
    """Returns a serialized model for an element type and a shape."""
    out = list(shape)
    out[axis] = k
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis,
                          largest=int(largest), sorted=1)],
        "topk", [helper.make_tensor_value_info("x", element, shape)],
        [helper.make_tensor_value_info("v", element, out),
         helper.make_tensor_value_info("i", onnx.TensorProto.INT64, out)],
        [helper.make_tensor("k", onnx.TensorProto.INT64, [1], [k])])
    model = helper.make_model(graph,
                              opset_imports=[helper.make_opsetid("", 18)],
                              ir_version=9)
    return model.SerializeToString()
