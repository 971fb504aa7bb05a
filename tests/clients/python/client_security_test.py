"""Tests the Python client with a real server: TLS, mutual TLS, tokens and Unix
sockets.

usage: client_security_test.py TOPKD
"""

import os
import pathlib
import pickle
import subprocess
import tempfile
import unittest
from unittest import mock

import client_package
import numpy as np
import topk_client
from both_clients import CLIENTS
from topk_client import Onnx, _connection

X = np.array([3.0, 9.0, 1.0], np.float32)
TOKEN = "0123456789abcdef"


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True,
                   capture_output=True)


def make_certificates(folder):
    """Creates a CA, and a server and a client certificate signed by it."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
            "-subj", "/CN=authority", "-keyout", folder / "ca.key",
            "-out", folder / "ca.pem")
    for name, names in (("server", "DNS:topk.test"), ("client", "DNS:me")):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-subj", f"/CN={name}", "-addext",
                f"subjectAltName={names}", "-keyout", folder / f"{name}.key",
                "-out", folder / f"{name}.csr")
        openssl("x509", "-req", "-in", folder / f"{name}.csr", "-days", 2,
                "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key",
                "-CAcreateserial", "-copy_extensions", "copy",
                "-out", folder / f"{name}.pem")


class Security(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        make_certificates(cls.folder)
        cls.tls = {"tls_ca": cls.folder / "ca.pem",
                   "tls_server_name": "topk.test"}
        cls.mine = {"tls_cert": cls.folder / "client.pem",
                    "tls_key": cls.folder / "client.key"}
        cls.token = "a-token-of-this-test"
        hashed = subprocess.run(
            [client_package.TOPKD, "hash-token", "tester"],
            input=cls.token.encode(), capture_output=True, check=True).stdout
        (cls.folder / "tokens").write_bytes(hashed)
        cls.socket = f"unix:{cls.folder / 'topk.sock'}"
        cls.server = client_package.start(
            cls.addClassCleanup, "--listen", cls.socket,
            "--tls-cert", str(cls.folder / "server.pem"),
            "--tls-key", str(cls.folder / "server.key"),
            "--tls-client-ca", str(cls.folder / "ca.pem"),
            "--auth-tokens-file", str(cls.folder / "tokens"))

    def ask(self, kind, target=None, **options):
        with kind(target or self.server.target, timeout=10,
                  **options) as client:
            return client.compute_topk(X, Onnx(1)).indices[0]

    def fails(self, text, **options):
        for kind in CLIENTS:
            with self.assertRaisesRegex(topk_client.TopKError, text):
                self.ask(kind, retry=None, **options)

    def test_mutual_tls_and_a_token(self):
        for kind in CLIENTS:
            self.assertEqual(
                self.ask(kind, **self.tls, **self.mine, token=self.token), 1)

    def test_invalid_files_are_reported_by_argument(self):
        garbage = self.folder / "garbage.pem"
        garbage.write_bytes(b"\xff\0 no certificate")
        damaged = self.folder / "damaged.pem"
        damaged.write_text((self.folder / "ca.pem").read_text()[:-60])
        empty = self.folder / "empty.pem"
        empty.touch()
        for wrong in ({"tls_ca": garbage}, {"tls_ca": damaged},
                      {"tls_ca": empty}, {**self.mine, "tls_key": garbage},
                      {**self.mine, "tls_key": empty},
                      {**self.mine, "tls_key": self.folder / "ca.key"},
                      {"tls_key": self.mine["tls_key"], "tls_cert": garbage},
                      {"tls_cert": self.folder / "client.pem"},
                      {"tls_key": self.folder / "client.key"},
                      {"token_file": ""}, {"token_file": self.folder},
                      {"tls_ca": ""}, {"tls_ca": self.folder / "missing.pem"},
                      {**self.mine, "tls_key": self.folder}):
            with self.assertRaises(ValueError) as caught:
                topk_client.Client(self.server.target, **wrong)
            self.assertIn(list(wrong)[-1], str(caught.exception))
        with self.assertRaisesRegex(ValueError, "^tls_ca: 'no.pem': No such "):
            topk_client.Client(self.server.target, tls_ca="no.pem")

    def test_errors_contain_no_secrets(self):
        key = self.mine["tls_key"]
        for wrong in ({**self.mine, "tls_key": pathlib.Path(key).read_text()},
                      {"tls_key": key, "tls_cert": key.read_text()},
                      {"token_file": TOKEN}, {"token_file": "a/" + TOKEN}):
            with self.assertRaisesRegex(
                    ValueError, "^[a-z_]+: (No such file|File name too long)"
                    ) as caught:
                topk_client.Client(self.server.target, **wrong)
            self.assertNotIn(str(list(wrong.values())[-1]),
                             str(caught.exception))

    def test_rejected_callers(self):
        self.fails("^UNAUTHENTICATED: ", **self.tls, **self.mine)
        self.fails("^UNAUTHENTICATED: ", **self.tls, **self.mine,
                   token="another-token-of-none")
        host = self.server.target
        for options in ({**self.tls},
                        {**self.mine, "tls_ca": self.tls["tls_ca"],
                         "tls_server_name": "other.test"},
                        {**self.mine, "tls": True}):
            self.fails(f"^UNAVAILABLE: calling {host} with TLS: .",
                       token=self.token, **options)
        self.fails(f"^UNAVAILABLE: calling {host} without TLS: .",
                   token=self.token)

    def test_the_machine_s_authorities_are_trusted(self):
        ca, certificates = self.tls["tls_ca"], self.folder / "certificates"
        certificates.mkdir()
        (certificates / "0123abcd.0").write_bytes(b"\xff no certificate")
        nowhere = str(self.folder / "nowhere")
        with mock.patch.dict(os.environ):
            os.environ.pop("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", None)
            for kind in CLIENTS:
                for file, folders in ((ca, nowhere),
                                      (nowhere, f"{nowhere}:{certificates}")):
                    os.environ.update(SSL_CERT_FILE=str(file),
                                      SSL_CERT_DIR=folders)
                    (certificates / "4567cdef.1").write_bytes(ca.read_bytes())
                    self.assertEqual(self.ask(
                        kind, tls=True, tls_server_name="topk.test",
                        **self.mine, token=self.token), 1)
                with self.assertRaisesRegex(topk_client.TopKError,
                                            "^UNAVAILABLE: .* with TLS: "):
                    os.environ["SSL_CERT_DIR"] = nowhere
                    self.ask(kind, tls_server_name="topk.test", **self.mine,
                             token=self.token, retry=None)
            os.environ["SSL_CERT_FILE"] = str(ca)
            os.environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = nowhere
            self.assertIsNone(_connection._system_authorities())

    def test_pickles_contain_no_token(self):
        path = self.folder / "my_token"
        path.write_text(self.token)
        for kind in (topk_client.Client, topk_client.aio.Client):
            with self.assertRaisesRegex(TypeError, "pass token_file$"):
                pickle.dumps(kind(self.socket, token=self.token))
            with self.assertRaisesRegex(TypeError, "pass token_file$"):
                pickle.dumps(kind(self.socket, metadata=[
                    ("authorization", f"Bearer {self.token}")]))
        with topk_client.Client(self.socket, token_file=path) as client:
            pickled = pickle.dumps(client)
        self.assertNotIn(self.token.encode(), pickled)
        with pickle.loads(pickled) as copy:
            self.assertEqual(copy.compute_topk(X, Onnx(1)).indices[0], 1)

    def test_options_of_tokens(self):
        for options in (
                {"target": "example.com:1", "token": TOKEN},
                {"target": "127.0.0.1:1,192.0.2.1:1", "token": TOKEN},
                {"token": TOKEN, "token_file": self.folder / "tokens"},
                {"target": "unix:/x", "tls": True}):
            with self.assertRaises(ValueError):
                topk_client.Client(**options)
        for token in ("", "short", "0123456789abcde\n", "0123456789abcdef g",
                      "0123456789abcde\u00e9"):
            with self.assertRaises(ValueError) as caught:
                topk_client.Client(token=token)
            self.assertNotIn("0123456789", str(caught.exception))
        topk_client.Client("localhost:1", token=TOKEN).close()
        topk_client.Client("example.com:1", token=TOKEN,
                           token_over_plaintext=True).close()

    def test_token_files_are_reloaded_and_keep_the_last_valid_token(self):
        bad = (b"", b"\n", self.token[:9].encode(), b"\xff\xfe" * 20,
               f"{self.token}\n{self.token}\n".encode(),
               self.token.encode() + b"\0", "\u00e9".encode() * 20, None)
        path = self.folder / "token"
        path.write_text("another-token-of-none\n")

        def spoil(content):
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)

        with topk_client.Client(self.socket, token_file=path) as client:
            with self.assertRaisesRegex(topk_client.TopKError,
                                        "^UNAUTHENTICATED:"):
                client.compute_topk(X, Onnx(1))
            path.write_text(self.token + "\n")
            self.assertEqual(client.compute_topk(X, Onnx(1)).indices[0], 1)
            self.assertTrue(client.is_serving())
            for content in bad:
                with self.subTest(content):
                    spoil(content)
                    self.assertEqual(
                        client.compute_topk(X, Onnx(1)).indices[0], 1)
                    with self.assertRaises(ValueError) as caught:
                        topk_client.Client(self.socket, token_file=path)
                    self.assertIn("token_file: ", str(caught.exception))
                    self.assertNotIn(self.token[:9], str(caught.exception))
            path.mkdir()
            self.assertEqual(client.compute_topk(X, Onnx(1)).indices[0], 1)


if __name__ == "__main__":
    unittest.main()
