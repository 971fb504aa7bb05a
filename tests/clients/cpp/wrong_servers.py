"""Servers whose responses are wrong, huge, slow or corrupt, or that fail some
attempts. Each row of ROWS is a behavior, with the error that every client must
report. Each row has a port for each method.

usage: wrong_servers.py TOPKD
       TOPKD is not used. Prints a JSON list of [name, method, target]. For each
       line of stdin, prints {"name method": calls since the previous line}.
"""

import base64
import collections
import functools
import itertools
import json
import socket
import struct
import sys
import threading
import time
import urllib.parse
import zlib
from typing import Any, NamedTuple, Optional

import client_package  # noqa: F401, makes topk_client importable
import grpc
import h2
from answer_cases import CASES, patched
from google.protobuf import any_pb2, duration_pb2, json_format
from google.rpc import error_details_pb2, status_pb2
from topk_client._stubs import topk_pb2

UNARY, STREAM, MANY = METHODS = ("ComputeTopK", "StreamTopK", "ComputeTopKMany")
# The number of requests in each ComputeTopKMany call.
REQUESTS = 3
RESPONSE = CASES["requests"]["onnx"]["response"]
# Errors, as CODE or CODE:REASON.
BAD = ("INTERNAL:BAD_ANSWER",)
TIMEOUT = ("DEADLINE_EXCEEDED",)
LOST = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
BROKE_OFF = ("UNAVAILABLE:ANSWER_BROKE_OFF",)
REJECTED = ("UNIMPLEMENTED", "INTERNAL", *BAD)
HUGE = 300 << 20  # a client that allocates this much fails
CODES = {code.name: code.value[0] for code in grpc.StatusCode}


class Row(NamedTuple):
    """What a server does, and how a client must react.

    Attributes:
      expected: the client must report one of these errors; "OK" is a success.
      attempts: the steps of each call; further calls repeat the last steps.
      methods: the methods that the row applies to.
      calls: the exact number of calls that the client makes.
      results: the number of results that a ComputeTopKMany returns.
      delay: the retry delay that the client reports, in seconds.
      at_least: the minimum duration, in seconds.
      breaks: whether the connection or the framing fails.
      at_once: whether the server acts before it receives anything.
    """

    expected: Any
    attempts: Any
    methods: Any = METHODS
    calls: Optional[int] = None
    results: Optional[int] = None
    delay: Optional[float] = None
    at_least: float = 0
    breaks: bool = False
    at_once: bool = False


class Connection(h2.Connection):
    """The server's end of one connection."""

    def __init__(self, sock):
        self.socket = sock
        self.socket.setblocking(False)
        self.begin()
        self.send(h2.settings())

    def calls(self):
        """Yields (stream, request) of each call whose request is complete."""
        requests = collections.defaultdict(bytes)
        while not self.closed:
            kind, flags, stream, payload = self.read(
                lambda *_: True, 60) or (None, 0, 0, b"")
            if kind == h2.DATA:
                requests[stream] += payload
                if flags & h2.END_STREAM:
                    yield stream, requests.pop(stream)
            elif kind == h2.GOAWAY:
                return


