"""Messages of many small fields, which take much more memory when parsed."""

import h2
import harness
import topk_requests
from attacks import HEALTH, OIP, TOPK, attack
from harness import field

MIB = 1 << 20
MESSAGE = 16 * MIB
# Protobuf needs at least 16 bytes of memory for each of these fields.
UNKNOWN_VARINT = b"\xf8\x01\x00"  # field 31, varint 0
UNKNOWN_EMPTY = b"\xfa\x01\x00"  # field 31, no bytes
UNKNOWN_GROUP = b"\xfb\x01\xfc\x01"  # field 31, a group without a field
EMPTY_FIELDS = [field(number, b"") for number in (1, 2, 3, 6)]
UNKNOWN_FIELDS = (UNKNOWN_VARINT, UNKNOWN_EMPTY, UNKNOWN_GROUP)


def repeat(piece, size):
    return piece * (size // len(piece))


def _send_all(attacker, messages):
    """Sends messages one at a time, because a message is not counted while gRPC
    is still receiving it."""
    with attacker.connect() as client:
        for path, message in messages:
            if client.closed or not attacker.goes_on():
                break
            stream = client.call(path, message)
            attacker.delivered()
            for _ in client.wait([stream], 0.5):
                client.reset(stream)
            attacker.count(client, [stream])


def _with_bytes(path, numbers, value):
    """Returns a path and a request that is valid except for one field. The
    field numbers from the request down to this field are `numbers`."""
    for number in reversed(numbers):
        value = field(number, value)
    if path.endswith("Infer"):
        valid = topk_requests.infer("UINT8", [1], data=b"1")
        return path, valid.SerializeToString() + value
    if path.startswith(OIP):
        return path, value
    valid = topk_requests.openvino("U8", [1], data=b"1").SerializeToString()
    return path, (field(1, valid) if path.endswith("StreamTopK")
                  else valid) + value


@attack(processes=1, rounds=8)
def many_dimensions(attacker):
    """Millions of dimensions of size 1 or stride 0: 7 MiB of shape, strides or
    sizes."""
    ones = b"\x01" * (7 * MIB)
    shape = (1, 2)
    messages = [_with_bytes(path, numbers, ones) for path, numbers in (
        (TOPK + "ComputeTopK", shape), (TOPK + "ComputeTopKMany", shape),
        (TOPK + "StreamTopK", (1, *shape)),
        (TOPK + "ComputeTopK", (5, 5, 2)),  # the sizes of DirectML's output
        (TOPK + "ComputeTopK", (4, 4, 2, 2)),  # the shape of OpenVINO's k
        (OIP + "ModelInfer", (5, 3)), (OIP + "ModelStreamInfer", (5, 3)))]
    path, message = messages[0]
    messages.append((path, message + field(1, field(3, bytes(7 * MIB)))))
    attacker.random.shuffle(messages)
    _send_all(attacker, messages)


@attack(processes=1, rounds=21)
def many_unknown_fields(attacker):
    """16 MiB of 3-byte unknown fields or empty messages, to every method."""
    paths = [path for path, _ in topk_requests.methods()] + [
        HEALTH + "Check", HEALTH + "Watch"]
    attacker.random.shuffle(paths)
    _send_all(attacker, (
        (path, repeat(attacker.random.choice(
            [*UNKNOWN_FIELDS] * 3 + EMPTY_FIELDS), MESSAGE))
        for path in paths))


MODEL = field(1, b"onnx_topk")


def _infer(attacker, bodies):
    paths = [OIP + "ModelInfer", OIP + "ModelStreamInfer"]
    _send_all(attacker, ((attacker.random.choice(paths), body)
                         for body in bodies))


@attack(processes=1, rounds=7)
def empty_inputs(attacker):
    """8 MiB of empty inputs, outputs, parameters or raw contents."""
    pieces = [field(5, b""), field(6, b""), field(4, b"\x0a\x00"),
              field(5, field(3, b"")), field(5, field(5, b"")), field(7, b"")]
    attacker.random.shuffle(pieces)
    _infer(attacker, (MODEL + repeat(piece, 8 * MIB - 100)
                      for piece in [field(5, b"")] + pieces))


@attack(processes=1, rounds=8)
def typed_contents(attacker):
    """8 MiB of typed elements, which take up to 8 times as much when parsed."""
    kinds = [(1, "BOOL", b"\x01"), (2, "INT32", b"\x01"), (3, "INT64", b"\x01"),
             (4, "UINT32", b"\x01"), (5, "UINT64", b"\x01"),
             (6, "FP32", bytes(4)), (7, "FP64", bytes(8))]
    attacker.random.shuffle(kinds)

    def body(number, datatype, element):
        count = (8 * MIB - 200) // len(element)
        contents = field(number, element * count)
        return MODEL + field(5, field(1, b"X") + field(2, datatype.encode()) +
                             field(3, harness.varint(count)) +
                             field(5, contents))

    unpacked = field(5, field(1, b"X") + field(2, b"BYTES") +
                     field(5, repeat(field(8, b""), 8 * MIB - 200)))
    _infer(attacker, [MODEL + unpacked] + [body(*kind) for kind in kinds])


def _group(number, payload=b""):
    return (harness.varint(number << 3 | 3) + payload +
            harness.varint(number << 3 | 4))


@attack(rounds=24)
def raw_contents_in_tiny_frames(attacker):
    """A ModelInfer of 900 KB with 30 000 raw_input_contents of one byte, sent
    in DATA frames of 24 bytes."""
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
    """7.6 MiB of typed contents, encoded as groups, in four parallel calls."""
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
    """1000 idle streams with headers of 4 KB that consist of unknown fields,
    groups in place of known fields, or repeated attributes."""
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


def _text_fields(descriptor):
    """Yields the path of field numbers to each string field, at any depth."""
    for one in descriptor.fields:
        if one.type == one.TYPE_STRING:
            yield (one.number,)
        elif one.type == one.TYPE_MESSAGE:
            for rest in _text_fields(one.message_type):
                yield one.number, *rest


@attack(processes=1, rounds=15, flags=("--allow-shared-memory",))
def long_texts(attacker):
    """16 MiB in each string field that error messages repeat, such as a mode, a
    model, a region or a type."""
    fields = [(path, numbers) for path, request in topk_requests.methods()
              for numbers in _text_fields(request)]
    attacker.random.shuffle(fields)
    _send_all(attacker, (_with_bytes(path, numbers, b"x" * MESSAGE)
                         for path, numbers in fields))


@attack(processes=1, rounds=6, arriving=60)
def long_request_ids(attacker):
    """A request id of 60 MiB, and 256 ids of 64 KiB for responses to return."""
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
