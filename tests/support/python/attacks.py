"""Attacks by a hostile client: each is a function of a Stage.

Each sends a bounded amount, times the stage's scale, and returns a few words on
the server's reaction. hostile_test.py checks that the server survives, releases
memory and file descriptors, and responds to the neighbour.
"""

import collections
import gzip
import itertools
import select
import socket
import struct
import time
import zlib

import h2
import harness

MIB = 1 << 20
ATTACKS = {}


class Stage:
    """Where an attack takes place."""

    def __init__(self, target, scale=1):
        self.target = target
        self.scale = scale
        self._sources = 0

    def source(self):
        """Each time another address to come from."""
        self._sources += 1
        return f"127.0.{1 + self._sources // 250 % 250}." \
               f"{1 + self._sources % 250}"

    def connect(self, **how):
        return h2.Connection(self.target, source=self.source(), **how)

    def served(self):
        """Whether a new client is served."""
        with self.connect() as client:
            client.send(h2.call(1, h2.fields()) +
                        h2.data(1, h2.message(harness.REQUEST),
                                end_stream=True))
            answer = client.answer(1)
            return answer is not None and b"grpc-status\x010" in answer[0]


def attack(memory):
    """Makes a function an attack, during which the server's memory may grow by
    `memory` MiB: the max memory of its messages, with a margin."""

    def add(function):
        function.memory = memory
        ATTACKS[function.__name__] = function
        return function

    return add


def _counted(outcomes):
    counts = collections.Counter(outcomes)
    return ", ".join(f"{counts[name]} {name}" for name in sorted(counts))


def _told(client):
    """Waits until the server has read all that was sent, or has closed. Returns
    how it took it."""
    begin = time.monotonic()
    client.send(h2.frame(h2.PING, 0, 0, b"thelast1"))
    client.read(lambda kind, flags, stream, payload: kind == h2.GOAWAY or
                payload == b"thelast1")
    seconds = time.monotonic() - begin
    for kind, _, _, payload in client.frames + [client.found]:
        if kind == h2.GOAWAY:
            code = struct.unpack_from(">I", payload, 4)[0]
            return f"GOAWAY {code} " + payload[8:40].decode("latin-1")
    return ("closed" if client.closed else "open") + f" after {seconds:.1f} s"


# Header fields -------------------------------------------------------------

ODD_FIELDS = [
    ("te", "x"), ("te", ""), ("te", "trailers, x"), (":scheme", "x"),
    (":scheme", ""), (":method", "X"), (":method", "GET"), (":method", ""),
    (":path", ""), (":path", "*"), (":path", "/" * 300), (":status", "200"),
    (":bogus", "x"), ("content-type", "x"), ("content-type", ""),
    ("grpc-encoding", "x"), ("grpc-encoding", ""),
    ("grpc-internal-encoding-request", "gzip"), ("grpc-timeout", "x"),
    ("grpc-timeout", "99999999999H"), ("grpc-timeout", "-1S"),
    ("grpc-timeout", ""), ("grpc-tags-bin", "!"), ("grpc-tags-bin", "AAA"),
    ("grpc-trace-bin", "AA=="), ("grpc-server-stats-bin", "AAAA"),
    ("lb-token", "x"), ("lb-cost-bin", "AAAA"), ("grpclb_client_stats", "x"),
    ("grpc-previous-rpc-attempts", "x"), ("grpc-retry-pushback-ms", "x"),
    ("grpc-status", "x"), ("grpc-message", "%zz"), ("user-agent", ""),
    ("grpc-accept-encoding", "x,,gzip,"), (":authority", ""), ("host", "x"),
    ("endpoint-load-metrics-bin", "AA"), ("x-endpoint-load-metrics-bin", "!"),
    ("connection", "close"), ("content-length", "x"), ("UPPER", "x"),
    ("", "x"), ("x\0y", "x\0y"), ("x", "\r\n\0"), ("x", "\xff" * 20)]


def _with(odd):
    """Fields of a call in which an odd one stands for its kind."""
    pairs = [pair for pair in h2.fields() if pair[0] != odd[0]]
    return pairs, [odd]


def _ask_with(stage, wires, body=True):
    """How each of these beginnings of a call ends, a connection each. gRPC's
    limits count from the acknowledgement on: every second one comes before."""
    outcomes = []
    for number, wire in enumerate(wires):
        with stage.connect(greets=number % 2 == 1) as client:
            if body:
                wire += h2.data(1, h2.message(harness.REQUEST), end_stream=True)
            client.send(wire)
            outcomes.append(client.ended(1))
    return _counted(outcomes)


