"""The Python client and servers that answer what no topkd does: it believes
none, and comes again when it is told to.

usage: client_wrong_server_test.py TOPKD     which is not asked
"""

import asyncio
import concurrent.futures
import time
import unittest

import client_package  # noqa: F401, makes topk_client importable
import grpc
import numpy as np
import topk_client
import topk_client.aio
from topk_client import Onnx, Request
from topk_client._stubs import tensor_pb2, topk_pb2

X = np.array([3.0, 9.0, 1.0], np.float32)


def right_answer():
    response = topk_pb2.TopKResponse()
    response.values.data_type = tensor_pb2.DATA_TYPE_F32
    response.values.data = np.float32([9]).tobytes()
    response.indices.data_type = tensor_pb2.DATA_TYPE_I64
    response.indices.data = np.int64([1]).tobytes()
    response.values.shape.append(1)
    response.indices.shape.append(1)
    return response


def wrong_answers():
    """Yields responses that cannot be right."""
    def but(change):
        response = right_answer()
        change(response)
        return response

    yield but(lambda r: r.ClearField("values"))
    yield but(lambda r: r.ClearField("indices"))
    yield but(lambda r: r.values.ClearField("data"))
    yield but(lambda r: setattr(r.values, "data", b"12345"))
    yield but(lambda r: setattr(r.values, "data_type", 5))
    yield but(lambda r: setattr(r.indices, "data_type", 0))
    yield but(lambda r: setattr(r.indices, "data_type", 99))
    yield but(lambda r: r.values.shape.append(1))
    yield but(lambda r: r.indices.ClearField("shape"))
    yield but(lambda r: r.values.shape.append(-1))
    yield but(lambda r: r.values.shape.extend([1 << 40, 1 << 40]))
    yield but(lambda r: r.values.strides.append(1000))
    yield but(lambda r: r.values.strides.extend([1, 1]))
    yield but(lambda r: r.values.strides.append(-1))
    yield but(lambda r: setattr(r.values.shared_memory, "name", "/topk-x"))


class WrongServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # One for all: gRPC complains of events that come after a loop's end.
        loop = asyncio.new_event_loop()
        cls.addClassCleanup(loop.close)
        cls.in_loop = loop.run_until_complete

    def start(self, **methods):
        """Starts a server with these handlers; returns its target."""
        server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(2),
            handlers=(grpc.method_handlers_generic_handler(
                "topk.v1.TopKService", methods),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        return f"127.0.0.1:{port}"

    def assert_bad(self, ask):
        with self.assertRaises(topk_client.TopKError) as caught:
            ask()
        self.assertEqual(caught.exception.reason, "BAD_ANSWER")
        self.assertEqual(caught.exception.code, grpc.StatusCode.INTERNAL)

    def test_no_wrong_answer_is_believed(self):
        responses = []
        target = self.start(ComputeTopK=grpc.unary_unary_rpc_method_handler(
            lambda *_: responses[-1].SerializeToString()))
        with topk_client.Client(target) as client:
            responses.append(right_answer())
            self.assertEqual(client.compute_topk(X, Onnx(1)).values[0], 9)
            for response in wrong_answers():
                responses.append(response)
                with self.subTest(str(response)):
                    self.assert_bad(lambda: client.compute_topk(X, Onnx(1)))

    def test_no_wrong_stream_is_believed(self):
        chunk, right = topk_pb2.TopKResponseChunk, right_answer()
        messages = []
        target = self.start(StreamTopK=grpc.stream_stream_rpc_method_handler(
            lambda *_: iter([m.SerializeToString() for m in messages])))

        async def ask():
            async with topk_client.aio.Client(target) as client:
                await client.stream_topk(X, Onnx(1))

        wrong = ([], [chunk(values=b"1")], [chunk()],
                 [chunk(header=right), chunk(header=right)],
                 [chunk(header=right), chunk(values=b"1")],
                 [chunk(header=right), chunk()])
        with topk_client.Client(target) as client:
            for messages[:] in wrong:
                with self.subTest(messages=str(messages)):
                    self.assert_bad(lambda: client.stream_topk(X, Onnx(1)))
                    self.assert_bad(lambda: self.in_loop(ask()))

    def test_no_wrong_number_of_results_is_believed(self):
        result = topk_pb2.TopKResult(response=right_answer())
        messages = []
        target = self.start(
            ComputeTopKMany=grpc.stream_stream_rpc_method_handler(
                lambda requests, _: (list(requests), iter(
                    [m.SerializeToString() for m in messages]))[1]))
        requests = [Request(X, Onnx(1))] * 2

        async def ask():
            async with topk_client.aio.Client(target) as client:
                async for _ in client.compute_topk_many(requests):
                    pass

        with topk_client.Client(target) as client:
            for messages[:] in ([], [result], [result] * 3,
                                [topk_pb2.TopKResult()] * 2):
                self.assert_bad(
                    lambda: list(client.compute_topk_many(requests)))
                self.assert_bad(lambda: self.in_loop(ask()))

    def test_bytes_that_are_no_message(self):
        target = self.start(ComputeTopK=grpc.unary_unary_rpc_method_handler(
            lambda *_: b"\xff\xff\xff"))
        with self.assertLogs("grpc", "ERROR"), topk_client.Client(
                target) as client, self.assertRaises(
                    topk_client.TopKError) as caught:
            client.compute_topk(X, Onnx(1))
        self.assertEqual(caught.exception.code, grpc.StatusCode.INTERNAL)

    def ask_one_that_pushes_back(self, milliseconds):
        """Asks a server that is unavailable twice and says to wait; returns
        when it was asked, and the answer or the error."""
        asked = []

        def answer(_, context):
            asked.append(time.monotonic())
            if len(asked) < 3:
                context.set_trailing_metadata(
                    (("grpc-retry-pushback-ms", str(milliseconds)),))
                context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
            return right_answer().SerializeToString()

        target = self.start(
            ComputeTopK=grpc.unary_unary_rpc_method_handler(answer))
        try:
            with topk_client.Client(target) as client:
                return asked, client.compute_topk(X, Onnx(1))
        except topk_client.TopKError as error:
            return asked, error

    def test_it_waits_as_long_as_it_is_told(self):
        asked, answer = self.ask_one_that_pushes_back(300)
        self.assertEqual(answer.indices[0], 1)
        self.assertEqual(len(asked), 3)
        for before, after in zip(asked, asked[1:]):
            self.assertGreaterEqual(after - before, 0.295)

    def test_it_does_not_try_again_where_it_is_told_so(self):
        asked, error = self.ask_one_that_pushes_back(-1)
        self.assertEqual(error.code, grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(len(asked), 1)

    def test_a_call_that_broke_off_is_sent_again(self):
        calls = []

        def answer(_, context):
            calls.append(None)
            if len(calls) % 3:
                context.abort(grpc.StatusCode.UNKNOWN, "gone")
            return right_answer().SerializeToString()

        target = self.start(
            ComputeTopK=grpc.unary_unary_rpc_method_handler(answer))

        async def ask():
            async with topk_client.aio.Client(target) as client:
                return await client.compute_topk(X, Onnx(1))

        with topk_client.Client(target) as client:
            for one in (client.compute_topk(X, Onnx(1)), self.in_loop(ask())):
                self.assertEqual(one.indices[0], 1)
        self.assertEqual(len(calls), 6)
        with topk_client.Client(target, max_attempts=2) as client:
            with self.assertRaises(topk_client.TopKError) as caught:
                client.compute_topk(X, Onnx(1))
        self.assertEqual(caught.exception.code, grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(caught.exception.reason, "ANSWER_BROKE_OFF")
        self.assertEqual(len(calls), 8)

    def test_a_stream_is_sent_again_whole(self):
        sent = []

        def answer(requests, context):
            sent.append(b"".join(
                topk_pb2.TopKRequestChunk.FromString(one).data
                for one in requests))
            if len(sent) % 3:
                context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
            yield topk_pb2.TopKResponseChunk(
                header=right_answer()).SerializeToString()

        target = self.start(
            StreamTopK=grpc.stream_stream_rpc_method_handler(answer))

        async def ask():
            async with topk_client.aio.Client(target) as client:
                return await client.stream_topk(X, Onnx(1))

        with topk_client.Client(target) as client:
            for one in (client.stream_topk(X, Onnx(1)), self.in_loop(ask())):
                self.assertEqual(one.indices[0], 1)
        self.assertEqual(sent, [X.tobytes()] * 6)
        with topk_client.Client(target, max_attempts=2) as client:
            with self.assertRaises(topk_client.TopKError) as caught:
                client.stream_topk(X, Onnx(1))
        self.assertEqual(caught.exception.code, grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(len(sent), 8)


if __name__ == "__main__":
    unittest.main()
