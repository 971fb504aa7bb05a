"""Attacks that are cheap for the attacker, and the processes that run them.

An attack is a function of an Attacker. Several processes run it repeatedly
until they are stopped. This file has the attacks on HTTP/2 and on connections;
tests/system/hostile has the attacks on the service.
"""

import collections
import dataclasses
import multiprocessing
import os
import random
import select
import time

import h2

ATTACKS = {}
# The names of gRPC's status codes, in the order of their numbers. Not imported
# from grpc, which a machine with a newer gRPC for C++ may lack.
CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND "
    "ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION "
    "ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS "
    "UNAUTHENTICATED").split()
TOPK = "/topk.v1.TopKService/"
OIP = "/inference.GRPCInferenceService/"
# Client settings: a flow-control window of 2 GiB, and one of zero bytes.
WIDE = ((h2.HEADER_TABLE_SIZE, 0), (h2.INITIAL_WINDOW_SIZE, (1 << 31) - 1))
CLOSED = ((h2.HEADER_TABLE_SIZE, 0), (h2.INITIAL_WINDOW_SIZE, 0))


@dataclasses.dataclass
class Attack:
    """An attack and its server.

    flags         additional flags of the server
    processes     the number of attackers
    rounds        the minimum number of delivered() calls
    seconds       the minimum duration
    arriving      MiB of incomplete messages in gRPC, which the server does not
                  count until they are complete
    caller        keyword arguments of the well-behaved caller
    longest       the maximum of cheap_attacks_test.typical_wait(), in seconds
    valid         whether the server must accept all requests of the attack
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


def attack(**options):
    """Registers a function as an attack."""

    def register(function):
        ATTACKS[function.__name__] = Attack(function, **options)
        return function

    return register


class Client(h2.Connection):
    """A connection that opens calls and records how each call ends. Its stream
    windows of 64 KiB keep large responses on the server."""

    def __init__(self, target, source, **options):
        # Do not wait for the server's SETTINGS: a stopped server sends none.
        super().__init__(target, source=source, **{"greets": False, **options})
        self.outcomes = {}
        self.messages = collections.Counter()
        self._next = 1

    def new_streams(self, count):
        """Returns ids of unused streams."""
        first, self._next = self._next, self._next + 2 * count
        return range(first, self._next, 2)

    def call(self, path, *messages, end=True, seconds=3):
        """Starts a call, sends its messages and returns its stream."""
        stream, = self.new_streams(1)
        self.send(h2.call(stream, h2.fields(path=path)))
        body = b"".join(h2.message(one) for one in messages)
        self.upload(stream, body, end, seconds)
        return stream

    def reset(self, *streams):
        self.send(b"".join(h2.rst_stream(stream) for stream in streams))

    def poll(self, seconds):
        """Receives until something arrives, for at most `seconds`."""
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
        """Waits until the streams have ended. Returns the unfinished ones."""
        deadline = time.monotonic() + seconds
        left = set(streams) - self.outcomes.keys()
        while left and not self.closed and time.monotonic() < deadline:
            self.poll(max(0, deadline - time.monotonic()))
            left -= self.outcomes.keys()
        return left


def _status_of(trailers):
    at = trailers.find(b"grpc-status")
    if at < 0:
        return "no status"
    at += len(b"grpc-status")
    size = trailers[at] & 127
    return CODES[int(trailers[at + 1:at + 1 + size] or 2)]


class Attacker:
    """A process of an attack.

    target  the server's address
    number  the index of this process
    random  a seeded generator that picks the variant of each round
    """

    def __init__(self, target, number, seed, stop, rounds):
        self.target = target
        self.number = number
        self.random = random.Random(f"{seed} {number}")
        self.outcomes = collections.Counter()
        self._stop = stop
        self._rounds = rounds
        self._sources = 0

    def goes_on(self):
        """Returns false once the attack is stopped."""
        return not self._stop.is_set()

    def delivered(self, count=1):
        """Counts rounds that were sent. Each attack must send a minimum number
        of rounds, because the test would otherwise pass without an attack."""
        with self._rounds.get_lock():
            self._rounds.value += count

    def source(self):
        """Returns a new source address. Servers identify clients by address.
        """
        self._sources += 1
        return f"127.1.{self.number}.{1 + self._sources % 250}"

    def connect(self, **options):
        return Client(self.target, self.source(), **options)

    def pause(self, seconds=0.05):
        self._stop.wait(seconds)

    def hold(self, *clients):
        """Keeps connections open until the attack ends."""
        while self.goes_on():
            for client in clients:
                client.poll(0.02)
            self.pause(0.02)

    def hold_and_close(self, clients):
        """Keeps connections open until the attack ends, then counts their
        calls' outcomes and closes them."""
        self.hold(*clients)
        for client in clients:
            self.outcomes.update(client.outcomes.values())
            client.socket.close()

    def count(self, client, streams):
        self.outcomes.update(client.outcomes.pop(stream, "no end")
                             for stream in streams)

    def keep_calling(self, start, outstanding=4, patience=0.3):
        """Keeps `outstanding` calls open on a connection, starting at most 200
        calls per second. Resets calls that have no response after `patience`
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
    """The processes of an attack. Stopped at the end of a with block."""

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

    def stop(self, patience=3):
        """Stops the processes and returns the outcomes of their calls. Waits at
        most `patience` seconds for the outcomes of each process."""
        self._stop.set()
        outcomes = collections.Counter()
        for pipe in self._processes:
            if pipe.poll(patience):
                outcomes.update(pipe.recv())
        return outcomes


# The server has a health listener, because the listener's poller also reads
# connections of the main listener.
@attack(rounds=20000, seconds=4, processes=4, longest=0.5,
        flags=("--health-listen=127.0.0.1:0",))
def calls_refused_on_arrival(attacker):
    """Calls of a method that does not exist, 200 at a time."""
    headers = h2.block(h2.fields("Bogus"))
    with attacker.connect(greets=True) as client:
        in_flight, received = 0, b""
        while attacker.goes_on():
            streams = client.new_streams(200 - in_flight)
            client.send(b"".join(
                h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, stream,
                         headers) for stream in streams), read=False)
            attacker.delivered(len(streams))
            in_flight += len(streams)
            if not select.select([client.socket], [], [], 0.1)[0]:
                continue
            more = client.socket.recv(1 << 20)
            if not more:
                break  # more than 256 streams: the server closed the connection
            received = received[-10:] + more
            ended = received.count(b"grpc-status")
            attacker.outcomes["ended"] += ended
            in_flight -= ended


# On a busy machine, closed connections wait until the server reads their calls.
@attack(rounds=20000, seconds=3, arriving=128, longest=1)
def calls_on_closed_connections(attacker):
    """Calls on connections that are closed at once, so that the server cannot
    limit the number of calls."""
    with attacker.connect() as client:
        client.send(b"".join(h2.call(stream, h2.fields())
                             for stream in client.new_streams(250)))
        attacker.delivered(250)


# Allow 192 MiB for calls that arrive while the pollers lag behind.
@attack(flags=("--threads=4", "--pollers=4"), processes=4, seconds=10,
        arriving=192)
def expired_on_arrival(attacker):
    """Calls that end when they arrive, to a server with four pollers. About
    200 000 of them are needed to hit a race of a few nanoseconds between the
    arrival of a call and its end."""
    fields = h2.fields(grpc_timeout="1n")
    with attacker.connect() as client:
        while attacker.goes_on() and not client.closed:
            streams = client.new_streams(200)
            client.send(b"".join(h2.call(stream, fields) for stream in streams))
            attacker.delivered(200)
            client.reset(*client.wait(streams, 0.5))
            attacker.count(client, streams)
