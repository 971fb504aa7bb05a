"""Tests how the Python client checks responses and targets, retries and merges,
with the test cases of the C++ library.

usage: client_answer_cases_test.py TOPKD     TOPKD is not used
"""

import unittest

import client_package  # noqa: F401, makes topk_client importable
import grpc
import numpy as np
import topk_client
from answer_cases import CASES, patched
from google.protobuf import json_format
from topk_client import (DirectML, Onnx, OpenVINO, Request, TensorDesc,
                         merge)
from topk_client._connection import Attempts, _is_local
from topk_client._stubs import tensor_pb2, topk_pb2
from topk_client.messages import Call

DTYPES = {"f32": np.float32, "i8": np.int8, "u4": np.uint8}


def name_of(data_type):
    return tensor_pb2.DataType.Name(data_type)[len("DATA_TYPE_"):].lower()


def k_of(k_input):
    if k_input.HasField("value"):
        return k_input.value
    return np.frombuffer(k_input.tensor.data, np.int64)


def desc_of(desc):
    return TensorDesc(name_of(desc.data_type) if desc.data_type else None,
                      tuple(desc.sizes), tuple(desc.strides),
                      desc.total_tensor_size_bytes)


def spec_of(message):
    attributes = getattr(message, message.WhichOneof("attributes"))
    if message.HasField("onnx"):
        axis = attributes.axis if attributes.HasField("axis") else -1
        return Onnx(k_of(attributes.k), axis)
    if message.HasField("openvino"):
        return OpenVINO(k_of(attributes.k), attributes.axis, attributes.mode,
                        attributes.sort,
                        attributes.index_element_type or "i32")
    return DirectML(attributes.k, attributes.axis, "decreasing",
                    output_value=desc_of(attributes.output_value),
                    output_index=desc_of(attributes.output_index))


def call_of(pair):
    message = json_format.ParseDict(pair["request"], topk_pb2.TopKRequest())
    name = name_of(message.tensor.data_type)
    selection = topk_pb2.OutputSelection.Name(message.output.selection)
    return Call(Request(
        np.zeros(message.tensor.shape, DTYPES[name]), spec_of(message),
        output={"VALUES_ONLY": "values", "INDICES_ONLY": "indices"}.get(
            selection[len("OUTPUT_SELECTION_"):], "both"),
        request_id=message.request_id, index_offset=message.index_offset,
        data_type=name))


def response_of(pair, change=None):
    return json_format.ParseDict(
        patched(pair["response"], change or {}), topk_pb2.TopKResponse())


class Cases(unittest.TestCase):
    def test_matching_responses_are_accepted(self):
        for name, pair in CASES["requests"].items():
            with self.subTest(name):
                call_of(pair).decode(response_of(pair))

    def test_other_responses_are_rejected(self):
        self.assertGreater(len(CASES["wrong"]), 15)
        for wrong in CASES["wrong"]:
            with self.subTest(f"{wrong['of']}: {wrong['name']}"):
                pair = CASES["requests"][wrong["of"]]
                with self.assertRaises(topk_client.TopKError) as caught:
                    call_of(pair).decode(response_of(pair, wrong["change"]))
                error = caught.exception
                self.assertEqual(error.code, grpc.StatusCode.INTERNAL)
                self.assertEqual(error.reason, "BAD_ANSWER")
                self.assertEqual(error.field, wrong["field"], str(error))

    def test_retries(self):
        for case in CASES["retries"]:
            with self.subTest(case["name"]):
                error = topk_client.TopKError(
                    grpc.StatusCode[case["code"]], "", reason=case["reason"])
                delay = case.get("retry_ms")
                error._begun = case["begun"]
                if delay is not None:
                    error.retry_delay = delay / 1000
                attempts = Attempts(topk_client.Retry(2), 60)
                if not case["retried"]:
                    with self.assertRaises(topk_client.TopKError):
                        attempts.pause_after(error)
                    continue
                self.assertGreater(attempts.pause_after(error), 0)
                with self.assertRaises(topk_client.TopKError):
                    attempts.pause_after(error)  # no attempts are left

    def test_pauses(self):
        for case in CASES["pauses"]:
            attempts = Attempts(topk_client.Retry(5), 60)
            for told, pause in zip(case["told_ms"], case["pauses_ms"]):
                error = topk_client.TopKError(
                    grpc.StatusCode.UNAVAILABLE, "", retry_delay=told / 1000)
                self.assertAlmostEqual(attempts.pause_after(error),
                                       pause / 1000, msg=case["name"])

    def test_targets(self):
        targets = CASES["targets"]
        for kind, text in (
                ("no port", "is not host:port with a port of 1 .. 65535$"),
                ("no list", " is not a list of IPv4 addresses, or of IPv6 ")):
            for target in targets[kind]:
                with self.assertRaisesRegex(ValueError, text, msg=target):
                    topk_client.Client(target)
        with self.assertRaisesRegex(ValueError, "^.{64,200}$"):
            topk_client.Client("a" * 100_000)
        for target in targets["valid"]:
            topk_client.Client(target).close()
        for target in (*targets["local"], *targets["remote"]):
            self.assertEqual(_is_local(target), target in targets["local"],
                             target)

    def test_merges(self):
        for case in CASES["merges"]:
            with self.subTest(case["name"]):
                def merged(case=case):
                    return merge.merge([merge.Partial(
                        np.array(part["values"], np.int32),
                        np.array(part["indices"], np.int64), case["k"],
                        largest=case["largest"], order=case["order"])
                        for part in case["partials"]])
                if case["merged"] is None:
                    with self.assertRaises(ValueError):
                        merged()
                    continue
                answer = merged()
                self.assertEqual(answer.values.tolist(),
                                 case["merged"]["values"])
                self.assertEqual(answer.indices.tolist(),
                                 case["merged"]["indices"])


if __name__ == "__main__":
    unittest.main()
