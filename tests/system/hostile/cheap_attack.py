"""The harness of cheap attacks: attackers' processes and their connections.

A cheap attack costs its client a few bytes or a few calls. It is a function of
an Attacker, which the harness runs in `processes` processes at once, each of
which repeats its calls until it is stopped.
"""

import collections
import dataclasses
import multiprocessing
import os
import random
import select
import struct
import time

import h2

ATTACKS = {}
CODES = dict(enumerate((
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED")))
TOPK = "/topk.v1.TopKService/"
OIP = "/inference.GRPCInferenceService/"
HEALTH = "/grpc.health.v1.Health/"
UNARY = [TOPK + name for name in ("ComputeTopK", "GetCapabilities")] + [
    OIP + name for name in (
        "ServerLive", "ServerReady", "ModelReady", "ServerMetadata",
        "ModelMetadata", "ModelInfer", "ModelConfig", "ModelStatistics",
        "RepositoryIndex", "SystemSharedMemoryStatus",
        "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister",
        "CudaSharedMemoryUnregister")] + [HEALTH + "Check"]
STREAMS = [TOPK + "StreamTopK", TOPK + "ComputeTopKMany",
           OIP + "ModelStreamInfer", HEALTH + "Watch"]


@dataclasses.dataclass
class Attack:
    """An attack and the server it is meant for.

    flags        the server's, in addition to the test's own
    processes    how many attackers run at once
    rounds       how many of their calls must have been sent before SIGTERM
    seconds      how long the attack lasts at least before SIGTERM
    arriving     MiB that gRPC may be receiving, which nothing counts before
                 the message is whole
    descriptors  the server's RLIMIT_NOFILE, None to leave it as it is
    caller       keywords of the honest caller
    valid        whether the server must accept all of the attack's requests
    """

    function: object
    flags: tuple = ()
    processes: int = 2
    rounds: int = 1
    seconds: float = 0.8
    arriving: int = 0
    descriptors: int | None = None
    caller: dict = dataclasses.field(default_factory=dict)
    valid: bool = False


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

    def drop(self):
        """Closes the connection with a RST, as a client that crashes does."""
        linger = struct.pack("ii", 1, 0)
        self.socket.setsockopt(h2.socket.SOL_SOCKET, h2.socket.SO_LINGER,
                               linger)
        self.socket.close()


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

    addresses  the server's ready file
    random     chooses the variant of each round; seeded
    """

    def __init__(self, addresses, number, seed, stop, rounds):
        self.addresses = addresses
        self.number = number
        self.random = random.Random(f"{seed} {number}")
        self.outcomes = collections.Counter()
        self._stop = stop
        self._rounds = rounds
        self._sources = 0
        self._until = time.monotonic() + 30

    def goes_on(self):
        """Whether the attack goes on; false 30 s after it began."""
        return not self._stop.is_set() and time.monotonic() < self._until

    def delivered(self, count=1):
        """Counts what has been sent: an attack that sends nothing is not a
        test."""
        with self._rounds.get_lock():
            self._rounds.value += count

    def source(self):
        """Returns another address each time: servers count callers by it."""
        self._sources += 1
        return f"127.1.{self.number}.{1 + self._sources % 250}"

    def connect(self, listener="listen", **how):
        target = self.addresses[listener]
        target = target[0] if isinstance(target, list) else target
        return Client(target, self.source(), **how)

    def pause(self, seconds=0.05):
        self._stop.wait(seconds)

    def hold(self, *clients):
        """Keeps connections open until the attack ends."""
        while self.goes_on():
            for client in clients:
                client.poll(0.02)
            self.pause(0.02)

    def hold_and_close(self, clients):
        """Does so, counts how their calls ended and closes them."""
        self.hold(*clients)
        for client in clients:
            self.outcomes.update(client.outcomes.values())
            client.socket.close()

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
                    until = time.monotonic() + 0.005
                    while (left := until - time.monotonic()) > 0:
                        client.poll(left)
                        if client.closed:
                            break
                    self._end(client, begun, patience)
            self.pause()

    def _end(self, client, begun, patience):
        for stream, since in list(begun.items()):
            if stream in client.outcomes:
                self.outcomes[client.outcomes.pop(stream)] += 1
            elif time.monotonic() - since > patience:
                client.reset(stream)
                self.outcomes["given up"] += 1
            else:
                continue
            del begun[stream]


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

    def __init__(self, chosen, addresses, seed):
        self._stop = multiprocessing.Event()
        self._rounds = multiprocessing.Value("q", 0)
        self._pipes = []
        self._processes = []
        for number in range(chosen.processes):
            attacker = Attacker(addresses, number, seed, self._stop,
                                self._rounds)
            pipe, other = multiprocessing.Pipe()
            process = multiprocessing.Process(
                target=_attack, args=(chosen.function, attacker, other),
                daemon=True)
            process.start()
            self._pipes.append(pipe)
            self._processes.append(process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._processes:
            process.kill()
            process.join()

    @property
    def rounds(self):
        return self._rounds.value

    def stop(self):
        """Stops them; returns how their calls ended."""
        self._stop.set()
        outcomes = collections.Counter()
        for pipe in self._pipes:
            if pipe.poll(3):
                outcomes.update(pipe.recv())
        return outcomes
