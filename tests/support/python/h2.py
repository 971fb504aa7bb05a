"""HTTP/2 frames, for clients that misbehave in ways that no library supports.

Functions return frames and header fields as bytes. A Connection sends bytes and
reads frames, always with a time limit.
"""

import select
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS = 0, 1, 3, 4
PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 6, 7, 8, 9
END_STREAM = ACK = 1
END_HEADERS = 4
HEADER_TABLE_SIZE, MAX_CONCURRENT_STREAMS = 1, 3
INITIAL_WINDOW_SIZE, MAX_HEADER_LIST_SIZE = 4, 6
REFUSED_STREAM, CANCEL = 7, 8


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">IBI", len(payload) << 8 | kind, flags,
                       stream) + payload


def settings(*pairs):
    return frame(SETTINGS, 0, 0, b"".join(
        struct.pack(">HI", key, value) for key, value in pairs))


def rst_stream(stream, code=CANCEL):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def window_update(stream, increment):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def integer(value):
    """Returns an HPACK integer with a prefix of 7 bits."""
    return bytes([value]) if value < 127 else b"\x7f" + varint(value - 127)


def string(text):
    """Returns an HPACK string without Huffman encoding."""
    text = text.encode("latin-1") if isinstance(text, str) else text
    return integer(len(text)) + text


def field(name, value):
    """Returns a literal header field."""
    return bytes([0]) + string(name) + string(value)


SERVICE = "/topk.v1.TopKService/"


def fields(rpc="ComputeTopK", **changed):
    """Returns the header fields of a call as pairs. Keywords override a field
    (scheme for :scheme, content_type for content-type); None omits it."""
    wanted = {":method": "POST", ":scheme": "http", ":path": SERVICE + rpc,
              ":authority": "localhost", "content-type": "application/grpc",
              "te": "trailers"}
    for key, value in changed.items():
        name = ":" + key if ":" + key in wanted else key.replace("_", "-")
        wanted[name] = value
    return [(key, value) for key, value in wanted.items() if value is not None]


def block(pairs):
    return b"".join(field(name, value) for name, value in pairs)


def call(stream, pairs, end_stream=False):
    """Returns a HEADERS frame that starts a call."""
    flags = END_HEADERS | (END_STREAM if end_stream else 0)
    return frame(HEADERS, flags, stream, block(pairs))


def message(payload, flag=0, length=None):
    """Returns a message with gRPC's prefix. `length` overrides its length."""
    size = len(payload) if length is None else length
    return struct.pack(">BI", flag, size) + payload


def data(stream, payload, end_stream=False, most=16384):
    """Splits a payload into DATA frames of at most `most` bytes."""
    pieces = [payload[i:i + most] for i in range(0, len(payload), most)]
    pieces = pieces or [b""]
    return b"".join(
        frame(DATA, END_STREAM if end_stream and i + 1 == len(pieces) else 0,
              stream, piece) for i, piece in enumerate(pieces))


def request(stream, pairs, payload):
    """Returns the frames of a call with one message."""
    return call(stream, pairs) + data(stream, message(payload), end_stream=True)


