"""Loads three servers while faults are injected; see README.md.

usage: soak.py TOPKD TOPK [--minutes 10] [--seed N] [--haproxy PATH]
"""

import argparse
import collections
import contextlib
import functools
import json
import random
import shutil
import subprocess
import tempfile
import time

import h2
import harness
from attacks import ATTACKS, Attackers, attack

# The fractions of the time, at the beginning and at the end, that have load but
# no faults.
WARM_UP, CALM = 0.1, 0.3
PAUSE = (0.2, 2)  # seconds between faults
# The max growth of the first server in MiB from the warm-up to the end.
MOST_GROWTH = 192
# File descriptors that may still be open, e.g. for HAProxy's health check.
SPARE = 4
FLAGS = ["--threads", "2", "--allow-shared-memory", "--drain-delay", "3s",
         "--drain-timeout", "10s",
         # To the servers, HAProxy is the only client.
         "--max-client-inflight-bytes", "1TiB",
         "--max-connections-per-client", "0", "--access-log-sample", "0.05"]
BENCHES = {
    "unary": "--k 10 --shape 8,1000 --rate 60 --concurrency 8 --connections 2",
    "4 MB": "--k 10 --shape 1,1000000 --rate 5 --concurrency 4",
    "stream": "--k 10 --path stream --shape 1,1000000 --rate 4 --concurrency 4 "
              "--connections 2",
    "many": "--k 10 --path many --batch 16 --shape 4,1000 --rate 160 "
            "--concurrency 4 --connections 2",
    "shared memory": "--k 10 --path shm --shape 1,262144 --rate 40 "
                     "--concurrency 4 --connections 2",
}
RETRYABLE = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")
RATE_MISSED = 7  # exit status of `topk bench`: it could not keep its rate


@attack(processes=1)
def rapid_reset(attacker):
    """CVE-2023-44487: calls that are reset, half of them after the request."""
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


@attack()
def endless_headers(attacker):
    """CVE-2024-27316: header fields without end."""
    with attacker.connect(ack=False) as client:
        client.send(h2.frame(h2.HEADERS, 0, 1, h2.block(h2.fields())))
        fields = b"".join(h2.field(f"k{i}", "v" * 60) for i in range(70))
        wire = h2.frame(h2.CONTINUATION, 0, 1, fields) * 4
        while attacker.goes_on() and not client.closed:
            client.send(wire, 1)
            attacker.delivered()


@attack(processes=1)
def calls_before_settings(attacker):
    """Calls above a limit that the client does not acknowledge."""
    with attacker.connect(ack=False) as client:
        while attacker.goes_on() and not client.closed:
            client.send(b"".join(h2.call(stream, h2.fields())
                                 for stream in client.new_streams(5000)), 1)
            attacker.delivered(5000)
        attacker.hold(client)


@attack(processes=1)
def one_byte_frames(attacker):
    """A message in DATA frames of one byte, which is never complete."""
    with attacker.connect() as client:
        client.send(h2.call(1, h2.fields()))
        client.upload(1, h2.message(b"", length=32 << 20), seconds=1)
        while attacker.goes_on() and not client.closed:
            if not client.upload(1, bytes(10000), seconds=1, most=1):
                break
            attacker.delivered()


# gRPC 1.51 withstands these only behind HAProxy.
BEHIND_HAPROXY = ("rapid_reset", "endless_headers", "calls_before_settings",
                  "one_byte_frames")


