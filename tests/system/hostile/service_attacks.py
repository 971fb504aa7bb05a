"""Attacks on the service: calls that make the server hold memory and then stay
idle or never end, and small requests with extreme plans, such as repeated
elements, huge claimed output sizes and overlapping layouts."""

import os
import pathlib
import time

import h2
import topk_requests
from attacks import CLOSED, OIP, TOPK, WIDE, Client, attack
from harness import field

MIB = 1 << 20
MANY = TOPK + "ComputeTopKMany"


def large_item(chance):
    """An item of 2 MiB with a response of 18 MiB."""
    data = chance.randbytes(2 * MIB)
    return topk_requests.onnx("U8", [len(data)], k=len(data), data=data)


def large_infer(chance):
    data = chance.randbytes(2 * MIB)
    return topk_requests.infer("UINT8", [len(data)], len(data), data)


# Allow 24 MiB for buffers that threads keep for their next responses.
@attack(processes=1, rounds=8, seconds=1.5, arriving=24)
def idle_after_answers(attacker):
    """Eight streams of ComputeTopKMany and ModelStreamInfer that have received
    36 MiB each and stay open."""
    groups = [
        (MANY, large_item(attacker.random)),
        (OIP + "ModelStreamInfer", large_infer(attacker.random))] * 4
    with attacker.connect(own=WIDE) as client:
        client.send(h2.window_update(0, (1 << 31) - 65536))
        for path, message in groups:
            stream = client.call(path, *[message.SerializeToString()] * 2,
                                 end=False)
            attacker.delivered()
            until = time.monotonic() + 2
            while (client.messages[stream] < 34 * MIB and not client.closed and
                   time.monotonic() < until):
                client.poll(0.2)
            attacker.outcomes[
                f"{client.messages[stream] // MIB} MiB received"] += 1
        attacker.hold(client)


@attack(processes=1, rounds=10)
def responses_never_read(attacker):
    """Large responses to a client whose windows are zero bytes, from every
    method that has large responses."""
    item = large_item(attacker.random)
    infer = large_infer(attacker.random).SerializeToString()
    data = item.tensor.data
    bodies = [
        (TOPK + "ComputeTopK", [item.SerializeToString()]),
        (MANY, [item.SerializeToString()] * 2),
        (OIP + "ModelInfer", [infer]), (OIP + "ModelStreamInfer", [infer] * 2),
        (TOPK + "StreamTopK",
         [topk_requests.header(item), topk_requests.chunk(data)])]
    attacker.random.shuffle(bodies)
    with attacker.connect(own=CLOSED) as client:
        for path, messages in bodies * 2:
            client.call(path, *messages)
            attacker.delivered()
            if not attacker.goes_on():
                break
        attacker.hold_and_close([client])


@attack(processes=1, rounds=1000, flags=("--allow-shared-memory",))
def region_lists_never_read(attacker):
    """Lists of shared memory regions, requested by clients whose windows are
    zero bytes. A client registers the maximum number of regions, with long
    names."""
    object_name = f"/topk-{os.getpid()}-".ljust(250, "y")
    path = pathlib.Path("/dev/shm" + object_name)
    path.write_bytes(bytes(8))
    try:
        with attacker.connect() as client:
            registered = [client.call(
                OIP + "SystemSharedMemoryRegister",
                field(1, b"%0256d" % number) + field(2, object_name.encode()) +
                b"\x20\x08") for number in range(128)]
            if client.wait(registered, 10):
                raise AssertionError("the regions are not registered")
            attacker.outcomes.update(client.outcomes.values())
        clients = [attacker.connect(own=CLOSED) for _ in range(8)]
        for client in clients:
            for _ in range(200):
                client.call(OIP + "SystemSharedMemoryStatus", b"")
                attacker.delivered()
        attacker.hold_and_close(clients)
    finally:
        path.unlink()


@attack(processes=1, rounds=240,
        flags=("--max-client-inflight-bytes=1MiB",))