class Call:
    """A call whose request has been received."""

    def __init__(self, connection, stream, method, request):
        self.connection = connection
        self.stream = stream
        self.method = method
        self.request = request
        self.begun = False

    def requests(self):
        """Yields the TopKRequests."""
        at = 0
        while at < len(self.request):
            size = 5 + struct.unpack_from(">I", self.request, at + 1)[0]
            data = self.request[at + 5:at + size]
            at += size
            if self.method == STREAM:
                yield topk_pb2.TopKRequestChunk.FromString(data).header
                return
            yield topk_pb2.TopKRequest.FromString(data)

    def frame(self, kind, flags=0, payload=b"", length=None):
        self.connection.send(
            h2.frame(kind, flags, self.stream, payload, length))

    def begin(self, fields=b""):
        """Sends the response's headers."""
        self.begun = True
        self.frame(h2.HEADERS, h2.END_HEADERS, h2.indexed(8) + h2.field(
            "content-type", "application/grpc") + fields)

    def data(self, payload):
        if not self.begun:
            self.begin()
        if self.connection.upload(self.stream, payload) < len(payload):
            raise ConnectionError

    def say(self, message, flag=0):
        self.data(struct.pack(">BI", flag, len(message)) + message)

    def end(self, status, fields=b""):
        """Sends the trailers."""
        if not self.begun:
            self.begin()
        self.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM,
                   h2.field("grpc-status", status) + fields)

    def right(self, request=None, change=None):
        """Returns the serialized correct message for a request (by default, the
        first one), with the changes in `change`."""
        request = request or next(self.requests())
        response = json_format.ParseDict(
            patched(dict(RESPONSE, requestId=request.request_id), change or {}),
            topk_pb2.TopKResponse())
        if self.method == STREAM:
            response = topk_pb2.TopKResponseChunk(header=response)
        elif self.method == MANY:
            response = topk_pb2.TopKResult(response=response)
        return response.SerializeToString()


# ---- Steps, which are functions of a Call.


def say(message):
    """Sends a message: bytes, or a function of the correct message."""
    return lambda call: call.say(
        message(call.right()) if callable(message) else message)


def chunk(**content):
    return say(topk_pb2.TopKResponseChunk(**content).SerializeToString())


def respond(change=None, requests=1):
    """Responds to the first requests."""
    def step(call):
        for request in itertools.islice(call.requests(), requests):
            call.say(call.right(request, change))
    return step


def result(request_id, response_id="0"):
    """Sends a result with these ids. The probes send the ids 0, 1 and 2."""
    def step(call):
        message = topk_pb2.TopKResult(request_id=request_id)
        json_format.ParseDict(dict(RESPONSE, requestId=response_id),
                              message.response)
        call.say(message.SerializeToString())
    return step


def end(code="OK", text="no", details=None, pushback=None):
    fields = h2.field("grpc-message", urllib.parse.quote(text))
    if isinstance(details, status_pb2.Status):
        details = details.SerializeToString()
    if details is not None:
        fields += h2.field("grpc-status-details-bin",
                           base64.b64encode(details).rstrip(b"="))
    if pushback is not None:
        fields += h2.field("grpc-retry-pushback-ms", pushback)
    return lambda call: call.end(str(CODES.get(code, code)), fields)


def forever(step):
    def repeat(call):
        while True:
            step(call)
    return repeat


def quit_after_one(code):
    """Responds to one request, and fails if there are more."""
    def step(call):
        requests = list(call.requests())
        call.say(call.right())
        end(code if requests[1:] else "OK")(call)
    return step


def headers(fields=b""):
    return lambda call: call.begin(fields)


def data(payload):
    return lambda call: call.data(payload)


def frame(*of):
    return lambda call: call.frame(*of)


def slowly(call):
    for _ in range(1000):
        time.sleep(0.5)
        chunk(values=b"1")(call)


def large_headers(call):
    call.begin()
    block = b"".join(h2.field(f"x-{n}", "x" * 15000) for n in range(70))
    parts = [block[at:at + 16000] for at in range(0, len(block), 16000)]
    for number, part in enumerate(parts):
        call.frame(h2.CONTINUATION if number else h2.HEADERS,
                   (h2.END_HEADERS if number == len(parts) - 1 else 0)
                   | (0 if number else h2.END_STREAM), part)


def go_away(call):
    call.connection.send(
        h2.frame(h2.GOAWAY, 0, 0, struct.pack(">II", 0, 2)))
    raise ConnectionError


@functools.cache
def zeros_by_gzip(size):
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    block = bytes(1 << 20)
    return b"".join([packer.compress(block) for _ in range(size >> 20)]
                    ) + packer.flush()


def inflating(size, encoding):
    def step(call):
        call.begin(h2.field("grpc-encoding", encoding) if encoding else b"")
        call.say(zeros_by_gzip(size), 1)
        call.end("0")
    return step


