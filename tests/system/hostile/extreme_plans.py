"""Small requests with extreme plans: repeated elements, huge claimed output
sizes, and overlapping layouts."""

import itertools

import h2
import topk_requests
from attacks import TOPK, Client, attack

COMPUTE, STREAM = TOPK + "ComputeTopK", TOPK + "StreamTopK"
MANY = TOPK + "ComputeTopKMany"
GIB = 1 << 30
ONE_GIB = {"total_tensor_size_bytes": GIB}
TYPES = ("U8", "I16", "F16", "F32", "U32")


def unary(client, request):
    return client.call(COMPUTE, request.SerializeToString())


def many(client, request):
    return client.call(MANY, *[request.SerializeToString()] * 3)


def streamed(client, request):
    """Sends a tensor of one element by StreamTopK."""
    return client.call(STREAM, topk_requests.header(request),
                       topk_requests.chunk(bytes(4)))


def header_alone(client, request):
    return client.call(STREAM, topk_requests.header(request), end=False)


def _alternate(attacker, fixed, variant):
    """Sends the fixed request once in each way, then random variants."""
    ways = (unary, unary, many, many, streamed, header_alone)
    requests = itertools.chain([fixed] * len(ways),
                               iter(lambda: variant(attacker.random), None))
    order = itertools.chain(
        ways, iter(lambda: attacker.random.choice(ways), None))
    attacker.keep_calling(lambda client: next(order)(client, next(requests)))


def repeated_element(chance):
    """A tensor of 2^27 elements that all refer to the same four bytes."""
    cuts = sorted(chance.randrange(28) for _ in range(chance.randrange(1, 4)))
    shape = [1 << (b - a) for a, b in zip([0, *cuts], [*cuts, 27])]
    if chance.random() < 0.5:
        shape = [1 << 27, 1]
    axis = chance.randrange(len(shape))
    return topk_requests.directml(
        chance.choice(TYPES), shape, [0] * len(shape), axis=axis,
        k=chance.choice((1, shape[axis], chance.randrange(shape[axis]) + 1)))


@attack(rounds=60, seconds=1.5)
def repeated_elements(attacker):
    """Stride 0 with shape [2^27, 1]: 1 GiB of outputs for 50 bytes."""
    _alternate(attacker, topk_requests.directml(
        "F32", [1 << 27, 1], [0, 0], axis=1), repeated_element)


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


def claimed_size(chance):
    """One element with outputs that claim a total size of up to 1 GiB."""
    def size():
        return {"total_tensor_size_bytes": chance.randrange(8, GIB, 4)}
    outputs = {"output_value": chance.choice((ONE_GIB, size()))}
    if chance.random() < 0.3:
        outputs["output_index"] = size()
    return topk_requests.directml("F32", [1], **outputs)


@attack(rounds=60, seconds=1.5)
def claimed_sizes(attacker):
    """total_tensor_size_bytes of 1 GiB for one element."""
    _alternate(attacker, topk_requests.directml(
        "F32", [1], output_value=ONE_GIB), claimed_size)


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
