"""Calls every server of faulty_servers.py with every client. Each call must end
at most one second after its deadline, with the error and the number of attempts
in the server's row.

usage: faulty_servers_test.py TOPKD PROBE
       TOPKD is not used.
"""

import concurrent.futures
import json
import subprocess
import sys
import time
import unittest

import faulty_servers
import numpy as np
import topk_client
from both_clients import AioClient
from faulty_servers import MANY, ROWS, STREAM
from topk_client import Onnx, Request

PROBE = sys.argv.pop(1)
X = np.zeros((2, 5), np.float32)
REQUESTS = [Request(X, Onnx(2), request_id=str(n)) for n in range(3)]
DEADLINE = 4.0
# Clients may return one second after the deadline. The rest allows for other
# tests that run at the same time, and for the start of a process.
SLACK = 4


def outcome_of(kind, method, target):
    """Makes a call. Returns what faulty_servers_probe.cc prints."""
    code, reason, message, delay, results = "OK", "", "", 0, []
    begin = time.monotonic()
    with kind(target, timeout=DEADLINE) as client:
        try:
            if method == MANY:
                results.extend(client.compute_topk_many(REQUESTS))
            else:
                results.append(client.compute_topk(
                    X, Onnx(2), request_id="0", stream=method == STREAM))
        except topk_client.TopKError as error:
            code, reason, message = error.code.name, error.reason, str(error)
            delay = error.retry_delay or 0
    return {"code": code, "reason": reason, "message": message, "delay": delay,
            "results": len(results), "seconds": time.monotonic() - begin}


class FaultyServers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = faulty_servers.start()

    def setUp(self):
        for server in self.servers.values():
            server.calls = 0

    def check(self, outcomes):
        """Checks the outcomes of a call of each server."""
        for (name, method), outcome in zip(self.servers, outcomes):
            row = ROWS[name]
            with self.subTest(name, method=method, outcome=outcome):
                self.assertLess(outcome["seconds"], DEADLINE + SLACK)
                self.assertIn(row.expected, (
                    outcome["code"], f"{outcome['code']}:{outcome['reason']}"))
                if row.calls is not None:
                    self.assertEqual(self.servers[name, method].calls,
                                     row.calls)
                self.assertGreaterEqual(outcome["seconds"], row.at_least)
                if row.results is not None:
                    self.assertEqual(outcome["results"], row.results)
                if row.delay is not None:
                    self.assertAlmostEqual(outcome["delay"], row.delay)
                if (row.delay or 0) > DEADLINE:
                    self.assertIn("ends after the deadline",
                                  outcome["message"])

    def check_python(self, kind):
        with concurrent.futures.ThreadPoolExecutor(32) as threads:
            self.check([*threads.map(
                lambda key: outcome_of(kind, key[1], self.servers[key].target),
                self.servers)])

    def test_the_cpp_library(self):
        probe = subprocess.run(
            [PROBE, str(int(1000 * DEADLINE))], capture_output=True, check=True,
            input="".join(f"{method} {server.target}\n" for (_, method), server
                          in self.servers.items()), text=True, timeout=150)
        outcomes = [*map(json.loads, probe.stdout.splitlines())]
        self.assertEqual(len(outcomes), len(self.servers))
        self.check(outcomes)

    def test_the_python_client(self):
        self.check_python(topk_client.Client)

    def test_the_asyncio_client(self):
        self.check_python(AioClient)


if __name__ == "__main__":
    unittest.main()
