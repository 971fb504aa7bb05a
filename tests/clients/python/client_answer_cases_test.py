"""Tests how the Python client checks responses and targets, and the pauses
before retries, with the test cases of the C++ library. client_oracle_test.py
tests that responses of every kind are accepted.

usage: client_answer_cases_test.py TOPKD     TOPKD is not used
"""

import unittest

import client_package  # noqa: F401, makes topk_client importable
import grpc
import numpy as np
import topk_client
from answer_cases import CASES
from google.protobuf import json_format
from topk_client import Onnx, OpenVINO, Request
from topk_client._connection import Attempts, _is_local
from topk_client._stubs import topk_pb2
from topk_client.messages import Call

X = np.zeros(5, np.float32)
# The requests of the same names in the cases.
REQUESTS = {
    "onnx": Request(np.zeros((2, 5), np.float32), Onnx(2), request_id="a"),
    "packed bits": Request(np.zeros(5, np.uint8), OpenVINO(
        3, 0, "max", "value"), data_type="u4"),
    "no slices": Request(np.zeros((0, 5), np.float32), Onnx(2)),
    "values only": Request(X, Onnx(1), output="values"),
    "indices only": Request(X, Onnx(1), output="indices")}


def response_of(case, change):
    response = dict(CASES["requests"][case]["response"])
    for key, new in change.items():
        response[key] = new and {**response.get(key, {}), **new}
    return json_format.ParseDict(response, topk_pb2.TopKResponse())


class Cases(unittest.TestCase):
    def test_other_responses_are_rejected(self):
        for name, request in REQUESTS.items():
            Call(request).decode(response_of(name, {}))
        self.assertGreater(len(CASES["wrong"]), 15)
        for wrong in CASES["wrong"]:
            with self.subTest(f"{wrong['of']}: {wrong['name']}"):
                with self.assertRaises(topk_client.TopKError) as caught:
                    Call(REQUESTS[wrong["of"]]).decode(
                        response_of(wrong["of"], wrong["change"]))
                error = caught.exception
                self.assertEqual(error.code, grpc.StatusCode.INTERNAL)
                self.assertEqual(error.reason, "BAD_ANSWER")
                self.assertEqual(error.field, wrong["field"], str(error))

    def test_pauses(self):
        for case in CASES["pauses"]:
            policy = {}
            if "multiplier" in case:
                policy = {"initial": case["initial_ms"] / 1000,
                          "maximum": case["maximum_ms"] / 1000,
                          "multiplier": case["multiplier"]}
            attempts = Attempts(topk_client.Retry(5, **policy), 360_000)
            for told, pause in zip(case["told_ms"], case["pauses_ms"]):
                error = topk_client.TopKError(
                    grpc.StatusCode.UNAVAILABLE, "", retry_delay=told / 1000)
                self.assertAlmostEqual(attempts.pause_after(error),
                                       pause / 1000, msg=case["name"])
            with self.assertRaises(topk_client.TopKError):
                attempts.pause_after(error)  # no attempts are left

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


if __name__ == "__main__":
    unittest.main()
