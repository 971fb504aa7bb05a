"""Tests both Python clients with a server's message size limit.

usage: client_limits_test.py TOPKD
"""

import itertools
import unittest

import client_package
import grpc
import numpy as np
import topk_client
from both_clients import CLIENTS
from topk_client import Onnx, Request
from topk_client._stubs import topk_pb2


class Limits(unittest.TestCase):
    def ask(self, client, size, **how):
        x = np.zeros(size, np.uint8)
        x[size - 2] = 7
        answer = client.compute_topk(x, Onnx(1), **how)
        self.assertEqual(answer.indices[0], size - 2)

    def assert_too_large(self, limit, ask):
        with self.assertRaisesRegex(
                topk_client.TopKError, rf"^RESOURCE_EXHAUSTED: .*{limit} "
                r"\(--max-message-bytes\).* \(REQUEST_TOO_LARGE\b"):
            ask()

    def check(self, kind, target, limit):
        large = np.zeros(limit, np.uint8)
        with kind(target) as client:
            for size in (limit - 200, *range(limit - 60, limit + 20, 10),
                         3 * limit + 1, 5 << 20):
                self.ask(client, size)
                self.ask(client, size, stream=True)
            self.ask(client, limit - 200, stream=False)
            self.assert_too_large(limit, lambda: client.compute_topk(
                large, Onnx(1), stream=False))
            self.assert_too_large(limit, lambda: list(
                client.compute_topk_many([Request(large, Onnx(1))])))
            many = [Request(large[:limit - 200], Onnx(1))] * 3
            self.assertEqual(len(list(client.compute_topk_many(many))), 3)
        # A client's first call may also have a tensor above the limit.
        for stream in (None, True):
            with kind(target) as client:
                self.ask(client, 5 << 20, stream=stream)

    def test_no_message_exceeds_the_server_s_limit(self):
        for power in range(16, 23):
            server = client_package.start(
                self.addCleanup, "--max-message-bytes", str(1 << power))
            for kind in CLIENTS:
                with self.subTest(kind=kind, power=power):
                    self.check(kind, server.target, 1 << power)

    def count_questions(self, client, error=None):
        """Returns a list that gets an item each time the client asks for the
        limit."""
        client = getattr(client, "client", client)
        calls = []
        once = client._capabilities

        async def capabilities(timeout):
            calls.append(timeout)
            if error:
                raise topk_client.TopKError(error, "broken")
            return await once(timeout)

        client._capabilities = capabilities
        return calls

    def test_the_limit_is_requested_once_and_only_for_large_tensors(self):
        server = client_package.start(self.addCleanup)
        for kind in CLIENTS:
            with kind(server.target) as client:
                calls = self.count_questions(client)
                for size in (10, 48 << 10):
                    self.ask(client, size)
                    self.ask(client, size, stream=True)
                    list(client.compute_topk_many(
                        [Request(np.zeros(size, np.uint8), Onnx(1))]))
                self.assertEqual(len(calls), 0)
                for size in (64 << 10, 1 << 20, 16 << 20):
                    self.ask(client, size)
                    self.ask(client, size, stream=True)
                self.assertEqual(len(calls), 1)

    def test_a_stream_requests_the_limit_once_even_if_that_fails(self):
        server = client_package.start(self.addCleanup)
        requests = [Request(np.zeros(1 << 20, np.uint8), Onnx(1))] * 3
        for kind, error in itertools.product(
                CLIENTS, (grpc.StatusCode.INTERNAL,
                          grpc.StatusCode.UNIMPLEMENTED)):
            with kind(server.target) as client:
                calls = self.count_questions(client, error)
                self.assertEqual(
                    len(list(client.compute_topk_many(requests))), 3)
                self.assertEqual(len(calls), 1)

    def test_invalid_limits_of_a_server(self):
        """Messages are still sent to a server that reports an invalid limit."""
        for told in (-1 << 63, -1, 0, 1, (1 << 63) - 1):
            async def capabilities(_, told=told):
                return topk_pb2.Capabilities(
                    limits=topk_pb2.Limits(max_message_bytes=told))

            with topk_client.Client("127.0.0.1:1", max_attempts=1) as client:
                client._capabilities = capabilities
                with self.assertRaises(topk_client.TopKError):
                    self.ask(client, 1 << 20)
                self.assertGreaterEqual(client._limit, 1024)
                self.assertLess(client._limit, 1 << 31)


if __name__ == "__main__":
    unittest.main()
