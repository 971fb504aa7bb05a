"""Every client and every kind of wrong server: each call ends within its
deadline and one second, with the documented error, and no client's process
grows by 200 MiB.

usage: wrong_servers_test.py TOPKD TOPK PROBE
       TOPKD is not called.
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

TOPK, PROBE = (sys.argv.pop(1) for _ in range(2))
TOPKD = wrong_servers.client_package.TOPKD
HERE = pathlib.Path(__file__).resolve().parent
DEADLINE = 4.0
# One second is promised; other tests at the same time, and the start of a
# process, take the others.
SLACK = 4
GROWTH = 200 << 20
# gRPC allocates a message of any length before it rejects it. C++ bounds that
# by a ResourceQuota, which Python's gRPC lacks.
UNBOUNDED = "a message of 300 MiB"


class WrongServers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Another process, so that the servers compete with no client.
        cls.servers = subprocess.Popen(
            [sys.executable, HERE / "wrong_servers.py", TOPKD],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        cls.addClassCleanup(cls.servers.wait)
        cls.addClassCleanup(cls.servers.stdin.close)
        cls.addClassCleanup(cls.servers.stdout.close)
        cls.targets = json.loads(cls.servers.stdout.readline())

    def check(self, call):
        """Checks how one call ended."""
        _, expected = wrong_servers.KINDS[call["name"]]
        with self.subTest(call["name"], method=call["method"]):
            self.assertLess(call["seconds"], DEADLINE + SLACK, str(call))
            self.assertTrue({call["code"], f"{call['code']}:{call['reason']}"}
                            & set(expected), f"{call}, expected {expected}")

    def probe(self, *command, without=()):
        lines = "".join(f"{name}\t{target}\n"
                        for name, target in self.targets.items()
                        if name not in without)
        probe = subprocess.run(
            [*command, str(DEADLINE)], input=lines, capture_output=True,
            text=True, timeout=100, check=False)
        self.assertEqual(probe.returncode, 0, probe.stderr[-2000:])
        *calls, grown = map(json.loads, probe.stdout.splitlines())
        self.assertGreaterEqual(len(calls),
                                len(self.targets) - len(without))
        for call in calls:
            self.check(call)
        self.assertLess(grown["grown"], GROWTH)

    def test_there_are_many_kinds(self):
        self.assertGreaterEqual(len(self.targets), 80)

    def test_the_cpp_library(self):
        self.probe(PROBE)

    def test_the_python_client(self):
        self.probe(sys.executable, HERE / "wrong_servers_probe.py", TOPKD,
                   "sync", without=[UNBOUNDED])

    def test_the_asyncio_client(self):
        # The streams of grpc.aio 1.51 may end the process with SIGILL where a
        # connection fails while they begin, so unary calls meet such servers.
        frames = wrong_servers.FRAMES
        probe = (sys.executable, HERE / "wrong_servers_probe.py", TOPKD)
        self.probe(*probe, "aio", without=frames)
        self.probe(*probe, "aio-unary", without={
            UNBOUNDED, *(set(self.targets) - frames)})

    def test_the_helper_of_dask_and_ray(self):
        self.probe(sys.executable, HERE / "wrong_servers_probe.py", TOPKD,
                   "shards", without=["no request_id", UNBOUNDED])

    def run_topk(self, name, target, stream):
        begin = time.monotonic()
        command = subprocess.Popen(
            [TOPK, "run", self.file, "--k", "2", "--request-id", "a",
             "--stream", stream, "--target", target, "--deadline",
             str(DEADLINE)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        errors = command.stderr.read()
        command.stderr.close()
        _, status, usage = os.wait4(command.pid, 0)
        command.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begin
        # gRPC's own lines may precede.
        line = re.search(rb"^topk: ([A-Z_]+).*$", errors, re.M)
        reason = re.search(rb"\[([A-Z_]+)\]", line[0] if line else b"")
        return {"name": name, "method": "topk --stream " + stream,
                "code": line[1].decode() if line else "",
                "reason": reason[1].decode() if reason else "",
                "message": errors.decode("latin-1")[-500:],
                "seconds": seconds, "exit": command.returncode,
                "line": line[0] if line else b"",
                "resident": usage.ru_maxrss << 10}

    def test_the_command(self):
        with tempfile.TemporaryDirectory() as folder, (
                concurrent.futures.ThreadPoolExecutor(8)) as threads:
            self.file = os.path.join(folder, "x.npy")
            numpy.save(self.file, numpy.zeros((2, 5), numpy.float32))
            for call in threads.map(
                    lambda one: self.run_topk(*one),
                    [(*item, stream) for item in self.targets.items()
                     for stream in ("off", "on")]):
                self.check(call)
                self.assertGreater(call["exit"], 0, str(call))
                self.assertLess(call["resident"], GROWTH, str(call))
                self.assertNotRegex(call["line"], rb"[\x00-\x1f\x7f\x9b]")


if __name__ == "__main__":
    unittest.main()
