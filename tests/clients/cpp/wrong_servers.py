"""Servers whose responses are wrong, huge, slow or corrupt, one port for each
kind.

Every kind is called by the request of REQUEST, by ComputeTopK, StreamTopK and
ComputeTopKMany. Message-level kinds are gRPC's own servers with handlers of
bytes; the others write HTTP/2 frames themselves.

usage: wrong_servers.py TOPKD     which is not called; prints {name: target}
"""

import concurrent.futures
import json
import select
import socket
import struct
import sys
import threading
import time
import zlib

import client_package  # noqa: F401, makes topk_client importable
import grpc
import h2
from answer_cases import CASES, patched
from google.protobuf import any_pb2, duration_pb2, json_format
from google.rpc import error_details_pb2, status_pb2
from topk_client._stubs import topk_pb2

REQUEST = CASES["requests"]["onnx"]
# The error that a client must report: CODE, or CODE:REASON.
BAD = ("INTERNAL:BAD_ANSWER",)
TIMEOUT = ("DEADLINE_EXCEEDED",)
LOST = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
HUGE = 300 << 20  # a client that allocates it fails

KINDS = {}  # name: (what starts it, expected)
FRAMES = set()  # names of those that are not gRPC's own servers


def kind(*expected):
    """Registers f(method, context), a generator of a method's messages."""
    def register(f):
        KINDS[f.__name__.replace("_", " ")] = (
            lambda: start_grpc(f), expected or BAD)
        return f
    return register


def raw(*expected):
    """Registers f(connection, stream), which answers a call by frames."""
    def register(f):
        name = f.__name__.replace("_", " ")
        FRAMES.add(name)
        KINDS[name] = (lambda: start_raw(f), expected)
        return f
    return register


