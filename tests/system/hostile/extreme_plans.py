"""Small requests with extreme plans: repeated elements, huge claimed output
sizes, interleaved layouts, and sizes near the limit of 63 bits."""

import itertools

import h2
import topk_requests
from attacks import OIP, TOPK, Client, attack

COMPUTE, STREAM = TOPK + "ComputeTopK", TOPK + "StreamTopK"
MANY = TOPK + "ComputeTopKMany"
INFER, STREAM_INFER = OIP + "ModelInfer", OIP + "ModelStreamInfer"
GIB = 1 << 30
MAX_STRIDE = (1 << 32) - 1
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


def infer_or_header(client, request):
    """Sends an ONNX request by ModelInfer or ModelStreamInfer."""
    if not request.HasField("onnx"):
        return header_alone(client, request)
    shape = list(request.tensor.shape)
    message = topk_requests.infer("UINT8", shape, max(shape))
    return client.call(INFER if len(shape) % 2 else STREAM_INFER,
                       message.SerializeToString())


def _alternate(attacker, fixed, variant,
               ways=(unary, unary, many, many, streamed, header_alone)):
    """Sends the fixed request once in each way, then random variants."""
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


def repeated_rows():
    """2^32 elements: 1 KiB read as 2^22 rows. Takes the server seconds."""
    return topk_requests.directml("U8", [(1 << 22) - 1, 1 << 10], [0, 1],
                                  axis=1, data=bytes(1 << 10))


@attack(processes=1, rounds=4, seconds=3, valid=True,
        caller={"count": 3 << 20})
def long_work_before_large_calls(attacker):
    """Four requests that take seconds, and an honest caller with 3 MiB."""
    attacker.keep_calling(lambda client: unary(client, repeated_rows()),
                          patience=5)


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


@attack(processes=1, rounds=50, seconds=3, valid=True)
def poller_work_beside_long_work(attacker):
    """Two requests that occupy both workers for seconds, and many requests that
    pollers compute, just below the size above which work is split."""
    long_work = [repeated_rows()] * 2

    def start(client):
        if long_work:
            return unary(client, long_work.pop())
        n = attacker.random.randrange(10000, 11500)
        return unary(client, topk_requests.directml("F32", [n], [0]))
    attacker.keep_calling(start, patience=5)


def claimed_size(chance, most=GIB):
    """One element with outputs that claim a total size of up to 1 GiB."""
    sizes = {"output_value": {"total_tensor_size_bytes":
                              chance.choice((most, chance.randrange(8, most, 4)))}}
    if chance.random() < 0.3:
        sizes["output_index"] = {
            "total_tensor_size_bytes": chance.randrange(8, most, 4)}
    return topk_requests.directml("F32", [1], **sizes)


def one_gibibyte():
    return topk_requests.directml(
        "F32", [1], output_value={"total_tensor_size_bytes": GIB})


@attack(rounds=60, seconds=1.5)
def claimed_sizes(attacker):
    """total_tensor_size_bytes of 1 GiB for one element."""
    _alternate(attacker, one_gibibyte(), claimed_size)


def interleaved(a):
    """An output with two dimensions that interleave over 2 a^2 places."""
    return topk_requests.directml(
        "U8", [a, a + 1, 1], [0, 0, 0], axis=2,
        output_value={"strides": [a + 1, a, 0]})


def nearly_nested(chance):
    """An output whose strides differ slightly from packed ones, so that the
    overlap check takes long."""
    sizes = [chance.randrange(2, 9) for _ in range(8)]
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, max(0, min(MAX_STRIDE,
                                     step + chance.choice((-1, 0, 0, 1)))))
        step *= size
    chance.shuffle(strides)
    order = {"strides": strides}
    return topk_requests.directml(
        chance.choice(TYPES), sizes, [0] * len(sizes),
        axis=chance.randrange(len(sizes)), k=1,
        **{chance.choice(("output_value", "output_index")): order})


@attack(rounds=20)
def interleaved_layouts(attacker):
    """Values with strides [a + 1, a, 0] for shape [a, a + 1, 1]."""
    def variant(chance):
        if chance.random() < 0.5:
            return interleaved(chance.randrange(5000, 18000))
        return nearly_nested(chance)
    _alternate(attacker, interleaved(14000), variant)


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


def wide_strides():
    """2^62 bytes of padded input. Doubling this number overflows 63 bits."""
    return topk_requests.directml("U8", [(1 << 30) + 2], [MAX_STRIDE],
                                  data=None)


def near_two_to_62(chance):
    """Random sizes, strides and k between about 2^59 and 2^63."""
    def near(power):
        return max(1, (1 << power) + chance.randrange(-2, 3))
    form = chance.randrange(4)
    if form == 0:
        power = chance.randrange(20, 31)
        return topk_requests.directml(
            chance.choice(TYPES), [near(power)],
            [min(MAX_STRIDE, near(61 - power))], data=None)
    if form == 1:
        rest = min(near(chance.randrange(50, 63)), (1 << 63) - 1)
        shape = chance.choice(([0, rest], [rest, 0], [0, rest, 1]))
        axis = shape.index(rest)
        return topk_requests.onnx(chance.choice(("U8", "F32", "I64")), shape,
                                  axis, k=chance.choice((1, rest)))
    if form == 2:
        return topk_requests.directml(
            "U8", [1], output_value={"total_tensor_size_bytes":
                                     (1 << 63) - chance.randrange(1, 1 << 20)})
    return topk_requests.directml(
        "U8", [2, 2], [1, 2], axis=1, k=2,
        output_value={"strides": [near(31), MAX_STRIDE]},
        output_index={"strides": [MAX_STRIDE, near(31)]})


@attack(rounds=20)
def overflowing_sizes(attacker):
    """A stream header with shape [2^30 + 2] and stride 2^32 - 1, and sizes near
    2^62 in every method that takes a tensor."""
    _alternate(attacker, wide_strides(), near_two_to_62,
               (header_alone, header_alone, infer_or_header, unary, many))


@attack(processes=1, rounds=6)
def extreme_idle_streams(attacker):
    """Idle streams, two of each kind. Their headers claim 1 GiB, have shape
    [0, 2^59] and k = 2^59, or have strides that imply 2^62 bytes."""
    clients = []
    for request in [one_gibibyte(), wide_strides(),
                    topk_requests.onnx("U8", [0, 1 << 59], k=1 << 59)] * 2:
        clients.append(attacker.connect())
        header_alone(clients[-1], request)
        attacker.delivered()
    attacker.hold_and_close(clients)


def dense_request(chance):
    """At most 128 KiB with up to a million elements, all of them selected."""
    data_type = chance.choice(("U1", "U1", "U2", "U4", "U8"))
    count = (120 << 10) * 8 // int(data_type[1:])
    rows = chance.choice((1, 1, 2, count // 2, count))
    return topk_requests.openvino(data_type, [rows, count // rows],
                                  k=count // rows,
                                  data=chance.randbytes(120 << 10))


@attack(rounds=40, processes=4)
def dense_small_messages(attacker):
    """Messages of 120 KiB that select a million one-bit elements."""
    requests = [dense_request(attacker.random) for _ in range(8)]

    def start(client):
        way = attacker.random.choice((unary, unary, many))
        return way(client, attacker.random.choice(requests))
    attacker.keep_calling(start, outstanding=8, patience=1)
