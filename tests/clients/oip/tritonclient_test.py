"""Compares Triton's client of a real topkd with our own service.

Ten thousand random requests go through the client's four ways: one by one, with
asyncio, on a stream, and in system shared memory. The bytes of every answer are
those that ComputeTopKMany gives for the same tensor.

usage: tritonclient_test.py TOPKD      with the Python of build/oip
"""

import asyncio
import os
import pathlib
import queue
import re
import sys
import unittest

import grpc
import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
import tritonclient.utils.shared_memory as shm

import harness
import topk_stubs

TOPKD = sys.argv[1]
PAGE = pathlib.Path(__file__).parents[3] / "server" / "oip" / "README.md"
WAYS = {"sync": 4000, "aio": 2000, "stream": 3000, "shared": 1000}

# The protocol's name, ours, NumPy's type of what the client takes.
TYPES = [("FP16", "F16", np.float16), ("FP32", "F32", np.float32),
         ("FP64", "F64", np.float64), ("INT8", "I8", np.int8),
         ("INT16", "I16", np.int16), ("INT32", "I32", np.int32),
         ("INT64", "I64", np.int64), ("UINT8", "U8", np.uint8),
         ("UINT16", "U16", np.uint16), ("UINT32", "U32", np.uint32),
         ("UINT64", "U64", np.uint64), ("BF16", "BF16", np.float32)]
ONNX_1 = TYPES[:3]
BUT_BF16 = TYPES[:11]
DIRECTML_1 = [TYPES[i] for i in (0, 1, 3, 4, 5, 7, 8, 9)]


class Question:
    """A random request in the words of both services."""

    def __init__(self, rng, number):
        self.id = f"q{number}"
        self.rng = rng
        shape = rng.integers(1, 9, rng.integers(1, 4)).tolist()
        self.axis = int(rng.integers(0, len(shape)))
        shape[self.axis] = int(rng.integers(1, 120))
        self.k = int(rng.integers(1, shape[self.axis] + 1))
        self.k_input = None
        self.model, self.version, types, self.parameters = [
            self.onnx, self.openvino, self.directml][number % 3]()
        self.type, self.our_type, kind = types[rng.integers(0, len(types))]
        self.x = self.tensor(shape, kind)

    def tensor(self, shape, kind):
        if self.type == "BF16":  # the client takes it as float32
            bits = self.rng.standard_normal(shape).astype(np.float32)
            return (bits.view(np.uint32) & 0xFFFF0000).view(np.float32)
        if self.rng.integers(0, 2):
            return self.rng.integers(0, 5, shape).astype(kind)  # many ties
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        return np.frombuffer(self.rng.bytes(size), kind).reshape(shape)

    def pick(self, *choices):
        return choices[self.rng.integers(0, len(choices))]

    def onnx(self):
        version = self.pick(1, 10, 11, 24)
        parameters = {"axis": self.axis}
        if version > 1 and self.rng.integers(0, 3) == 0:
            self.k_input = np.array([self.k], np.int64)
        if version >= 11:
            parameters |= {"largest": self.pick(0, 1), "sorted": 1}
        types = ONNX_1 if version < 11 else BUT_BF16
        return "onnx_topk", version, TYPES if version == 24 else types, \
            parameters

    def openvino(self):
        version = self.pick(1, 3, 11)
        parameters = {"axis": self.axis, "mode": self.pick("min", "max"),
                      "sort": self.pick("value", "index", "none")}
        if version > 1:
            parameters["index_element_type"] = self.pick("i32", "i64")
        if self.rng.integers(0, 3) == 0:
            self.k_input = np.array(self.k, self.pick(np.int32, np.int64))
        return "openvino_topk", version, TYPES, parameters

    def directml(self):
        version = self.pick(0, 1)
        parameters = {"axis": self.axis}
        if version == 1:
            parameters["axis_direction"] = self.pick("increasing",
                                                     "decreasing")
        if self.rng.integers(0, 2):
            parameters["output_index.data_type"] = "U64"
            return "directml_topk", version, BUT_BF16[:2] + BUT_BF16[3:], \
                parameters
        return "directml_topk", version, DIRECTML_1, parameters

    def raw(self):
        """The tensor's bytes."""
        if self.type != "BF16":
            return self.x.tobytes()
        return (self.x.view(np.uint32) >> 16).astype(np.uint16).tobytes()

    def ours(self, stubs):
        """The request of topk.v1."""
        dialect = self.model.split("_")[0]
        request = stubs["topk"].TopKRequest(request_id=self.id)
        request.spec.dialect = stubs["topk"].Dialect.Value(
            "DIALECT_" + dialect.upper())
        request.spec.version = self.version
        request.tensor.data_type = stubs["tensor"].DataType.Value(
            "DATA_TYPE_" + self.our_type)
        request.tensor.shape.extend(self.x.shape)
        request.tensor.data = self.raw()
        attributes = getattr(request, dialect)
        for name, value in self.parameters.items():
            if name == "axis_direction":
                attributes.axis_direction = stubs["directml"].AxisDirection \
                    .Value("AXIS_DIRECTION_" + value.upper())
            elif name == "output_index.data_type":
                attributes.output_index.data_type = stubs["tensor"] \
                    .DATA_TYPE_U64
            else:
                setattr(attributes, name, value)
        if dialect == "directml":
            attributes.k = self.k
        else:
            attributes.k.value = self.k
        return request

    def inputs(self, module):
        x = module.InferInput("X", self.x.shape, self.type)
        inputs = [x.set_data_from_numpy(self.x)]
        if self.k_input is not None:
            k = module.InferInput("K", self.k_input.shape,
                                  self.k_input.dtype.name.upper())
            inputs.append(k.set_data_from_numpy(self.k_input))
        return inputs

    def arguments(self):
        parameters = dict(self.parameters)
        if self.k_input is None:
            parameters["k"] = self.k
        return {"model_name": self.model, "model_version": str(self.version),
                "request_id": self.id, "parameters": parameters}


class TritonClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stubs = topk_stubs.load_stubs()
        cls.server = harness.Server(TOPKD, "--allow-shared-memory")
        cls.addClassCleanup(cls.server.stop)
        rng = np.random.default_rng(7)
        questions = [Question(rng, i) for i in range(sum(WAYS.values()))]
        with grpc.insecure_channel(cls.server.target) as channel:
            service = cls.stubs["rpc"].TopKServiceStub(channel)
            results = list(service.ComputeTopKMany(
                question.ours(cls.stubs) for question in questions))
        pairs = list(zip(questions, results, strict=True))
        cls.pairs = {}
        for way, count in WAYS.items():
            cls.pairs[way], pairs = pairs[:count], pairs[count:]

    def setUp(self):
        self.client = triton.InferenceServerClient(self.server.target)
        self.addCleanup(self.client.close)

    def compare(self, question, ours, result):
        self.assertEqual(ours.WhichOneof("outcome"), "response",
                         f"{vars(question)}: {ours.error}")
        response = result.get_response()
        self.assertEqual(response.id, ours.request_id)
        self.assertEqual(response.model_version, str(question.version))
        for output, tensor in (("values", ours.response.values),
                               ("indices", ours.response.indices)):
            array = result.as_numpy(output)
            self.assertEqual(list(array.shape), list(tensor.shape))
            raw = array.tobytes()
            if output == "values" and question.type == "BF16":
                raw = (array.view(np.uint32) >> 16).astype(
                    np.uint16).tobytes()
            self.assertEqual(raw, tensor.data, vars(question))

    def test_the_example_of_the_page(self):
        program = re.search(r"^```python\n(.*?)^```$",
                            PAGE.read_text(encoding="utf-8"), re.M | re.S)[1]
        names = {}
        exec(compile(program.replace("localhost:50051", self.server.target),
                     str(PAGE), "exec"), names)
        self.assertEqual(names["indices"].shape, (8, 5))

    def test_single_calls(self):
        for question, ours in self.pairs["sync"]:
            self.compare(question, ours, self.client.infer(
                inputs=question.inputs(triton), **question.arguments()))

    def test_asyncio(self):
        async def ask():
            async with triton_aio.InferenceServerClient(
                    self.server.target) as client:
                pairs = self.pairs["aio"]
                for first in range(0, len(pairs), 50):
                    part = pairs[first:first + 50]
                    results = await asyncio.gather(*(
                        client.infer(inputs=question.inputs(triton_aio),
                                     **question.arguments())
                        for question, _ in part))
                    for (question, ours), result in zip(part, results):
                        self.compare(question, ours, result)
        asyncio.run(ask())

    def test_streams_keep_their_order_and_continue_after_errors(self):
        answers = queue.Queue()
        self.client.start_stream(
            callback=lambda result, error: answers.put((result, error)))
        for number, (question, _) in enumerate(self.pairs["stream"]):
            arguments = question.arguments()
            if number % 100 == 50:
                arguments["model_name"] = "nobody"
            self.client.async_stream_infer(inputs=question.inputs(triton),
                                           **arguments)
        for number, (question, ours) in enumerate(self.pairs["stream"]):
            result, error = answers.get(timeout=60)
            if number % 100 == 50:
                self.assertIn("unknown model: 'nobody'", str(error))
                continue
            self.assertIsNone(error)
            self.compare(question, ours, result)
            self.assertTrue(result.get_response().parameters[
                "triton_final_response"].bool_param)
        self.client.stop_stream()

    def region(self, name, size):
        key = f"/topk-oip-{os.getpid()}-{name}"
        handle = shm.create_shared_memory_region(name, key, size)
        self.addCleanup(shm.destroy_shared_memory_region, handle)
        self.client.register_system_shared_memory(name, key, size)
        self.addCleanup(self.client.unregister_system_shared_memory, name)
        return handle

    def test_system_shared_memory(self):
        size = 1 << 16
        handles = {name: self.region(name, size)
                   for name in ("input", "values", "indices")}
        status = self.client.get_system_shared_memory_status()
        self.assertEqual(sorted(status.regions), sorted(handles))
        for question, ours in self.pairs["shared"]:
            raw = np.frombuffer(question.raw(), np.uint8)
            shm.set_shared_memory_region(handles["input"], [raw])
            inputs = question.inputs(triton)
            inputs[0].set_shared_memory("input", raw.size)
            outputs = []
            for name in ("values", "indices"):
                outputs.append(triton.InferRequestedOutput(name))
                outputs[-1].set_shared_memory(name, size)
            result = self.client.infer(inputs=inputs, outputs=outputs,
                                       **question.arguments())
            response = result.get_response()
            self.assertEqual(list(response.raw_output_contents), [b"", b""])
            for name, tensor in (("values", ours.response.values),
                                 ("indices", ours.response.indices)):
                output = result.get_output(name)
                self.assertEqual(
                    output.parameters["shared_memory_byte_size"].int64_param,
                    len(tensor.data))
                data = shm.get_contents_as_numpy(
                    handles[name], np.uint8, [len(tensor.data)])
                self.assertEqual(data.tobytes(), tensor.data, vars(question))

    def refused(self, code, text, function, *arguments, **named):
        with self.assertRaises(triton.InferenceServerException) as caught:
            function(*arguments, **named)
        self.assertEqual(caught.exception.status(), f"StatusCode.{code}")
        self.assertIn(text, caught.exception.message())

    def test_errors(self):
        question, _ = self.pairs["sync"][0]
        inputs = question.inputs(triton)
        infer = self.client.infer
        self.refused("NOT_FOUND", "Request for unknown model: 'x' is not found",
                     infer, "x", inputs)
        self.refused("NOT_FOUND", "unknown model: 'onnx_topk' version 7",
                     infer, "onnx_topk", inputs, "7")
        self.refused("INVALID_ARGUMENT", 'parameter "kk" is not one of axis, k',
                     infer, "onnx_topk", inputs, parameters={"kk": 1})
        self.refused("INVALID_ARGUMENT", "unexpected inference output 'y'",
                     infer, "onnx_topk", inputs, parameters={"k": 1},
                     outputs=[triton.InferRequestedOutput("y")])
        self.region("small", 4096)
        output = triton.InferRequestedOutput("indices")
        output.set_shared_memory("small", 7)
        x = np.arange(5, dtype=np.float32)
        inputs = [triton.InferInput("X", [5], "FP32").set_data_from_numpy(x)]
        self.refused("INVALID_ARGUMENT",
                     "byte_size 7 is less than the output's 16 bytes",
                     infer, "onnx_topk", inputs, outputs=[output],
                     parameters={"k": 2})
        self.refused("NOT_FOUND", "find shared memory region: 'none'",
                     self.client.get_system_shared_memory_status, "none")
        self.refused("PERMISSION_DENIED", "does not begin with",
                     self.client.register_system_shared_memory, "a", "/b", 4)

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
