"""Requests of a few bytes whose plans are extreme: repeated elements, claimed
output sizes, interleaved layouts and sizes at the limits of 63 bits."""

import itertools

import topk_requests
from cheap_attack import OIP, TOPK, attack

COMPUTE, STREAM = TOPK + "ComputeTopK", TOPK + "StreamTopK"
MANY = TOPK + "ComputeTopKMany"
INFER, STREAM_INFER = OIP + "ModelInfer", OIP + "ModelStreamInfer"
GIB = 1 << 30
MAX_STRIDE = (1 << 32) - 1
TYPES = {"U8": 1, "I16": 2, "F16": 2, "F32": 4, "U32": 4}


def unary(client, request):
    return client.call(COMPUTE, request.SerializeToString())


def many(client, request, count=1):
    return client.call(MANY, *[request.SerializeToString()] * count)


def streamed(client, request):
    """Sends a tensor of one element by StreamTopK."""
    return client.call(STREAM, topk_requests.header(request),
                       topk_requests.chunk(bytes(4)))


def header_alone(client, request):
    return client.call(STREAM, topk_requests.header(request), end=False)


# Stride 0 --------------------------------------------------------------------


def repeated_element(chance):
    """A tensor of 2^27 elements that are all the same four bytes."""
    rank = chance.randrange(2, 5)
    cuts = sorted(chance.randrange(28) for _ in range(rank - 1))
    shape = [1 << (b - a) for a, b in zip([0, *cuts], [*cuts, 27])]
    if chance.random() < 0.5:
        shape = [1 << 27, 1]
    axis = chance.randrange(len(shape))
    return topk_requests.directml(
        chance.choice(list(TYPES)), shape, [0] * len(shape), axis=axis,
        k=chance.choice((1, shape[axis], chance.randrange(shape[axis]) + 1)))


def widest_repeated_element():
    return topk_requests.directml("F32", [1 << 27, 1], [0, 0], axis=1)


def _alternate(attacker, fixed, variant, start):
    """Sends the fixed request first and then random variants of it."""
    requests = itertools.chain(
        [fixed] * 2, iter(lambda: variant(attacker.random), None))
    attacker.keep_calling(lambda client: start(client, next(requests)))


def _groups(attacker):
    return lambda client, request: many(
        client, request, attacker.random.randrange(1, 5))


def _streams(attacker):
    return lambda client, request: attacker.random.choice(
        (streamed, header_alone))(client, request)


@attack(rounds=20)
def repeated_elements(attacker):
    """Stride 0 with shape [2^27, 1]: 1 GiB of outputs for a message of 50
    bytes."""
    _alternate(attacker, widest_repeated_element(), repeated_element, unary)


@attack(rounds=20)
def repeated_elements_on_many(attacker):
    """Groups of such items on ComputeTopKMany."""
    _alternate(attacker, widest_repeated_element(), repeated_element,
               _groups(attacker))


@attack(rounds=20)
def repeated_elements_on_streams(attacker):
    """StreamTopK with such headers, with and without their data."""
    _alternate(attacker, widest_repeated_element(), repeated_element,
               _streams(attacker))


def repeated_rows():
    """2^32 elements: 1 KiB that is read as 2^22 rows. Takes seconds."""
    return topk_requests.directml("U8", [(1 << 22) - 1, 1 << 10], [0, 1],
                                  axis=1, data=bytes(1 << 10))


@attack(processes=1, rounds=4, seconds=3, valid=True,
        caller={"count": 3 << 20})
def long_work_before_large_calls(attacker):
    """Four requests of 1 KiB that take seconds, and an honest caller with
    tensors of 3 MiB."""
    attacker.keep_calling(lambda client: unary(client, repeated_rows()),
                          patience=5)


@attack(processes=1, rounds=40, seconds=3, valid=True,
        caller={"count": 3 << 20})
