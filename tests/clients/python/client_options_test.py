"""Tests the options of both Python clients and of their calls.

usage: client_options_test.py TOPKD
"""

import concurrent.futures
import logging
import math
import pathlib
import pickle
import tempfile
import threading
import unittest

import both_clients
import client_package
import client_security_test
import grpc
import harness
import numpy as np
import topk_client
from both_clients import CASES, CLIENTS
from topk_client import Onnx, Retry, _shards
from topk_client._connection import Attempts, _is_local

X = np.array([3.0, 9.0, 1.0], np.float32)
TOKEN = "0123456789abcdef"


def token():
    return TOKEN


class Recorder:
    """A server that records the headers of its requests."""

    def __init__(self, add_cleanup, code=None):
        self.headers = []
        self._code = code
        self.target = both_clients.start_fake(
            add_cleanup, ComputeTopK=self._compute,
            ComputeTopKMany=self._compute_many)

    def _record(self, context):
        self.headers.append(dict(context.invocation_metadata()))
        if self._code is not None:
            context.abort(self._code, "mine")

    def _compute(self, _, context):
        self._record(context)
        return both_clients.response().SerializeToString()

    def _compute_many(self, messages, context):
        return both_clients.answer_each(
            (self._record(context) for _ in messages), context)


class Options(both_clients.ServerTest):
    """Tests of both clients. This class runs them for the blocking one."""

    def test_user_agent(self):
        server = Recorder(self.addCleanup)
        name = f"topk-client-python/{topk_client.__version__} grpc-python"
        for options, start in (({}, name), ({"user_agent": "me/1"},
                                            f"me/1 {name}")):
            with self.kind(server.target, **options) as client:
                client.topk(X, 1)
            agent = server.headers[-1]["user-agent"]
            self.assertTrue(agent.startswith(start), agent)

    def test_metadata_of_the_client(self):
        server = Recorder(self.addCleanup)
        with self.kind(server.target,
                       metadata=[("a", "1"), ("b", "2")]) as client:
            for headers, expected in (((), ("1", "2")),
                                      ([("b", "3"), ("c-bin", b"\xff")],
                                       ("1", "3"))):
                client.topk(X, 1, metadata=headers)
                list(client.topk_many([X], 1, metadata=headers))
                for seen in server.headers[-2:]:
                    self.assertEqual((seen["a"], seen["b"]), expected)
            self.assertEqual(seen["c-bin"], b"\xff")
        with self.kind(server.target, token=token) as client:
            client.topk(X, 1, metadata=[("authorization", "mine")])
            self.assertEqual(server.headers[-1]["authorization"], "mine")
        with self.assertRaisesRegex(ValueError, "^metadata key 'A' must"):
            self.kind(server.target, metadata=[("A", "1")])
        for name in ("tls", "token_over_plaintext", "wait_for_ready"):
            with self.assertRaisesRegex(TypeError,
                                        f"^{name} is 'no', not a bool$"):
                self.kind(server.target, **{name: "no"})
        for name in ("metadata", "interceptors", "channel_options"):
            with self.assertRaisesRegex(TypeError,
                                        f"^{name} is 5, not a sequence$"):
                self.kind(server.target, **{name: 5})
        with self.assertRaisesRegex(TypeError, "^wait_for_ready is 'no', not "):
            self.client.topk(X, 1, wait_for_ready="no")
        with self.assertRaisesRegex(ValueError, "^metadata key 1 must "):
            self.client.topk(X, 1, metadata=[(1, "1")])
        with self.assertRaisesRegex(TypeError, "^metadata must .* of pairs"):
            self.client.topk(X, 1, metadata={"id": "42"})
        with self.assertRaisesRegex(TypeError, "^unknown options: dim; "):
            self.client.topk(X, 1, dim=0)
        with self.assertRaisesRegex(TypeError, "^timeout is '5', not a number"):
            self.client.topk(X, 1, timeout="5")

    def test_a_function_returns_the_token(self):
        server = Recorder(self.addCleanup)
        tokens = iter(["first-token-of-16", "second-token-of-16", "short", 7])
        with self.kind(server.target, token=lambda: next(tokens)) as client:
            client.topk(X, 1)
            list(client.topk_many([X], 1))
            self.assertEqual(
                [headers["authorization"] for headers in server.headers],
                ["Bearer first-token-of-16", "Bearer second-token-of-16"])
            with self.assertRaisesRegex(ValueError,
                                        "^token: a token must .* 16 "):
                client.topk(X, 1)
            with self.assertRaisesRegex(TypeError, "^token: a token must be a "
                                        "str, not a int$"):
                client.topk(X, 1)
            with self.assertRaises((StopIteration, RuntimeError)):
                client.topk(X, 1)
        with self.assertRaisesRegex(ValueError, "without TLS"):
            self.kind("example.com:1", token=token)

    def test_retries(self):
        server = Recorder(self.addCleanup, grpc.StatusCode.UNAVAILABLE)
        for retry, attempts in ((None, 1), (Retry(attempts=1), 1),
                                (Retry(attempts=3, initial=0), 3),
                                (Retry(7, initial=0.001, maximum=0.002), 7)):
            server.headers.clear()
            with self.kind(server.target, retry=retry) as client, \
                    self.assertLogs("topk_client", logging.DEBUG) as logs:
                logging.getLogger("topk_client").debug("not empty")
                with self.assertRaisesRegex(topk_client.TopKError, "mine"):
                    client.topk(X, 1)
            self.assertEqual(len(server.headers), attempts)
            self.assertEqual(len(logs.output), attempts)
            for number, line in enumerate(logs.output[1:], 1):
                self.assertRegex(
                    line, f"^DEBUG:topk_client:ComputeTopK: attempt {number} "
                    f"of {attempts} failed, retrying in [0-9.]+ s: UNAVAILABLE")
        with self.kind(server.target, retry=Retry(2, 0)) as client, \
                self.assertLogs("topk_client", logging.DEBUG) as logs:
            with self.assertRaisesRegex(topk_client.TopKError, "mine"):
                list(client.topk_many([X], 1))
        self.assertIn(":ComputeTopKMany: attempt 1 of 2 ", logs.output[0])

    def test_a_call_waits_for_a_connection(self):
        with tempfile.TemporaryDirectory() as folder:
            for number, (options, how) in enumerate((
                    ({"wait_for_ready": True}, {}),
                    ({}, {"wait_for_ready": True}))):
                target = f"unix:{folder}/{number}.sock"
                with self.kind(target, retry=None, timeout=60,
                               **options) as client:
                    with self.assertRaisesRegex(topk_client.TopKError,
                                                "^UNAVAILABLE: "):
                        client.topk(X, 1, wait_for_ready=False)
                    starts = threading.Thread(
                        target=client_package.start,
                        args=(self.addCleanup, "--listen", target))
                    starts.start()
                    self.assertEqual(
                        client.topk(X, 1, **how).indices.tolist(), [1])
                    starts.join()

    def test_credentials_and_channel_options(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            client_security_test.make_certificates(folder)
            server = client_package.start(
                self.addCleanup, "--tls-cert", str(folder / "server.pem"),
                "--tls-key", str(folder / "server.key"))
            credentials = grpc.ssl_channel_credentials(
                (folder / "ca.pem").read_bytes())
        options = {"credentials": credentials, "token": token,
                   "channel_options": [
                       ("grpc.ssl_target_name_override", "topk.test")]}
        with self.kind(server.target, **options) as client:
            self.assertEqual(client.topk(X, 1).indices.tolist(), [1])
        with self.kind(server.target, retry=None,
                       credentials=credentials) as client:
            with self.assertRaisesRegex(topk_client.TopKError,
                                        "^UNAVAILABLE: .* with TLS: "):
                client.topk(X, 1)  # the name of the certificate is wrong
        for wrong in ({"tls": True}, {"tls_ca": "ca.pem"},
                      {"tls_server_name": "topk.test"}):
            with self.assertRaisesRegex(ValueError, "^credentials replace "):
                self.kind(server.target, credentials=credentials, **wrong)
        # The options of the caller override those of this package.
        with self.kind(self.server.target, retry=None, channel_options=[
                ("grpc.max_receive_message_length", 10)]) as client:
            with self.assertRaisesRegex(topk_client.TopKError, "larger than"):
                client.topk(X, 1)

    def test_errors_of_topk_name_its_arguments(self):
        x = np.zeros((2, 3))
        for call in (self.client.topk,
                     lambda *how: next(self.client.topk_many([x], *how[1:]))):
            for how, field in (((x, 9), "k"), ((x, 0), "k"), ((x, 1, 5), "axis")
                               ):
                with self.assertRaises(topk_client.TopKError) as caught:
                    call(*how)
                self.assertEqual(caught.exception.field, field)
                self.assertRegex(str(caught.exception),
                                 rf"INVALID_ARGUMENT: {field} = .*, {field}\)$")
        with self.assertRaises(topk_client.TopKError) as caught:
            self.client.compute_topk(x, Onnx(9))
        self.assertEqual(caught.exception.field, "onnx.k")
        for k in (np.array(2), np.int8(2), True):
            self.assertEqual(self.client.topk(X, k).indices.size, int(k))
        for name in ("largest", "sorted"):
            for value in ("no", 2, None):
                with self.assertRaisesRegex(TypeError, f"^{name} is .*, not a "
                                            "bool$"):
                    self.client.topk(X, 1, **{name: value})
        self.assertEqual(self.client.topk(
            X, 1, largest=np.bool_(False), sorted=0).indices.tolist(), [2])
        for k in (1.0, "1", None):
            with self.assertRaisesRegex(TypeError, "^k is .*, not an integer$"):
                self.client.topk(X, k)

    def test_close_ends_a_pause(self):
        client = self.kind("unix:/nowhere/topk.sock", timeout=None,
                           retry=Retry(2, initial=3600, maximum=3600))
        with self.assertLogs("topk_client", logging.DEBUG) as logs, \
                concurrent.futures.ThreadPoolExecutor(2) as threads:
            calls = [threads.submit(client.topk, X, 1),
                     threads.submit(lambda: [*client.topk_many([X], 1)])]
            harness.poll("two pauses", lambda: len(logs.output) == 2)
            client.close()
            for call in calls:
                with self.assertRaisesRegex(topk_client.TopKError,
                                            "^CANCELLED: the client was closed$"
                                            ):
                    call.result(30)


class AsyncioOptions(Options):
    kind = both_clients.AioClient


class Blocking(both_clients.ServerTest):
    """Tests without an equivalent for the asyncio client."""

    def test_futures(self):
        with topk_client.Client(self.server.target) as client:
            futures = [client.topk_async(np.arange(n), 1, axis=0, timeout=60)
                       for n in range(1, 100)]
            for n, future in enumerate(futures):
                self.assertEqual(future.result(60).indices.tolist(), [n])
            error = client.topk_async(X, 9).exception(60)
            self.assertEqual(error.field, "k")
            self.assertIsInstance(client.topk_async(X, 1.5).exception(60),
                                  TypeError)
        with self.assertRaisesRegex(ValueError, "^the client is closed$"):
            client.topk_async(X, 1)

    def test_retry_is_checked(self):
        for wrong, text in (({"attempts": 0}, "^attempts is 0; it must"),
                            ({"initial": -1}, "^initial is -1; "),
                            ({"initial": 3}, "^maximum is 2.0; .* least 3$"),
                            ({"maximum": math.inf}, "^maximum is inf; "),
                            ({"multiplier": 0.5}, "^multiplier is 0.5; ")):
            with self.assertRaisesRegex(ValueError, text):
                Retry(**wrong)
        with self.assertRaisesRegex(TypeError, "^attempts is 1.5, not an "):
            Retry(1.5)
        with self.assertRaisesRegex(TypeError, "^initial is 'x', not a number"):
            Retry(initial="x")
        for kind in CLIENTS:
            with self.assertRaisesRegex(TypeError, "^retry is 3, not a Retry"):
                kind(self.server.target, retry=3)

    def test_workers_take_the_options(self):
        self.addCleanup(_shards._client.cache_clear)
        got = _shards.answer(X, 5, _shards.Question.of(
            1, 0, 1, True, "value", None, self.server.target, False,
            {"metadata": [("a", "1")], "retry": Retry(2), "token": token,
             "channel_options": [("grpc.enable_http_proxy", 0)]}))
        self.assertEqual(got.indices.tolist(), [6])

    def test_pickles(self):
        options = {"retry": Retry(9), "token": token, "wait_for_ready": True,
                   "metadata": [("a", "1")], "channel_options": [("b", 1)]}
        with topk_client.Client(self.server.target, **options) as client:
            copy = pickle.loads(pickle.dumps(client))
            self.assertEqual(copy._arguments, client._arguments)
            copy.close()
        with topk_client.Client(
                self.server.target,
                credentials=grpc.local_channel_credentials()) as client:
            with self.assertRaisesRegex(TypeError, "^a client with credentials "
                                        "cannot be pickled: pass tls_ca"):
                pickle.dumps(client)

    def test_pauses(self):
        for case in CASES["pauses"]:
            policy = {}
            if "multiplier" in case:
                policy = {"initial": case["initial_ms"] / 1000,
                          "maximum": case["maximum_ms"] / 1000,
                          "multiplier": case["multiplier"]}
            attempts = Attempts(Retry(5, **policy), 360_000)
            for told, pause in zip(case["told_ms"], case["pauses_ms"]):
                error = topk_client.TopKError(
                    grpc.StatusCode.UNAVAILABLE, "", retry_delay=told / 1000)
                self.assertAlmostEqual(attempts.pause_after(error),
                                       pause / 1000, msg=case["name"])
            with self.assertRaises(topk_client.TopKError):
                attempts.pause_after(error)  # no attempts are left

    def test_targets(self):
        targets = CASES["targets"]
        for target in (*targets["no port"], *targets["no list"],
                       "a\n:1" * 50_000):
            with self.assertRaisesRegex(ValueError, "^target is .{70,260}$"):
                topk_client.Client(target)
        for target in targets["valid"]:
            with topk_client.Client(target) as client:
                self.assertEqual(repr(client), f"Client({target!r})")
        with self.assertRaisesRegex(ValueError, "^tls_server_name is required"):
            topk_client.Client("10.0.0.1:1,10.0.0.2:1", tls=True)
        for kind in ("local", "remote"):
            for target in targets[kind]:
                self.assertEqual(_is_local(target), kind == "local", target)


if __name__ == "__main__":
    unittest.main()
