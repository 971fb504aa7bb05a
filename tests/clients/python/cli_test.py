"""The command topk against a real server and NumPy.

usage: cli_test.py TOPKD TOPK
"""

import fcntl
import io
import json
import os
import pathlib
import pty
import re
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
import zipfile

import numpy as np

import harness

TOPKD, TOPK = sys.argv[1:3]


class Command(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.server = harness.Server(TOPKD, "--metrics-listen", "127.0.0.1:0")
        cls.addClassCleanup(cls.server.stop)
        rng = np.random.default_rng(1)
        cls.x = rng.standard_normal((3, 4, 50)).astype(np.float32)
        cls.path = cls.save("x.npy", cls.x)

    @classmethod
    def save(cls, name, array):
        path = os.path.join(cls.folder.name, name)
        np.save(path, array)
        return path

    def topk(self, *arguments, code=0, or_code=None, target=None, set_name="",
             **options):
        """Runs the command, which exits with one of the codes; returns its
        stdout."""
        environment = dict(os.environ, TOPK_TARGET=target
                           or self.server.target,
                           TOPK_INSTRUCTION_SET=set_name)
        done = subprocess.run([TOPK, *map(str, arguments)],
                              capture_output=True, check=False,
                              env=environment, **options)
        self.assertIn(done.returncode, (code, or_code), done.stderr.decode())
        if done.returncode == 0:
            self.assertEqual(done.stderr, b"")
        else:
            self.assertNotEqual(done.stderr, b"")
        self.stderr = done.stderr.decode()
        return done.stdout.decode()

    def expected(self, array, axis, k, largest=True):
        order = np.argsort(-array if largest else array, axis, kind="stable")
        return np.take(order, range(k), axis)

    def test_json_equals_numpy(self):
        for flags, axis, largest in (((), -1, True),
                                     (("--axis", 0), 0, True),
                                     (("--axis", 1, "--smallest"), 1, False)):
            for way in ((), ("--local",), ("--stream", "on")):
                answer = json.loads(self.topk("run", self.path, "--k", 2,
                                              "--json", *flags, *way))
                indices = np.reshape(answer["indices"], answer["shape"])
                expected = self.expected(self.x, axis, 2, largest)
                np.testing.assert_array_equal(indices, expected)

    def test_every_dialect(self):
        for flags in (("--dialect", "onnx", "--version", 1),
                      ("--dialect", "openvino", "--order", "value",
                       "--index-type", "i64"),
                      ("--dialect", "directml", "--version", 0),
                      ("--dialect", "directml", "--feature-level", "5_0",
                       "--index-type", "u64")):
            answer = json.loads(self.topk("run", self.path, "--k", 3, "--json",
                                          *flags))
            np.testing.assert_array_equal(
                np.reshape(answer["indices"], answer["shape"]),
                self.expected(self.x, -1, 3))

    def test_out_writes_npy_files(self):
        for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2",
                     "u4", "u8"):
            array = (np.arange(60).reshape(4, 15) * 7 % 31).astype(kind)
            out = os.path.join(self.folder.name, "out-" + kind)
            self.assertEqual(
                self.topk("run", self.save("a.npy", array), "--k", 4, "--out",
                          out), "")
            values = np.load(os.path.join(out, "values.npy"))
            indices = np.load(os.path.join(out, "indices.npy"))
            self.assertEqual(values.dtype, array.dtype)
            self.assertEqual(indices.dtype, np.int64)
            np.testing.assert_array_equal(
                values, np.take_along_axis(array, indices, -1))
            order = np.lexsort((np.broadcast_to(np.arange(15), array.shape),
                                -array.astype(np.float64)), axis=-1)
            np.testing.assert_array_equal(indices, order[:, :4])

    def test_big_endian_and_fortran_order(self):
        for array in (np.asfortranarray(self.x), self.x.astype(">f4"),
                      np.asfortranarray(self.x.astype(">f8"))):
            path = self.save("order.npy", array)
            answer = json.loads(self.topk("run", path, "--k", 2, "--json"))
            np.testing.assert_array_equal(
                np.reshape(answer["indices"], answer["shape"]),
                self.expected(self.x, -1, 2))

    def test_bfloat16(self):
        bits = np.array([0x3F80, 0xC000, 0x4040, 0x7FC0], np.uint16)
        answer = json.loads(
            self.topk("run", self.save("bf16.npy", bits), "--k", 3, "--dtype",
                      "bf16", "--json"))
        self.assertEqual(answer["values"], ["nan", 3, 1])
        self.assertEqual(answer["values_type"], "bf16")

    def test_types_of_a_byte_or_less(self):
        def ask(dtype, codes, k, *flags, code=0):
            return self.topk("run", self.save("codes.npy", codes), "--k", k,
                             "--dialect", "openvino", "--dtype", dtype, *flags,
                             code=code)
        codes = np.array([[1, -8, 7], [-1, 0, -1]], np.int8)
        answer = json.loads(ask("i4", codes, 2, "--json"))
        self.assertEqual(answer["values"], [7, 1, 0, -1])
        self.assertEqual(answer["indices"], [2, 0, 1, 0])
        self.assertEqual(answer["values_type"], "i4")
        self.assertEqual(ask("i4", codes, 2, "--local"),
                         "[0, :]   7 @2   1 @0\n[1, :]   0 @1  -1 @0\n")
        self.assertIn("the same", ask("i4", codes, 2, "--compare"))
        out = os.path.join(self.folder.name, "i4")
        ask("i4", codes, 2, "--out", out)
        values = np.load(os.path.join(out, "values.npy"))
        self.assertEqual(values.dtype, np.dtype("V1"))
        np.testing.assert_array_equal(values.view(np.int8), [[7, 1], [0, -1]])
        numbers = np.array([0x7F, 0x38, 0x80, 0xFE], np.uint8)
        self.assertEqual(ask("f8e4m3", numbers, 4),
                         "[:]   nan @0     1 @1    -0 @2  -448 @3\n")
        ask("u4", numbers, 1, code=3)  # has no 0x7F
        self.assertIn("element 0 is 127; u4 has 4 bits", self.stderr)
        self.topk("run", self.save("codes.npy", codes[:1, :1] & 7), "--k", 1,
                  "--dtype", "u4", code=4)  # of ONNX
        self.assertIn("data type u4 is not allowed; ONNX", self.stderr)

    def test_a_large_tensor_is_streamed(self):
        array = np.random.default_rng(2).random((2, 3_000_000), np.float32)
        path = self.save("large.npy", array)
        answer = json.loads(self.topk("run", path, "--k", 5, "--json"))
        self.assertEqual(answer["execution"]["kernel"], "fold")
        np.testing.assert_array_equal(
            np.reshape(answer["indices"], (2, 5)), self.expected(array, -1, 5))

    def test_the_table(self):
        table = self.topk("run", self.path, "--k", 2)
        self.assertEqual(len(table.splitlines()), 12)
        self.assertTrue(table.startswith("[0, 0, :]"), table)
        short = self.topk("run", self.path, "--k", 2, "--max-slices", 1)
        self.assertIn("11 more slices", short)
        labels = self.save("labels.npy", np.arange(50) + 100)
        names = self.save("names.npy", np.arange(12))
        table = self.topk("run", self.path, "--k", 1, "--labels", labels,
                          "--slice-labels", names)
        first = int(self.expected(self.x, -1, 1)[0, 0, 0])
        self.assertIn(f"[0, 0, :] 0   -> {first + 100}", table)

    def test_shards_are_merged(self):
        rng = np.random.default_rng(3)
        codes = rng.integers(-8, 8, (3, 40, 2)).astype(np.int8)
        flags = ("--axis", 1, "--smallest", "--order", "index", "--dtype", "i4")
        dialect = ("--dialect", "openvino", "--index-type", "i64")

        def path(name):
            return os.path.join(self.folder.name, name)

        def ask(name, begin, end, *more):
            file = self.save("shard.npy", codes[:, begin:end])
            self.topk("run", file, "--k", min(5, end - begin), "--out",
                      path(name), *flags, *dialect, *more)

        ask("whole", 0, 40)
        ask("last", 16, 40, "--index-offset", 16)
        ask("first", 0, 13)
        ask("middle", 13, 16, "--index-offset", 13)
        folders = [path(name) for name in ("last", "first", "middle")]
        self.topk("merge", *folders, "--k", 5, "--out", path("all"), *flags)
        for name in ("values.npy", "indices.npy"):
            self.assertEqual(pathlib.Path(path("all"), name).read_bytes(),
                             pathlib.Path(path("whole"), name).read_bytes())
        self.topk("merge", *folders, "--k", 4, *flags, code=3)
        self.assertIn("partials[0].shape[1]: there are 5 elements along axis 1 "
                      "where k = 4", self.stderr)
        self.topk("merge", *folders, "--k", 5, "--index-offsets", "0,3", *flags,
                  code=2)
        self.topk("merge", path("nowhere"), "--k", 5, code=3)

    def test_merge_adds_index_offsets(self):
        parts = []
        for begin, end in ((0, 30), (30, 50)):
            parts.append(os.path.join(self.folder.name, f"from{begin}"))
            self.topk("run", self.save("shard.npy", self.x[..., begin:end]),
                      "--k", 3, "--out", parts[-1])
        answer = json.loads(self.topk("merge", *parts, "--k", 3,
                                      "--index-offsets", "0,30", "--json"))
        np.testing.assert_array_equal(
            np.reshape(answer["indices"], answer["shape"]),
            self.expected(self.x, -1, 3))
        table = self.topk("merge", "--index-offsets", "30,0", *reversed(parts),
                          "--k", 3)
        self.assertEqual(table, self.topk("run", self.path, "--k", 3))

    def test_exit_codes(self):
        self.topk(code=2)
        self.topk("run", self.path, code=2)
        self.topk("run", self.path, "--k", 1, "--dialect", "torch", code=2)
        self.topk("run", self.path, "--k", 1, "--strict", code=2)
        self.topk("run", "/does/not/exist.npy", "--k", 1, code=3)
        self.topk("run", self.save("c.npy", np.zeros(3, complex)), "--k", 1,
                  code=3)
        self.assertIn("c16", self.stderr)
        for way in ((), ("--local",)):
            self.topk("run", self.path, "--k", 51, *way, code=4)
            self.assertIn("INVALID_ARGUMENT: onnx.k: k = 51 exceeds dimension "
                          "50 along axis 2", self.stderr)
        self.topk("run", self.path, "--k", 1, "--deadline", 1,
                  target="127.0.0.1:1", code=5)
        self.topk("health", "--service", "no.such", code=1)

    def instruction_sets(self):
        """Returns those that this machine has, best first."""
        self.topk("run", self.path, "--k", 1, "--local", code=2,
                  set_name="mmx")
        self.assertIn('"mmx"', self.stderr)
        return self.stderr.strip().split("it has ")[1].split(", ")

    def test_a_forced_instruction_set_runs(self):
        names = self.instruction_sets()
        self.assertEqual(names[-1], "scalar")
        values = set()
        for name in names:
            answer = json.loads(self.topk("run", self.path, "--k", 2, "--json",
                                          "--local", set_name=name))
            self.assertEqual(answer["execution"]["instruction_set"], name)
            values.add(str(answer["values"]))
            # The server too: it says so itself.
            with harness.Server(TOPKD, environment={
                    "TOPK_INSTRUCTION_SET": name}) as server:
                answer = json.loads(self.topk("run", self.path, "--k", 2,
                                              "--json", target=server.target))
                self.assertEqual(answer["execution"]["instruction_set"], name)
                values.add(str(answer["values"]))
        self.assertEqual(len(values), 1)

    def test_cuda_without_a_device_is_a_start_error(self):
        done = subprocess.run([TOPKD, "--check-config", "--backend", "cuda"],
                              capture_output=True, text=True, check=False,
                              timeout=60)
        if done.returncode == 0:
            self.skipTest("this machine has it")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "backend: .*CUDA")

    def test_an_unknown_instruction_set_is_a_start_error(self):
        done = subprocess.run([TOPKD, "--listen", "127.0.0.1:0"],
                              capture_output=True, check=False, timeout=60,
                              env=dict(os.environ, TOPK_INSTRUCTION_SET="mmx"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("TOPK_INSTRUCTION_SET", (done.stdout + done.stderr
                                               ).decode())

    def test_health_and_info(self):
        self.assertEqual(self.topk("health"), "SERVING\n")
        self.assertIn("OpenVINO TopK-11", self.topk("info"))
        info = json.loads(self.topk("info", "--json"))
        self.assertEqual(len(info["operators"]), 9)

    def test_flags_precede_variables(self):
        for command in (("health",), ("info",), ("run", self.path, "--k", 5),
                        ("bench", "--shape", "8,100", "--k", 5, "--duration",
                         0.1)):
            with self.subTest(command):
                self.topk(*command, "--target", self.server.target,
                          target="127.0.0.1:1")

    def test_bench(self):
        result = json.loads(
            self.topk("bench", "--shape", "4,500", "--k", 3, "--requests", 50,
                      "--concurrency", 2, "--json"))
        self.assertEqual(result["requests"], 50)
        self.assertGreater(result["requests_per_second"], 0)
        self.assertLessEqual(result["p50_us"], result["p99_us"])
        for kind in ("f16", "bf16", "f64", "u8", "i64"):
            self.topk("bench", "--dtype", kind, "--k", 3, "--requests", 3)
        for kind in ("u1", "u3", "i4", "f4e2m1", "f8e4m3", "f8e8m0"):
            self.topk("bench", "--dtype", kind, "--k", 3, "--requests", 3,
                      "--dialect", "openvino", "--shape", "3,1001")

    def bench(self, *flags, **codes):
        """Returns the JSON of a short load."""
        result = json.loads(self.topk("bench", "--k", 3, "--json", *flags,
                                      **codes))
        self.assertEqual(result["errors"], {})
        self.assertEqual(sum(row["requests"] for row in result["kinds"]),
                         result["requests"])
        self.assertLessEqual(result["p50_us"], result["p99_9_us"])
        self.assertLessEqual(result["p99_9_us"], result["max_us"])
        self.assertEqual(sum(step["count"] for step in result["histogram"]),
                         result["requests"] / result["batch"])
        return result

    def test_bench_paths(self):
        for path, batch in (("unary", 1), ("stream", 1), ("many", 16)):
            result = self.bench("--path", path, "--requests", 64,
                                "--concurrency", 2, "--connections", 2)
            self.assertEqual(result["path"], path)
            self.assertEqual(result["batch"], batch)
            self.assertEqual(result["verified"], 64)
            self.assertIsNone(result["rate"])
        result = self.bench("--path", "many", "--batch", 5, "--requests", 20,
                            "--verify", 0)
        self.assertEqual(result["verified"], 0)

    def test_shared_memory(self):
        run = ("run", self.path, "--k", 2)
        with harness.Server(TOPKD, "--allow-shared-memory") as server:
            for flags in ((), ("--axis", 0), ("--axis", 1, "--smallest"),
                          ("--dialect", "openvino"),
                          ("--dialect", "directml", "--index-type", "u64")):
                outputs = {self.topk(*run, *flags, *way, target=server.target)
                           for way in ((), ("--shared-memory",))}
                self.assertEqual(len(outputs), 1, outputs)
            bits = self.save("bits.npy", (self.x > 1).astype(np.uint8))
            outputs = {self.topk("run", bits, "--k", 7, "--dialect", "openvino",
                                 "--dtype", "u1", *way, target=server.target)
                       for way in ((), ("--shared-memory",))}
            self.assertEqual(len(outputs), 1, outputs)
            self.topk("run", self.path, "--k", 51, "--shared-memory",
                      target=server.target, code=4)
            self.assertIn("onnx.k: k = 51 exceeds dimension 50", self.stderr)
            result = json.loads(
                self.topk("bench", "--path", "shm", "--k", 3, "--requests",
                          64, "--concurrency", 2, "--json",
                          target=server.target))
            self.assertEqual(result["verified"], 64)
            self.assertIn("shared memory     yes",
                          self.topk("info", target=server.target))
        self.topk(*run, "--shared-memory", code=4)
        self.assertIn("UNIMPLEMENTED", self.stderr)
        self.assertIn("does not use shared memory", self.stderr)
        self.topk("bench", "--path", "shm", "--k", 3, "--requests", 3, code=4)
        for flag in (("--local",), ("--stream", "on")):
            self.topk(*run, "--shared-memory", *flag, code=2)

    def test_bench_open_loop(self):
        for arrivals in ("constant", "poisson"):
            # A busy machine misses even this rate.
            result = self.bench("--rate", 100, "--duration", 0.4, "--warmup",
                                0.1, "--arrivals", arrivals, or_code=7)
            self.assertEqual(result["kept_up"], self.stderr == "")
            self.assertEqual(result["rate"], 100)
            self.assertEqual(result["concurrency"], 64)
            self.assertAlmostEqual(result["requests"], 40, delta=30)
            self.assertGreaterEqual(result["seconds"], 0.4)
        result = self.bench("--rate", 1e6, "--concurrency", 1, "--duration",
                            0.2, "--warmup", 0.1, code=7)
        self.assertFalse(result["kept_up"])
        self.assertIn("--concurrency", self.stderr)
        self.assertGreater(result["missed"], 0)
        self.assertGreater(result["max_us"], 50_000)

    def mix(self, *rows):
        path = os.path.join(self.folder.name, "mix")
        pathlib.Path(path).write_text("\n".join(rows), encoding="utf-8")
        return path

    def test_bench_mix(self):
        path = self.mix('{"weight": 4, "shape": [2, 300]}', "",
                        '{"dtype": "i16", "k": 7, "smallest": true}',
                        '{"shape": [60, 4], "axis": 0}')
        for way in ("unary", "stream", "many"):
            result = self.bench("--mix", path, "--requests", 480, "--path",
                                way)
            self.assertEqual([row["name"] for row in result["kinds"]],
                             ["2x300 f32 k 3", "1x1000 i16 k 7 smallest",
                              "60x4 f32 k 3 axis 0"])
            self.assertEqual(result["verified"], 480)
            self.assertAlmostEqual(result["kinds"][0]["requests"], 320,
                                   delta=128)
        text = self.topk("bench", "--mix", path, "--k", 3, "--requests", 9)
        for word in ("seed 1", "9 verified", "p99.9", "2x300 f32 k 3", "all"):
            self.assertIn(word, text)
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()
                            if "|" in line), text)

    def test_bench_wrong_flags(self):
        def refused(*flags, says, code=2):
            self.topk("bench", *flags, code=code)
            self.assertIn(says, self.stderr)

        refused("--requests", 3, says="--k is required")
        bench = ("--k", 3, "--requests", 3)
        refused(*bench, "--batch", 3, says="--path unary")
        refused(*bench, "--path", "many", says="not a multiple of --batch 16")
        refused(*bench, "--path", "post", says="--path")
        refused(*bench, "--duration", 3, says="--duration")
        refused(*bench, "--arrivals", "poisson", says="--rate")
        refused(*bench, "--connections", 2, says="--concurrency 1")
        refused(*bench, "--rate", 0, says="--rate")
        refused(*bench, "--mix", "/does/not/exist", says="No such file",
                code=3)
        mix = self.mix("{}", '{"dtype": "f31"}')
        refused(*bench, "--mix", mix, says=f"{mix}:2: dtype: must be")
        mix = self.mix('{"kk": 1}')
        refused(*bench, "--mix", mix, says=f"{mix}:1: kk: is not a key")
        mix = self.mix('{"k": 1}', '{"shape": [99999999999]}')
        refused(*bench, "--mix", mix, says=f"{mix}:2: shape: must have")
        mix = self.mix('{"k": 1001}')
        refused(*bench, "--mix", mix, says="1x1000 f32 k 1001", code=4)

    def test_usage_errors_name_flag_value_and_rule(self):
        def error_of(*arguments, **variables):
            done = subprocess.run(
                [TOPK, *arguments], capture_output=True, check=False,
                env={**os.environ, "TOPK_TARGET": self.server.target,
                     **variables}, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            return done.stderr.partition("\n")[0]

        run = ("run", self.path)
        whole = ("is not a whole number in the range of -9223372036854775808 "
                 "to 9223372036854775807")
        port = "is not host:port with a port of 1 .. 65535"
        for arguments, error in (
                ((*run, "--k", "abc"), f'--k: "abc" {whole}'),
                ((*run, "--k", ""), f'--k: "" {whole}'),
                ((*run, "--k", "9223372036854775808"),
                 f'--k: "9223372036854775808" {whole}'),
                ((*run, "--k", "5", "--axis", "-99999999999999999999"),
                 f'--axis: "-99999999999999999999" {whole}'),
                ((*run, "--k", "a" * 100_000),
                 f'--k: "{"a" * 64}..." {whole}'),
                ((*run, "--k", "1\n2"), f'--k: "1?2" {whole}'),
                ((*run, "--k", "1", "--target", "127.0.0.1:100001"),
                 f'--target: "127.0.0.1:100001" {port}'),
                ((*run, "--k", "1", "--target", "127.0.0.1:-1"),
                 f'--target: "127.0.0.1:-1" {port}'),
                (("health", "--target", "\u202elocalhost"),
                 f'--target: "???localhost" {port}'),
                (("info", "--tls", "--target", "unix:\x1b[2J"),
                 '--tls: "unix:?[2J" is a Unix socket, which has no TLS'),
                (("info", "--tls-ca", "\x1b[2J"),
                 "--tls-ca: cannot read \\x1b[2J: No such file or directory"),
                ((*run, "--k", "1", "--dialect", "directml",
                  "--feature-level", "\x1b"),
                 '--feature-level: "?" is not a feature level, e.g. 5_0'),
                ((*run, "--k", "5", "--dialect", "onxx"),
                 '--dialect: "onxx" is not one of onnx, openvino, directml'),
                ((*run, "--k", "5", "--max-attempts", "9"),
                 '--max-attempts: "9" is not a number in the range of 1 to 5'),
                ((*run, "--k", "5", "--deadline", "0"),
                 '--deadline: "0" is not a number in the range of 0.001 to '
                 "86400"),
                ((*run, "--k", "5", "--json=maybe"),
                 '--json: "maybe" is not true or false'),
                ((*run, "--k"), "--k: the value is missing"),
                ((*run, "--k", "5", "--k", "6"), "--k: more than one value"),
                ((*run, "more.npy", "--k", "5"),
                 'unexpected argument "more.npy"'),
                ((*run, "--k", "5", "--tls-ca", ""),
                 "--tls-ca: the value is empty"),
                (run, "--k is required")):
            self.assertEqual(error_of(*arguments), f"topk: {error}")
        self.assertEqual(error_of("health", TOPK_TLS="maybe"),
                         'topk: TOPK_TLS: "maybe" is not true or false')

    def test_an_input_without_an_end_is_rejected(self):
        self.topk("run", "/dev/zero", "--k", 1, code=3)
        self.assertIn("topk: /dev/zero: ", self.stderr)
        with open("/dev/zero", "rb") as zeros:
            self.topk("run", "-", "--k", 1, code=3, stdin=zeros)

    def test_errors_have_no_control_characters(self):
        name = "\x1b[2J\u202e\u009b"
        escaped = r"\x1b[2J\xe2\x80\xae\xc2\x9b"
        self.topk("run", name, "--k", 1, code=3)
        self.assertIn(f"topk: {escaped}: ", self.stderr)
        self.topk("run", "x" * 100_000, "--k", 1, code=3)
        self.assertLess(len(self.stderr), 10_000)
        self.topk("run", self.path, "--k", 1, "--request-id", name,
                  "--axis", 9, code=4)
        self.assertIn(f"(request {escaped})", self.stderr)

    def test_npz(self):
        y = np.arange(12, dtype=np.int16).reshape(3, 4)
        expected = {name: self.topk("run", self.save("one.npy", array), "--k",
                                    2, "--local")
                    for name, array in (("x", self.x), ("y", y))}
        for save in (np.savez, np.savez_compressed):
            path = os.path.join(self.folder.name, "two.npz")
            save(path, x=self.x, y=y)
            for name, table in expected.items():
                for way in ((), ("--local",)):
                    self.assertEqual(
                        self.topk("run", path, "--member", name, "--k", 2,
                                  *way), table)
                with open(path, "rb") as file:
                    self.assertEqual(
                        self.topk("run", "-", "--member", name, "--k", 2,
                                  stdin=file), table)
            self.topk("run", path, "--k", 2, code=3)
            self.assertIn('--member: "x", "y"', self.stderr)
            self.topk("run", path, "--k", 2, "--member", "z", code=3)
            self.assertIn('no array "z", only "x", "y"', self.stderr)
            save(path, y)  # the only one needs no name; NumPy's is arr_0
            for way in ((), ("--member", "arr_0")):
                self.assertEqual(self.topk("run", path, "--k", 2, *way),
                                 expected["y"])
            # Damage to the data is found, a cut too.
            content = bytearray(pathlib.Path(path).read_bytes())
            with zipfile.ZipFile(path) as archive:
                size = archive.infolist()[0].compress_size
            content[30 + sum(struct.unpack("<HH", content[26:30])) + size
                    - 5] ^= 1
            for damaged in (content, content[:-9], content[:200]):
                wrong = self.folder.name + "/damaged.npz"
                pathlib.Path(wrong).write_bytes(damaged)
                self.topk("run", wrong, "--k", 2, code=3)
                self.assertIn("not a .npz file", self.stderr)
        self.topk("run", self.path, "--member", "x", "--k", 2, code=3)

    def test_npz_inflation_is_bounded_by_the_header(self):
        def header(shape):
            start = io.BytesIO()
            np.lib.format.write_array_header_1_0(start, {
                "descr": "<f4", "fortran_order": False, "shape": shape})
            return start.getvalue()

        def archive(shape, nbytes, claimed=None):
            """Returns an archive with a header and `nbytes` bytes of zeros,
            whose directory claims another size."""
            path = f"{self.folder.name}/{shape[0]}-{nbytes}-{claimed}.npz"
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
                with packed.open("x.npy", "w") as member:
                    member.write(header(shape))
                    for begin in range(0, nbytes, 1 << 20):
                        member.write(bytes(min(1 << 20, nbytes - begin)))
            if claimed is not None:
                content = bytearray(pathlib.Path(path).read_bytes())
                at = content.rindex(b"PK\1\2") + 24
                content[at:at + 4] = struct.pack("<I", claimed)
                pathlib.Path(path).write_bytes(content)
            return path

        def refused(path, says):
            """Returns the largest resident set of the command, in bytes."""
            with subprocess.Popen(
                    [TOPK, "run", path, "--k", "1", "--local"],
                    stderr=subprocess.PIPE) as command:
                error = command.stderr.read().decode()
                _, status, usage = os.wait4(command.pid, 0)
                command.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(command.returncode, 3, error)
            self.assertIn(says, error)
            return usage.ru_maxrss << 10

        whole = 512 << 20
        small = refused(archive((4,), 0), "its shape and type imply")
        start = len(header((4,)))
        for path, says in (
                (archive((4,), whole), f"imply {start + 16}"),
                (archive((4,), whole, start + 16), "not a .np"),
                # Nothing is allocated for what only the header has.
                (archive((1 << 40,), whole >> 4), "its shape and type imply"),
                (archive((1 << 27,), 16, len(header((1 << 27,))) + whole),
                 "not a .np")):
            with self.subTest(says=says):
                self.assertLess(refused(path, says), small + (128 << 20))
        # An honest one is read.
        self.assertIn("@0", self.topk(
            "run", archive((1 << 22,), 1 << 24), "--k", 1, "--local"))

    def test_compare(self):
        for flags in ((), ("--stream", "on"), ("--axis", 0, "--smallest"),
                      ("--dialect", "openvino", "--order", "index"),
                      ("--dialect", "directml", "--index-type", "u64")):
            said = self.topk("run", self.path, "--k", 2, "--compare", *flags)
            self.assertTrue(said.startswith("the same: "), said)
        self.topk("run", self.path, "--k", 51, "--compare", code=4)

    def on_terminal(self, columns, *arguments, **environment):
        """Runs the command on a terminal; returns what it shows."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ,
                    struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen(
                [TOPK, *map(str, arguments)], stdout=its, stderr=its,
                env=dict(os.environ, TOPK_TARGET=self.server.target,
                         **environment)) as command:
            os.close(its)
            shown = b""
            while True:
                try:
                    piece = os.read(ours, 65536)
                except OSError:  # Linux: nobody writes any more
                    break
                if not piece:
                    break
                shown += piece
        os.close(ours)
        self.assertEqual(command.returncode, 0, shown)
        return shown.decode().replace("\r\n", "\n")

    def test_terminal_output_fits_and_is_plain(self):
        wide = self.topk("run", self.path, "--k", 20, "--max-slices", 2)
        for columns in (64, 80, 120):
            for command in (("run", self.path, "--k", 20, "--max-slices", 2),
                            ("info",), ("--help",), ("run", "--help"),
                            ("bench", "--help")):
                shown = self.on_terminal(columns, *command)
                longest = max(map(len, shown.splitlines()))
                self.assertLessEqual(longest, columns, command)
                self.assertGreater(longest, columns / 2, command)
                self.assertNotIn("\x1b", shown)
            shown = self.on_terminal(columns, "run", self.path, "--k", 20,
                                     "--max-slices", 2, NO_COLOR="1")
            self.assertEqual(shown.split(), wide.split())
            shown = self.on_terminal(columns, "bench", "--k", 3, "--shape",
                                     "2,100", "--requests", 200)
            for line in shown.splitlines():
                if "closed loop" in line:
                    self.assertLessEqual(len(line.split("\x1b[K")[-1]),
                                         columns)
            self.assertIsNone(re.search("\x1b\\[[0-9;]*m", shown))

    def test_errors_have_hints(self):
        def advised(*command, says, code=5, **options):
            self.topk(*command, code=code, **options)
            self.assertRegex(self.stderr, "(?m)^hint: .*" + says)
            self.assertEqual(len(self.stderr.splitlines()), 2, self.stderr)

        run = ("run", self.path, "--k", 1, "--max-attempts", 1)
        advised(*run, target="127.0.0.1:1", says="start topkd")
        advised("info", target=self.server.addresses["metrics"],
                says="not that of its metrics")
        advised("info", "--tls", says="leave out the --tls flags")
        advised("bench", "--k", 1, "--requests", 1, "--tls",
                says="leave out the --tls flags")
        advised(*run, "--shared-memory", code=4,
                says="topkd --allow-shared-memory")
        for kind, says in ((bool, "x.view('u1')"), (complex, "astype('f4')"),
                           ("U3", "astype('f4')")):
            self.topk("run", self.save("kind.npy", np.zeros(3, kind)), "--k",
                      1, code=3)
            self.assertIn(says, self.stderr)

    def test_a_connection_above_the_limit_has_a_hint(self):
        with harness.Server(TOPKD, "--max-connections", "1") as server:
            host, port = server.target.rsplit(":", 1)
            with socket.create_connection((host, int(port))):
                for flags in ((), ("--tls",)):
                    self.topk("health", *flags, target=server.target, code=5)
                    self.assertRegex(self.stderr,
                                     "(?m)^hint: .*--max-connections and ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
