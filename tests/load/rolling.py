"""Restarts three servers one after the other, again and again, under load: with
a client that balances by itself, then with HAProxy in front. No request may
fail, and each server must end with 0.

usage: rolling.py TOPKD TOPK [--haproxy haproxy] [--seconds 60]
                  [--phases client,haproxy]
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "hostile"))
import lab  # noqa: E402

CONFIG = pathlib.Path(__file__).parents[2] / "deploy/haproxy/haproxy.cfg"


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Replica:
    """A server that comes back at the same address."""

    def __init__(self, topkd, port, directory, delay):
        self.address = f"127.0.0.1:{port}"
        self.ready = os.path.join(directory, f"ready-{port}")
        self.command = [topkd, "--listen", self.address, "--ready-file",
                        self.ready, "--log-level", "warn", "--drain-delay",
                        delay]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command)
        lab.poll("a server", lambda: os.path.exists(self.ready))

    def stop(self):
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=60)
        if status != 0:
            raise AssertionError(f"topkd ended with {status}")
        return time.monotonic() - begin


def load(topk, target, seconds, *flags):
    """Begins a load that ends at its first failure."""
    return subprocess.Popen(
        [topk, "bench", "--target", target, "--k", "10", "--json", "--shape",
         "4,4096", "--concurrency", "16", "--connections", "4", "--duration",
         str(seconds), "--verify", "0.2", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def roll(name, replicas, running, settle):
    """Restarts one after the other until the loads end."""
    longest, restarts = 0, 0
    while all(one.poll() is None for one in running):
        replica = replicas[restarts % len(replicas)]
        longest = max(longest, replica.stop())
        replica.start()
        restarts += 1
        time.sleep(settle)  # balancers need a moment to find it again
    requests = 0
    for one in running:
        out, err = one.communicate(timeout=300)
        if one.returncode != 0:
            raise AssertionError(f"{name}: {one.returncode}: {err}")
        requests += json.loads(out)["requests"]
    print(f"ok    {name}: {requests} requests and {restarts} restarts, no "
          f"request failed; the longest drain took {longest:.1f} s",
          flush=True)


@contextlib.contextmanager
def proxy(haproxy, replicas):
    address = f"127.0.0.1:{free_ports(1)[0]}"
    env = dict(os.environ, TOPK_LISTEN=address)
    for i, replica in enumerate(replicas, 1):
        env[f"TOPK_SERVER_{i}"] = replica.address
    process = subprocess.Popen([haproxy, "-db", "-f", CONFIG], env=env,
                               stderr=subprocess.DEVNULL)
    try:
        yield address
    finally:
        process.kill()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topkd")
    parser.add_argument("topk")
    parser.add_argument("--haproxy", default=shutil.which("haproxy") or
                        "/usr/sbin/haproxy")
    parser.add_argument("--phases", default="client,haproxy")
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, \
            contextlib.ExitStack() as stack:
        replicas = [Replica(options.topkd, port, directory, "4s")
                    for port in free_ports(3)]
        for replica in replicas:
            stack.callback(replica.stop)
        addresses = ",".join(replica.address for replica in replicas)
        if "client" in options.phases:
            running = [
                load(options.topk, addresses, options.seconds, "--path", path)
                for path in ("unary", "stream", "many")]
            roll("client-side round robin", replicas, running, 1)
        if "haproxy" not in options.phases:
            return
        if not os.path.exists(options.haproxy):
            sys.exit("NOT   HAProxy is not here")
        with proxy(options.haproxy, replicas) as address:
            lab.poll("HAProxy to serve", lambda: subprocess.run(
                [options.topk, "health", "--target", address],
                capture_output=True, check=False).returncode == 0)
            running = [load(options.topk, address, options.seconds)]
            roll("HAProxy", replicas, running, 4)


if __name__ == "__main__":
    main()
