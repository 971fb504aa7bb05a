"""Opens many connections; a neighbour's p99 must stay below three times its
value without them.

usage: crowd.py TOPKD [--idle 19500] [--half 1000] [--seconds 10]

First connections that have begun and do nothing, then as well ones that have
sent half of HTTP/2's preface. A process here and one there cannot have more
descriptors than `ulimit -Hn`: 20 000 connections need some more than that.
"""

import argparse
import multiprocessing
import resource
import socket
import sys
import time

import h2
import harness

EACH = 4000  # connections of a client process


def hold(target, number, count, start, pipe):
    """Opens `count` connections, reports that, and holds them until stopped."""
    host, port = target.rsplit(":", 1)
    held = []
    for i in range(count):
        one = socket.socket()
        one.bind((f"127.1.{number}.{1 + i % 250}", 0))
        one.connect((host, int(port)))
        one.sendall(start)
        held.append(one)
    pipe.send(count)
    pipe.recv()


def crowd(target, first, count, start):
    """Lets processes hold `count` connections. Returns their pipes."""
    pipes = []
    for number, begin in enumerate(range(0, count, EACH), first):
        pipe, other = multiprocessing.Pipe()
        multiprocessing.Process(
            target=hold, args=(target, number, min(EACH, count - begin), start,
                               other), daemon=True).start()
        pipes.append(pipe)
    for pipe in pipes:
        pipe.recv()
    return pipes


def p99(neighbour, seconds):
    neighbour.latencies()
    time.sleep(seconds)
    latencies, failed = neighbour.latencies()
    assert latencies and not failed, f"{failed} of the neighbour's calls failed"
    return harness.percentile(latencies, 0.99)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("topkd")
    parser.add_argument("--idle", type=int, default=19500)
    parser.add_argument("--half", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with harness.AttackedServer(
            options.topkd, "--handshake-timeout", "300s") as server, \
            harness.Neighbour(server.target) as neighbour:
        time.sleep(1)
        usual = p99(neighbour, options.seconds)
        print(f"alone: p99 {usual * 1e6:.0f} us, {server.memory():.0f} MiB, "
              f"{server.descriptors()} descriptors", flush=True)
        late = 0
        for kind, first, count, start in (
                ("half-open", 100, options.half, h2.PREFACE[:12]),
                ("idle", 0, options.idle, h2.PREFACE + h2.settings())):
            pipes = crowd(server.target, first, count, start)
            now = p99(neighbour, options.seconds)
            print(f"{count} {kind}: p99 {now * 1e6:.0f} us, "
                  f"{now / usual:.1f} x, {server.memory():.0f} MiB, "
                  f"{server.descriptors()} descriptors", flush=True)
            late += now >= 3 * usual
            for pipe in pipes:
                pipe.send("go")
            harness.poll("connections to be closed",
                         lambda: server.descriptors() < 100)
    sys.exit(1 if late else 0)


if __name__ == "__main__":
    main()
