"""Messages of many small fields: a few bytes each on the wire, many once
parsed."""

import h2
import topk_requests
from attacks import HEALTH, OIP, STREAMS, TOPK, UNARY, attack
from topk_requests import field
from topk_stubs import load_oip_stubs, load_stubs

MIB = 1 << 20
MESSAGE = 16 * MIB
# Two bytes name the field, a third is its value: protobuf keeps 16 bytes or
# more for each.
UNKNOWN_VARINT = b"\xf8\x01\x00"  # field 31, varint 0
UNKNOWN_EMPTY = b"\xfa\x01\x00"  # field 31, no bytes
UNKNOWN_GROUP = b"\xfb\x01\xfc\x01"  # field 31, a group without a field
EMPTY_FIELDS = [field(number, b"") for number in (1, 2, 3, 6)]
UNKNOWN_FIELDS = (UNKNOWN_VARINT, UNKNOWN_EMPTY, UNKNOWN_GROUP)


def repeat(piece, size):
    return piece * (size // len(piece))


def _send_all(attacker, messages):
    """Sends messages one at a time, because messages that gRPC is still
    receiving are not counted yet."""
    with attacker.connect() as client:
        for path, message in messages:
            if client.closed or not attacker.goes_on():
                break
            stream = client.call(path, message)
            attacker.delivered()
            for _ in client.wait([stream], 0.5):
                client.reset(stream)
            attacker.count(client, [stream])


def _ones(count):
    """A packed field `shape` or `sizes` (2) of dimensions of 1."""
    return field(2, b"\x01" * count)


def many_dimension_messages(count):
    """Messages with `count` dimensions of 1, for each call that takes a
    tensor."""
    shape = _ones(count)
    spec = field(2, b"\x08\x01\x10\x0b")  # ONNX TopK-11
    k = field(3, field(2, b"\x08\x01"))
    request = field(1, b"\x08\x09" + shape + field(4, b"\x07")) + spec + k
    header = field(1, field(1, b"\x08\x09" + shape) + spec + k)
    strides = field(1, b"\x08\x09" + shape + field(3, b"\x00" * count))
    sizes = field(5, field(5, _ones(count)))
    k_shape = field(3, field(2, field(2, b"\x08\x08" + shape)))
    small = field(1, b"\x08\x09" + _ones(1) + field(4, b"\x07"))
    infer = (field(1, b"onnx_topk") + field(
        5, field(1, b"X") + field(2, b"UINT8") + field(3, b"\x01" * count)) +
             field(7, b"\x07"))
    return [(TOPK + "ComputeTopK", request), (TOPK + "StreamTopK", header),
            (TOPK + "ComputeTopKMany", request),
            (OIP + "ModelInfer", infer), (OIP + "ModelStreamInfer", infer),
            (TOPK + "ComputeTopK", strides), (TOPK + "ComputeTopK", sizes),
            (TOPK + "ComputeTopK", small + spec + k_shape)]


@attack(processes=1, rounds=8)
def many_dimensions(attacker):
    """Millions of dimensions of 1: 16 MiB of shape, strides or sizes."""
    messages = many_dimension_messages(7 * MIB)
    attacker.random.shuffle(messages)
    _send_all(attacker, messages)


@attack(processes=1, rounds=21)
def many_unknown_fields(attacker):
    """16 MiB of 3-byte unknown fields, or of empty messages, to every
    method."""
    paths = UNARY + STREAMS
    attacker.random.shuffle(paths)
    _send_all(attacker, (
        (path, repeat(attacker.random.choice(
            [*UNKNOWN_FIELDS] * 3 + EMPTY_FIELDS), MESSAGE))
        for path in paths))


@attack(processes=1, rounds=5, arriving=60)
def unknown_fields_of_60_mib(attacker):
    """The same to methods whose messages are empty."""
    paths = [TOPK + "GetCapabilities", OIP + "ServerLive",
             OIP + "ServerMetadata", HEALTH + "Check"]
    attacker.random.shuffle(paths)
    _send_all(attacker, (
        (path, repeat(attacker.random.choice(UNKNOWN_FIELDS), 60 * MIB))
        for path in paths))


# The Open Inference Protocol -------------------------------------------------

MODEL = field(1, b"onnx_topk")


def _infer(attacker, bodies):
    paths = [OIP + "ModelInfer", OIP + "ModelStreamInfer"]
    _send_all(attacker, ((attacker.random.choice(paths), body)
                         for body in bodies))


@attack(processes=1, rounds=7)
def empty_inputs(attacker):
    """8 MiB of empty inputs, outputs, parameters or raw contents in
    ModelInfer."""
    pieces = [field(5, b""), field(6, b""), field(4, b"\x0a\x00"),
              field(5, field(3, b"")), field(5, field(5, b"")), field(7, b"")]
    attacker.random.shuffle(pieces)
    _infer(attacker, (MODEL + repeat(piece, 8 * MIB - 100)
                      for piece in [field(5, b"")] + pieces))


@attack(processes=1, rounds=8)
def typed_contents(attacker):
    """8 MiB of elements one by one, which take 1 to 8 times as much parsed."""
    kinds = [(1, "BOOL", b"\x01"), (2, "INT32", b"\x01"), (3, "INT64", b"\x01"),
             (4, "UINT32", b"\x01"), (5, "UINT64", b"\x01"),
             (6, "FP32", bytes(4)), (7, "FP64", bytes(8))]
    attacker.random.shuffle(kinds)

    def body(number, datatype, element):
        count = (8 * MIB - 200) // len(element)
        contents = field(number, element * count)
        return MODEL + field(5, field(1, b"X") + field(2, datatype.encode()) +
                             field(3, topk_requests.varint(count)) +
                             field(5, contents))

    unpacked = field(5, field(1, b"X") + field(2, b"BYTES") +
                     field(5, repeat(field(8, b""), 8 * MIB - 200)))
    _infer(attacker, [MODEL + unpacked] + [body(*kind) for kind in kinds])


def _group(number, payload=b""):
    return (topk_requests.varint(number << 3 | 3) + payload +
            topk_requests.varint(number << 3 | 4))


@attack(rounds=24)
def raw_contents_in_tiny_frames(attacker):
    """900 KB of ModelInfer with 30 000 raw_input_contents of a byte, in DATA
    frames of 24 bytes."""
    body = h2.message(MODEL + field(5, field(1, b"X")) +
                      field(7, bytes(810000)) + repeat(field(7, b"1"), 90000))
    with attacker.connect() as client:
        while attacker.goes_on() and not client.closed:
            stream = client.open(OIP + "ModelInfer")
            client.upload(stream, body, end_stream=True, frame_bytes=24)
            attacker.delivered()
            client.wait([stream], 3)
            attacker.count(client, [stream])


@attack(processes=1, rounds=8, arriving=60)
def typed_contents_as_groups(attacker):
    """7.6 MiB of typed contents, each of them a group, in four calls at a
    time."""
    groups = repeat(_group(attacker.random.randrange(1, 8)), 38 * MIB // 5)
    body = MODEL + field(5, field(1, b"X") + field(2, b"FP32") +
                         field(5, groups))
    with attacker.connect() as client:
        while attacker.goes_on() and not client.closed:
            streams = [client.call(OIP + "ModelInfer", body) for _ in range(4)]
            attacker.delivered(4)
            client.wait(streams, 5)
            attacker.count(client, streams)


@attack(processes=1, rounds=1000)
def idle_headers_of_many_fields(attacker):
    """1000 idle streams whose headers of 4 KB hold unknown fields, groups in
    the place of known fields, or attributes again and again."""
    header = topk_requests.onnx("U8", [1 << 20], data=None).SerializeToString()
    fillers = [*UNKNOWN_FIELDS, _group(1), field(1, UNKNOWN_VARINT),
               field(3, field(2, field(2, field(5, b"")) + b"\x08\x01"))]
    clients = [attacker.connect(greets=True) for _ in range(10)]
    for client in clients:
        for _ in range(100):
            body = header + repeat(attacker.random.choice(fillers), 3900)
            client.call(TOPK + "StreamTopK", field(1, body), end=False)
            attacker.delivered()
    attacker.hold_and_close(clients)


# Long texts ------------------------------------------------------------------


def _text_fields(descriptor):
    """Yields the numbers that lead to each field of text, at any depth."""
    for one in descriptor.fields:
        if one.type == one.TYPE_STRING:
            yield (one.number,)
        elif one.type == one.TYPE_MESSAGE:
            for rest in _text_fields(one.message_type):
                yield one.number, *rest


def _with_text(path, numbers, text):
    """Returns a request that is valid except for one field of text."""
    for number in reversed(numbers):
        text = field(number, text)
    if path.endswith("Infer"):
        return topk_requests.infer(
            "UINT8", [1], data=b"1").SerializeToString() + text
    if path.startswith(OIP):
        return text
    valid = topk_requests.openvino("U8", [1], data=b"1").SerializeToString()
    return field(1, valid) + text if path.endswith("StreamTopK") else valid + text


@attack(processes=1, rounds=15, flags=("--allow-shared-memory",))
def long_texts(attacker):
    """16 MiB in each field of text, such as a mode, a model, a region or a
    type, which errors repeat."""
    fields = [
        (f"/{service.full_name}/{method.name}", numbers)
        for file, name in ((load_stubs()["topk"], "TopKService"),
                           (load_oip_stubs()[0], "GRPCInferenceService"))
        for service in [file.DESCRIPTOR.services_by_name[name]]
        for method in service.methods
        for numbers in _text_fields(method.input_type)]
    attacker.random.shuffle(fields)
    _send_all(attacker, (
        (path, _with_text(path, numbers, b"x" * MESSAGE))
        for path, numbers in fields))


# Request ids -----------------------------------------------------------------


@attack(processes=1, rounds=6, arriving=60)
def long_request_ids(attacker):
    """A request id of 60 MiB, and 256 of 64 KiB, which Many echoes."""
    with attacker.connect() as client:
        for size, count in ((60 * MIB, 1), (64 << 10, 256),
                            (attacker.random.randrange(300, 1 << 20), 16)):
            item = topk_requests.onnx(
                "U8", [4], data=b"1234",
                request_id="x" * size).SerializeToString()
            infer = MODEL + field(3, b"x" * size)
            for path, message in ((TOPK + "ComputeTopKMany", item),
                                  (OIP + "ModelStreamInfer", infer)):
                client.call(path, *[message] * count, end=False)
                client.poll(0.1)
                attacker.delivered()
        attacker.hold(client)
