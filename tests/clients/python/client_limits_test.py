"""Tests both Python clients with a server's message size limit.

usage: client_limits_test.py TOPKD
"""

import unittest

import both_clients
import client_package
import numpy as np
import topk_client
from both_clients import CLIENTS
from topk_client import Onnx, Request


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

    def count_questions(self, client):
        """Returns a list that gets an item each time the client asks for the
        limit."""
        client = getattr(client, "client", client)
        calls = []
        once = client._capabilities

        async def capabilities(attempts):
            calls.append(attempts)
            return await once(attempts)

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

    def test_a_server_that_does_not_report_its_limit(self):
        x = np.zeros(1 << 18, np.float32)
        target = both_clients.start_fake(
            self.addCleanup, ComputeTopKMany=both_clients.answer_each)
        for kind in CLIENTS:
            with kind(target) as client:  # GetCapabilities is UNIMPLEMENTED
                calls = self.count_questions(client)
                self.assertEqual(len(list(client.compute_topk_many(
                    [Request(x, Onnx(1))] * 3))), 3)
                self.assertEqual(len(calls), 1)


if __name__ == "__main__":
    unittest.main()
