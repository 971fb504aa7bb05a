"""Calls servers that break the protocol, or fail some attempts, with every
client. Each row of ROWS is a behavior, with the error that each client must
report and the number of attempts. Each row has a server for each method. Each
call must end at most one second after its deadline.

usage: faulty_servers_test.py TOPKD PROBE
       TOPKD is not used.
"""

import asyncio
import concurrent.futures
import json
import subprocess
import sys
import time
import unittest
from typing import Any, NamedTuple, Optional

import both_clients
import grpc
import grpc.aio
import numpy as np
import topk_client
from google.protobuf import duration_pb2, json_format
from google.rpc import error_details_pb2, status_pb2
from topk_client import Onnx, Request
from topk_client._stubs import topk_pb2

PROBE = sys.argv.pop(1)
X = np.zeros((2, 5), np.float32)
COUNT = 3  # requests in each ComputeTopKMany call
REQUESTS = [Request(X, Onnx(2), request_id=str(n)) for n in range(COUNT)]
DEADLINE = 4.0
# Clients may return one second after the deadline. The rest allows for other
# tests that run at the same time, and for the start of a process.
SLACK = 4
STREAM, MANY = STREAMS = ("StreamTopK", "ComputeTopKMany")
METHODS = ("ComputeTopK", *STREAMS)
RESPONSE = both_clients.CASES["requests"]["onnx"]["response"]
# Errors, as CODE or CODE:REASON.
BAD = "INTERNAL:BAD_ANSWER"
BROKE_OFF = "UNAVAILABLE:ANSWER_BROKE_OFF"


class Row(NamedTuple):
    """What a server does, and how a client must react.

    Attributes:
      expected: the error that the client must report, or "OK".
      attempts: the steps of each call; further calls repeat the last steps. A
        step is a function of a Call that returns messages, or an End.
      methods: the methods that the row applies to.
      calls: the exact number of calls that the client makes.
      results: the number of results of a ComputeTopKMany.
      delay: the retry delay that the client reports, in seconds.
      at_least: the minimum duration, in seconds.
    """

    expected: str
    attempts: Any
    methods: Any = METHODS
    calls: Optional[int] = None
    results: Optional[int] = None
    delay: Optional[float] = None
    at_least: float = 0


class End(NamedTuple):
    code: str
    details: Any = None
    pushback: Optional[str] = None


class Call:
    """A call whose requests have been received."""

    def __init__(self, method, requests):
        self.method = method
        self.requests = requests

    def right(self, index=0, complete=True):
        """Returns the correct message for a request."""
        data = self.requests[index]
        request = (topk_pb2.TopKRequestChunk.FromString(data).header
                   if self.method == STREAM else
                   topk_pb2.TopKRequest.FromString(data))
        response = json_format.ParseDict(
            dict(RESPONSE, requestId=request.request_id),
            topk_pb2.TopKResponse())
        if not complete:
            response.values.data = b""
        if self.method == STREAM:
            response = topk_pb2.TopKResponseChunk(header=response)
        elif self.method == MANY:
            response = topk_pb2.TopKResult(response=response)
        return response.SerializeToString()


def respond(count=1, complete=True):
    """Responds to the first requests."""
    return lambda call: [call.right(i, complete) for i in range(
        count if call.method == MANY else 1)]


def say(message):
    return lambda call: [message]


def quit_after_one(code):
    """Responds to one request, and fails if there are more."""
    return [respond(), lambda call: [End(code)] if call.requests[1:] else []]


def detailed(message):
    status = status_pb2.Status(code=8, message="full")
    status.details.add().Pack(message)
    return status.SerializeToString()


def full(seconds, nanos=0):
    return [End("RESOURCE_EXHAUSTED", detailed(error_details_pb2.RetryInfo(
        retry_delay=duration_pb2.Duration(seconds=seconds, nanos=nanos))))]


def with_reason(reason):
    return detailed(error_details_pb2.ErrorInfo(reason=reason))


RIGHT = [respond(COUNT)]
GONE = [End("UNAVAILABLE")]
HANG = "hang"

ROWS = {
    # Responses that break the protocol.
    "no protobuf": Row(BAD, [[say(b"\xff" * 100)]], calls=1),
    "a message of no bytes": Row(BAD, [[say(b"")]], calls=1),
    "an incomplete response": Row(BAD, [[respond(COUNT, False)]], calls=1),
    "chunks without a header": Row(BAD, [[say(
        topk_pb2.TopKResponseChunk(values=b"1").SerializeToString())]],
        [STREAM]),
    "two headers": Row(BAD, [[respond(), respond()]], [STREAM]),
    "an end without a message": Row(BAD, [[]], STREAMS),
    "one result too many": Row(BAD, [[respond(COUNT), respond()]], [MANY]),
    "fewer results": Row(BAD, [[respond(2)]], [MANY], results=2),
    "no answer": Row("DEADLINE_EXCEEDED", [[HANG]]),
    # Errors.
    "details of no protobuf": Row("INVALID_ARGUMENT", [
        [End("INVALID_ARGUMENT", b"\xff" * 50)]], calls=1),
    "results and then an error": Row("NOT_FOUND", [
        [respond(2), End("NOT_FOUND")]], [MANY], calls=1, results=2),
    # Attempts. Every client makes at most four.
    "unavailable twice": Row("OK", [GONE, [End("UNAVAILABLE", with_reason(
        "SHUTTING_DOWN"))], RIGHT], calls=3),
    "a proxy without a status": Row("OK", [[End("UNKNOWN")], RIGHT], calls=2),
    "no call with a status": Row(BROKE_OFF, [[End("UNKNOWN")]], calls=4),
    "an error without a delay": Row("RESOURCE_EXHAUSTED", [
        [End("RESOURCE_EXHAUSTED")]], calls=1),
    "a delay of 150 ms": Row("OK", [full(0, 150_000_000), RIGHT], calls=2,
                             at_least=0.15),
    "a delay that is repeated": Row("RESOURCE_EXHAUSTED", [
        full(0, 100_000_000)], calls=4, delay=0.1, at_least=0.3),
    "a delay of 96 s": Row("RESOURCE_EXHAUSTED", [full(96)], calls=1, delay=96),
    "a pushback of 300 ms": Row("OK", [
        [End("UNAVAILABLE", pushback="300")]] * 2 + [RIGHT], calls=3,
        at_least=0.6),
    "a negative pushback is no delay": Row("RESOURCE_EXHAUSTED", [
        [End("RESOURCE_EXHAUSTED", pushback="-1")]], calls=1, delay=0),
    "a pushback of 30 s": Row("UNAVAILABLE", [
        [End("UNAVAILABLE", pushback="30000")]], calls=1, delay=30),
}
for name in ("UNAVAILABLE", "CANCELLED", "INTERNAL"):
    ROWS[f"{name} after a part"] = Row(
        "OK", [[respond(1, False), End(name)], RIGHT], [STREAM], calls=2)
    ROWS[f"{name} after each result"] = Row(
        "OK", [quit_after_one(name)], [MANY], calls=3, results=3)
