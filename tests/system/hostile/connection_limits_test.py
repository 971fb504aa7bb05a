"""Clients that try to exhaust connections, calls, health checks and the
listeners for probes, operators and metrics.

usage: connection_limits_test.py TOPKD [--sanitized]

--sanitized  allows 8 times the memory, and more time to free it
"""

import argparse
import contextlib
import gzip
import time
import zlib

import h2
import harness
from harness import AttackedServer

CHECK = h2.fields(path="/grpc.health.v1.Health/Check")
WATCH = h2.fields(path="/grpc.health.v1.Health/Watch")
REFLECT = h2.fields(
    path="/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
GET_SERVERS = h2.fields(path="/grpc.channelz.v1.Channelz/GetServers")
STREAM = h2.fields("StreamTopK")
# ServerReflectionRequest.file_containing_symbol. The response has 30 KiB.
SYMBOL = h2.message(b"\x22\x13topk.v1.TopKService")
MIB = 1 << 20
SIDE = (("health", CHECK), ("admin", GET_SERVERS))
LISTENERS = [word for name in ("health", "admin", "metrics")
             for word in (f"--{name}-listen", "127.0.0.1:0")]


@contextlib.contextmanager
def connected(path, *flags, **how):
    """Yields a server and a connection to this server."""
    with AttackedServer(path, *flags) as server, h2.Connection(
            server.target, **how) as client:
        yield server, client


def is_served(client, stream=1, **changed):
    return harness.call(client, stream, h2.fields(**changed)) is None


def goaway(client):
    """Waits for a GOAWAY. Returns its reason, or None."""
    found = client.read(lambda kind, *_: kind == h2.GOAWAY)
    return None if found is None else found[3][8:].decode("latin-1")


def test_half_begun_connections_are_closed(path, _):
    with AttackedServer(path, "--handshake-timeout", "500ms") as server:
        for start in (b"", h2.PREFACE[:10], h2.PREFACE):
            with h2.Connection(server.target, hello=False) as client:
                client.send(start)
                assert client.wait_closed(), start
        with h2.Connection(server.target) as client:
            time.sleep(1)
            assert is_served(client)


def test_idle_connections_are_closed(path, _):
    with connected(path, "--max-connection-idle", "500ms") as (_, client):
        assert is_served(client)
        assert goaway(client) is not None
        assert client.wait_closed()


def test_old_connections_are_closed_with_their_calls(path, _):
    with connected(path, "--max-connection-age", "500ms",
                   "--max-connection-age-grace", "500ms") as (_, client):
        client.send(h2.call(1, STREAM))
        assert goaway(client) is not None
        answer = client.answer(1)
        assert b"grpc-status\x0214" in answer[0], answer
        assert client.wait_closed()


def test_unresponsive_clients_are_closed(path, _):
    with AttackedServer(path, "--keepalive-time", "1s",
                        "--keepalive-timeout", "300ms") as server:
        with h2.Connection(server.target) as lively, h2.Connection(
                server.target, pongs=False) as silent:
            assert is_served(lively) and is_served(silent)
            lively.read(lambda *_: False, 2)
            assert not lively.closed
            assert silent.wait_closed()


def test_pings_are_counted(path, _):
    ping = h2.frame(h2.PING, 0, 0, b"12345678")
    with connected(path) as (_, client):
        client.send(ping * 6)
        assert goaway(client) == "too_many_pings"
    with connected(path, "--min-ping-interval", "0") as (_, client):
        client.send(ping * 20)
        assert is_served(client)


def test_calls_of_a_connection_are_limited(path, _):
    with connected(path, "--max-concurrent-streams", "5") as (_, client):
        assert client.settings[h2.MAX_CONCURRENT_STREAMS] == 5
        for stream in range(1, 11, 2):
            client.send(h2.call(stream, STREAM))
        client.read(lambda *_: False, 0.2)
        assert not client.closed
        client.send(h2.call(11, STREAM))
        # gRPC 1.51 closes the connection, newer versions reject the call.
        rejected = client.read(
            lambda kind, _, stream, __: (kind, stream) ==
            (h2.RST_STREAM, 11), 5)
        assert client.closed if rejected is None else (
            rejected[3] == h2.REFUSED_STREAM.to_bytes(4, "big"))


def test_connections_are_limited(path, _):
    # On this socket, the kernel reports IPv4 clients as IPv4-mapped addresses.
    with AttackedServer(path, "--max-connections", "3",
                        "--max-connections-per-client", "2",
                        listen="0.0.0.0:0") as server:
        with contextlib.ExitStack() as stack:
            def connect(source):
                return stack.enter_context(
                    h2.Connection(server.target, source=source))
            first, second = connect("127.0.0.1"), connect("127.0.0.1")
            assert is_served(first) and is_served(second)
            assert connect("127.0.0.1").wait_closed()
            other = connect("127.0.0.2")
            assert is_served(other)
            assert connect("127.0.0.3").wait_closed()
            assert is_served(first, 3) and is_served(other, 3)
            second.socket.close()
            harness.poll("the closed connection's place", lambda: (
                harness.serves(server.target, source="127.0.0.1")))
        assert ("connection from 127.0.0.1 rejected: the client has too many "
                "open connections (--max-connections-per-client = 2)\n"
                ) in server.log(), server.log()


def test_header_fields_are_limited(path, _):
    with connected(path, "--max-metadata-bytes", "2000") as (_, client):
        assert client.settings[h2.MAX_HEADER_LIST_SIZE] == 2000
        assert is_served(client, x_small="v" * 1000)
        for stream in range(3, 43, 2):
            client.send(h2.request(stream, h2.fields(x_large="v" * 3000),
                                   harness.REQUEST))
            answer = client.answer(stream)
            assert answer is None or b"grpc-status\x018" in answer[0]


def send_compressed(client, stream, content, rpc="ComputeTopK", **changed):
    """Makes a call with a message that the client has compressed. Returns an
    error message, or the response as text."""
    fields = h2.fields(rpc, grpc_encoding="gzip", **changed)
    client.send(h2.call(stream, fields))
    client.upload(stream, h2.message(content, flag=1), end_stream=True)
    answer = client.answer(stream)
    return harness.fault(answer, client) or answer[1].decode("latin-1")


def test_damaged_compressed_messages_are_refused(path, _):
    whole = gzip.compress(harness.REQUEST)
    with connected(path) as (_, client):
        for number, damaged in enumerate((
                b"", harness.REQUEST, whole[:-1], whole + b"x", whole * 2,
                whole[:-8] + bytes(8))):
            error = send_compressed(client, 1 + 4 * number, damaged)
            assert "not valid gzip" in error, (damaged, error)
            error = send_compressed(client, 3 + 4 * number, damaged,
                                    "StreamTopK")
            assert "not valid gzip" in error, (damaged, error)


def test_gzip_bombs_are_refused(path, factor):
    """Messages of 4 MiB whose content has 4 GiB."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    zeros = deflate.compress(bytes(MIB)) + deflate.flush(zlib.Z_FULL_FLUSH)
    bomb = b"\x1f\x8b\x08" + bytes(7) + zeros * 4096
    for flag, expected in (("--max-message-bytes", "--max-message-bytes"),
                           ("--max-inflight-bytes", "more than the limit")):
        with connected(path, flag, "32MiB") as (server, client):
            before = server.memory()
            for stream, rpc in enumerate(("ComputeTopK", "StreamTopK",
                                          "ComputeTopKMany")):
                error = send_compressed(client, 1 + 2 * stream, bomb, rpc)
                assert expected in error, error
            grown = server.peak() - before
            assert grown < 128 * factor, f"{grown:.0f} MiB"
            assert is_served(client, 7)


def test_arriving_messages_are_limited(path, factor):
    with AttackedServer(path, "--max-receive-memory", "80MiB") as server:
        before = server.memory()
        grown = growth_by_upload(server, server.target, h2.fields())
        assert grown < 160 * factor, f"{grown:.0f} MiB"
        harness.poll("a new client to be served",
                     lambda: harness.serves(server.target))
        if factor == 1:  # a sanitizer keeps freed memory
            assert grown > 64, f"{grown:.0f} MiB: nothing to give back"
            harness.poll("the memory to go back",
                         lambda: server.memory() - before < grown / 2,
                         seconds=90)


def growth_by_upload(server, address, fields):
    """Announces a message of 4 GiB and sends as much of it as the server
    accepts. Returns the growth of the server's memory in MiB."""
    before = server.memory()
    with h2.Connection(address) as client:
        client.send(h2.call(1, fields))
        client.upload(1, h2.message(bytes(400 * MIB), length=0xffffffff),
                      seconds=5)
    return server.peak() - before


def test_connections_leave_file_descriptors(path, _):
    """150 connections may use only half of 200 file descriptors."""
    with AttackedServer(path, *LISTENERS, descriptors=200) as server:
        crowd = [h2.Connection(server.target, greets=False)
                 for _ in range(150)]
        assert crowd[-1].wait_closed()
        assert is_served(crowd[0])
        for one in crowd:
            one.socket.close()
        harness.poll("a new client to be served",
                     lambda: harness.serves(server.target))


def test_idle_connections_do_not_lock_out_others(path, _):
    """150 connections, for a server with 200 file descriptors."""
    for side, own in SIDE:
        with AttackedServer(path, *LISTENERS, descriptors=200) as server:
            address = server.addresses[side]
            crowd = [h2.Connection(address, hello=number % 2 == 0,
                                   greets=False) for number in range(150)]
            assert harness.serves(server.target), side
            # A busy machine may still be accepting the connections.
            harness.poll(f"{side} to serve a probe",
                         lambda: harness.serves(address, own, b""))
            for one in crowd:
                one.socket.close()
            harness.poll("file descriptors to return",
                         lambda: server.descriptors() < 30)


def test_idle_connections_take_no_time(path, factor):
    """Connections to all listeners that send nothing after one call."""
    with AttackedServer(path, *LISTENERS) as server:
        with contextlib.ExitStack() as stack:
            calls = [(server.target, h2.fields(), harness.REQUEST)]
            calls += [(server.addresses[side], own, b"") for side, own in SIDE]
            for address, *call in calls:
                client = stack.enter_context(h2.Connection(address))
                assert harness.call(client, 1, *call) is None
            before = server.cpu_seconds()
            client.read(lambda *_: False, 1)
            used = server.cpu_seconds() - before
            assert used < 0.1 * factor, f"{used:.2f} s of CPU time in 1 s"


def test_messages_of_probes_are_bounded(path, factor):
    for side, fields in SIDE:
        with AttackedServer(path, *LISTENERS) as server:
            grown = growth_by_upload(server, server.addresses[side], fields)
            assert grown < 64 * factor, f"{side}: {grown:.0f} MiB"


def test_watches_are_limited(path, factor):
    """4096 in total and half of that per client address."""
    with AttackedServer(path, "--max-concurrent-streams", "3000") as server:
        before = server.memory()
        with h2.Connection(server.target) as client:
            for first in range(1, 4801, 200):
                client.send(b"".join(
                    h2.request(stream, WATCH, b"")
                    for stream in range(first, first + 200, 2)))
            # The last call may overtake calls that have no answer yet.
            answered = set()
            assert client.read(
                lambda kind, flags, stream, payload: answered.add(stream) or
                len(answered - {0}) == 2400, 60), len(answered)
            rejected = harness.call(client, 9001, WATCH, b"")
            assert "2048 from one client address" in rejected, rejected
            grown = server.memory() - before
            assert grown < 96 * factor, f"{grown:.0f} MiB"
            assert watches(server.target, "127.0.0.9"), "another client"
        harness.poll("the places to return", lambda: watches(server.target))


def watches(target, source=None):
    """Returns whether a new watch receives the server's state."""
    with h2.Connection(target, source=source) as client:
        client.send(h2.request(1, WATCH, b""))
        found = client.read(
            lambda kind, flags, *_: kind == h2.DATA or
            flags & h2.END_STREAM and kind == h2.HEADERS, 5)
        return found is not None and found[0] == h2.DATA


def test_a_drain_waits_for_no_idle_client(path, _):
    with AttackedServer(path, "--drain-timeout", "1s", *LISTENERS) as server, \
            contextlib.ExitStack() as stack:
        for name in ("listen", "health", "admin", "metrics"):
            address = server.addresses[name]
            address = address[0] if name == "listen" else address
            for hello in (False, True):
                client = stack.enter_context(h2.Connection(
                    address, hello=hello, greets=False))
                if name == "metrics":
                    client.send(b"GET /metrics HT")
                elif hello:
                    client.send(h2.request(1, WATCH, b"") + h2.call(3, WATCH) +
                                h2.call(5, REFLECT) + h2.data(5, SYMBOL) +
                                h2.request(7, GET_SERVERS, b"") +
                                h2.call(9, CHECK))
        took = server.stop()
        assert took < 30, f"{took:.1f} s"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("topkd")
    parser.add_argument("--sanitized", action="store_true")
    options = parser.parse_args()
    for name, case in list(globals().items()):
        if name.startswith("test_"):
            print(name, flush=True)
            case(options.topkd, 8 if options.sanitized else 1)


if __name__ == "__main__":
    main()