def items_that_wait(attacker):
    """Empty items, and items with 4 KB of empty fields, which take 100 times as
    much memory when parsed, from a caller that has used up its memory limit.
    The caller accepts no responses."""
    header = topk_requests.header(topk_requests.directml(
        "F32", [1],
        output_value={"total_tensor_size_bytes": MIB - (16 << 10)}))
    known, unknown = field(5, b""), field(15, b"")  # of ModelInferRequest
    with attacker.connect(own=CLOSED, greets=True) as client:
        client.call(TOPK + "StreamTopK", header, end=False)
        attacker.pause()
        for _ in range(240):
            if not attacker.goes_on() or client.closed:
                break
            path = attacker.random.choice(
                (MANY, OIP + "ModelStreamInfer"))
            items = attacker.random.choice(
                ([b""] * 300, [known * 2000] * 3, [unknown * 2000] * 3))
            client.call(path, *items, end=False)
            attacker.delivered()
        attacker.hold_and_close([client])


# Allow 2003 MiB: one output may be freed and another allocated between samples.
@attack(processes=1, rounds=2, seconds=4, arriving=2003,
        flags=("--max-inflight-bytes=5GiB",))
def large_outputs_freed(attacker):
    """Headers that claim outputs of 2 GB, without data. The outputs are freed
    at once, which takes 140 ms."""
    header = topk_requests.header(topk_requests.directml(
        "F32", [1], output_value={"total_tensor_size_bytes": 2_100_000_000}))
    with attacker.connect(greets=True) as client:
        while attacker.goes_on() and not client.closed:
            stream = client.call(TOPK + "StreamTopK", header)
            attacker.delivered()
            client.wait([stream], 5)
            attacker.count(client, [stream])


@attack(processes=1, rounds=3000, seconds=2)
def small_slices_of_large_blocks(attacker):
    """Chunks of 2 KiB before the start of a tensor. Between chunks, the client
    sends 60 KiB of frames of an unknown type, which the server ignores, so that
    each chunk is in its own receive block. The client is limited to 250 MB/s:
    gRPC gives faster clients a larger window, whose blocks are counted only by
    gRPC's resource quota."""
    count = 20 * MIB
    header = topk_requests.header(topk_requests.onnx("F32", [count], k=count))
    chunk = h2.message(topk_requests.chunk(bytes(2048)))
    with attacker.connect() as client:
        stream = client.call(TOPK + "StreamTopK", header, end=False)
        ignored = h2.frame(0x20, 0, 0, bytes(15 << 10)) * 4
        for number in range(6000):
            if not attacker.goes_on() or client.closed:
                break
            if number % 8 == 0:
                time.sleep(0.002)
            client.send(ignored)
            if client.upload(stream, chunk, seconds=1) == len(chunk):
                attacker.delivered()
            client.poll(0)
        attacker.hold(client)


