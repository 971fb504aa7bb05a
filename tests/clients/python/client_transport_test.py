"""The compiled transport: what differs from grpcio's channels, or might.

usage: client_transport_test.py TOPKD     with topk_client_transport importable
"""

import concurrent.futures
import contextlib
import itertools
import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

os.environ["TOPK_CLIENT_TRANSPORT"] = "compiled"
import client_package  # noqa: E402, makes topk_client importable
import grpc  # noqa: E402
import numpy as np  # noqa: E402
import topk_client  # noqa: E402
from topk_client import Onnx, Request, _transport  # noqa: E402

X = np.arange(8, dtype=np.float32)
# The start of each separate program.
PROLOGUE = f"""
import os, sys, threading
sys.path[:0] = {sys.path!r}
import numpy as np, topk_client
from topk_client import Onnx, Request
X = np.arange(8, dtype=np.float32)
client = topk_client.Client(sys.argv[1], timeout=60)
"""


def program(code, target, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", PROLOGUE + code, target],
        env={**os.environ, **environment}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)


class SilentServer:
    """Accepts connections, and sends nothing."""

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __exit__(self, *_):
        self._listener.close()


@contextlib.contextmanager
def wrong_server():
    """A server that ends each call after one message. Yields its address."""
    def handle(requests, context):
        next(requests)
        yield b"an answer"
        context.abort(grpc.StatusCode.INTERNAL, "no")

    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(2),
        handlers=(grpc.method_handlers_generic_handler(
            "a", {"B": grpc.stream_stream_rpc_method_handler(handle)}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


class Transport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = client_package.start(cls.addClassCleanup)
        cls.target = cls.server.target
        cls.client = topk_client.Client(cls.target)
        cls.addClassCleanup(cls.client.close)

    def end_of(self, process):
        out, err = process.communicate(timeout=30)
        return process.returncode, out, err

    def join_writers(self):
        for thread in threading.enumerate():
            if thread.name == "topk_client requests":
                thread.join(20)
                self.assertFalse(thread.is_alive())

    def test_is_compiled(self):
        self.assertIsNotNone(_transport._compiled)
        self.assertIsInstance(
            _transport.open_channel(self.target, [], None),
            _transport._Channel)

    def test_the_environment_chooses(self):
        for name, expected in (("grpcio", "True"), ("compiled", "False"),
                               ("", "False")):
            code, out, err = self.end_of(program(
                "print(topk_client._transport._compiled is None)",
                self.target, TOPK_CLIENT_TRANSPORT=name))
            self.assertEqual((code, out.strip()), (0, expected), err)
        code, _, err = self.end_of(program("", self.target,
                                           TOPK_CLIENT_TRANSPORT="both"))
        self.assertEqual(code, 1)
        self.assertIn("TOPK_CLIENT_TRANSPORT is 'both', not grpcio or compiled",
                      err)

    def test_a_signal_ends_a_call(self):
        for call in ("client.compute_topk(X, Onnx(1))",
                     "list(client.compute_topk_many([Request(X, Onnx(1))]))"):
            with SilentServer() as target, self.subTest(call):
                process = program(f"print('calling', flush=True)\n{call}",
                                  target)
                process.stdout.readline()
                begin = time.monotonic()
                while process.poll() is None and (
                        time.monotonic() - begin < 20):
                    process.send_signal(signal.SIGINT)
                    try:
                        process.wait(1)
                    except subprocess.TimeoutExpired:
                        pass
                _, err = process.communicate(timeout=1)
                self.assertEqual(process.returncode, -signal.SIGINT, err)
                self.assertIn("KeyboardInterrupt", err)

    def test_close_cancels_calls(self):
        for many in (False, True):
            with SilentServer() as target:
                client = topk_client.Client(target, max_attempts=1)
                errors = queue.Queue()

                def call():
                    try:
                        if many:
                            list(client.compute_topk_many(
                                [Request(X, Onnx(1))]))
                        else:
                            client.compute_topk(X, Onnx(1))
                    except topk_client.TopKError as error:
                        errors.put(error.code)

                thread = threading.Thread(target=call)
                thread.start()
                while thread.is_alive() and errors.empty():
                    client.close()  # until the call has begun, and after that
                    try:
                        self.assertEqual(errors.get(timeout=0.1),
                                         grpc.StatusCode.CANCELLED)
                        break
                    except queue.Empty:
                        pass
                thread.join(10)
                self.assertFalse(thread.is_alive())

    def test_a_closed_client_makes_no_calls(self):
        client = topk_client.Client(self.target)
        client.compute_topk(X, Onnx(1))
        client.close()
        with self.assertRaisesRegex(ValueError, "client is closed"):
            client.compute_topk(X, Onnx(1))
        with self.assertRaisesRegex(ValueError, "client is closed"):
            list(client.compute_topk_many([Request(X, Onnx(1))]))

    def test_a_forked_process_makes_calls(self):
        code, out, err = self.end_of(program("""
client.compute_topk(X, Onnx(1))
child = os.fork()
if child == 0:
    with topk_client.Client(sys.argv[1], timeout=20) as other:
        print(other.compute_topk(X, Onnx(1)).indices, flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""", self.target))
        self.assertEqual((code, out.strip()), (0, "[7]"), err)

    def test_a_process_ends_with_open_streams(self):
        for rest in ("", "del answers", "client.close()", "sys.exit(0)"):
            with self.subTest(rest):
                code, out, err = self.end_of(program(f"""
def endless():
    while True:
        yield Request(X, Onnx(1))
answers = client.compute_topk_many(endless())
print(next(answers).indices, flush=True)
{rest}
""", self.target))
                self.assertEqual((code, out.strip(), err), (0, "[7]", ""))

    def test_a_process_ends_with_answers_that_were_not_read(self):
        code, out, err = self.end_of(program("""
answers = client.compute_topk_many([Request(X, Onnx(1))] * 100)
print(next(answers).indices, flush=True)
while threading.active_count() > 1:  # until all are sent
    pass
""", self.target))
        self.assertEqual((code, out.strip(), err), (0, "[7]", ""))

    def test_a_process_ends_with_a_daemon_thread_in_a_call(self):
        with SilentServer() as target:
            code, _, err = self.end_of(program("""
for _ in range(4):
    threading.Thread(target=lambda: client.compute_topk(X, Onnx(1)),
                     daemon=True).start()
""", target))
            self.assertEqual((code, err), (0, ""))

    def test_a_request_may_depend_on_the_answer_before(self):
        answered = queue.Queue()

        def requests():
            for n in range(100):
                if n:
                    self.assertEqual(answered.get(timeout=20), n - 1)
                yield Request(X + n, Onnx(1))

        for n, answer in enumerate(self.client.compute_topk_many(requests())):
            self.assertEqual(answer.values[0], 7 + n)
            answered.put(n)

    def test_no_requests_are_taken_after_the_end_of_a_call(self):
        with wrong_server() as target:
            channel = _transport.open_channel(target, [], None)
            stream = channel.stream_stream("/a/B")(itertools.repeat(b"1"),
                                                   timeout=20)
            self.assertEqual(next(stream), b"an answer")
            with self.assertRaises(grpc.RpcError):
                next(stream)
            self.join_writers()
            channel.close()

    def test_many_answers_are_in_order(self):
        count = 20_000
        answers = self.client.compute_topk_many(
            Request(X[: 1 + n % 8], Onnx(1)) for n in range(count))
        for n, answer in enumerate(answers):
            self.assertEqual(answer.indices[0], n % 8)
        self.assertEqual(n, count - 1)

    def test_streams_that_are_left_end(self):
        for _ in range(200):
            answers = self.client.compute_topk_many(
                Request(X, Onnx(1)) for _ in range(1000))
            next(answers)
            answers.close()
        self.join_writers()

    def test_threads_share_a_client(self):
        wrong = []

        def work(seed):
            random = np.random.default_rng(seed)
            for _ in range(100):
                x = random.random(int(random.integers(1, 3000)), np.float32)
                k = int(random.integers(1, len(x) + 1))
                answer = self.client.compute_topk(
                    x, Onnx(k), stream=bool(random.integers(2)))
                if not np.array_equal(answer.values, -np.sort(-x)[:k]):
                    wrong.append((seed, len(x), k))

        threads = [threading.Thread(target=work, args=(seed,))
                   for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_large_requests_are_freed(self):
        x = np.zeros(15 << 20, np.float32)  # 60 MiB
        for stream in (False, True):
            self.client.compute_topk(x, Onnx(1), stream=stream)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(6):
            for stream in (False, True):
                self.client.compute_topk(x, Onnx(1), stream=stream)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        self.assertLess(grown, 160 << 10)  # KiB

    def test_text_of_a_server_is_no_mistake_of_the_client_s(self):
        # grpc-message may have any bytes, and a trailer too.
        with self.assertRaises(topk_client.TopKError) as caught:
            self.client.compute_topk(X, Onnx(9), request_id="\u00e9\u202e")
        self.assertEqual(caught.exception.code,
                         grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(caught.exception.field, "onnx.k")


if __name__ == "__main__":
    unittest.main()
