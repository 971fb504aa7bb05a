"""Clients that hold on to what a server offers besides its service: health, and
the listeners for probes, operators and metrics.

usage: edges_test.py TOPKD [--memory-factor N]

--memory-factor  for sanitizers, whose memory is not the server's
"""

import argparse
import contextlib
import socket
import time
import urllib.request

import h2
import harness
import topk_requests
from cheap_attack import TOPK, Client

CHECK = h2.fields(path="/grpc.health.v1.Health/Check")
WATCH = h2.fields(path="/grpc.health.v1.Health/Watch")
REFLECT = h2.fields(
    path="/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
GET_SERVERS = h2.fields(path="/grpc.channelz.v1.Channelz/GetServers")
EMPTY = h2.message(b"")
# ServerReflectionRequest.file_containing_symbol, whose files have 30 KiB.
SYMBOL = h2.message(b"\x22\x13topk.v1.TopKService")
MIB = 1 << 20
SIDE = ("health", "admin")


def topkd(path, *flags, descriptors=None):
    """A server with all of its listeners."""
    listeners = [word for name in ("health", "admin", "metrics")
                 for word in (f"--{name}-listen", "127.0.0.1:0")]
    return harness.AttackedServer(path, *listeners, *flags,
                                  descriptors=descriptors)


def call(stream, fields, message=EMPTY):
    return h2.call(stream, fields) + h2.data(stream, message, end_stream=True)


def succeeds(target, fields, message=EMPTY):
    """Whether a call on a new connection succeeds."""
    with contextlib.suppress(OSError), h2.Connection(target) as client:
        client.send(call(1, fields, message))
        answer = client.answer(1)
        return answer is not None and b"grpc-status\x010" in answer[0]
    return False


def is_served(target):
    return succeeds(target, h2.fields(), h2.message(harness.REQUEST))


def idle_connections_lock_nobody_out(path, _):
    """150 of them, for 200 file descriptors."""
    for side in SIDE:
        with topkd(path, descriptors=200) as server:
            address = server.addresses[side]
            crowd = [h2.Connection(address, hello=number % 2 == 0,
                                   greets=False) for number in range(150)]
            assert is_served(server.target), side
            own = CHECK if side == "health" else GET_SERVERS
            # On a busy machine the crowd is still being accepted.
            harness.poll(f"{side} to serve a probe",
                         lambda: succeeds(address, own), seconds=5)
            for one in crowd:
                one.socket.close()
            harness.poll("file descriptors to return",
                         lambda: server.descriptors() < 30)


def watches_lock_no_probe_out(path, _):
    """As many as the listener takes, on as many connections."""
    with topkd(path) as server, contextlib.ExitStack() as stack:
        address = server.addresses["health"]
        for number in range(64):
            client = stack.enter_context(
                h2.Connection(address, source=f"127.0.1.{1 + number}"))
            most = client.settings.get(h2.MAX_CONCURRENT_STREAMS, 256)
            client.send(b"".join(call(2 * i + 1, WATCH)
                                 for i in range(most)))
        for _ in range(10):
            assert succeeds(address, CHECK)


def messages_of_probes_are_bounded(path, factor):
    """A message of 4 GiB is announced, and sent as far as the server lets
    it."""
    for side, fields in zip(SIDE, (CHECK, GET_SERVERS)):
        with topkd(path) as server, h2.Connection(
                server.addresses[side]) as client:
            before = server.memory()
            server.forget_peak()
            client.send(h2.call(1, fields))
            sent = upload(client, 1, h2.message(bytes(200 * MIB),
                                                length=0xffffffff))
            grown = server.peak() - before
            assert grown < 64 * factor, \
                f"{side}: {grown:.0f} MiB for {sent / MIB:.0f} MiB"


def upload(client, stream, wire):
    """Sends the bytes as the windows open; returns how many were sent when the
    server ended the stream, or opened them no more for a second."""
    window = {0: 65535, stream: client.settings[h2.INITIAL_WINDOW_SIZE]}
    sent = 0
    while sent < len(wire) and not client.closed:
        for kind, _, on, payload in client.frames:
            if kind == h2.WINDOW_UPDATE and on in window:
                window[on] += int.from_bytes(payload, "big")
            if kind in (h2.RST_STREAM, h2.HEADERS) and on == stream:
                return sent
        client.frames.clear()
        size = min(16384, *window.values(), len(wire) - sent)
        if size > 0:
            client.send(h2.frame(h2.DATA, 0, stream, wire[sent:sent + size]))
            sent += size
            window[0] -= size
            window[stream] -= size
        elif client.read(lambda *_: True, 1) is None:
            return sent
        else:
            client.frames.append(client.found)
    return sent


def calls_of_the_admin_address_take_few_threads(path, factor):
    """208 at a time, of which gRPC's own handlers keep a thread each: idle
    streams, and responses that nobody reads."""
    calls = (lambda stream: call(stream, GET_SERVERS),
             lambda stream: h2.call(stream, REFLECT),
             lambda stream: h2.call(stream, REFLECT) + h2.data(stream,
                                                               SYMBOL * 20))
    with topkd(path) as server:
        admin = server.addresses["admin"]
        before, threads = server.memory(), server.threads()
        for one in calls:
            with contextlib.ExitStack() as stack:
                for _ in range(13):
                    client = stack.enter_context(h2.Connection(admin, own=(
                        (h2.HEADER_TABLE_SIZE, 0),
                        (h2.INITIAL_WINDOW_SIZE, 0))))
                    client.send(b"".join(one(2 * i + 1) for i in range(16)))
                    client.read(lambda *_: False, 0.1)
                    assert not client.closed
                grown = server.threads() - threads
                # 8 at most, and sometimes one of gRPC's own.
                assert grown <= 9, f"{grown} threads"
                grown = server.memory() - before
                assert grown < 48 * factor, f"{grown:.0f} MiB"
                assert is_served(server.target)
            harness.poll("the threads to return",
                         lambda: succeeds(admin, GET_SERVERS))


def watches_are_limited(path, factor):
    """4096 in all, half of them of one client address."""
    with topkd(path, "--max-concurrent-streams", "3000") as server:
        before = server.memory()
        with h2.Connection(server.target) as client:
            for first in range(0, 2400, 100):
                client.send(b"".join(call(2 * i + 1, WATCH)
                                     for i in range(first, first + 100)))
            client.frames.clear()
            client.send(call(9001, WATCH))
            rejected = client.answer(9001)
            assert rejected is not None
            assert b"(limit 2048)" in rejected[0], rejected
            grown = server.memory() - before
            assert grown < 64 * factor, f"{grown:.0f} MiB"
            with h2.Connection(server.target, source="127.0.0.9") as other:
                assert watches(other), "another client is rejected"
        harness.poll("the places to return", lambda: is_watched(server.target))


def watches(client):
    """Whether a watch on the connection receives the state."""
    client.send(call(1, WATCH))
    found = client.read(
        lambda kind, flags, *_: kind == h2.DATA or flags & h2.END_STREAM and
        kind == h2.HEADERS, 5)
    return found is not None and found[0] == h2.DATA


def is_watched(target):
    with h2.Connection(target) as client:
        return watches(client)


def probes_that_never_end_take_bounded_memory(path, factor):
    """24 health calls on connections of their own, each of which sends 60 MiB of
    a message and then waits, while probes and other calls go on."""
    part = bytes(60 * MIB)
    with topkd(path, "--max-connection-age", "0") as server, \
            contextlib.ExitStack() as stack:
        before = server.memory()
        server.forget_peak()
        for number in range(24):
            client = stack.enter_context(h2.Connection(
                server.target, source=f"127.0.1.{1 + number}"))
            client.send(h2.call(1, WATCH if number % 2 else CHECK))
            upload(client, 1, h2.message(part, length=61 * MIB))
            if number % 8 == 0:
                assert succeeds(server.target, CHECK)
                assert is_served(server.target)
        grown = server.peak() - before
        assert grown < 400 * factor, f"{grown:.0f} MiB"
        harness.poll("the memory to return",
                     lambda: server.memory() - before < 64 * factor,
                     seconds=90)


def names_of_watches_are_not_kept(path, factor):
    """Sixteen of 8 MiB, on connections of their own."""
    name = b"x" * (8 * MIB)
    with topkd(path) as server, contextlib.ExitStack() as stack:
        before = server.memory()
        for _ in range(16):
            client = stack.enter_context(h2.Connection(server.target))
            client.send(h2.call(1, WATCH))
            # HealthCheckRequest.service, of 1 << 23 bytes.
            upload(client, 1, h2.message(b"\x0a\x80\x80\x80\x04" + name))
            client.read(lambda kind, *_: kind in (h2.HEADERS, h2.DATA))
        grown = server.memory() - before
        assert grown < 48 * factor, f"{grown:.0f} MiB"


def silent_connections_do_not_delay_a_scrape(path, _):
    with topkd(path) as server:
        address = server.addresses["metrics"]
        host, port = address.rsplit(":", 1)
        silent = [socket.create_connection((host, int(port)))
                  for _ in range(40)]
        for one in silent[::2]:
            one.sendall(b"GET /metrics HT")
        begin = time.monotonic()
        with urllib.request.urlopen(f"http://{address}/metrics",
                                    timeout=60) as page:
            assert b"topk_ready 1" in page.read()
        waited = time.monotonic() - begin
        assert waited < 3, f"{waited:.1f} s"
        for one in silent:
            one.close()


def unread_responses_end_no_server(path, _):
    """Checks of 2 KB, which are too long, of a client that reads nothing: their
    statuses are not sent in the time that a request has."""
    body = h2.message(b"\x0a\xd0\x0f" + b"x" * 2000)
    with topkd(path) as server, h2.Connection(server.target,
                                              buffer=2048) as client:
        for number in range(400):
            # The server's send buffer holds the statuses of 7000 calls. At most
            # 256 may be open.
            client.send(b"".join(h2.call(stream, CHECK) + h2.data(stream, body)
                                 for stream in range(40 * number + 1,
                                                     40 * number + 41, 2)),
                        read=False)
            time.sleep(0.02)
            if number % 20 == 0:
                assert is_served(server.target), number
        time.sleep(1)
        assert is_served(server.target)


def a_drain_waits_for_none_of_them(path, _):
    with topkd(path, "--drain-timeout", "1s") as server, \
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
                    client.send(call(1, WATCH) + h2.call(3, WATCH) +
                                h2.call(5, REFLECT) + h2.data(5, SYMBOL) +
                                call(7, GET_SERVERS) + h2.call(9, CHECK))
        took = server.stop()
        assert took < 4, f"{took:.1f} s"


def a_drain_ends_for_a_client_that_reads_nothing(path, _):
    """A response of 9 MB waits for a client with large windows and a small
    socket."""
    values = bytes(1 << 20)
    request = topk_requests.onnx("U8", [len(values)], k=len(values),
                                 data=values).SerializeToString()
    wide = ((h2.HEADER_TABLE_SIZE, 0),
            (h2.INITIAL_WINDOW_SIZE, (1 << 31) - 1))
    with topkd(path, "--drain-timeout", "1s") as server, Client(
            server.target, "127.0.0.2", own=wide, buffer=4096) as client:
        client.send(h2.window_update(0, (1 << 31) - 65536))
        client.call(TOPK + "ComputeTopK", request)
        time.sleep(0.5)
        took = server.stop()
        assert took < 4, f"{took:.1f} s"


CASES = [idle_connections_lock_nobody_out, watches_lock_no_probe_out,
         messages_of_probes_are_bounded,
         calls_of_the_admin_address_take_few_threads, watches_are_limited,
         probes_that_never_end_take_bounded_memory,
         names_of_watches_are_not_kept,
         silent_connections_do_not_delay_a_scrape,
         unread_responses_end_no_server,
         a_drain_waits_for_none_of_them,
         a_drain_ends_for_a_client_that_reads_nothing]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("topkd")
    parser.add_argument("--memory-factor", type=int, default=1)
    options = parser.parse_args()
    harness.run_cases(CASES, options.topkd, options.memory_factor)


if __name__ == "__main__":
    main()