class Faults:
    """Three servers behind HAProxy, and the faults to inject.

    servers  The first is never restarted, so that its memory shows long-term
             growth. The second logs to a full disk.
    """

    def __init__(self, stack, options, directory):
        self._chance = random.Random(options.seed)
        self.servers = []
        for port, log in zip(
                harness.free_ports(3),
                (f"{directory}/log-1", "/dev/full", f"{directory}/log-3")):
            self.servers.append(harness.Server(
                options.topkd, *FLAGS, log_level="info",
                listen=f"127.0.0.1:{port}",
                stderr=stack.enter_context(open(log, "wb"))))
            stack.callback(self.servers[-1].kill)
        self.target, proxy = stack.enter_context(harness.haproxy(
            options.haproxy, *(server.target for server in self.servers)))
        self.processes = [*self.servers, proxy]

    def inject_until(self, end):
        """Injects faults, one at a time."""
        attack_with = {name: functools.partial(self.attack, name)
                       for name in ATTACKS}
        first = [self.kill, *map(attack_with.get, BEHIND_HAPROXY), self.drain]
        others = [self.kill, self.drain, *attack_with.values()]
        while time.monotonic() < end:
            fault = first.pop(0) if first else self._chance.choice(others)
            print(f"{time.strftime('%X')}  {fault()}", flush=True)
            assert all(process.is_alive() for process in self.processes)
            time.sleep(self._chance.uniform(*PAUSE))

    def kill(self):
        number = self._chance.choice([1, 2])
        self.servers[number].kill()
        time.sleep(self._chance.uniform(0, 3))
        self.servers[number].start()
        return f"server {number + 1} killed"

    def drain(self):
        for server in self.servers[1:]:
            server.stop()  # raises unless the exit status is 0
            server.start()
        return "servers 2 and 3 drained"

    def attack(self, name):
        target = (self if name in BEHIND_HAPROXY else self.servers[0]).target
        with Attackers(ATTACKS[name], target,
                       self._chance.randrange(1 << 30)) as attackers:
            time.sleep(self._chance.uniform(0.5, 3))
            outcomes = attackers.stop()
        return f"{name}: {attackers.rounds} sent, {dict(outcomes)}"


def start_load(options, target, seconds):
    """Starts a `topk bench` for each kind of call, which compares every
    response byte for byte."""
    return {
        kind: subprocess.Popen(
            [options.topk, "bench", "--target", target, "--json",
             "--keep-going", "--warmup", "0", "--arrivals", "poisson",
             "--max-attempts", "4", "--timeout", "20", "--duration",
             str(seconds), "--seed", str(options.seed), *flags.split()],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for kind, flags in BENCHES.items()}


def lost_calls(kind, process, seconds):
    """Waits for a load and prints its result. Returns the lost calls."""
    out, err = process.communicate(timeout=max(1, seconds))
    if process.returncode not in (0, RATE_MISSED):
        return {f"{kind} ended with {process.returncode}: {err[-500:]}": 1}
    found = json.loads(out)
    lost = collections.Counter(found["errors"])
    retryable = {code: lost.pop(code) for code in RETRYABLE if code in lost}
    # A rejection without a retry delay counts as lost.
    no_delay = retryable.get("RESOURCE_EXHAUSTED", 0) - found["retry_hints"]
    if no_delay > 0:
        lost[f"{kind}: RESOURCE_EXHAUSTED without a retry delay"] = no_delay
    print(f"{kind}: {found['requests']} right, retryable {retryable}, lost "
          f"{dict(lost)}, not sent {found['missed']}", flush=True)
    assert found["requests"] > 0, kind
    return lost


def run(options, directory, stack):
    faults = Faults(stack, options, directory)
    descriptors = [process.descriptors() for process in faults.processes]
    seconds = 60 * options.minutes
    begin = time.monotonic()
    loads = start_load(options, faults.target, seconds)
    for process in loads.values():
        stack.callback(process.kill)
    time.sleep(WARM_UP * seconds)
    memory = faults.servers[0].memory()
    faults.inject_until(begin + (1 - CALM) * seconds)
    until = time.monotonic() + CALM * seconds + 120
    lost = sum((collections.Counter(lost_calls(
        kind, process, until - time.monotonic()))
        for kind, process in loads.items()), collections.Counter())
    assert not lost, lost
    for process, before in zip(faults.processes, descriptors):
        harness.poll("file descriptors to be closed",
                     lambda: process.descriptors() <= before + SPARE, 60)
    grown = faults.servers[0].memory() - memory
    print(f"server 1 has grown by {grown:.0f} MiB")
    assert grown <= MOST_GROWTH
    for server in faults.servers:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topkd")
    parser.add_argument("topk")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--haproxy", default=shutil.which("haproxy") or
                        "/usr/sbin/haproxy")
    options = parser.parse_args()
    harness.skip_without(options.haproxy)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory, \
            contextlib.ExitStack() as stack:
        run(options, directory, stack)


if __name__ == "__main__":
    main()
