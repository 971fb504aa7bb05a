"""Messages of many small fields, which take much more memory when parsed."""

import h2
import topk_requests
from attacks import HEALTH, OIP, TOPK, attack
from harness import field

MIB = 1 << 20
# Protobuf needs at least 16 bytes of memory for each of these fields.
UNKNOWN_VARINT = b"\xf8\x01\x00"  # field 31, varint 0
UNKNOWN_EMPTY = b"\xfa\x01\x00"  # field 31, no bytes
UNKNOWN_GROUP = b"\xfb\x01\xfc\x01"  # field 31, a group without a field
EMPTY_FIELDS = [field(number, b"") for number in (1, 2, 3, 6)]
UNKNOWN_FIELDS = (UNKNOWN_VARINT, UNKNOWN_EMPTY, UNKNOWN_GROUP)


def repeat(piece, size):
    return piece * (size // len(piece))


@attack(processes=1, rounds=21)
def many_unknown_fields(attacker):
    """16 MiB of 3-byte unknown fields or empty messages, to every method. One
    at a time, because a message is not counted while gRPC is receiving it."""
    paths = [*topk_requests.paths(), HEALTH + "Check", HEALTH + "Watch"]
    attacker.random.shuffle(paths)
    with attacker.connect() as client:
        for path in paths:
            if client.closed or not attacker.goes_on():
                break
            stream = client.call(path, repeat(attacker.random.choice(
                [*UNKNOWN_FIELDS] * 3 + EMPTY_FIELDS), 16 * MIB))
            attacker.delivered()
            for _ in client.wait([stream], 0.5):
                client.reset(stream)
            attacker.count(client, [stream])


MODEL = field(1, b"onnx_topk")


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
