"""Misbehaving clients, each in its own process, that run beside a load."""

import collections
import contextlib
import multiprocessing
import os
import random
import select
import time

import h2
import harness


def lower_priority():
    os.nice(10)


def pause(connection, seconds):
    """Reads and discards everything that the server sends for `seconds`."""
    connection.read(lambda *_: False, seconds)
    connection.frames.clear()


def _streams(target, pipe, source):
    """Yields (connection, stream) pairs of new connections until stopped."""
    while not pipe.poll():
        with contextlib.suppress(OSError), \
                h2.Connection(target, source=source) as connection:
            for stream in range(1, 400, 2):
                if not pipe.poll() and not connection.closed:
                    yield connection, stream
            if not connection.closed:
                continue
        time.sleep(0.1)  # The server is gone or rejects the client.


def cancel(target, seed, pipe, source):
    """Cancels calls before the response, during or after the request."""
    chance = random.Random(seed)
    body = h2.message(harness.request(bytes(200) * 200, 10))
    done = 0
    for connection, stream in _streams(target, pipe, source):
        part = body[:chance.randrange(1, len(body) + 1)]
        connection.send(h2.call(stream, h2.fields()) + h2.data(stream, part))
        pause(connection, chance.uniform(0, 0.02))
        connection.send(h2.rst_stream(stream))
        done += 1
    return {"cancelled": done}


def nonsense(target, seed, pipe, source):
    """Sends invalid messages, which the server must reject."""
    chance = random.Random(seed)
    counts = collections.Counter()
    for connection, stream in _streams(target, pipe, source):
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
    return counts


def dawdle(target, seed, pipe, source):
    """Reads a 9 MiB response one byte at a time, and keeps open a connection on
    which only a part of the preface was sent."""
    chance = random.Random(seed)
    body = h2.message(harness.request(bytes(256) * 4096, 1 << 20))
    window = (1 << 31) - 1
    counts = collections.Counter()
    while not pipe.poll():
        with contextlib.suppress(OSError), h2.Connection(
                target, own=((h2.INITIAL_WINDOW_SIZE, window),),
                source=source) as slow, h2.Connection(
                    target, hello=False, source=source) as half:
            half.send(h2.PREFACE[:chance.randrange(len(h2.PREFACE))])
            slow.send(h2.window_update(0, window - 65535) +
                      h2.call(1, h2.fields()) +
                      h2.data(1, body, end_stream=True), read=False)
            counts["slow"] += 1
            counts["half_open"] += 1
            until = time.monotonic() + chance.uniform(1, 20)
            while time.monotonic() < until and not pipe.poll():
                if select.select([slow.socket], [], [], 0.1)[0]:
                    if not slow.socket.recv(1):
                        break
                    counts["bytes"] += 1
                time.sleep(0.002)
    return counts


def _run(function, target, seed, pipe, source):
    lower_priority()
    pipe.send(function(target, seed, pipe, source))


def crowd(function, target, count, seed, source=None):
    """Starts `count` processes that run a function. Returns a function that
    stops them and returns their total counts."""
    pipes = []
    for i in range(count):
        pipe, other = multiprocessing.Pipe()
        multiprocessing.Process(
            target=_run, args=(function, target, seed + i, other, source),
            daemon=True).start()
        pipes.append(pipe)

    def end():
        total = collections.Counter()
        for pipe in pipes:
            pipe.send("stop")
        for pipe in pipes:
            total.update(pipe.recv())
        return dict(total)
    return end
