"""Tests the topk command with a real server and NumPy. cli.cases has command
lines with their expected output.

usage: cli_test.py TOPKD TOPK
"""

import glob
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

TOPKD, TOPK = map(os.path.abspath, sys.argv[1:3])
del sys.argv[2]  # client_package reads the other argument

import harness  # noqa: E402
import numpy as np  # noqa: E402
from oracle import oracle  # noqa: E402

CASES = pathlib.Path(__file__).with_name("cli.cases").read_text(
    encoding="utf-8")
WORDS = {" INTEGER": " is not a whole number in the range of "
                    "-9223372036854775808 to 9223372036854775807",
         " PORT": " is not host:port with a port of 1 .. 65535"}


class Command(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory())).resolve()
        cls.server = harness.Server(TOPKD)
        cls.addClassCleanup(cls.server.stop)
        rng = np.random.default_rng(1)
        cls.x = rng.standard_normal((3, 4, 50)).astype(np.float32)
        cls.path = cls.save("cube.npy", cls.x)

    @classmethod
    def save(cls, name, array):
        np.save(cls.folder / name, array)
        return cls.folder / name

    def topk(self, *arguments, code=0, target=None, **options):
        """Runs the command, which must exit with the code. Returns its
        stdout."""
        environment = dict(os.environ,
                           TOPK_TARGET=target or self.server.target)
        done = subprocess.run([TOPK, *map(str, arguments)],
                              capture_output=True, check=False,
                              env=environment, **options)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        self.assertEqual(done.stderr == b"", done.returncode == 0)
        self.stderr = done.stderr.decode()
        return done.stdout.decode()

    def json(self, *arguments, **how):
        return json.loads(self.topk(*arguments, "--json", **how))

    def check_case(self, status, command, lines):
        out, parts, errors = [], [], []
        for kind, text in lines:
            for word, meaning in WORDS.items():
                text = text.replace(word, meaning)
            {">": out, "~": parts, "!": errors}[kind].append(text)
        done = subprocess.run(
            ["/bin/bash", "-c", command], capture_output=True, check=False,
            cwd=self.folder, env=dict(
                os.environ, LC_ALL="C.UTF-8", TOPK_TARGET=self.server.target,
                PATH=f"{os.path.dirname(TOPK)}:{os.environ['PATH']}"),
            text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        if not parts:
            self.assertEqual(done.stdout.splitlines(), out)
        for part in parts:
            self.assertIn(part, done.stdout)
        found = done.stderr.splitlines()
        self.assertEqual(bool(found), bool(status), found)
        self.assertGreaterEqual(len(found), len(errors))
        for line, expected in zip(found, errors):
            self.assertEqual(line[:len(expected)], expected)
        self.assertNotRegex(done.stderr, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        self.assertLess(len(done.stderr), 10_000)

    def test_cases(self):
        x = np.arange(10, dtype=np.float32).reshape(2, 5)
        for name, array in {
                "x": x, "none": x[:0], "left": x[:, :3], "right": x[:, 3:],
                "bf16": np.array([0x3F80, 0xC000, 0x4040, 0x7FC0],
                                 np.uint16).view("V2"),
                }.items():
            self.save(name + ".npy", array)
        np.savez(self.folder / "one.npz", x)
        np.savez(self.folder / "two.npz", x=x, y=x[:1])
        np.savez_compressed(self.folder / "packed.npz", x=x, y=x[:1])
        cases = re.findall(r"(?m)^(\d*)\$ (.*)\n((?:[>~!] .*\n)*)", CASES)
        self.assertGreater(len(cases), 100)
        for status, command, lines in cases:
            with self.subTest(command):
                self.check_case(int(status or 0), command,
                                re.findall("(?m)^(.) (.*)", lines))

    def test_json_equals_numpy(self):
        for flags, axis, largest in (
                ((), -1, True),
                (("--axis", 0), 0, True),
                (("--axis", 1, "--smallest"), 1, False),
                (("--dialect", "onnx", "--order", "none"), -1, True),
                (("--dialect", "openvino", "--order", "value", "--index-type",
                  "i64"), -1, True),
                (("--dialect", "directml", "--axis", -2), 1, True),
                (("--dialect", "directml", "--index-type", "u64"), -1, True)):
            _, indices = oracle(self.x, "", axis % 3, 2, largest)
            for way in ((), ("--local",)):
                answer = self.json("run", self.path, "--k", 2, *flags, *way)
                np.testing.assert_array_equal(
                    np.reshape(answer["indices"], answer["shape"]), indices)

    def test_out_writes_npy_files(self):
        def run(array):
            out = self.folder / "out"
            self.assertEqual(self.topk(
                "run", self.save("a.npy", array), "--k", 4, "--out", out), "")
            return np.load(out / "values.npy"), np.load(out / "indices.npy")

        for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2",
                     "u4", "u8"):
            array = (np.arange(60).reshape(4, 15) * 7 % 31).astype(kind)
            for found, expected in zip(run(array), oracle(array, "", 1, 4)):
                self.assertEqual(found.dtype, expected.dtype)
                np.testing.assert_array_equal(found, expected)
        bits = np.array([0xBF80, 0x4000, 0x7FC0, 0], np.uint16)
        values, _ = run(bits.view("V2"))
        self.assertEqual(values.dtype, np.dtype("V2"))
        np.testing.assert_array_equal(values.view(np.uint16), bits[[2, 1, 3, 0]])

    def test_shards_are_merged(self):
        codes = np.random.default_rng(3).integers(-8, 8, (3, 40, 2), np.int8)
        flags = ("--axis", 1, "--smallest", "--order", "index")

        def ask(name, begin, end, *more):
            self.topk("run", self.save("shard.npy", codes[:, begin:end]), "--k",
                      min(5, end - begin), "--out", self.folder / name, *flags,
                      "--dialect", "openvino", "--index-type", "i64", *more)

        ask("whole", 0, 40)
        ask("last", 16, 40, "--index-offset", 16)
        ask("first", 0, 13)
        ask("middle", 13, 16, "--index-offset", 13)
        self.topk("merge", *(self.folder / name for name in (
            "last", "first", "middle")), "--k", 5, "--out", self.folder / "all",
            *flags)
        for name in ("values.npy", "indices.npy"):
            self.assertEqual((self.folder / "all" / name).read_bytes(),
                             (self.folder / "whole" / name).read_bytes())

    def bench(self, *flags, **codes):
        """Runs a short benchmark. Returns its JSON."""
        result = self.json("bench", "--k", 3, *flags, **codes)
        self.assertEqual(result["errors"], {})
        self.assertGreater(result["requests_per_second"], 0)
        self.assertLessEqual(result["p50_us"], result["p99_9_us"])
        self.assertLessEqual(result["p99_9_us"], result["max_us"])
        self.assertGreater(result["compute_p50_us"], 0)
        self.assertLess(result["compute_p99_us"], result["max_us"])
        self.assertEqual(result["retried"], 0)
        return result

    def test_bench_paths(self):
        for path in ("unary", "stream", "many"):
            result = self.bench("--path", path, "--requests", 64,
                                "--concurrency", 2, "--connections", 2)
            self.assertEqual(result["requests"], 64)
            self.assertEqual(result["verified"], 64)
            result = self.bench("--input", self.path, "--requests", 32,
                                "--path", path)
            self.assertEqual(result["verified"], 32)
        result = self.bench("--path", "many", "--batch", 5, "--requests", 20,
                            "--verify", 0)
        self.assertEqual(result["verified"], 0)
        for kind in ("f16", "bf16", "f64", "u8", "i64"):
            self.bench("--dtype", kind, "--requests", 3, "--warmup", 0)
        for kind in ("u1", "u3", "i4", "f4e2m1", "f8e4m3", "f8e8m0"):
            self.bench("--dtype", kind, "--requests", 3, "--warmup", 0,
                       "--dialect", "openvino", "--shape", "3,1001")

    def test_shared_memory(self):
        with harness.Server(TOPKD, "--allow-shared-memory") as server:
            def run(*flags, **how):
                return self.topk("run", *flags, target=server.target, **how)

            for flags in ((self.path,), (self.path, "--axis", 0),
                          (self.path, "--axis", 1, "--smallest"),
                          (self.path, "--dialect", "openvino"),
                          (self.path, "--dialect", "directml", "--index-type",
                           "u64")):
                self.assertEqual(run(*flags, "--k", 2),
                                 run(*flags, "--k", 2, "--shared-memory"))
            run(self.path, "--k", 51, "--shared-memory", code=4)
            self.assertIn("onnx.k: k = 51 exceeds dimension 50", self.stderr)
            result = self.bench("--path", "shm", "--requests", 64,
                                "--concurrency", 2, target=server.target)
            self.assertEqual(result["verified"], 64)
            self.assertIn("\n  shared_memory: true\n",
                          self.topk("info", target=server.target))

    def test_signals_leave_no_shared_memory(self):
        for way in (("run", self.path, "--shared-memory"),
                    ("bench", "--path", "shm", "--concurrency", 3)):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                # Children inherit SIG_IGN.
                self.addCleanup(signal.signal, number,
                                signal.signal(number, signal.SIG_DFL))
                with self.subTest(way=way[0], number=number), \
                        socket.create_server(("127.0.0.1", 0)) as silent, \
                        subprocess.Popen([TOPK, *map(str, way), "--k", "1",
                                          "--target", "127.0.0.1:%d" %
                                          silent.getsockname()[1]]) as command:
                    pattern = f"/dev/shm/topk-{command.pid}-*"
                    harness.poll("an object", lambda p=pattern: glob.glob(p))
                    with silent.accept()[0]:  # the objects are complete
                        harness.poll("the end", lambda c=command, n=number: (
                            c.send_signal(n), c.poll() is not None)[1])
                    self.assertEqual(command.returncode, -number)
                    self.assertEqual(glob.glob(pattern), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