class Connection:
    """A connection; closed at the end of a with block.

    hello   whether to send the preface and SETTINGS
    own     the client's settings; the default disables the server's HPACK
            table, so that headers can be read without a decoder
    ack     whether to acknowledge the server's SETTINGS
    pongs   whether to answer PINGs
    greets  whether to wait for the server's SETTINGS, which define the windows
    source  the source address
    """

    def __init__(self, target, hello=True, own=((HEADER_TABLE_SIZE, 0),),
                 ack=True, pongs=True, greets=True, source=None):
        host, port = target.rsplit(":", 1)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if source is not None:
            self.socket.bind((source, 0))
        self.socket.settimeout(10)
        self.closed = False
        self.received = b""
        self.frames = []
        self.settings = {}
        self.owed = b""
        self.wants_ack = ack
        self.pongs = pongs
        self.taken = 0
        self.granted = {0: 65535}
        try:
            self.socket.connect((host, int(port)))
        except ConnectionError:
            self.closed = True
        self.socket.setblocking(False)
        if hello:
            self.send(PREFACE + settings(*own))
            if greets:
                self.read(lambda kind, flags, *_: kind == SETTINGS and
                          not flags & ACK)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, wire, seconds=10, read=True):
        """Sends bytes. Also reads if `read` is set. Returns the number of bytes
        sent before the server closes the connection or stalls."""
        view = memoryview(wire)
        sent = 0
        deadline = time.monotonic() + seconds
        while sent < len(view) and not self.closed:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            readable, writable, _ = select.select(
                [self.socket] if read else [], [self.socket], [], left)
            if readable:
                self._receive()
            if writable:
                try:
                    sent += self.socket.send(view[sent:sent + (1 << 20)])
                except BlockingIOError:
                    pass
                except OSError:
                    self.closed = True
        self._reply()
        return sent

    def upload(self, stream, payload, end_stream=False, seconds=10, most=16384):
        """Sends bytes on a stream as fast as flow control allows, in frames of
        at most `most` bytes. Returns the number of bytes sent before the server
        closes the stream or stalls."""
        view = memoryview(payload)
        sent = 0
        deadline = time.monotonic() + seconds
        self.granted.setdefault(stream, 0)
        while not self.closed and (left := deadline - time.monotonic()) > 0:
            room = min(self.granted[0], self.granted[stream] +
                       self.settings.get(INITIAL_WINDOW_SIZE, 65535))
            piece = view[sent:sent + min(max(room, 0), 1 << 20)]
            if piece or not view:
                last = sent + len(piece) == len(view)
                wire = data(stream, piece, end_stream and last, most)
                if self.send(wire) < len(wire):
                    break
                for window in (0, stream):
                    self.granted[window] -= len(piece)
                sent += len(piece)
                if last:
                    break
            elif any(frame[0] == RST_STREAM and frame[2] == stream
                     for frame in self.frames):
                break
            elif select.select([self.socket], [], [], left)[0]:
                self._receive()
                self._reply()
        return sent

    def read(self, until, seconds=10):
        """Reads until a frame matches the predicate. Returns the frame, or None
        if the connection is closed or time runs out."""
        deadline = time.monotonic() + seconds
        looked = 0
        while True:
            while looked < len(self.frames):
                if until(*self.frames[looked]):
                    found = self.frames[looked]
                    del self.frames[:looked + 1]
                    return found
                looked += 1
            left = deadline - time.monotonic()
            if self.closed or left <= 0:
                return None
            if select.select([self.socket], [], [], left)[0]:
                self._receive()
                self._reply()

    def wait_closed(self, seconds=10):
        """Returns whether the server closes the connection in time."""
        self.read(lambda *_: False, seconds)
        return self.closed

    def answer(self, stream, seconds=10):
        """Reads to the end of a stream. Returns the contents of its HEADERS and
        of its DATA frames, or None if the stream was reset or did not end."""
        headers, body = b"", b""
        while True:
            found = self.read(
                lambda kind, flags, on, payload: on == stream and
                kind in (DATA, HEADERS, RST_STREAM), seconds)
            if found is None or found[0] == RST_STREAM:
                return None
            if found[0] == DATA:
                body += found[3]
            else:
                headers += found[3]
            if found[1] & END_STREAM:
                return headers, body

    def _receive(self):
        try:
            received = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self.closed = True
            return
        buffer = self.received + received
        at = 0
        while len(buffer) - at >= 9:
            size, flags, stream = struct.unpack_from(">IBI", buffer, at)
            kind, size = size & 255, size >> 8
            if len(buffer) - at - 9 < size:
                break
            payload = buffer[at + 9:at + 9 + size]
            at += 9 + size
            self.frames.append((kind, flags, stream & 0x7fffffff, payload))
            if kind == DATA:
                self.taken += size
                if self.taken > 30000:
                    self.owed += window_update(0, self.taken)
                    self.taken = 0
            if kind == SETTINGS and not flags & ACK:
                for i in range(0, len(payload), 6):
                    key, value = struct.unpack_from(">HI", payload, i)
                    self.settings[key] = value
                if self.wants_ack:
                    self.owed += frame(SETTINGS, ACK, 0)
            elif kind == WINDOW_UPDATE and len(payload) == 4:
                self.granted[stream] = (self.granted.get(stream, 0) +
                                        struct.unpack(">I", payload)[0])
            elif kind == PING and not flags & ACK and self.pongs:
                self.owed += frame(PING, ACK, 0, payload)
        self.received = buffer[at:]

    def _reply(self):
        """Sends pending acknowledgments. Must not be called within a frame."""
        owed, self.owed = self.owed, b""
        try:
            if owed:
                self.socket.send(owed)
        except OSError:
            pass
