"""Cancels large requests while they are computed, and measures how long the
server works on: from the client's RST_STREAM until its last thread sleeps.

usage: cancel.py TOPKD [--trials 100]
"""

import argparse
import contextlib
import os
import pathlib
import random
import sys
import time

import h2
import harness

ELEMENTS = 256 << 20
K = 1000
MOST_MS = 5
WATCHED = 0.1  # seconds
NOW_AND_THEN = 1_000_000  # nanoseconds of timers in that time


@contextlib.contextmanager
def shared_bytes(chance):
    """The name of a shared memory object with values none of which is the
    largest there is: then all of them must be looked at."""
    name = f"/topk-cancel-{os.getpid()}"
    path = pathlib.Path("/dev/shm" + name)
    some = bytes(value & 127 for value in chance.randbytes(1 << 20))
    try:
        with open(path, "wb") as file:
            for _ in range(0, ELEMENTS, len(some)):
                file.write(some)
        yield name
    finally:
        path.unlink()


def worked(pid):
    """Returns the CPU time of the process's threads, in nanoseconds."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat",
                      encoding="ascii") as file:
                total += int(file.read().split()[0])
        except FileNotFoundError:  # it has ended
            continue
    return total


def idle_after(pid):
    """After how many seconds the process has done its work: all but what it
    does now and then, in the time that is watched."""
    start = time.monotonic()
    samples = []
    while not samples or samples[-1][0] < WATCHED:
        samples.append((time.monotonic() - start, worked(pid)))
    done = samples[-1][1] - NOW_AND_THEN
    return next(when for when, total in samples if total >= done)


def computed(connection, body, stream):
    """Has a request computed; returns after how many seconds its answer is."""
    connection.send(h2.call(stream, h2.fields()) +
                    h2.data(stream, body, end_stream=True))
    start = time.monotonic()
    answer = connection.answer(stream, 60)
    if answer is None or b"grpc-status\x010" not in answer[0]:
        raise AssertionError(f"not answered: {answer and answer[0]}")
    return time.monotonic() - start


def cancelled(connection, pid, body, stream, after):
    """Cancels a call `after` seconds after its last byte; returns the CPU time
    that the server used since, in seconds, or None if the call had ended."""
    connection.send(h2.call(stream, h2.fields()) +
                    h2.data(stream, body, end_stream=True))
    connection.read(lambda *_: False, after)
    if connection.answer(stream, 0) is not None:
        return None
    connection.send(h2.rst_stream(stream), read=False)
    return idle_after(pid)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topkd")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    chance = random.Random(options.seed)
    found = []
    with shared_bytes(chance) as name, harness.AttackedServer(
            options.topkd, "--allow-shared-memory") as server, \
            h2.Connection(server.target) as connection:
        body = h2.message(harness.shared_request(name, ELEMENTS, K))
        pid = server.process.pid
        usual = min(computed(connection, body, stream)
                    for stream in (1, 3, 5))
        stream = 7
        while len(found) < options.trials and stream < 20 * options.trials:
            seconds = cancelled(connection, pid, body, stream,
                                chance.uniform(0, usual))
            if seconds is not None:
                found.append(1000 * seconds)
            stream += 2
    found.sort()
    print(f"an answer takes {1000 * usual:.1f} ms; {len(found)} cancelled, "
          f"then idle after: p50 {harness.percentile(found, 0.5):.2f} ms, p95 "
          f"{harness.percentile(found, 0.95):.2f}, most {found[-1]:.2f}")
    sys.exit(0 if harness.percentile(found, 0.95) < MOST_MS else 1)


if __name__ == "__main__":
    main()
