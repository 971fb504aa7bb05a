"""Tests the effect of topkd's settings on connections, frame by frame.

usage: connection_limits_test.py TOPKD
"""

import argparse
import contextlib
import time

import attacks
import h2
import harness
from harness import AttackedServer


def ask(client, stream=1, **changed):
    """Sends a small request."""
    client.send(h2.call(stream, h2.fields(**changed)) +
                h2.data(stream, h2.message(harness.REQUEST), end_stream=True))


def is_served(client, stream=1, **changed):
    ask(client, stream, **changed)
    answer = client.answer(stream)
    return answer is not None and b"grpc-status\x010" in answer[0]


def goaway(client):
    """Waits for a GOAWAY. Returns its reason, or None."""
    found = client.read(lambda kind, *_: kind == h2.GOAWAY)
    return None if found is None else found[3][8:].decode("latin-1")


def half_begun_connections_are_closed(path):
    with AttackedServer(path, "--handshake-timeout", "500ms") as server:
        for start in (b"", h2.PREFACE[:10], h2.PREFACE):
            with h2.Connection(server.target, hello=False) as client:
                client.send(start)
                assert client.wait_closed(5), start
        with h2.Connection(server.target) as client:
            time.sleep(1)
            assert is_served(client)


def idle_connections_are_closed(path):
    with AttackedServer(path, "--max-connection-idle", "500ms") as server:
        with h2.Connection(server.target) as client:
            assert is_served(client)
            assert goaway(client) is not None
            assert client.wait_closed(10)


def old_connections_are_closed_with_their_calls(path):
    with AttackedServer(path, "--max-connection-age", "500ms",
                        "--max-connection-age-grace", "500ms") as server:
        with h2.Connection(server.target) as client:
            client.send(h2.call(1, h2.fields("StreamTopK")))
            assert goaway(client) is not None
            answer = client.answer(1)
            assert b"grpc-status\x0214" in answer[0], answer
            assert client.wait_closed(5)


def clients_without_a_sign_of_life_are_closed(path):
    with AttackedServer(path, "--keepalive-time", "1s",
                        "--keepalive-timeout", "300ms") as server:
        with h2.Connection(server.target) as lively, h2.Connection(
                server.target, pongs=False) as silent:
            assert is_served(lively) and is_served(silent)
            lively.read(lambda *_: False, 2)
            assert not lively.closed
            assert silent.wait_closed(5)


def pings_are_counted(path):
    ping = h2.frame(h2.PING, 0, 0, b"12345678")
    with AttackedServer(path) as server, h2.Connection(server.target) as client:
        client.send(ping * 6)
        assert goaway(client) == "too_many_pings"
    with AttackedServer(path, "--min-ping-interval", "0") as server:
        with h2.Connection(server.target) as client:
            client.send(ping * 20)
            assert is_served(client)


def calls_of_a_connection_are_limited(path):
    with AttackedServer(path, "--max-concurrent-streams", "5") as server:
        with h2.Connection(server.target) as client:
            assert client.settings[h2.MAX_CONCURRENT_STREAMS] == 5
            for i in range(5):
                client.send(h2.call(2 * i + 1, h2.fields("StreamTopK")))
            client.read(lambda *_: False, 0.2)
            assert not client.closed
            client.send(h2.call(11, h2.fields("StreamTopK")))
            # gRPC 1.51 closes the connection, newer ones reject the call.
            rejected = client.read(
                lambda kind, _, stream, __: (kind, stream) ==
                (h2.RST_STREAM, 11), 5)
            if rejected is None:
                assert client.closed
            else:
                assert rejected[3] == h2.REFUSED_STREAM.to_bytes(4, "big")


def connections_are_limited(path):
    with AttackedServer(path, "--max-connections", "3",
                        "--max-connections-per-client", "2") as server:
        with contextlib.ExitStack() as stack:
            def connect(source):
                return stack.enter_context(
                    h2.Connection(server.target, source=source))
            first, second = connect("127.0.0.1"), connect("127.0.0.1")
            assert is_served(first) and is_served(second)
            assert connect("127.0.0.1").wait_closed(5)
            other = connect("127.0.0.2")
            assert is_served(other)
            assert connect("127.0.0.3").wait_closed(5)
            assert is_served(first, 3) and is_served(other, 3)
            second.socket.close()
            harness.poll("the closed connection's place",
                     lambda: _late(server.target, "127.0.0.1"))


def header_fields_are_limited(path):
    with AttackedServer(path, "--max-metadata-bytes", "2000") as server:
        with h2.Connection(server.target) as client:
            assert client.settings[h2.MAX_HEADER_LIST_SIZE] == 2000
            assert is_served(client, x_small="v" * 1000)
            for i in range(20):
                ask(client, 3 + 2 * i, x_large="v" * 3000)
                answer = client.answer(3 + 2 * i)
                assert answer is None or b"grpc-status\x018" in answer[0]


def compressed_messages_are_refused(path):
    with AttackedServer(path) as server, h2.Connection(server.target) as client:
        ask(client, grpc_encoding="gzip")
        assert b"grpc-status\x0212" in client.answer(1)[0]
        assert is_served(client, 3, grpc_encoding="identity")


def a_server_outlives_its_last_descriptor(path):
    """CVE-2023-4785."""
    with AttackedServer(path, descriptors=200) as server:
        with h2.Connection(server.target) as early:
            assert is_served(early)
            crowd = []
            for _ in range(400):
                crowd.append(h2.Connection(server.target, hello=False))
            refused = sum(one.wait_closed(0.01) for one in crowd)
            assert refused >= 200, refused
            assert is_served(early, 3)
            for one in crowd:
                one.socket.close()
        harness.poll("a new client to be served", lambda: _late(server.target))
        harness.poll("descriptors to return", lambda: server.descriptors() < 30)


def memory_goes_back_after_calls_that_were_reset(path):
    with AttackedServer(path, "--threads", "2") as server:
        before, grown = server.memory(), 0
        for _ in range(5):  # on one thread that polls, the first does
            if grown < 100:
                attacks.ATTACKS["rapid_reset"](attacks.Stage(server.target))
                grown = server.peak() - before
        if harness.grpc_minor(path) > 51 and grown < 100:
            return  # rapid resets no longer take memory
        assert grown >= 100, f"{grown:.0f} MiB: nothing to give back"
        harness.poll("the memory to go back",
                     lambda: server.memory() - before < grown / 2)


def _late(target, source=None):
    with contextlib.suppress(OSError), h2.Connection(
            target, source=source) as client:
        return is_served(client)
    return False


CASES = [half_begun_connections_are_closed, idle_connections_are_closed,
         old_connections_are_closed_with_their_calls,
         clients_without_a_sign_of_life_are_closed, pings_are_counted,
         calls_of_a_connection_are_limited, connections_are_limited,
         header_fields_are_limited,
         compressed_messages_are_refused,
         memory_goes_back_after_calls_that_were_reset,
         a_server_outlives_its_last_descriptor]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("topkd")
    parser.add_argument("--without", help="a case that is left out")
    options = parser.parse_args()
    cases = [case for case in CASES if case.__name__ != options.without]
    harness.run_cases(cases, options.topkd)


if __name__ == "__main__":
    main()