def huge_message(call):
    call.data(struct.pack(">BI", 0, HUGE))
    for _ in range(HUGE >> 20):
        call.data(bytes(1 << 20))
    call.end("0")


def detailed(*messages, code=8):
    status = status_pb2.Status(code=code, message="full")
    for message in messages:
        status.details.add().Pack(message)
    return status


def delayed(seconds, nanos=0):
    return detailed(error_details_pb2.RetryInfo(
        retry_delay=duration_pb2.Duration(seconds=seconds, nanos=nanos)))


def full(seconds, nanos=0, pushback=None):
    return [end("RESOURCE_EXHAUSTED", "full", delayed(seconds, nanos),
                pushback)]


def with_reason(reason):
    return detailed(error_details_pb2.ErrorInfo(reason=reason))


RIGHT = [respond(requests=REQUESTS), end()]
GONE = [end("UNAVAILABLE", "gone")]
CORRUPT = status_pb2.Status(code=3, details=[
    any_pb2.Any(type_url=f"type.googleapis.com/google.rpc.{name}",
                value=b"\xff" * 50)
    for name in ("ErrorInfo", "BadRequest", "QuotaFailure", "RetryInfo")])
HALF = data(struct.pack(">BI", 0, 1000) + bytes(500))

ROWS = {row["name"]: Row(BAD, [[respond(row["change"], REQUESTS), end()]])
        for row in CASES["wrong"] if row["of"] == "onnx"}


def add(name, expected, *attempts, **more):
    ROWS[name] = Row((expected,) if isinstance(expected, str) else expected,
                     attempts, **more)


# Bytes that are not messages.
add("no protobuf", BAD, [say(b"\xff" * 100), end()])
add("a message of no bytes", BAD, [say(b""), end()])
add("a message that is cut", BAD, [say(lambda right: right[:-1]), end()])
add("a response twice in a message", BAD, [say(lambda right: 2 * right), end()])
add("a length beyond the message", BAD,
    [say(b"\x0a\xff\xff\xff\xff\x07" + b"1" * 100), end()])
add("groups without end", BAD, [say(b"\x0b" * 100000), end()])
add("a request id that is not text", BAD, [say(
    lambda right: right.replace(b"\x1a\x010", b"\x1a\x01\xff")), end()])
add("a message of more than the response", BAD, [say(
    lambda right: right + b"\xfa\x07" + b"\x80\x80\x80\x02" + bytes(4 << 20)),
    end()])

# Streams in the wrong order, or without end.
STREAMS = (STREAM, MANY)
add("more of everything", BAD, [respond(), forever(respond())],
    methods=STREAMS)
add("endless empty messages", BAD, [respond(), forever(say(b""))],
    methods=STREAMS)
add("endless chunks", BAD, [respond(), forever(chunk(indices=bytes(1 << 12)))],
    methods=[STREAM])
add("endless chunks of no bytes", BAD, [respond(), forever(chunk(values=b""))],
    methods=[STREAM])
add("chunks without a header", BAD, [chunk(values=b"1"), end()],
    methods=[STREAM])
add("an end without a message", BAD, [headers(), end()], methods=STREAMS)
add("one result too many", BAD, [respond(requests=REQUESTS), respond(), end()],
    methods=[MANY])
add("fewer results", BAD, [respond(requests=2), end()], methods=[MANY],
    results=2)
add("a result with the id of its request", "OK",
    [result("0"), result("1", "1"), result("2", "2"), end()], methods=[MANY],
    results=3)
add("a result of another request", BAD, [result("1"), end()], methods=[MANY])
add("a response of another request", BAD, [result("", "1"), end()],
    methods=[MANY])

# Slow servers.
add("no answer", TIMEOUT, [])
add("an answer without an end", TIMEOUT, [respond(requests=2)])
add("a byte at a time", (*TIMEOUT, *BAD),
    [respond({"values": {"data": None}}), slowly], methods=[STREAM])