@attack(memory=16)
def odd_fields(stage):
    """Each field that gRPC reads, wrong, at both ends of the block, each way of
    indexing."""
    wires = []
    for odd, first in itertools.product(ODD_FIELDS, (0, 0x10, 0x40)):
        rest, odd = _with(odd)
        for pairs in (odd + rest, rest + odd):
            block = b"".join(h2.field(*pair, first) for pair in pairs)
            wires.append(h2.frame(h2.HEADERS, h2.END_HEADERS, 1, block))
    return _ask_with(stage, wires)


def _split(stream, pieces):
    """HEADERS and CONTINUATION frames of these pieces."""
    out = []
    for i, piece in enumerate(pieces):
        kind = h2.HEADERS if i == 0 else h2.CONTINUATION
        flags = 0 if i else h2.END_STREAM
        flags |= h2.END_HEADERS if i + 1 == len(pieces) else 0
        out.append(h2.frame(kind, flags, stream, piece))
    return b"".join(out)


@attack(memory=16)
def odd_base64(stage):
    """-bin fields with invalid base64."""
    values = ["!", "A", "AA", "AAA", "AAAA=", "=", "====", "A=A=", "A\0AA",
              "AAB", "\xff\xff", "A" * 1001, "AA==AA==", " AAAA", "AAAA,AAAA",
              "\0raw", "\0"]
    names = ["x-bin", "grpc-status-details-bin", "grpc-tags-bin", "-bin"]
    wires = [h2.call(1, h2.fields() + [(name, value)])
             for name, value in itertools.product(names, values)]
    return _ask_with(stage, wires)


@attack(memory=16)
def much_metadata(stage):
    """Hundreds of entries, and single ones beyond the limit."""
    lots = [[(f"k{i}", "v") for i in range(count)] for count in
            (100, 200, 500, 2000)]
    large = [[("x", "v" * size)] for size in (7000, 16000, 60000, 1 << 20)]
    wires = []
    for extra in lots + large:
        block = h2.block(h2.fields() + extra)
        wires += [_split(1, [block[i:i + 16384]
                             for i in range(0, len(block), 16384)])] * 2
    return _ask_with(stage, wires, body=False)


# HPACK ---------------------------------------------------------------------


def _continue(stage, first, pieces):
    """HEADERS without an end, then a CONTINUATION for each piece."""
    with stage.connect(ack=False) as client:
        client.send(h2.frame(h2.HEADERS, 0, 1, first))
        sent = 0
        wire = b""
        for piece in pieces:
            wire += h2.frame(h2.CONTINUATION, 0, 1, piece)
            if len(wire) > 1 << 16:
                sent += client.send(wire)
                wire = b""
            if client.closed:
                break
        sent += client.send(wire)
        return f"{sent / MIB:.1f} MiB, {_told(client)}"


@attack(memory=64)
def continuation_flood(stage):
    """CVE-2024-27316's kind: header fields without an end."""
    piece = b"".join(h2.field(f"k{i}", "v" * 60) for i in range(70))
    return _continue(stage, h2.block(h2.fields()),
                     itertools.repeat(piece, 1000 * stage.scale))


@attack(memory=64)
def hpack_bomb(stage):
    """A byte that stands for a field of the table, again and again."""
    first = h2.block(h2.fields()) + h2.field("bomb", "v" * 10, 0x40)
    return _continue(stage, first,
                     itertools.repeat(h2.indexed(62) * 160, 1000 * stage.scale))


@attack(memory=64)
def endless_string(stage):
    """CVE-2023-33953: a field of a gigabyte, announced, and begun."""
    first = b"\x00" + h2.string("x") + h2.integer(1 << 30, 7)
    return _continue(stage, first,
                     itertools.repeat(b"v" * 16000, 300 * stage.scale))


# Floods --------------------------------------------------------------------


