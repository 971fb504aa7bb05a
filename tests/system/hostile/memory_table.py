"""Resident memory against counted bytes, for calls with large payloads.

usage: memory_table.py TOPKD [--mib N] [--only TEXT]

Each call has a separate server and a client that reads its responses.
Prints a Markdown table: how much the server's resident memory grew at its
peak, how much topk_inflight_bytes counted at its peak, and their ratio, which
should be between 0.8 and 1.5. The counter is read about every 5 ms; calls that
take less are repeated until it has been seen.
"""

import argparse
import random

import h2
import harness
import topk_requests
from cheap_attack import HEALTH, OIP, TOPK, Client
from held_memory import WIDE
from many_fields import UNKNOWN_VARINT, repeat
from topk_requests import chunk, field, header
from watched_server import WatchedServer

MIB = 1 << 20
CHANCE = random.Random(1)


def _f32(size, k_part):
    """Returns an F32 tensor of `size` bytes; k is a part of its elements."""
    count = size // 4
    return topk_requests.onnx("F32", [count], k=max(1, int(count * k_part)),
                              data=CHANCE.randbytes(4 * count))


def _compute(size, k_part):
    return TOPK + "ComputeTopK", [_f32(size, k_part).SerializeToString()]


def _many(size, items):
    item = _f32(size // items, 0.25).SerializeToString()
    return TOPK + "ComputeTopKMany", [item] * items


def _stream(size, request):
    data = CHANCE.randbytes(size)
    chunks = [chunk(data[at:at + MIB]) for at in range(0, size, MIB)]
    return TOPK + "StreamTopK", [header(request)] + chunks


def _packed(size):
    count = size // 4
    return _stream(size, topk_requests.onnx("F32", [count], k=count // 4,
                                            data=None))


def _strided(size):
    count = size // 8
    return _stream(8 * count - 4, topk_requests.directml(
        "F32", [count], [2], k=count // 4, data=None,
        output_value={"strides": [1]}))


def _infer(size, rpc, items=1):
    count = size // items // 4
    message = topk_requests.infer("FP32", [count], count // 4,
                                  CHANCE.randbytes(4 * count))
    return OIP + rpc, [message.SerializeToString()] * items


KINDS = {
    "ComputeTopK, k = 1": lambda size: _compute(size, 0),
    "ComputeTopK, k = n / 4": lambda size: _compute(size, 0.25),
    "StreamTopK, packed": _packed,
    "StreamTopK, strided": _strided,
    "ComputeTopKMany, 1 item": lambda size: _many(size, 1),
    "ComputeTopKMany, 4 items": lambda size: _many(size, 4),
    "ModelInfer": lambda size: _infer(size, "ModelInfer"),
    "ModelStreamInfer, 1 item": lambda size: _infer(size, "ModelStreamInfer"),
    "ModelStreamInfer, 4 items":
        lambda size: _infer(size, "ModelStreamInfer", 4),
    "GetCapabilities, unknown fields": lambda size: (
        TOPK + "GetCapabilities", [repeat(UNKNOWN_VARINT, size)]),
    "Health/Watch, a long name": lambda size: (
        HEALTH + "Watch", [field(1, b"x" * size)]),
}


def _ask(client, path, messages, seconds):
    """Makes a call and takes its responses; returns how it ended."""
    stream = client.open(path)
    for number, message in enumerate(messages, 1):
        client.upload(stream, h2.message(message), number == len(messages),
                      seconds)
    client.wait([stream], seconds)
    return client.outcomes.get(stream, "open")


def measure(topkd, kind, size):
    """Returns how the call ended, the growth and the counted MiB."""
    path, messages = KINDS[kind](size)
    with WatchedServer(topkd, period=0.005) as server:
        with Client(server.target, "127.0.0.1", own=WIDE) as client:
            client.send(h2.window_update(0, (1 << 31) - 65536))
            # Threads and arenas that every server has after its first calls.
            for _ in range(20):
                _ask(client, *KINDS["ComputeTopK, k = 1"](4 << 10), 10)
            before = server.memory()
            server.settle()
            harness.poll("a scrape", lambda: server.readings.scrapes > 0)
            # A watch does not end.
            seconds = 3 if path == HEALTH + "Watch" else 60
            for _ in range(30):
                outcome = _ask(client, path, messages, seconds)
                if server.readings.counted > 1 or outcome == "open":
                    break
            return outcome, server.peak() - before, server.readings.counted


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("topkd")
    parser.add_argument("--mib", type=float, default=64)
    parser.add_argument("--only", default="", help="kinds with this text")
    options = parser.parse_args()
    # The prefix and the rest of a request also have to fit a message.
    size = int(options.mib * MIB) - 1024
    print("| call | ended | resident, MiB | counted, MiB | ratio |\n"
          "|---|---|---:|---:|---:|", flush=True)
    for kind in KINDS:
        if options.only not in kind:
            continue
        outcome, growth, counted = measure(options.topkd, kind, size)
        ratio = f"{growth / counted:.2f}" if counted > 0.01 else "-"
        print(f"| {kind} | {outcome} | {growth:.1f} | {counted:.1f} | "
              f"{ratio} |", flush=True)


if __name__ == "__main__":
    main()
