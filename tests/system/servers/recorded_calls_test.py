"""Repeats calls that were recorded with an older topkd.

An old client must get the same responses as when they were recorded, and this
version's stubs must parse an old server's responses without unknown fields.

usage: recorded_calls_test.py TOPKD            compares
       recorded_calls_test.py TOPKD --record   replaces recorded_calls.jsonl
"""

import base64
import json
import pathlib
import sys

import grpc
import harness
from topk_stubs import load_oip_stubs, load_stubs

FILE = pathlib.Path(__file__).with_suffix("").with_name("recorded_calls.jsonl")
SERVICE = "/topk.v1.TopKService/"
INFER = "/inference.GRPCInferenceService/ModelInfer"


def calls():
    """Returns (method, request messages) for every kind of call."""
    stubs, oip = load_stubs(), load_oip_stubs()[0]
    topk = stubs["topk"]

    def request(data_type, shape, data, spec, **rest):
        return topk.TopKRequest(
            tensor={"data_type": stubs["tensor"].DataType.Value(
                f"DATA_TYPE_{data_type}"), "shape": shape, "data": data},
            spec={"dialect": f"DIALECT_{spec[0]}", "version": spec[1]}, **rest)

    data = bytes(range(250, 256)) + bytes(range(18))
    requests = [
        request("U8", [4, 6], data, ("ONNX", 11), request_id="a",
                onnx={"axis": 0, "k": {"value": 3}, "largest": 0}),
        request("BF16", [2, 6], data, ("ONNX", 24), index_offset=5,
                onnx={"axis": 1, "k": {"value": 2}, "sorted": 0}),
        request("F32", [6], data, ("ONNX", 1), onnx={"axis": 0, "k": {"value": 2}}),
        request("I4", [8, 6], data, ("OPENVINO", 11), openvino={
            "axis": 1, "mode": "min", "sort": "index", "k": {"value": 4},
            "index_element_type": "i32", "stable": True}),
        request("F16", [12], data, ("OPENVINO", 3), openvino={
            "axis": 0, "mode": "max", "sort": "value", "k": {"value": 4}}),
        request("U32", [1, 1, 2, 3], data, ("DIRECTML", 1), directml={
            "axis": 3, "k": 2, "axis_direction": "AXIS_DIRECTION_INCREASING"},
            output={"selection": "OUTPUT_SELECTION_INDICES_ONLY"}),
        request("U8", [24], data, ("ONNX", 11), onnx={"k": {"value": 25}}),
        request("U8", [23], data, ("ONNX", 11), onnx={"k": {"value": 2}}),
    ]
    chunk = topk.TopKRequestChunk
    header = topk.TopKRequest()
    header.CopyFrom(requests[0])
    header.tensor.ClearField("data")
    infer = oip.ModelInferRequest(
        model_name="onnx_topk", id="b", raw_input_contents=[data],
        inputs=[{"name": "X", "datatype": "UINT8", "shape": [4, 6]}],
        parameters={"k": oip.InferParameter(int64_param=2)})
    return [
        *((SERVICE + "ComputeTopK", [each]) for each in requests),
        (SERVICE + "ComputeTopKMany", requests),
        (SERVICE + "StreamTopK",
         [chunk(header=header), chunk(data=data[:7]), chunk(data=data[7:])]),
        (INFER, [infer]),
        ("/grpc.health.v1.Health/Check", []),
    ]


def perform(channel, method, requests):
    """Makes a call. Returns the responses, the status and its details."""
    call = channel.stream_stream(method)(iter(requests), timeout=30)
    try:
        responses = list(call)
    except grpc.RpcError:
        responses = []
    details = dict(call.trailing_metadata()).get("grpc-status-details-bin", b"")
    return {"method": method, "requests": requests, "responses": responses,
            "code": call.code().name, "details": details}


def parse(method, data):
    """Returns a response without the parts that may change: how it was
    computed, and the wording of errors."""
    topk = load_stubs()["topk"]
    message = {"ComputeTopK": topk.TopKResponse, "ComputeTopKMany": topk.TopKResult,
               "StreamTopK": topk.TopKResponseChunk}.get(method.split("/")[2])
    if method == INFER:
        message = load_oip_stubs()[0].ModelInferResponse
    if message is None:
        return data
    parsed = message.FromString(data)
    assert len(parsed.SerializeToString()) == len(data), "unknown fields"
    for part in (parsed, *(value for _, value in parsed.ListFields())):
        if isinstance(part, topk.TopKResponse):
            part.ClearField("execution")
    if method == INFER:
        parsed.ClearField("parameters")
    if message is topk.TopKResult and parsed.HasField("error"):
        return parsed.request_id, reason(parsed.error)
    return parsed


def reason(status):
    """Returns the code and the ErrorInfo of a google.rpc.Status."""
    return status.code, status.details[0].value


def details(data):
    """Returns reason() of the serialized details of a failed call."""
    status = type(load_stubs()["topk"].TopKResult().error)
    return reason(status.FromString(data)) if data else None


def main():
    server, *record = sys.argv[1:]
    with harness.Server(server) as running, grpc.insecure_channel(
            running.target) as channel:
        if record:
            lines = []
            for method, requests in calls():
                lines.append(json.dumps(
                    perform(channel, method,
                            [each.SerializeToString() for each in requests]),
                    default=lambda raw: base64.b64encode(raw).decode()))
            FILE.write_text("\n".join(lines) + "\n", "utf-8")
            return
        for line in FILE.read_text("utf-8").splitlines():
            old = json.loads(line)
            requests, expected = (
                [base64.b64decode(each) for each in old[key]]
                for key in ("requests", "responses"))
            method = old["method"]
            new = perform(channel, method, requests)
            assert new["code"] == old["code"], (method, new, old)
            assert (details(new["details"]) ==
                    details(base64.b64decode(old["details"]))), (method, new)
            assert ([parse(method, each) for each in new["responses"]] ==
                    [parse(method, each) for each in expected]), (method, new)


if __name__ == "__main__":
    main()
