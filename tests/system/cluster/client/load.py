"""Calls servers with several clients at once and counts lost calls.

usage: load.py TARGET...    NAME=ADDRESS, e.g. ClusterIP=topkd.topk.svc:50051

Reads commands from standard input. `begin` starts every client for every
target, and prints {} when each has had a response. `end` stops the clients and
prints {CLIENT: {NAME: {"calls": N, "lost": N, "error": TEXT}}}, as one line. A
call with a wrong answer counts as lost. The clients use the CA in /tls/ca.crt
and the token in /tmp/token, which they read for each call.
"""

import asyncio
import json
import multiprocessing
import pathlib
import signal
import subprocess
import sys
import threading
import time

import grpc
import numpy as np
import topk_client
import topk_client.aio
import tritonclient.grpc as triton
from topk_client._stubs import tensor_pb2, topk_pb2

CA = "/tls/ca.crt"
TOKEN = "/tmp/token"
PAUSE_SECONDS = 0.06
SCORES = np.random.default_rng(1).random((4, 250), np.float32)
BEST = np.argsort(-SCORES, axis=1, kind="stable")[:, :10]
# A stream has this many parts, and a pause before each of them.
STREAM_PARTS, STREAM_PAUSE_SECONDS = 5, 1.0

fork = multiprocessing.get_context("fork")


def metadata():
    token = pathlib.Path(TOKEN).read_text().strip()
    return [("authorization", f"Bearer {token}")]


def request(**data):
    return topk_pb2.TopKRequest(
        spec={"dialect": topk_pb2.DIALECT_ONNX, "version": 11},
        onnx={"k": {"value": 10}},
        tensor={"data_type": tensor_pb2.DATA_TYPE_F32, "shape": SCORES.shape,
                **data})


def check(indices):
    if not np.array_equal(np.reshape(indices, BEST.shape), BEST):
        raise ValueError("a wrong answer")


def check_response(response):
    check(np.frombuffer(response.indices.data, np.int64))


def channel(target):
    """Returns a channel with gRPC's own defaults."""
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(
        pathlib.Path(CA).read_bytes()))


def stub(target):
    call = channel(target).unary_unary(
        "/topk.v1.TopKService/ComputeTopK",
        topk_pb2.TopKRequest.SerializeToString,
        topk_pb2.TopKResponse.FromString)
    message = request(data=SCORES.tobytes())
    return lambda: check_response(call(message, timeout=60,
                                       metadata=metadata()))


def stream(target):
    """Returns a function that makes a call of five seconds."""
    call = channel(target).stream_stream(
        "/topk.v1.TopKService/StreamTopK",
        topk_pb2.TopKRequestChunk.SerializeToString,
        topk_pb2.TopKResponseChunk.FromString)

    def messages():
        yield topk_pb2.TopKRequestChunk(header=request())
        data = SCORES.tobytes()
        part = len(data) // STREAM_PARTS
        for i in range(STREAM_PARTS):
            time.sleep(STREAM_PAUSE_SECONDS)
            yield topk_pb2.TopKRequestChunk(data=data[i * part:][:part])

    def run():
        # A small response fits into the header.
        response, = call(messages(), timeout=60, metadata=metadata())
        check_response(response.header)
    return run


def own_client(target):
    client = topk_client.Client(target, tls_ca=CA, token_file=TOKEN)
    return lambda: check(
        client.compute_topk(SCORES, topk_client.Onnx(k=10)).indices)


def asyncio_client(target):
    loop = asyncio.new_event_loop()

    async def connect():
        return topk_client.aio.Client(target, tls_ca=CA, token_file=TOKEN)
    client = loop.run_until_complete(connect())
    return lambda: check(loop.run_until_complete(
        client.compute_topk(SCORES, topk_client.Onnx(k=10))).indices)


