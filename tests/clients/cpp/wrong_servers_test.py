"""Calls every server of wrong_servers.py with every client. Each call must end
at most one second after its deadline, with the error and the number of attempts
in the server's row. No client's process may grow by 200 MiB.

usage: wrong_servers_test.py TOPKD TOPK PROBE
       TOPKD is not used.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import numpy
import wrong_servers
from wrong_servers import MANY, ROWS, STREAM, UNARY

TOPK, PROBE = (sys.argv.pop(1) for _ in range(2))
TOPKD = wrong_servers.client_package.TOPKD
HERE = pathlib.Path(__file__).resolve().parent
DEADLINE = 4.0
# Clients may return one second after the deadline. The rest allows for other
# tests that run at the same time, and for the start of a process.
SLACK = 4
GROWTH = 200 << 20
# gRPC allocates a message of any length before it rejects the message. In C++ a
# ResourceQuota bounds the length; Python's gRPC has none.
UNBOUNDED = "a message of 300 MiB"
# The shards accept these rows, because their requests have no request_id.
NEED_AN_ID = {"no request_id", "a request id that is not text"}


class WrongServers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # A separate process, so that servers and clients do not compete for
        # Python's lock.
        cls.servers = subprocess.Popen(
            [sys.executable, HERE / "wrong_servers.py", TOPKD],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        cls.addClassCleanup(cls.servers.wait)
        cls.addClassCleanup(cls.servers.stdin.close)
        cls.addClassCleanup(cls.servers.stdout.close)
        cls.targets = json.loads(cls.servers.stdout.readline())

    def tearDown(self):
        self.attempts()

    def attempts(self):
        """Returns the numbers of calls that the servers have received since
        the previous attempts()."""
        self.servers.stdin.write("\n")
        self.servers.stdin.flush()
        return json.loads(self.servers.stdout.readline())

    def check(self, call, attempts, is_shard=False):
        """Checks the outcome of a call."""
        row = ROWS[call["name"]]
        with self.subTest(call["name"], method=call["method"]):
            self.assertLess(call["seconds"], DEADLINE + SLACK, str(call))
            self.assertTrue(
                {call["code"], f"{call['code']}:{call['reason']}"}
                & set(row.expected), f"{call}, expected {row.expected}")
            if is_shard:
                return  # retries on several servers, with other delays
            if row.calls is not None:
                self.assertEqual(attempts[f"{call['name']} {call['method']}"],
                                 row.calls)
            self.assertGreaterEqual(call["seconds"], row.at_least)
            if row.results is not None:
                self.assertEqual(call["results"], row.results)
            if row.delay is not None and "delay" in call:
                self.assertAlmostEqual(call["delay"], row.delay)
            if (row.delay or 0) > DEADLINE:
                self.assertIn("ends after the deadline", call["message"])

    def probe(self, *command, names=None, methods=wrong_servers.METHODS):
        lines = [row for row in self.targets if row[1] in methods
                 and (names is None or row[0] in names)]
        probe = subprocess.run(
            [*command, str(DEADLINE)], capture_output=True, check=False,
            input="".join("\t".join(line) + "\n" for line in lines), text=True,
            timeout=150)
        self.assertEqual(probe.returncode, 0, probe.stderr[-2000:])
        *calls, grown = map(json.loads, probe.stdout.splitlines())
        self.assertEqual(len(calls), len(lines))
        attempts = self.attempts()
        for call in calls:
            self.check(call, attempts, "shards" in command)
        self.assertLess(grown["grown"], GROWTH)
        return calls

    def probe_python(self, how, **more):
        calls = self.probe(sys.executable, HERE / "wrong_servers_probe.py",
                           TOPKD, how, **more)
        for call in calls:
            self.assertNotRegex(call["message"], "[\x00-\x09\x0b-\x1f\x7f\x9b]")

    def test_there_are_many_rows(self):
        self.assertGreaterEqual(len(ROWS), 100)

    def test_the_cpp_library(self):
        self.probe(PROBE)

    def test_the_python_client(self):
        self.probe_python("sync", names=ROWS.keys() - {UNBOUNDED})

    def test_the_asyncio_client(self):
        # The streams of grpc.aio 1.51 may end the process with SIGILL if a
        # connection fails while a stream begins.
        breaking = {name for name, row in ROWS.items() if row.breaks}
        self.probe_python("aio", names=ROWS.keys() - breaking)
        self.probe_python("aio", names=breaking - {UNBOUNDED}, methods=[UNARY])

    def test_the_helper_of_dask_and_ray(self):
        self.probe_python("shards", methods=[UNARY],
                          names=ROWS.keys() - {UNBOUNDED, *NEED_AN_ID})

    def run_topk(self, name, method, target):
        begin = time.monotonic()
        command = subprocess.Popen(
            [TOPK, "run", self.file, "--k", "2", "--request-id", "0",
             "--stream", "on" if method == STREAM else "off", "--target",
             target, "--deadline", str(DEADLINE)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, errors = command.stdout.read(), command.stderr.read()
        command.stdout.close()
        command.stderr.close()
        _, status, usage = os.wait4(command.pid, 0)
        command.returncode = os.waitstatus_to_exitcode(status)
        # Lines of gRPC's log may precede the error.
        line = re.search(rb"^topk: ([A-Z_]+).*$", errors, re.M)
        reason = re.search(rb"\[([A-Z_]+)\]", line[0] if line else b"")
        return {"name": name, "method": method,
                "code": line[1].decode() if line else "OK",
                "reason": reason[1].decode() if reason else "",
                "message": errors.decode("latin-1"),
                "seconds": time.monotonic() - begin,
                "exit": command.returncode, "line": line[0] if line else b"",
                "out": out, "resident": usage.ru_maxrss << 10}

    def test_the_command(self):
        with tempfile.TemporaryDirectory() as folder, (
                concurrent.futures.ThreadPoolExecutor(24)) as threads:
            self.file = os.path.join(folder, "x.npy")
            numpy.save(self.file, numpy.zeros((2, 5), numpy.float32))
            calls = list(threads.map(
                lambda row: self.run_topk(*row),
                [row for row in self.targets if row[1] != MANY]))
        attempts = self.attempts()
        for call in calls:
            self.check(call, attempts)
            fails = call["code"] != "OK"
            self.assertEqual(call["exit"] > 0, fails, str(call))
            self.assertEqual(call["out"] == b"", fails, str(call))
            self.assertLess(call["resident"], GROWTH, str(call))
            self.assertNotRegex(call["line"], rb"[\x00-\x1f\x7f\x9b]")


if __name__ == "__main__":
    unittest.main()
