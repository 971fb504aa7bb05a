"""Repeats calls that were recorded with an older topkd.

An old client must get the same responses as when they were recorded, and this
version's stubs must parse an old server's responses without unknown fields.

usage: recorded_calls_test.py TOPKD
"""

import base64
import json
import pathlib
import sys

import grpc
import harness
from topk_stubs import load_oip_stubs, load_stubs

FILE = pathlib.Path(__file__).with_suffix("").with_name("recorded_calls.jsonl")
INFER = "/inference.GRPCInferenceService/ModelInfer"


def perform(channel, method, requests):
    """Makes a call. Returns the responses, the status and its details."""
    call = channel.stream_stream(method)(iter(requests), timeout=30)
    try:
        responses = list(call)
    except grpc.RpcError:
        responses = []
    details = dict(call.trailing_metadata()).get("grpc-status-details-bin", b"")
    return responses, call.code().name, details


def parse(method, data):
    """Returns a response without the parts that may change: how it was
    computed, and the wording of errors."""
    topk, _ = load_stubs()
    message = {"ComputeTopK": topk.TopKResponse, "ComputeTopKMany": topk.TopKResult,
               "StreamTopK": topk.TopKResponseChunk}.get(method.split("/")[2])
    if method == INFER:
        message = load_oip_stubs().ModelInferResponse
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
    status = type(load_stubs()[0].TopKResult().error)
    return reason(status.FromString(data)) if data else None


def main():
    with harness.Server(sys.argv[1]) as running, grpc.insecure_channel(
            running.target) as channel:
        for line in FILE.read_text("utf-8").splitlines():
            old = json.loads(line)
            requests, expected = (
                [base64.b64decode(each) for each in old[key]]
                for key in ("requests", "responses"))
            method = old["method"]
            responses, code, error = perform(channel, method, requests)
            assert code == old["code"], (method, code, old)
            assert details(error) == details(
                base64.b64decode(old["details"])), (method, error)
            assert ([parse(method, each) for each in responses] ==
                    [parse(method, each) for each in expected]), (
                        method, responses)


if __name__ == "__main__":
    main()