def triton_client(target):
    client = triton.InferenceServerClient(
        target, ssl=True, root_certificates=CA)
    values = triton.InferInput("X", SCORES.shape, "FP32")
    values.set_data_from_numpy(SCORES)
    return lambda: check(client.infer(
        "onnx_topk", [values], model_version="11", parameters={"k": 10},
        headers=dict(metadata()), client_timeout=60).as_numpy("indices"))


# For each client: how to connect, and the number of concurrent calls.
CLIENTS = {"stub": (stub, 1), "stream": (stream, 3),
           "topk_client": (own_client, 1), "aio": (asyncio_client, 1),
           "tritonclient": (triton_client, 1)}


class PythonLoad:
    """Makes calls with a Python client in a separate process."""

    def __init__(self, client, target):
        self._connect, self._threads = CLIENTS[client]
        self._target = target
        self._stop, self._has_begun = fork.Event(), fork.Event()
        self._result, sender = fork.Pipe(duplex=False)
        # gRPC must not be used before a fork.
        self._process = fork.Process(target=self._run, args=(sender,),
                                     daemon=True)
        self._process.start()

    def _run(self, sender):
        calls = []  # for each call: the error, or None
        threads = [threading.Thread(target=self._repeat, args=(calls,))
                   for _ in range(self._threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        errors = [error for error in calls if error]
        sender.send({"calls": len(calls), "lost": len(errors),
                     "error": errors[0] if errors else ""})

    def _repeat(self, calls):
        call = self._connect(self._target)
        is_last = False
        while not is_last:
            # One more call begins after end() was called.
            is_last = self._stop.is_set()
            begun = time.time()
            try:
                call()
                calls.append(None)
                self._has_begun.set()
            except Exception as error:  # each client has its own
                calls.append(f"after {time.time() - begun:.2f} s, at "
                             f"{time.strftime('%H:%M:%S')}: {error!r} {error}")
            time.sleep(PAUSE_SECONDS)

    def await_response(self):
        return self._has_begun.wait(30)

    def kill(self):
        self._process.kill()

    def end(self):
        self._stop.set()
        result = self._result.recv()
        self._process.join()
        return result


class Bench:
    """Calls with `topk bench`, which checks the responses."""

    def __init__(self, target):
        self._process = subprocess.Popen(
            ["topk", "bench", "--target", target, "--tls-ca", CA,
             "--token-file", TOKEN, "--k", "10", "--shape", "4,1000", "--json",
             "--max-attempts", "4", "--rate", "15", "--keep-going", "--warmup",
             "0", "--duration", "3600"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)

    def await_response(self):
        return True

    def kill(self):
        self._process.kill()

    def end(self):
        self._process.send_signal(signal.SIGINT)
        out, err = self._process.communicate(timeout=90)
        try:
            report = json.loads(out)
        except json.JSONDecodeError:
            return {"calls": 0, "lost": 1, "error": out + err}
        return {"calls": report["requests"],
                "lost": sum(report["errors"].values()),
                "error": json.dumps(report["errors"])
                if report["errors"] else ""}


def begin(targets):
    loads = {name: {way: PythonLoad(name, target)
                    for way, target in targets.items()} for name in CLIENTS}
    loads["bench"] = {way: Bench(target) for way, target in targets.items()}
    for name, ways in loads.items():
        for way, load in ways.items():
            if not load.await_response():
                print(f"{name} over {way} has no response", file=sys.stderr)
    return loads


def main():
    targets = dict(argument.split("=", 1) for argument in sys.argv[1:])
    loads = {}
    for line in sys.stdin:
        if line.strip() == "begin":
            loads = begin(targets)
            answer = {}
        else:
            answer = {name: {way: load.end() for way, load in ways.items()}
                      for name, ways in loads.items()}
            loads = {}
        print(json.dumps(answer), flush=True)
    for ways in loads.values():  # the driver has ended early
        for load in ways.values():
            load.kill()


if __name__ == "__main__":
    main()