# Corrupt errors.
add("details of no protobuf", "INVALID_ARGUMENT",
    [end("INVALID_ARGUMENT", details=b"\xff" * 50)])
add("a detail of no protobuf", "INVALID_ARGUMENT",
    [end("INVALID_ARGUMENT", details=CORRUPT)])
add("text that controls terminals", "INVALID_ARGUMENT",
    [end("INVALID_ARGUMENT", "\x1b]0;owned\a\u009b2J",
         with_reason("\x1b[2J\a\u009b1m"))])
add("a message and then an error", "UNAUTHENTICATED",
    [respond({"indices": {"data": None}}), end("UNAUTHENTICATED")],
    methods=[STREAM])
add("results and then an error", "NOT_FOUND",
    [respond(requests=2), end("NOT_FOUND")], methods=[MANY], calls=1, results=2)

# Attempts. Every client makes at most four.
add("unavailable twice", "OK", GONE, GONE, RIGHT, calls=3)
add("a call without a status twice", "OK", *[[end("UNKNOWN")]] * 2, RIGHT,
    calls=3)
add("no call with a status", BROKE_OFF, [end("UNKNOWN")], calls=4)
for code in ("UNAVAILABLE", "CANCELLED", "INTERNAL"):
    add(f"{code} after a part", "OK", [
        respond({"values": {"data": None}}), end(code)], RIGHT,
        methods=[STREAM], calls=2)
for code in ("UNAVAILABLE", "CANCELLED", "INTERNAL", "UNKNOWN"):
    add(f"{code} after each result", "OK", [quit_after_one(code)],
        methods=[MANY], calls=3, results=3)
for code in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "INTERNAL"):
    add(f"{code} that is permanent", code, [end(code)], calls=1)
add("INTERNAL with a reason after a result", "INTERNAL",
    [respond(), end("INTERNAL", details=with_reason("BROKEN"))],
    methods=[MANY], calls=1, results=1)

# Delays that the server asks for.
add("a delay of 150 ms", "OK", full(0, 150_000_000), RIGHT, calls=2,
    at_least=0.15)
add("a delay that is repeated", "RESOURCE_EXHAUSTED", full(0, 100_000_000),
    calls=4, delay=0.1, at_least=0.3)
for seconds, delay in ((96, 96), (1 << 40, 86400), ((1 << 63) - 1, 86400),
                       (-5, 0), (-1 << 63, 0)):
    add(f"a delay of {seconds} s", "RESOURCE_EXHAUSTED", full(seconds), calls=1,
        delay=delay)
add("a delay of -1 ns", "RESOURCE_EXHAUSTED", full(0, -1), calls=1, delay=0)
add("a delay that precedes a longer pushback", "OK",
    full(0, 100_000_000, "30000"), RIGHT, calls=2)
add("a delay with a pushback that forbids it", "RESOURCE_EXHAUSTED",
    full(0, 100_000_000, "-1"), calls=1)
add("a pushback of 300 ms", "OK",
    *[[end("UNAVAILABLE", pushback="300")]] * 2, RIGHT, calls=3, at_least=0.6)
add("a pushback of 30 s", "UNAVAILABLE",
    [end("UNAVAILABLE", pushback="30000")], calls=1, delay=30)
for text in ("soon", "", "-1", str(1 << 80)):
    add(f"a pushback of '{text}'", "UNAVAILABLE",
        [end("UNAVAILABLE", pushback=text)], calls=1, delay=0)
add("a pushback without end", "UNAVAILABLE", [end("UNAVAILABLE", pushback="1")],
    calls=4)