# An error of a proxy comes after a part of the response and has no reason. Others
# are not retried.
for name in ("CANCELLED", "INTERNAL"):
    ROWS[f"{name} before a response"] = Row(name, [[End(name)]], calls=1)
    ROWS[f"{name} with a reason"] = Row(
        name, [[respond(), End(name, with_reason("BROKEN"))]], STREAMS,
        calls=1)


class Server(grpc.GenericRpcHandler):
    """Serves one row to the callers of one method."""

    def __init__(self, row, method):
        self.row = row
        self.method = method
        self.calls = 0
        self.server = grpc.aio.server()
        self.server.add_generic_rpc_handlers((self,))
        self.target = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"

    def service(self, _):
        return grpc.stream_stream_rpc_method_handler(self.serve)

    async def serve(self, requests, context):
        call = Call(self.method, [request async for request in requests])
        steps = self.row.attempts[min(self.calls, len(self.row.attempts) - 1)]
        self.calls += 1
        for step in steps:
            if step == HANG:
                await asyncio.sleep(60)
            for part in [step] if isinstance(step, End) else step(call):
                if not isinstance(part, End):
                    await context.write(part)
                    continue
                trailers = []
                if part.details is not None:
                    trailers.append(("grpc-status-details-bin", part.details))
                if part.pushback is not None:
                    trailers.append(("grpc-retry-pushback-ms", part.pushback))
                await context.abort(grpc.StatusCode[part.code], "no",
                                    tuple(trailers))


async def start():
    """Starts the servers. Returns {(name, method): Server}."""
    servers = {(name, method): Server(row, method)
               for name, row in ROWS.items() for method in row.methods}
    for server in servers.values():
        await server.server.start()
    return servers


def outcome_of(kind, method, target):
    """Makes a call. Returns what faulty_servers_probe.cc prints."""
    code, reason, message, delay, results = "OK", "", "", 0, []
    begin = time.monotonic()
    with kind(target, timeout=DEADLINE) as client:
        try:
            if method == MANY:
                results.extend(client.compute_topk_many(REQUESTS))
            else:
                results.append(client.compute_topk(
                    X, Onnx(2), request_id="0", stream=method == STREAM))
        except topk_client.TopKError as error:
            code, reason, message = error.code.name, error.reason, str(error)
            delay = error.retry_delay or 0
    return {"code": code, "reason": reason, "message": message, "delay": delay,
            "results": len(results), "seconds": time.monotonic() - begin}


class FaultyServers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = both_clients.in_loop(start)

    def setUp(self):
        for server in self.servers.values():
            server.calls = 0

    def check(self, outcomes):
        """Checks the outcomes of a call of each server."""
        for (name, method), outcome in zip(self.servers, outcomes):
            row = ROWS[name]
            with self.subTest(name, method=method, outcome=outcome):
                self.assertLess(outcome["seconds"], DEADLINE + SLACK)
                self.assertIn(row.expected, (
                    outcome["code"], f"{outcome['code']}:{outcome['reason']}"))
                if row.calls is not None:
                    self.assertEqual(self.servers[name, method].calls,
                                     row.calls)
                self.assertGreaterEqual(outcome["seconds"], row.at_least)
                if row.results is not None:
                    self.assertEqual(outcome["results"], row.results)
                if row.delay is not None:
                    self.assertAlmostEqual(outcome["delay"], row.delay)
                if (row.delay or 0) > DEADLINE:
                    self.assertIn("ends after the deadline",
                                  outcome["message"])

    def check_python(self, kind):
        with concurrent.futures.ThreadPoolExecutor(32) as threads:
            self.check([*threads.map(
                lambda key: outcome_of(kind, key[1], self.servers[key].target),
                self.servers)])

    def test_the_cpp_library(self):
        probe = subprocess.run(
            [PROBE, str(int(1000 * DEADLINE))], capture_output=True, check=True,
            input="".join(f"{method} {server.target}\n" for (_, method), server
                          in self.servers.items()), text=True, timeout=150)
        outcomes = [*map(json.loads, probe.stdout.splitlines())]
        self.assertEqual(len(outcomes), len(self.servers))
        self.check(outcomes)

    def test_the_python_client(self):
        self.check_python(topk_client.Client)

    def test_the_asyncio_client(self):
        self.check_python(both_clients.AioClient)


if __name__ == "__main__":
    unittest.main()
