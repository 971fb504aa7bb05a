"""Small requests with extreme plans: repeated elements, huge claimed output
sizes, and overlapping layouts."""

import h2
import topk_requests
from attacks import TOPK, Client, attack

MANY = TOPK + "ComputeTopKMany"


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