# Broken connections and frames.
for name, expected, *attempts in (
        ("a small message that inflates", REJECTED, [inflating(HUGE, "gzip")]),
        ("a compressed message without an encoding", REJECTED,
         [inflating(1 << 20, None)]),
        ("an encoding that there is not", REJECTED, [inflating(0, "zip")]),
        ("a message of 4 GiB that begins", (*BAD, *TIMEOUT),
         [data(struct.pack(">BI", 0, (1 << 32) - 1) + bytes(1000))]),
        ("a message of 300 MiB", (*BAD, *TIMEOUT), [huge_message]),
        ("a message that does not end", TIMEOUT, [HALF]),
        ("headers without an end", TIMEOUT, [headers()]),
        ("a message that is cut off",
         ("INTERNAL", "UNAVAILABLE", "UNKNOWN", *BROKE_OFF, *BAD),
         [HALF, end()]),
        ("no message and OK",
         ("INTERNAL", "UNIMPLEMENTED", "UNKNOWN", *BAD), [headers(), end()]),
        ("a status that there is not", ("UNKNOWN", *BROKE_OFF, "INTERNAL"),
         [end("77")]),
        ("an end without a status",
         ("UNKNOWN", *BROKE_OFF, "INTERNAL", *LOST),
         [headers(), frame(h2.DATA, h2.END_STREAM)]),
        ("a page of a proxy", (*LOST, "UNKNOWN", *BROKE_OFF, "INTERNAL"),
         [frame(h2.HEADERS, h2.END_HEADERS, h2.field(":status", "502")
                + h2.field("content-type", "text/html")),
          frame(h2.DATA, h2.END_STREAM, b"<html>502")]),
        ("headers of a megabyte",
         ("RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE", "UNKNOWN",
          "CANCELLED", *BROKE_OFF), [large_headers]),
        ("a stream that is reset",
         ("UNAVAILABLE", "CANCELLED", "INTERNAL", "RESOURCE_EXHAUSTED",
          "UNKNOWN", *TIMEOUT),
         [headers(), frame(h2.RST_STREAM, 0, struct.pack(">I", 2))]),
        ("a GOAWAY for each call", LOST, [go_away]),
        ("a frame longer than allowed", ("INTERNAL", "UNKNOWN", *LOST),
         [frame(h2.DATA, 0, b"", (1 << 24) - 1),
          lambda call: call.connection.send(bytes(1 << 16))]),
        ("fields that are corrupt", ("INTERNAL", "UNKNOWN", *LOST),
         [frame(h2.HEADERS, h2.END_HEADERS, b"\xff" * 100)])):
    add(name, expected, *attempts, breaks=True)
for name, greeting in (
        ("another protocol", b"SSH-2.0-OpenSSH_9.2\r\n"),
        ("a server of HTTP/1",
         b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
        ("a connection that is closed", b""),
        ("a connection that stays silent", None)):
    add(name, LOST, [greeting], breaks=True, at_once=True)


# ---- The servers.


class Server:
    """Serves one row to the callers of one method."""

    def __init__(self, row, method):
        self.row = row
        self.method = method
        self.calls = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.target = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            sock, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(sock,),
                             daemon=True).start()

    def serve(self, sock):
        with sock:
            sock.settimeout(60)
            try:
                if self.row.at_once:
                    self.greet(sock, self.row.attempts[0][0])
                else:
                    self.run(sock)
            except OSError:
                pass

    @staticmethod
    def greet(sock, greeting):
        if greeting is None:
            sock.recv(1)
            time.sleep(30)
        elif greeting:
            sock.sendall(greeting)
            time.sleep(0.2)

    def run(self, sock):
        if sock.recv(len(h2.PREFACE)) != h2.PREFACE:
            return
        connection = Connection(sock)
        for stream, request in connection.calls():
            with self.lock:
                attempt = min(self.calls, len(self.row.attempts) - 1)
                self.calls += 1
            call = Call(connection, stream, self.method, request)
            for step in self.row.attempts[attempt]:
                step(call)


def main():
    servers = {(name, method): Server(row, method)
               for name, row in ROWS.items() for method in row.methods}
    print(json.dumps([[*key, server.target]
                      for key, server in servers.items()]), flush=True)
    for _ in sys.stdin:
        calls = {}
        for key, server in servers.items():
            with server.lock:
                calls[" ".join(key)] = server.calls
                server.calls = 0
        print(json.dumps(calls), flush=True)


if __name__ == "__main__":
    main()