def _flood(stage, wire, times, first=b"", read=True):
    """The same frames, many times; whether they are taken."""
    with stage.connect() as client:
        client.send(first)
        chunk = wire * max(1, 65536 // len(wire))
        sent = 0
        wanted = len(wire) * times
        while sent < wanted and not client.closed:
            done = client.send(chunk, seconds=3, read=read)
            sent += done
            if done < len(chunk):
                break
        told = _told(client)
        return f"{sent // len(wire)} sent, {told}"


@attack(memory=96)
def ping_flood(stage):
    return _flood(stage, h2.frame(h2.PING, 0, 0, b"12345678"),
                  50000 * stage.scale)


@attack(memory=96)
def ping_flood_unread(stage):
    """Nobody reads the answers. A call now and then keeps gRPC from counting
    strikes."""
    return _flood(stage, h2.frame(h2.PING, 0, 0, b"12345678"),
                  100000 * stage.scale, read=False)


@attack(memory=96)
def settings_flood(stage):
    return _flood(stage, h2.settings(), 50000 * stage.scale)


@attack(memory=96)
def settings_flood_unread(stage):
    return _flood(stage, h2.settings(), 200000 * stage.scale, read=False)


@attack(memory=96)
def empty_data_flood(stage):
    return _flood(stage, h2.frame(h2.DATA, 0, 1), 50000 * stage.scale,
                  h2.call(1, h2.fields("StreamTopK")))


def _resets(stage, method, extra, count, end_stream=False):
    with stage.connect() as client:
        head = h2.block(h2.fields(method))
        flags = h2.END_HEADERS | (h2.END_STREAM if end_stream else 0)
        done = 0
        for begin in range(0, count, 200):
            wire = b"".join(
                h2.frame(h2.HEADERS, flags, 2 * i + 1, head) +
                extra(2 * i + 1) for i in range(begin, begin + 200))
            client.send(wire, seconds=20)
            client.frames.clear()
            if client.closed:
                break
            done += 200
        return f"{done} streams, {_told(client)}"


@attack(memory=128)
def rapid_reset(stage):
    """CVE-2023-44487: a call, reset at once."""
    return _resets(stage, "ComputeTopK", h2.rst_stream, 10000 * stage.scale)


@attack(memory=128)
def rapid_reset_of_streams(stage):
    return _resets(stage, "StreamTopK", h2.rst_stream, 10000 * stage.scale)


@attack(memory=128)
def rapid_reset_with_request(stage):
    """The request is whole: work may have begun."""
    body = h2.message(harness.REQUEST)
    return _resets(stage, "ComputeTopK", lambda stream: h2.data(
        stream, body, end_stream=True) + h2.rst_stream(stream),
                   5000 * stage.scale)


@attack(memory=64)
def unknown_methods(stage):
    """Calls of what is not there."""
    return _resets(stage, "Bogus", lambda stream: b"", 5000 * stage.scale,
                   end_stream=True)


# Violations of HTTP/2 ------------------------------------------------------


@attack(memory=16)
def odd_frames(stage):
    """Frames of the wrong size, in the wrong place, in the wrong order."""
    begin = h2.call(1, h2.fields("StreamTopK"))
    whole = h2.call(1, h2.fields()) + h2.data(
        1, h2.message(harness.REQUEST), end_stream=True)
    header = h2.block(h2.fields())
    most = (1 << 31) - 1
    wires = [
        h2.frame(h2.PING, 0, 0, b"1234567"), h2.frame(h2.PING, 0, 1, b"8" * 8),
        h2.frame(h2.RST_STREAM, 0, 1, b"12345"), h2.rst_stream(0),
        h2.frame(h2.SETTINGS, 0, 0, b"1234567"),
        h2.frame(h2.SETTINGS, 0, 1), h2.frame(h2.SETTINGS, 1, 0, b"123456"),
        h2.settings((h2.ENABLE_PUSH, 7)), h2.settings((h2.MAX_FRAME_SIZE, 1)),
        h2.settings((h2.INITIAL_WINDOW_SIZE, 1 << 31)),
        h2.settings((0xffff, 0xffffffff)), h2.window_update(0, 0),
        h2.frame(h2.WINDOW_UPDATE, 0, 0, b"123"),
        h2.window_update(0, most) * 2, begin + h2.window_update(1, most) * 2,
        begin + h2.settings((h2.INITIAL_WINDOW_SIZE, most)) +
        h2.window_update(1, most),
        h2.frame(h2.HEADERS, 4, 0, header), h2.frame(h2.HEADERS, 4, 2, header),
        begin.replace(b"\0\0\0\1", b"\0\0\0\5", 1) + begin,
        h2.frame(h2.HEADERS, 4 | 8, 1, b"\xff" + header),
        h2.frame(h2.HEADERS, 4 | 32, 1, b"\0"),
        h2.frame(h2.DATA, 0, 0, b"x"), h2.frame(h2.DATA, 0, 7, b"x"),
        begin + h2.frame(h2.DATA, 8, 1, b"\xff" + b"x" * 10),
        h2.frame(h2.CONTINUATION, 4, 1, header),
        h2.frame(h2.HEADERS, 0, 1, header) + h2.frame(h2.PING, 0, 0, b"8" * 8),
        h2.frame(h2.HEADERS, 0, 1, header) + h2.frame(
            h2.CONTINUATION, 4, 3, header),
        h2.frame(h2.PUSH_PROMISE, 4, 1, b"\0\0\0\2" + header),
        h2.frame(h2.PRIORITY, 0, 1, b"123"),
        h2.frame(h2.PRIORITY, 0, 1, b"\0\0\0\1\0"),
        h2.frame(h2.DATA, 0, 1, b"", length=(1 << 24) - 1) + b"x" * 70000,
        begin + h2.frame(h2.DATA, 0, 1, b"x" * 16385 * 300),
        whole + h2.data(1, h2.message(harness.REQUEST), end_stream=True),
        whole + h2.call(1, h2.fields(), end_stream=True),
        begin + h2.call(1, h2.fields()), begin + begin + begin,
        begin + h2.call(1, [("x", "y")], end_stream=True),
        begin + h2.call(1, h2.fields(), end_stream=True) * 2,
        begin + h2.data(1, b"", end_stream=True) * 2, whole + h2.rst_stream(1),
        h2.call(1, [("grpc-status", "0")], end_stream=True),
        h2.call(1, [], end_stream=True), h2.PREFACE,
        h2.frame(h2.GOAWAY, 0, 0, b""), h2.frame(h2.GOAWAY, 0, 1, bytes(8)),
        b"\0" * 5000, b"\xff" * 5000, b"x" * 100000]
    outcomes = []
    for wire in wires:
        with stage.connect() as client:
            client.send(wire)
            outcomes.append(client.ended(1, 0.1))
    return _counted(outcomes)


@attack(memory=16)
def other_protocols(stage):
    """Not HTTP/2 at all."""
    starts = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
              b"\x16\x03\x01" + b"x" * 70000, b"\0" * 100, b"PRI * HTTP/2.0",
              h2.PREFACE + h2.frame(h2.PING, 0, 0, b"8" * 8),
              h2.PREFACE[:-1] + b"x", b"SSH-2.0-x\r\n", b"PROXY TCP4 1 2 3 4"]
    outcomes = []
    for start in starts:
        with stage.connect(hello=False) as client:
            client.send(start)
            outcomes.append("closed" if client.wait_closed(0.3) else "open")
    return _counted(outcomes)


