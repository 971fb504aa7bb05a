"""Calls every server of faulty_servers.py with every client. Each call must end
at most one second after its deadline, with the error and the number of attempts
in the server's row.

usage: faulty_servers_test.py TOPKD PROBE
       TOPKD is not used.
"""

import json
import pathlib
import subprocess
import sys
import unittest

import faulty_servers
from faulty_servers import METHODS, ROWS, UNARY

PROBE = sys.argv.pop(1)
TOPKD = faulty_servers.client_package.TOPKD
HERE = pathlib.Path(__file__).resolve().parent
DEADLINE = 4.0
# Clients may return one second after the deadline. The rest allows for other
# tests that run at the same time, and for the start of a process.
SLACK = 4


class FaultyServers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = faulty_servers.start()

    def setUp(self):
        for server in self.servers.values():
            server.calls = 0

    def check(self, call, is_shard=False):
        """Checks the outcome of a call."""
        row = ROWS[call["name"]]
        with self.subTest(call["name"], method=call["method"]):
            self.assertLess(call["seconds"], DEADLINE + SLACK, str(call))
            self.assertIn(row.expected, (
                call["code"], f"{call['code']}:{call['reason']}"), str(call))
            if is_shard:
                return  # retries on several servers, with other delays
            if row.calls is not None:
                self.assertEqual(
                    self.servers[call["name"], call["method"]].calls, row.calls)
            self.assertGreaterEqual(call["seconds"], row.at_least)
            if row.results is not None:
                self.assertEqual(
                    call["results"], row.results)
            if row.delay is not None:
                self.assertAlmostEqual(call["delay"], row.delay)
            if (row.delay or 0) > DEADLINE:
                self.assertIn("ends after the deadline", call["message"])

    def probe(self, *command, methods=METHODS):
        lines = [(*key, server.target) for key, server in self.servers.items()
                 if key[1] in methods]
        probe = subprocess.run(
            [*command, str(DEADLINE)], capture_output=True, check=False,
            input="".join("\t".join(line) + "\n" for line in lines), text=True,
            timeout=150)
        self.assertEqual(probe.returncode, 0, probe.stderr[-2000:])
        calls = [json.loads(line) for line in probe.stdout.splitlines()]
        self.assertEqual(len(calls), len(lines))
        for call in calls:
            self.check(call, "shards" in command)

    def probe_python(self, how, **more):
        self.probe(sys.executable, HERE / "faulty_servers_probe.py", TOPKD, how,
                   **more)

    def test_the_cpp_library(self):
        self.probe(PROBE)

    def test_the_python_client(self):
        self.probe_python("sync")

    def test_the_asyncio_client(self):
        self.probe_python("aio")

    def test_the_helper_of_dask_and_ray(self):
        self.probe_python("shards", methods=[UNARY])


if __name__ == "__main__":
    unittest.main()
