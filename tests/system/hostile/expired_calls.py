"""Calls whose deadline has already passed when they arrive."""

import h2
import harness
import topk_requests
from attacks import HEALTH, attack

# A connection may have 256 open calls.
BATCH = 200


def _expired(chance, stream, paths):
    """Returns the frames of an expired call. Most calls are HEADERS alone to
    one method, which hits the race most often. Others go to any method, with a
    body, a partial body, or RST_STREAM."""
    if chance.random() < 0.7:
        return h2.call(stream, h2.fields(grpc_timeout="1n"))
    body = h2.message(harness.REQUEST)
    return h2.call(stream, h2.fields(
        path=chance.choice(paths),
        grpc_timeout=chance.choice(("1n", "1u", "0n")))) + chance.choice((
            h2.data(stream, body, end_stream=True),
            h2.data(stream, body[:chance.randrange(len(body))]),
            h2.rst_stream(stream), b"", b"", b""))


# Allow 64 MiB for calls that arrive while the pollers lag behind.
@attack(flags=("--threads=4", "--pollers=4"), processes=4, seconds=10,
        arriving=64)
def expired_on_arrival(attacker):
    """HEADERS with `grpc-timeout: 1n` in a loop, to every method of a server
    with four pollers. About 200 000 such calls are needed to hit a race of a
    few nanoseconds between the arrival of a call and its end."""
    paths = [*topk_requests.paths() * 3, HEALTH + "Check", HEALTH + "Watch"]
    with attacker.connect() as client:
        while attacker.goes_on() and not client.closed:
            streams = client.new_streams(BATCH)
            client.send(b"".join(_expired(attacker.random, stream, paths)
                                 for stream in streams))
            attacker.delivered(BATCH)
            client.reset(*client.wait(streams, 0.5))
            attacker.count(client, streams)