# Bodies --------------------------------------------------------------------


@attack(memory=64)
def prefix_of_4_gib(stage):
    """A message of 4 GiB, announced, and begun: on each kind of call."""
    outcomes = []
    for method, length in itertools.product(
            ("ComputeTopK", "StreamTopK", "ComputeTopKMany"),
            (0xffffffff, 1 << 31, (1 << 31) - 1, 65 * MIB)):
        with stage.connect() as client:
            client.send(h2.call(1, h2.fields(method)) +
                        h2.data(1, h2.message(b"x" * 60000, length=length)))
            outcomes.append(client.ended(1, 0.2))
    return _counted(outcomes)


@attack(memory=160)
def message_beyond_the_limit(stage):
    """A message of 4 GiB, announced, and sent as far as the windows let it:
    gRPC looks at its size once it is whole."""
    with stage.connect() as client:
        client.send(h2.call(1, h2.fields()) +
                    h2.data(1, h2.message(b"", length=0xffffffff)))
        window = {0: 65535 - 5, 1: client.settings[h2.INITIAL_WINDOW_SIZE] - 5}
        chunk = h2.frame(h2.DATA, 0, 1, bytes(16384)) * 16
        sent = 0
        while sent < 100 * MIB * stage.scale and not client.closed:
            for kind, _, stream, payload in client.frames:
                if kind == h2.WINDOW_UPDATE:
                    window[stream] += struct.unpack(">I", payload)[0]
            if any(kind == h2.RST_STREAM for kind, *_ in client.frames):
                return f"reset after {sent / MIB:.0f} MiB"
            client.frames.clear()
            if min(window.values()) < 16 * 16384:
                # Its windows may have grown by SETTINGS, too.
                if client.read(lambda *_: True, 1) is None:
                    break
                client.frames.append(client.found)
                continue
            client.send(chunk)
            sent += 16 * 16384
            window[0] -= 16 * 16384
            window[1] -= 16 * 16384
        return f"{sent / MIB:.0f} MiB, {_told(client)}"