def long_items_of_many_clients(attacker):
    """From each of 40 addresses an item of 50 KB that takes seconds, as a
    worker finds out when it reads the item."""
    item = topk_requests.directml("U8", [85000, 50000], [0, 1], axis=1,
                                  data=bytes(50000))
    item = item.SerializeToString()
    clients = []
    for _ in range(40):
        clients.append(attacker.connect(greets=True))
        clients[-1].call(TOPK + "ComputeTopKMany", item)
        attacker.delivered()
    attacker.hold_and_close(clients)


@attack(processes=1, rounds=50, seconds=3, valid=True)
def poller_work_beside_long_work(attacker):
    """Two requests that occupy both workers for seconds, and many that a poller
    computes although they are almost large enough to be divided."""
    long_work = [repeated_rows()] * 2

    def start(client):
        if long_work:
            return unary(client, long_work.pop())
        n = attacker.random.randrange(10000, 11500)
        return unary(client, topk_requests.directml("F32", [n], [0]))
    attacker.keep_calling(start, patience=5)


# Claimed sizes ---------------------------------------------------------------


def claimed_size(chance, most=GIB):
    """One element whose outputs have a total size of up to 1 GiB."""
    sizes = {"output_value": {"total_tensor_size_bytes":
                              chance.choice((most, chance.randrange(8, most, 4)))}}
    if chance.random() < 0.3:
        sizes["output_index"] = {
            "total_tensor_size_bytes": chance.randrange(8, most, 4)}
    return topk_requests.directml("F32", [1], **sizes)


def one_gibibyte():
    return topk_requests.directml(
        "F32", [1], output_value={"total_tensor_size_bytes": GIB})


@attack(rounds=20)
def claimed_sizes(attacker):
    """total_tensor_size_bytes of 1 GiB for one element."""
    _alternate(attacker, one_gibibyte(), claimed_size, unary)


@attack(rounds=20)
def claimed_sizes_on_many(attacker):
    """Groups of such items on ComputeTopKMany."""
    _alternate(attacker, one_gibibyte(), claimed_size, _groups(attacker))


def _hold_streams(attacker, requests):
    """Keeps one idle stream per request open, each from another address."""
    clients = []
    for request in requests:
        clients.append(attacker.connect())
        header_alone(clients[-1], request)
        attacker.delivered()
    attacker.hold_and_close(clients)


@attack(processes=1, rounds=2)
def claimed_sizes_on_idle_streams(attacker):
    """Two idle streams whose headers claim 1 GiB each."""
    _hold_streams(attacker, [one_gibibyte()] * 2)


@attack(rounds=20)
def claimed_sizes_on_streams(attacker):
    """StreamTopK with such headers, with and without their data."""
    _alternate(attacker, one_gibibyte(), claimed_size, _streams(attacker))


# Layouts of outputs ----------------------------------------------------------


def interleaved(a):
    """An output whose two dimensions interleave in 2 a^2 places without meeting
    once."""
    return topk_requests.directml(
        "U8", [a, a + 1, 1], [0, 0, 0], axis=2,
        output_value={"strides": [a + 1, a, 0]})


def nearly_nested(chance):
    """An output whose strides differ a little from packed ones: whether two
    elements meet takes thought."""
    sizes = [chance.randrange(2, 40)
             for _ in range(chance.randrange(2, 8))]
    while (product := _product(sizes)) > 1 << 27:
        sizes.pop()
    while product < 1 << 20 and len(sizes) < 8:
        sizes.append(chance.randrange(2, 60))
        product = _product(sizes)
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, max(0, min(MAX_STRIDE,
                                     step + chance.choice((-1, 0, 0, 1)))))
        step *= size
    chance.shuffle(strides)
    order = {"strides": strides}
    return topk_requests.directml(
        chance.choice(list(TYPES)), sizes, [0] * len(sizes),
        axis=chance.randrange(len(sizes)), k=1,
        **{chance.choice(("output_value", "output_index")): order})


