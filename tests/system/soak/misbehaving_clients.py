"""Misbehaving clients, which attackers run while a load lasts."""

import select
import time

import h2
import harness


def pause(connection, seconds):
    """Reads and discards everything that the server sends for `seconds`."""
    connection.read(lambda *_: False, seconds)
    connection.frames.clear()


def _streams(attacker):
    """Opens a connection, and yields it with each of its unused streams."""
    with h2.Connection(attacker.target, source=attacker.source()) as connection:
        for stream in range(1, 400, 2):
            if attacker.goes_on() and not connection.closed:
                yield connection, stream
        if connection.closed:  # The server is gone or rejects the client.
            attacker.pause(0.1)


def cancel(attacker):
    """Cancels calls before the response, during or after the request."""
    chance = attacker.random
    body = h2.message(harness.request(bytes(200) * 200, 10))
    for connection, stream in _streams(attacker):
        part = body[:chance.randrange(1, len(body) + 1)]
        connection.send(h2.call(stream, h2.fields()) + h2.data(stream, part))
        pause(connection, chance.uniform(0, 0.02))
        connection.send(h2.rst_stream(stream))
        attacker.outcomes["cancelled"] += 1


def nonsense(attacker):
    """Sends invalid messages, which the server must reject for any reason."""
    chance, counts = attacker.random, attacker.outcomes
    for connection, stream in _streams(attacker):
        body = b"\x0a\xff" + chance.randbytes(chance.randrange(4000))
        connection.send(h2.request(stream, h2.fields(), body))
        answer = connection.answer(stream, 30)
        if answer is None:
            counts[f"reset {connection.found[3][:4].hex()}"] += 1
            connection.closed = True
        elif b"grpc-status\x013" in answer[0]:
            counts["malformed"] += 1
        elif b"grpc-status\x018" in answer[0]:
            counts["refused"] += 1
            if b"grpc-retry-pushback-ms" not in answer[0]:
                counts["no_hint"] += 1
        elif b"grpc-status\x010" in answer[0]:
            counts["accepted"] += 1
        else:
            counts["other"] += 1
        pause(connection, 0.01)


def dawdle(attacker):
    """Reads a 9 MiB response from the socket one byte at a time, and keeps
    another connection open that sent only a part of the preface."""
    chance, source = attacker.random, attacker.source()
    body = h2.message(harness.request(bytes(256) * 4096, 1 << 20))
    window = (1 << 31) - 1
    with h2.Connection(
            attacker.target, own=((h2.INITIAL_WINDOW_SIZE, window),),
            source=source) as slow, h2.Connection(
                attacker.target, hello=False, source=source) as half:
        half.send(h2.PREFACE[:chance.randrange(len(h2.PREFACE))])
        slow.send(h2.window_update(0, window - 65535) +
                  h2.call(1, h2.fields()) + h2.data(1, body, end_stream=True),
                  read=False)
        attacker.outcomes["slow"] += 1
        attacker.outcomes["half_open"] += 1
        until = time.monotonic() + chance.uniform(1, 20)
        while time.monotonic() < until and attacker.goes_on():
            if select.select([slow.socket], [], [], 0.1)[0]:
                if not slow.socket.recv(1):
                    break
                attacker.outcomes["bytes"] += 1
            time.sleep(0.002)