def start_grpc(f):
    def unary(request, context):
        context.has_id = bool(
            topk_pb2.TopKRequest.FromString(request).request_id)
        return next(f("ComputeTopK", context), b"")

    def streamed(method):
        def handle(requests, context):
            for _ in requests:
                pass
            yield from f(method, context)
        return grpc.stream_stream_rpc_method_handler(handle)

    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(12),
        handlers=(grpc.method_handlers_generic_handler(
            "topk.v1.TopKService", {
                "ComputeTopK": grpc.unary_unary_rpc_method_handler(unary),
                "StreamTopK": streamed("StreamTopK"),
                "ComputeTopKMany": streamed("ComputeTopKMany")}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return f"127.0.0.1:{port}", server


def right(change=None):
    response = json_format.ParseDict(REQUEST["response"],
                                     topk_pb2.TopKResponse())
    if change:
        change(response)
    return response


def wrap(method, response):
    """Returns the bytes of a response as the method sends it."""
    if method == "StreamTopK":
        response = topk_pb2.TopKResponseChunk(header=response)
    elif method == "ComputeTopKMany":
        response = topk_pb2.TopKResult(response=response)
    return response.SerializeToString()


# ---- responses that are not the request's: the table's.


def from_table(change):
    def messages(method, context):
        response = patched(REQUEST["response"], change)
        if not getattr(context, "has_id", True) and "requestId" not in change:
            del response["requestId"]  # so that only the change is wrong
        yield wrap(method, json_format.ParseDict(response,
                                                 topk_pb2.TopKResponse()))
    return lambda: start_grpc(messages)


for row in CASES["wrong"]:
    if row["of"] == "onnx":
        KINDS[row["name"]] = (from_table(row["change"]), BAD)


# ---- bytes that are not messages.


@kind()
def no_protobuf(method, context):
    yield b"\xff" * 100


@kind()
def a_message_of_no_bytes(method, context):
    yield b""


@kind()
def a_message_that_is_cut(method, context):
    yield wrap(method, right())[:-1]


@kind()
def a_length_beyond_the_message(method, context):
    yield b"\x0a\xff\xff\xff\xff\x07" + b"1" * 100


@kind()
def groups_without_end(method, context):
    yield b"\x0b" * 100000


@kind()
def a_request_id_that_is_not_text(method, context):
    yield wrap(method, right()).replace(b"\x1a\x01a", b"\x1a\x01\xff")


@kind()
def a_message_of_more_than_the_response(method, context):
    yield wrap(method, right()) + b"\xfa\x07" + b"\x80\x80\x80\x02" + bytes(
        4 << 20)


# ---- streams in the wrong order, or without end.


def endless(method, context, more):
    """Yields a response, and then the same message without end."""
    yield wrap(method, right())
    while context.is_active():
        yield more(method)


@kind()
def more_of_everything(method, context):
    if method == "ComputeTopK":
        yield b"\xff"
    yield from endless(method, context, lambda m: wrap(m, right()))


@kind()
def endless_chunks(method, context):
    if method != "StreamTopK":
        yield b"\xff"
    yield from endless(method, context, lambda m: topk_pb2.TopKResponseChunk(
        indices=bytes(1 << 16)).SerializeToString())


@kind()
def endless_chunks_of_no_bytes(method, context):
    if method != "StreamTopK":
        yield b"\xff"
    yield from endless(method, context, lambda m: topk_pb2.TopKResponseChunk(
        values=b"").SerializeToString())


@kind()
def endless_empty_messages(method, context):
    if method == "ComputeTopK":
        yield b"\xff"
    yield from endless(method, context, lambda m: b"")


@kind()
def chunks_without_a_header(method, context):
    yield (b"\xff" if method != "StreamTopK" else topk_pb2.TopKResponseChunk(
        values=b"1").SerializeToString())


@kind()
def an_end_without_a_message(method, context):
    if method == "ComputeTopK":
        yield b"\xff"
    yield from ()


@kind()
def a_result_of_another_request(method, context):
    response = right(lambda r: setattr(r, "request_id", "b"))
    yield (topk_pb2.TopKResult(response=right(), request_id="b"
                               ).SerializeToString()
           if method == "ComputeTopKMany" else wrap(method, response))


# ---- slow ones.


def hang(context):
    done = threading.Event()
    context.add_callback(done.set)
    done.wait(60)


@kind(*TIMEOUT)
def no_answer(method, context):
    hang(context)
    yield b""


@kind(*TIMEOUT)
def an_answer_without_an_end(method, context):
    if method == "ComputeTopK":
        hang(context)
    yield wrap(method, right())
    hang(context)


@kind(*TIMEOUT, *BAD)
def a_byte_at_a_time(method, context):
    if method != "StreamTopK":
        hang(context)
    yield wrap(method, right(lambda r: r.values.ClearField("data")))
    for _ in range(1000):
        time.sleep(0.5)
        yield topk_pb2.TopKResponseChunk(values=b"1").SerializeToString()


# ---- errors that are corrupt, and delays.


def fails(context, code, message="no", details=None, pushback=None):
    trailers = []
    if details is not None:
        trailers.append(("grpc-status-details-bin", details))
    if pushback is not None:
        trailers.append(("grpc-retry-pushback-ms", pushback))
    context.set_trailing_metadata(trailers)
    context.abort(code, message)


def detailed(*messages):
    status = status_pb2.Status(code=8, message="full")
    for message in messages:
        status.details.add().Pack(message)
    return status.SerializeToString()


def delayed(seconds, nanos=0):
    return detailed(error_details_pb2.RetryInfo(
        retry_delay=duration_pb2.Duration(seconds=seconds, nanos=nanos)))


@kind("INVALID_ARGUMENT")
def details_of_no_protobuf(method, context):
    fails(context, grpc.StatusCode.INVALID_ARGUMENT, details=b"\xff" * 50)
    yield b""


@kind("INVALID_ARGUMENT")
def a_detail_of_no_protobuf(method, context):
    status = status_pb2.Status(code=3)
    for name in ("ErrorInfo", "BadRequest", "QuotaFailure", "RetryInfo"):
        status.details.append(any_pb2.Any(
            type_url=f"type.googleapis.com/google.rpc.{name}",
            value=b"\xff" * 50))
    fails(context, grpc.StatusCode.INVALID_ARGUMENT,
          details=status.SerializeToString())
    yield b""


@kind("INVALID_ARGUMENT")
def text_that_controls_terminals(method, context):
    info = error_details_pb2.ErrorInfo(reason="\x1b[2J\a\u009b1m")
    fails(context, grpc.StatusCode.INVALID_ARGUMENT, "\x1b]0;owned\a\u009b2J",
          detailed(info))
    yield b""


def register_delay(name, seconds, nanos=0):
    def messages(method, context):
        fails(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "full",
              delayed(seconds, nanos))
        yield b""
    KINDS[name] = (lambda: start_grpc(messages), ("RESOURCE_EXHAUSTED",))


register_delay("a delay of 96 s", 96)
register_delay("a delay of 2^40 s", 1 << 40)
register_delay("a delay of 2^63 - 1 s", (1 << 63) - 1)
register_delay("a delay of -2^63 s", -1 << 63)
register_delay("a delay of -1 ns", 0, -1)
register_delay("a delay that is repeated", 0, 100_000_000)


def register_pushback(name, text):
    def messages(method, context):
        fails(context, grpc.StatusCode.UNAVAILABLE, "not now", pushback=text)
        yield b""
    KINDS[name] = (lambda: start_grpc(messages), ("UNAVAILABLE",))


register_pushback("a pushback of no number", "soon")
register_pushback("a pushback of 2^80 ms", str(1 << 80))
register_pushback("a pushback below 0", "-1")
register_pushback("unavailable for ever", "1")


@kind("UNAVAILABLE:ANSWER_BROKE_OFF")
def unknown_without_details(method, context):
    fails(context, grpc.StatusCode.UNKNOWN)
    yield b""


@kind("UNAUTHENTICATED")
def a_message_and_then_an_error(method, context):
    if method != "ComputeTopK":
        yield wrap(method, right(
            lambda r: r.indices.ClearField("data") if method == "StreamTopK"
            else None))
    fails(context, grpc.StatusCode.UNAUTHENTICATED)


# ---- frames.

OK_HEADERS = (h2.indexed(8) + h2.field("content-type", "application/grpc"))


class Connection:
    """The server's end of one connection."""

    def __init__(self, sock):
        self.socket = sock
        self.received = b""
        self.windows = {0: 65535}
        self.initial = 65535
        self.calls = []
        self.open = True

    def send(self, data):
        self.socket.sendall(data)

    def headers(self, stream, fields=OK_HEADERS, end=False):
        self.send(h2.frame(h2.HEADERS, h2.END_HEADERS | (h2.END_STREAM if end
                                                         else 0), stream,
                           fields))

    def trailers(self, stream, status, **more):
        fields = h2.field("grpc-status", str(status))
        for name, value in more.items():
            fields += h2.field(name.replace("_", "-"), value)
        self.headers(stream, fields, True)

    def data(self, stream, payload):
        """Sends as the client's windows allow."""
        payload = memoryview(payload)
        while payload and self.open:
            room = min(self.windows[0], self.windows.setdefault(
                stream, self.initial), 16384, len(payload))
            if room <= 0:
                self.pump(1)
                continue
            self.send(h2.frame(h2.DATA, 0, stream, bytes(payload[:room])))
            self.windows[0] -= room
            self.windows[stream] -= room
            payload = payload[room:]
            self.pump(0)

    def pump(self, seconds):
        """Reads what there is for a while."""
        if not select.select([self.socket], [], [], seconds)[0]:
            return
        received = self.socket.recv(1 << 16)
        if not received:
            self.open = False
            raise ConnectionError
        self.received += received
        while len(self.received) >= 9:
            size, flags, stream = struct.unpack_from(">IBI", self.received)
            frame_kind, size = size & 255, size >> 8
            if len(self.received) < 9 + size:
                return
            payload = self.received[9:9 + size]
            self.received = self.received[9 + size:]
            self.take(frame_kind, flags, stream, payload)

    def take(self, frame_kind, flags, stream, payload):
        if frame_kind == h2.SETTINGS and not flags & h2.ACK:
            for at in range(0, len(payload), 6):
                key, value = struct.unpack_from(">HI", payload, at)
                if key == h2.INITIAL_WINDOW_SIZE:
                    for one in self.windows:
                        if one:
                            self.windows[one] += value - self.initial
                    self.initial = value
            self.send(h2.frame(h2.SETTINGS, h2.ACK, 0))
        elif frame_kind == h2.PING and not flags & h2.ACK:
            self.send(h2.frame(h2.PING, h2.ACK, 0, payload))
        elif frame_kind == h2.WINDOW_UPDATE:
            self.windows[stream] = self.windows.get(
                stream, self.initial) + struct.unpack(">I", payload)[0]
        elif frame_kind == h2.HEADERS:
            if stream == 1:  # the health check of gRPC's channels
                self.headers(1)
                self.trailers(1, 12)
            else:
                self.calls.append(stream)
        elif frame_kind == h2.GOAWAY:
            self.open = False


def serve(sock, f):
    with sock:
        sock.settimeout(60)
        connection = Connection(sock)
        try:
            if getattr(f, "at_once", False):
                f(connection, 0)
                return
            while len(connection.received) < len(h2.PREFACE):
                received = sock.recv(1 << 16)
                if not received:
                    return
                connection.received += received
            connection.received = connection.received[len(h2.PREFACE):]
            connection.send(h2.settings())
            while connection.open:
                connection.pump(60)
                while connection.calls:
                    f(connection, connection.calls.pop(0))
        except OSError:
            pass


def start_raw(f):
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def accept():
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=serve, args=(sock, f), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}", listener


def prefix(length, flag=0):
    return struct.pack(">BI", flag, length)


def zeros_by_gzip(size):
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    block = bytes(1 << 20)
    return b"".join([packer.compress(block) for _ in range(size >> 20)]
                    ) + packer.flush()


_BOMB = zeros_by_gzip(HUGE) if __name__ == "__main__" else b""


@raw("UNIMPLEMENTED", "INTERNAL", "INTERNAL:BAD_ANSWER")
def a_small_message_that_inflates(connection, stream):
    connection.headers(stream, OK_HEADERS + h2.field("grpc-encoding", "gzip"))
    connection.data(stream, prefix(len(_BOMB), 1) + _BOMB)
    connection.trailers(stream, 0)


@raw("UNIMPLEMENTED", "INTERNAL", "INTERNAL:BAD_ANSWER")
def a_compressed_message_without_an_encoding(connection, stream):
    packed = zeros_by_gzip(1 << 20)
    connection.headers(stream)
    connection.data(stream, prefix(len(packed), 1) + packed)
    connection.trailers(stream, 0)


@raw("UNIMPLEMENTED", "INTERNAL", "INTERNAL:BAD_ANSWER")
def an_encoding_that_there_is_not(connection, stream):
    connection.headers(stream, OK_HEADERS + h2.field("grpc-encoding", "zip"))
    connection.data(stream, prefix(5, 1) + b"12345")
    connection.trailers(stream, 0)


@raw("INTERNAL:BAD_ANSWER", *TIMEOUT)
def a_message_of_4_GiB_that_begins(connection, stream):
    connection.headers(stream)
    connection.data(stream, prefix((1 << 32) - 1) + bytes(1000))


@raw("INTERNAL:BAD_ANSWER", *TIMEOUT)
def a_message_of_300_MiB(connection, stream):
    connection.headers(stream)
    connection.data(stream, prefix(HUGE))
    block = bytes(1 << 20)
    for _ in range(HUGE >> 20):
        connection.data(stream, block)
    connection.trailers(stream, 0)


@raw(*TIMEOUT)
def a_message_that_does_not_end(connection, stream):
    connection.headers(stream)
    connection.data(stream, prefix(1000) + bytes(500))


@raw(*TIMEOUT)
def headers_without_an_end(connection, stream):
    connection.headers(stream)


@raw("INTERNAL", "UNAVAILABLE", "UNKNOWN", "UNAVAILABLE:ANSWER_BROKE_OFF",
     "INTERNAL:BAD_ANSWER")
def a_message_that_is_cut_off(connection, stream):
    connection.headers(stream)
    connection.data(stream, prefix(1000) + bytes(500))
    connection.trailers(stream, 0)


@raw("INTERNAL", "UNIMPLEMENTED", "INTERNAL:BAD_ANSWER", "UNKNOWN")
def no_message_and_ok(connection, stream):
    connection.headers(stream)
    connection.trailers(stream, 0)


@raw("UNKNOWN", "UNAVAILABLE:ANSWER_BROKE_OFF", "INTERNAL")
def a_status_that_there_is_not(connection, stream):
    connection.headers(stream)
    connection.trailers(stream, 77)


@raw("UNKNOWN", "UNAVAILABLE:ANSWER_BROKE_OFF", "INTERNAL", *LOST)
def an_end_without_a_status(connection, stream):
    connection.headers(stream)
    connection.send(h2.frame(h2.DATA, h2.END_STREAM, stream))


@raw(*LOST, "UNKNOWN", "UNAVAILABLE:ANSWER_BROKE_OFF", "INTERNAL")
def a_page_of_a_proxy(connection, stream):
    connection.headers(stream, h2.field(":status", "502")
                       + h2.field("content-type", "text/html"))
    connection.send(h2.frame(h2.DATA, h2.END_STREAM, stream, b"<html>502"))


@raw("RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE", "UNKNOWN", "CANCELLED",
     "UNAVAILABLE:ANSWER_BROKE_OFF")
def headers_of_a_megabyte(connection, stream):
    connection.headers(stream)
    value = "x" * 15000
    block = b"".join(h2.field(f"x-{n}", value) for n in range(70))
    parts = [block[at:at + 16000] for at in range(0, len(block), 16000)]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        connection.send(h2.frame(
            h2.CONTINUATION if number else h2.HEADERS,
            (h2.END_HEADERS if last else 0)
            | (0 if number else h2.END_STREAM), stream, part))


@raw("UNAVAILABLE", "CANCELLED", "INTERNAL", "RESOURCE_EXHAUSTED", "UNKNOWN",
     "DEADLINE_EXCEEDED")
def a_stream_that_is_reset(connection, stream):
    connection.headers(stream)
    connection.send(h2.rst_stream(stream, 2))


@raw(*LOST)
def a_goaway_for_each_call(connection, stream):
    connection.send(h2.frame(h2.GOAWAY, 0, 0, struct.pack(">II", 0, 2)))
    raise ConnectionError


@raw("UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED", "UNKNOWN")
def a_frame_longer_than_allowed(connection, stream):
    connection.send(h2.frame(h2.DATA, 0, stream, b"", (1 << 24) - 1))
    connection.send(bytes(1 << 16))


@raw("UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED", "UNKNOWN")
def fields_that_are_corrupt(connection, stream):
    connection.headers(stream, b"\xff" * 100)


def at_once(f):
    f.at_once = True
    return f


@raw(*LOST)
@at_once
def another_protocol(connection, stream):
    connection.send(b"SSH-2.0-OpenSSH_9.2\r\n")
    time.sleep(0.2)


@raw(*LOST)
@at_once
def a_server_of_http_1(connection, stream):
    connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    time.sleep(0.2)


@raw(*LOST)
@at_once
def a_connection_that_is_closed(connection, stream):
    pass


@raw(*LOST)
@at_once
def a_connection_that_stays_silent(connection, stream):
    connection.socket.recv(1)
    time.sleep(30)


def start_all():
    """Starts every kind. Returns {name: target}; they end with the process."""
    running = {name: start() for name, (start, _) in KINDS.items()}
    start_all.kept = running
    return {name: target for name, (target, _) in running.items()}


def main():
    print(json.dumps(start_all()), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