def _product(sizes):
    product = 1
    for size in sizes:
        product *= size
    return product


@attack(rounds=20)
def interleaved_layouts(attacker):
    """Values with strides [a + 1, a, 0] for shape [a, a + 1, 1]."""
    def variant(chance):
        if chance.random() < 0.5:
            return interleaved(chance.randrange(5000, 18000))
        return nearly_nested(chance)

    def start(client, request):
        way = attacker.random.choice((unary, unary, many, header_alone))
        return way(client, request)
    _alternate(attacker, interleaved(14000), variant, start)


# Overflows -------------------------------------------------------------------


def wide_strides():
    """2^62 bytes of padded input: twice that exceeds 63 bits."""
    return topk_requests.directml("U8", [(1 << 30) + 2], [MAX_STRIDE],
                                  data=None)


def empty_of_huge_k():
    """Outputs without an element, each slice of which would have 2^59."""
    return topk_requests.onnx("U8", [0, 1 << 59], k=1 << 59)


def near_two_to_62(chance):
    """Sizes, strides and k around 2^59 .. 2^63."""
    def near(power):
        return max(1, (1 << power) + chance.randrange(-2, 3))
    form = chance.randrange(4)
    if form == 0:
        power = chance.randrange(20, 31)
        return topk_requests.directml(
            chance.choice(list(TYPES)), [near(power)],
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
    """Shape [2^30 + 2] with stride 2^32 - 1 as a stream's header, and sizes
    near 2^62 on every call that takes a tensor."""
    def start(client, request):
        ways = [header_alone] * 3 + [unary, many]
        if request.HasField("onnx"):
            ways += [_infer, _stream_infer]
        return attacker.random.choice(ways)(client, request)
    _alternate(attacker, wide_strides(), near_two_to_62, start)


def _as_infer(request):
    shape = list(request.tensor.shape)
    return topk_requests.infer("UINT8", shape, max(shape)).SerializeToString()


def _infer(client, request):
    return client.call(INFER, _as_infer(request))


def _stream_infer(client, request):
    return client.call(STREAM_INFER, _as_infer(request))


@attack(processes=1, rounds=2)
def overflowing_idle_streams(attacker):
    """Two idle streams with shape [0, 2^59] and k = 2^59."""
    _hold_streams(attacker, [empty_of_huge_k()] * 2)


@attack(processes=1, rounds=2)
def overflowing_idle_wide_strides(attacker):
    """Two idle streams whose strides imply 2^62 bytes."""
    _hold_streams(attacker, [wide_strides()] * 2)


# Many elements in few bytes ---------------------------------------------------


def dense_request(chance):
    """At most 128 KiB with up to a million elements, all of which are
    selected."""
    data_type = chance.choice(("U1", "U1", "U2", "U4", "U8"))
    count = (120 << 10) * 8 // int(data_type[1:])
    rows = chance.choice((1, 1, 2, count // 2, count))
    data = chance.randbytes(120 << 10)
    return topk_requests.openvino(data_type, [rows, count // rows],
                                  k=count // rows, data=data)


@attack(rounds=40, processes=4)
def dense_small_messages(attacker):
    """Messages of 120 KiB that select a million elements of one bit."""
    requests = [dense_request(attacker.random) for _ in range(8)]

    def start(client):
        way = attacker.random.choice((unary, unary, many))
        return way(client, attacker.random.choice(requests))
    attacker.keep_calling(start, outstanding=8, patience=1)


@attack(rounds=20)
def columns_of_stream_headers(attacker):
    """Stream headers of 40 bytes that ask for selections of millions of
    columns."""
    def columns(chance):
        inner = chance.randrange(1 << 20, 8 << 20)
        return topk_requests.onnx("F32", [chance.randrange(1, 9), inner],
                                  axis=0, k=1)
    fixed = topk_requests.onnx("F32", [2, 6 << 20], axis=0, k=1)
    _alternate(attacker, fixed, columns, header_alone)
