"""Triton's client with a real topkd.

Compares nine thousand random requests with NumPy, one by one and on a stream.

usage: tritonclient_test.py TOPKD      with the Python of build/oip
"""

import dataclasses
import pathlib
import queue
import re
import sys
import unittest

import numpy as np
import tritonclient.grpc as triton

import client_package
from oracle import numbers, random_case
from topk_client import Onnx, OpenVINO

PAGE = pathlib.Path(__file__).parents[3] / "server" / "oip" / "README.md"
WAYS = {"sync": 6000, "stream": 3000}

# The protocol's names of data types. The protocol lacks the other types.
TYPES = {"F16": "FP16", "F32": "FP32", "F64": "FP64", "I8": "INT8",
         "I16": "INT16", "I32": "INT32", "I64": "INT64", "U8": "UINT8",
         "U16": "UINT16", "U32": "UINT32", "U64": "UINT64", "BF16": "BF16"}


class Question:
    """A random request as arguments for Triton's client."""

    def __init__(self, rng, number):
        name = list(TYPES)[int(rng.integers(len(TYPES)))]
        case = random_case(rng, name, plain=True)
        # Triton's client takes BF16 as float32, which changes NaNs. Avoid NaNs.
        while name == "BF16" and np.isnan(
                numbers(case.request.tensor, name)).any():
            case = random_case(rng, name, plain=True)
        self.case = case
        spec = dict(vars(case.request.spec))
        self.type = TYPES[name]
        self.bits = case.request.tensor
        self.x = numbers(self.bits, name)
        self.k_input = None
        self.arguments = {
            "model_name": f"{case.request.spec._dialect}_topk",
            "model_version": str(spec.pop("version")),
            "request_id": f"q{number}"}
        if isinstance(case.request.spec, (Onnx, OpenVINO)) and (
                self.arguments["model_version"] != "1" and number % 3 == 0):
            k = np.int64(spec.pop("k"))
            self.k_input = np.array([k] if "sorted" in spec else k)
        index = spec.pop("index_data_type", None)
        defaults = {field.name: field.default
                    for field in dataclasses.fields(case.request.spec)}
        self.arguments["parameters"] = {
            name: value for name, value in spec.items()
            if value != defaults[name]}
        if index == "u64":
            self.arguments["parameters"]["output_index.data_type"] = "U64"

    def inputs(self):
        x = triton.InferInput("X", self.x.shape, self.type)
        inputs = [x.set_data_from_numpy(self.x)]
        if self.k_input is not None:
            k = triton.InferInput("K", self.k_input.shape, "INT64")
            inputs.append(k.set_data_from_numpy(self.k_input))
        return inputs


class TritonClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = client_package.start(cls.addClassCleanup)
        rng = np.random.default_rng(7)
        numbers = iter(range(sum(WAYS.values())))
        cls.questions = {
            way: [Question(rng, next(numbers)) for _ in range(count)]
            for way, count in WAYS.items()}

    def setUp(self):
        self.client = triton.InferenceServerClient(self.server.target)
        self.addCleanup(self.client.close)

    def compare(self, question, result):
        case, response = question.case, result.get_response()
        self.assertEqual(response.id, question.arguments["request_id"])
        self.assertEqual(response.model_version,
                         question.arguments["model_version"])
        for output, expected in (("values", case.values),
                                 ("indices", case.indices)):
            array = result.as_numpy(output)
            self.assertEqual(array.shape, expected.shape)
            if output == "values" and question.type == "BF16":
                array = (array.view(np.uint32) >> 16).astype(np.uint16)
            self.assertEqual(array.tobytes(), expected.tobytes(), case)

    def test_the_example_of_the_page(self):
        program = re.search(r"^```python\n(.*?)^```$",
                            PAGE.read_text(encoding="utf-8"), re.M | re.S)[1]
        names = {}
        exec(compile(program.replace("localhost:50051", self.server.target),
                     str(PAGE), "exec"), names)
        self.assertEqual(names["indices"].shape, (8, 5))

    def test_single_calls(self):
        for number, question in enumerate(self.questions["sync"]):
            self.compare(question, self.client.infer(
                inputs=question.inputs(), **question.arguments,
                compression_algorithm=(None, "gzip", "deflate")[number % 3]))

    def test_streams_keep_their_order_and_continue_after_errors(self):
        answers = queue.Queue()
        self.client.start_stream(
            callback=lambda result, error: answers.put((result, error)),
            compression_algorithm="gzip")
        for number, question in enumerate(self.questions["stream"]):
            arguments = dict(question.arguments)
            if number % 100 == 50:
                arguments["model_name"] = "nobody"
            self.client.async_stream_infer(inputs=question.inputs(),
                                           **arguments)
        for number, question in enumerate(self.questions["stream"]):
            result, error = answers.get(timeout=60)
            if number % 100 == 50:
                self.assertIn("unknown model: 'nobody'", str(error))
                continue
            self.assertIsNone(error)
            self.compare(question, result)
            self.assertTrue(result.get_response().parameters[
                "triton_final_response"].bool_param)
        self.client.stop_stream()

    def test_metadata_for_tools(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("directml_topk", "0"))
        self.assertFalse(self.client.is_model_ready("directml_topk", "2"))
        self.assertIn("statistics",
                      self.client.get_server_metadata().extensions)
        metadata = self.client.get_model_metadata("openvino_topk")
        self.assertEqual(list(metadata.versions), ["1", "3", "11"])
        self.assertEqual([x.name for x in metadata.inputs], ["X"])
        config = self.client.get_model_config("openvino_topk").config
        self.assertEqual(config.max_batch_size, 0)
        self.assertEqual(len(self.client.get_model_repository_index().models),
                         9)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
