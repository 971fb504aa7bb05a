"""Calls whose deadline has passed when they arrive."""

import h2
import harness
from attacks import OIP, STREAMS, TOPK, UNARY, attack

BODY = h2.message(harness.REQUEST)
# Server code handles the end of these calls; that of health calls is in other
# classes, which take a part of the batches.
PATHS = UNARY + STREAMS
RAW_PATHS = [path for path in PATHS if path.startswith((TOPK, OIP))]
# The connection's limit of calls is 256.
BATCH = 200


def _expired(chance, stream):
    """Returns the frames of an expired call: mostly HEADERS alone to one
    method, which hits the race most often, else to any method, with a body,
    with a part of one or followed by RST_STREAM."""
    if chance.random() < 0.7:
        return h2.call(stream, h2.fields(grpc_timeout="1n"))
    path = chance.choice(RAW_PATHS if chance.random() < 0.7 else PATHS)
    wire = h2.call(stream, h2.fields(
        path=path, grpc_timeout=chance.choice(("1n", "1u", "0n"))))
    form = chance.randrange(6)
    if form == 0:
        return wire + h2.data(stream, BODY, end_stream=True)
    if form == 1:
        return wire + h2.data(stream, BODY[:chance.randrange(len(BODY))])
    if form == 2:
        return wire + h2.rst_stream(stream)
    return wire


@attack(flags=("--threads", "4", "--pollers", "4"), processes=4, seconds=10)
def expired_on_arrival(attacker):
    """HEADERS with `grpc-timeout: 1n` in a loop, to every method, of a server
    with four pollers. It takes about 200 000 such calls to hit a race of some
    nanoseconds between the arrival of a call and its end."""
    with attacker.connect() as client:
        while attacker.goes_on() and not client.closed:
            streams = client.new_streams(BATCH)
            client.send(b"".join(_expired(attacker.random, stream)
                                 for stream in streams))
            attacker.delivered(BATCH)
            client.reset(*client.wait(streams, 0.5))
            attacker.count(client, streams)
