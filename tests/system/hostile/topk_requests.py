"""Builds the requests of attacks."""

from topk_stubs import load_oip_stubs, load_stubs


def _tensor(data_type, shape, strides, data):
    _, tensor = load_stubs()
    message = tensor.Tensor(
        data_type=tensor.DataType.Value("DATA_TYPE_" + data_type), shape=shape,
        strides=strides)
    if data is not None:
        message.data = data
    return message


def directml(data_type, shape, strides=(), axis=0, k=1, data=bytes(4),
             **outputs):
    """Returns a request for DirectML's TOP_K1. If `data` is None, the tensor
    has no source, as in a stream's header. output_value and output_index are
    dicts of TensorDesc's fields."""
    return load_stubs()[0].TopKRequest(
        tensor=_tensor(data_type, shape, strides, data),
        spec={"dialect": "DIALECT_DIRECTML", "version": 1},
        directml={"axis": axis, "k": k,
                  "axis_direction": "AXIS_DIRECTION_DECREASING", **outputs})


def onnx(data_type, shape, k=1, data=b"", request_id=""):
    """Returns a request for ONNX TopK-11."""
    return load_stubs()[0].TopKRequest(
        tensor=_tensor(data_type, shape, (), data),
        spec={"dialect": "DIALECT_ONNX", "version": 11},
        onnx={"k": {"value": k}}, request_id=request_id)


def in_shared_memory(shape, name, byte_size):
    """Returns a request for u8 elements in a shared memory object."""
    request = onnx("U8", shape, data=None)
    request.tensor.shared_memory.name = name
    request.tensor.shared_memory.byte_size = byte_size
    return request.SerializeToString()


def infer(datatype, shape, k=1, data=b"", **parameters):
    """Returns a ModelInferRequest. `parameters` are those of the input X."""
    oip = load_oip_stubs()
    message = oip.ModelInferRequest(
        model_name="onnx_topk",
        parameters={"k": oip.InferParameter(int64_param=k)},
        inputs=[{"name": "X", "datatype": datatype, "shape": shape}])
    for name, value in parameters.items():
        parameter = message.inputs[0].parameters[name]
        if isinstance(value, str):
            parameter.string_param = value
        else:
            parameter.int64_param = value
    if data is not None:
        message.raw_input_contents.append(data)
    return message


def header(request):
    """Returns the first message of a StreamTopK call."""
    chunk = load_stubs()[0].TopKRequestChunk()
    chunk.header.CopyFrom(request)
    if chunk.header.tensor.HasField("data"):
        chunk.header.tensor.ClearField("data")
    return chunk.SerializeToString()


def chunk(data):
    """Returns a data message of a StreamTopK call."""
    return load_stubs()[0].TopKRequestChunk(data=data).SerializeToString()