@attack(memory=64)
def many_large_promises(stage):
    """200 calls announce 60 MiB each, and send a byte."""
    with stage.connect() as client:
        for stream in range(1, 401, 2):
            client.send(h2.call(stream, h2.fields()) + h2.data(
                stream, h2.message(b"x", length=60 * MIB)))
        client.read(lambda *_: False, 0.3)
        return _told(client)


@attack(memory=64)
def drip(stage):
    """Bodies that come a byte at a time, and never end."""
    clients = [stage.connect() for _ in range(50)]
    for client in clients:
        client.send(h2.call(1, h2.fields()) + h2.data(
            1, h2.message(b"", length=MIB)))
    for _ in range(30 * stage.scale):
        for client in clients:
            client.send(h2.data(1, b"\x0a"))
        time.sleep(0.01)
    closed = sum(client.closed for client in clients)
    for client in clients:
        client.socket.close()
    return f"{closed} of 50 closed"


@attack(memory=128)
def message_by_bytes(stage):
    """A message in frames of a byte each, ten bytes of wire for one."""
    size = MIB // 4 * stage.scale
    with stage.connect() as client:
        client.send(h2.call(1, h2.fields()) +
                    h2.data(1, h2.message(b"", length=size)))
        wire = h2.frame(h2.DATA, 0, 1, b"x") * 4096
        for _ in range(size // 4096):
            client.send(wire)
            if client.closed:
                break
        return client.ended(1, 5)


@attack(memory=64)
def empty_messages(stage):
    """Streams of messages without a byte."""
    told = []
    for method in ("StreamTopK", "ComputeTopKMany", "ComputeTopK"):
        told.append(_flood(stage, h2.data(1, h2.message(b"") * 1000),
                           100 * stage.scale, h2.call(1, h2.fields(method))))
    return "; ".join(told)


@attack(memory=96)
def empty_messages_unread(stage):
    """Each is answered, and nobody reads the answers."""
    return _flood(stage, h2.data(1, h2.message(b"") * 1000), 200 * stage.scale,
                  h2.call(1, h2.fields("ComputeTopKMany")), read=False)


@attack(memory=160)
def gzip_bomb(stage):
    """Compressed messages beyond the limit once they are not."""
    size = 256 * MIB * stage.scale
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(compressor.compress(bytes(MIB))
                    for _ in range(size // MIB)) + compressor.flush()
    outcomes = []
    for method in ("ComputeTopK", "StreamTopK", "ComputeTopKMany"):
        with stage.connect() as client:
            client.send(
                h2.call(1, h2.fields(method, grpc_encoding="gzip")) +
                h2.data(1, h2.message(bomb, flag=1), end_stream=True))
            outcomes.append(client.ended(1, 30))
    return f"{len(bomb)} bytes: " + _counted(outcomes)


@attack(memory=96)
def odd_encodings(stage):
    """Each encoding with each flag, its bytes right or wrong."""
    bodies = [harness.REQUEST, gzip.compress(harness.REQUEST),
              zlib.compress(harness.REQUEST), b"", gzip.compress(b"")[:-4],
              gzip.compress(harness.REQUEST) * 2, b"\x1f\x8b" + b"\xff" * 50]
    names = ("identity", "gzip", "deflate", "snappy", "br", "stream/gzip", "",
             None)
    wires = [h2.call(1, h2.fields(grpc_encoding=name)) + h2.data(
        1, h2.message(body, flag=flag), end_stream=True)
             for name, body, flag in itertools.product(names, bodies,
                                                       (0, 1, 2, 255))]
    return _ask_with(stage, wires, body=False)


# Clients that take nothing -------------------------------------------------

_LARGE = harness.request(values=bytes(256) * 4096, k=1 << 20)


def _large_answers(stage, streams, own, read):
    """Asks for answers of 9 MiB each, which are not taken."""
    client = stage.connect(own=own)
    for i in range(streams):
        client.send(h2.call(2 * i + 1, h2.fields()) +
                    h2.data(2 * i + 1, h2.message(_LARGE), end_stream=True),
                    read=read)
    return client


@attack(memory=256)
def windows_never_open(stage):
    """Large answers for a window of nothing."""
    with _large_answers(stage, 8, ((h2.INITIAL_WINDOW_SIZE, 0),), True) as one:
        one.read(lambda *_: False, 1)
        return _told(one)


@attack(memory=256)
def windows_open_by_bytes(stage):
    """The same, and a byte of window at a time."""
    own = ((h2.INITIAL_WINDOW_SIZE, 0),)
    with _large_answers(stage, 8, own, True) as client:
        for _ in range(1000 * stage.scale):
            client.send(b"".join(h2.window_update(2 * i + 1, 1)
                                 for i in range(8)))
            if client.closed:
                break
        return _told(client)


@attack(memory=256)
def never_reads(stage):
    """Opens the window wide, and takes nothing from its socket."""
    own = ((h2.INITIAL_WINDOW_SIZE, (1 << 31) - 1),)
    with _large_answers(stage, 8, own, False) as client:
        client.send(h2.window_update(0, (1 << 31) - 65536), read=False)
        time.sleep(1)
        return _told(client)


@attack(memory=96)
def idle_streams(stage):
    """As many streams as the server lets one open, nothing on them."""
    with stage.connect() as client:
        limit = client.settings.get(h2.MAX_CONCURRENT_STREAMS)
        count = 1000 if limit is None else limit
        for i in range(count):
            client.send(h2.call(2 * i + 1, h2.fields("StreamTopK")))
        client.read(lambda *_: False, 0.2)
        within = _told(client)
        client.send(h2.call(2 * count + 1, h2.fields("StreamTopK")))
        client.read(lambda *_: False, 0.2)
        return f"limit {limit}: {within}; one more: {_told(client)}"


@attack(memory=96)
def idle_streams_beyond(stage):
    """A client that did not acknowledge the limit opens 2000."""
    with stage.connect(ack=False) as client:
        for i in range(2000):
            client.send(h2.call(2 * i + 1, h2.fields("StreamTopK")))
            if client.closed:
                break
        client.read(lambda *_: False, 0.2)
        return f"{i + 1} streams, {_told(client)}"


# Connections ---------------------------------------------------------------


def _crowd(stage, count, start, seconds):
    """Opens connections that send these bytes. Returns the number that the
    server closes; its own SETTINGS do not count as a close."""
    sockets = []
    host, port = stage.target.rsplit(":", 1)
    for _ in range(count):
        one = socket.socket()
        one.bind((stage.source(), 0))
        one.connect((host, int(port)))
        one.sendall(start)
        one.setblocking(False)
        sockets.append(one)
    poller = select.poll()
    by_number = {one.fileno(): one for one in sockets}
    for number in by_number:
        poller.register(number, select.POLLIN)
    deadline = time.monotonic() + seconds
    while by_number and time.monotonic() < deadline:
        for number, _ in poller.poll(100):
            try:
                ended = not by_number[number].recv(65536)
            except BlockingIOError:
                ended = False
            except OSError:
                ended = True
            if ended:
                poller.unregister(number)
                del by_number[number]
    for one in sockets:
        one.close()
    return f"{count - len(by_number)} of {count} closed in {seconds} s"


@attack(memory=128)
def silent_connections(stage):
    return _crowd(stage, 1000, b"", 3)


@attack(memory=128)
def half_prefaces(stage):
    return _crowd(stage, 1000, h2.PREFACE[:12], 3)


@attack(memory=128)
def half_handshakes(stage):
    """The preface without SETTINGS."""
    return _crowd(stage, 1000, h2.PREFACE, 3)


@attack(memory=128)
def idle_connections(stage):
    """Well begun, and then nothing."""
    return _crowd(stage, 1000, h2.PREFACE + h2.settings(), 1)


@attack(memory=64)
def connection_churn(stage):
    """Connections that come and go."""
    host, port = stage.target.rsplit(":", 1)
    reset = struct.pack("ii", 1, 0)
    for i in range(2000 * stage.scale):
        with socket.create_connection(
                (host, int(port)), source_address=(stage.source(), 0)) as one:
            if i % 3 == 1:
                one.sendall(h2.PREFACE + h2.settings())
            if i % 3 == 2:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    return "served" if stage.served() else "not served"