@attack(rounds=20, flags=("--pollers=2",), seconds=1.5)
def endless_tiny_messages(attacker):
    """A tensor of 2^33 bytes that arrives byte by byte, as fast as possible."""
    header = topk_requests.header(topk_requests.onnx(
        "U8", [1 << 33], k=attacker.random.choice((1, 10, 1000))))
    size = attacker.random.choice((1, 1, 2, 16))
    piece = h2.message(topk_requests.chunk(bytes(size)))
    pieces = piece * (65536 // len(piece))
    with attacker.connect() as client:
        stream = client.call(TOPK + "StreamTopK", header, end=False)
        while (attacker.goes_on() and not client.closed and
               stream not in client.outcomes):
            if client.upload(stream, pieces, seconds=1) == len(pieces):
                attacker.delivered()
            client.poll(0)
        attacker.count(client, [stream])


@attack(rounds=20, flags=("--pollers=2",), seconds=1.5)
def endless_tiny_items(attacker):
    """Empty items without end on ComputeTopKMany and ModelStreamInfer."""
    path = attacker.random.choice(
        (MANY, OIP + "ModelStreamInfer"))
    items = h2.message(b"") * 1000
    with attacker.connect() as client:
        stream = client.call(path, end=False)
        while attacker.goes_on() and not client.closed:
            # Accept the responses, so that the stream never stops.
            client.send(h2.window_update(stream, 1 << 20))
            if client.upload(stream, items, seconds=1) == len(items):
                attacker.delivered()
            client.poll(0)


@attack(rounds=100, flags=("--allow-shared-memory",), seconds=2,
        caller={"count": 200 << 10, "timeout": "2S"})
def claimed_shared_memory(attacker):
    """byte_size of 2^40 for objects that do not exist. The honest caller sends
    tensors of 200 KiB with a deadline of 2 s."""
    def claim(client):
        size = attacker.random.choice(
            (1 << 40, 1 << 40, 1 << 38, (1 << 62) + 1))
        if attacker.random.random() < 0.3:
            return client.call(OIP + "ModelInfer", topk_requests.infer(
                "UINT8", [4], data=None, shared_memory_region="nobody",
                shared_memory_byte_size=size).SerializeToString())
        return client.call(TOPK + "ComputeTopK", topk_requests.in_shared_memory(
            [4], f"/topk_nobody_{attacker.number}", size))
    attacker.keep_calling(claim, outstanding=32)


@attack(rounds=60, seconds=1.5)
def huge_outputs(attacker):
    """Small requests for outputs of 1 GiB: 2^27 elements that all refer to the
    same bytes, or an output that claims this size. Sent by each method."""
    requests = (
        topk_requests.directml("F32", [1 << 27, 1], [0, 0], axis=1),
        topk_requests.directml(
            "F32", [1], output_value={"total_tensor_size_bytes": 1 << 30}))

    def call(client):
        request = attacker.random.choice(requests)
        item, header = request.SerializeToString(), topk_requests.header(request)
        path, *messages = attacker.random.choice((
            (TOPK + "ComputeTopK", item), (MANY, item, item, item),
            (TOPK + "StreamTopK", header, topk_requests.chunk(bytes(4))),
            (TOPK + "StreamTopK", header)))
        return client.call(path, *messages, end=len(messages) > 1 or
                           path == TOPK + "ComputeTopK")
    attacker.keep_calling(call)


@attack(processes=1, rounds=40, seconds=3, valid=True,
        caller={"count": 3 << 20})
def long_items_of_many_clients(attacker):
    """40 addresses each send an item of 50 KB that takes seconds to compute. A
    worker notices the cost only when it parses the item."""
    item = topk_requests.directml("U8", [85000, 50000], [0, 1], axis=1,
                                  data=bytes(50000))
    item = item.SerializeToString()
    clients = []
    for _ in range(40):
        clients.append(attacker.connect(greets=True))
        clients[-1].call(MANY, item)
        attacker.delivered()
    attacker.hold_and_close(clients)


@attack(processes=1, rounds=8, seconds=3, valid=True, longest=0.5)
def small_items_on_many_streams(attacker):
    """300 items of a few bytes on each of 2048 streams from one address. Each
    item is small enough for a poller to compute."""
    item = h2.message(topk_requests.directml("F32", [11000], [0])
                      .SerializeToString())
    source = attacker.source()
    clients = [Client(attacker.target, source, greets=True) for _ in range(8)]
    for client in clients:
        client.send(b"".join(
            h2.call(stream, h2.fields(path=MANY)) +
            h2.data(stream, item * 300)
            for stream in client.new_streams(256)), seconds=8)
        attacker.delivered()
    attacker.hold_and_close(clients)


@attack(processes=4, rounds=8, seconds=3, longest=1)
def complex_items_on_many_streams(attacker):
    """100 items of 110 bytes on each of 512 streams. Each item is rejected only
    after its overlap check has taken half a millisecond."""
    layout = {"strides": [2178309, 3524578, 7658417, 4823350, 4939811, 4342803,
                          8752365, 0]}
    item = h2.message(topk_requests.directml(
        "U8", [2, 5, 6, 6, 4, 3, 5, 1], [0] * 8, axis=7, output_value=layout,
        output_index=layout).SerializeToString())
    with attacker.connect(greets=True) as client:
        while attacker.goes_on() and not client.closed:
            streams = client.new_streams(128)
            client.send(b"".join(
                h2.call(stream, h2.fields(path=MANY)) +
                h2.data(stream, item * 100, end_stream=True)
                for stream in streams), seconds=5)
            attacker.delivered()
            client.reset(*client.wait(streams, 2))
            attacker.count(client, streams)
