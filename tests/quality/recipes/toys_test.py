"""The toys of this folder in a topkd and a topk that were built with them.

usage: toys_test.py TOPKD TOPK

PYTHONPATH needs tests/support/python of that tree.
"""

import subprocess
import sys
import tempfile
import unittest
import urllib.request

TOPK = sys.argv.pop(2)

import client_package  # noqa: E402, removes TOPKD from the arguments
import grpc  # noqa: E402
import numpy as np  # noqa: E402
import topk_client  # noqa: E402


class Toys(unittest.TestCase):
    def setUp(self):
        self.server = client_package.start(
            self.addCleanup, "--backend", "toy", "--toy-count", "9",
            "--metrics-listen", "127.0.0.1:0")

    def run_command(self, array, *flags):
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            np.save(file.name, array)
            return subprocess.run(
                [TOPK, "run", file.name, *flags], capture_output=True,
                text=True, check=True, timeout=60).stdout

    def test_dialect(self):
        array = np.array([[1, 3, 2]], np.float32)
        for flags in (["--local"], ["--target", self.server.target]):
            self.assertEqual(self.run_command(
                array, "--dialect", "toy", "--k", "2", *flags).split(),
                ["[0,", ":]", "3", "@1", "2", "@2"])

    def test_data_type(self):
        codes = np.array([0x21, 0x1F, 0x01, 0x14], np.uint8)
        self.assertEqual(self.run_command(
            codes, "--dtype", "f6e3m2", "--dialect", "openvino", "--k", "4",
            "--local").split(),
            ["[:]", "28", "@1", "4", "@3", "0.0625", "@2", "-0.0625", "@0"])
        spec = topk_client.OpenVINO(2, -1, "max", "value")
        with topk_client.Client(self.server.target) as client:
            answer = client.compute_topk(codes, spec, data_type="f6e3m2")
        np.testing.assert_array_equal(answer.values, [0x1F, 0x14])

    def test_backend(self):
        with topk_client.Client(self.server.target) as client:
            answer = client.compute_topk(np.array([1, 3, 2], np.int32),
                                         topk_client.Onnx(k=2))
        np.testing.assert_array_equal(answer.indices, [1, 2])
        self.assertEqual(answer.execution.backend, "toy")

    def test_metric(self):
        url = f"http://{self.server.addresses['metrics']}/metrics"
        with urllib.request.urlopen(url, timeout=30) as page:
            self.assertIn("\ntopk_toys 42\n", page.read().decode())

    def test_rpc(self):
        with grpc.insecure_channel(self.server.target) as channel:
            call = channel.unary_unary("/topk.v1.TopKService/GetLimits")
            self.assertTrue(call(b"", timeout=30))


if __name__ == "__main__":
    unittest.main()
