"""Restarts three servers one after the other, again and again, under load: with
a client that balances by itself, then with HAProxy in front. No request may
fail, and each server must end with 0.

usage: rolling.py TOPKD TOPK [--haproxy haproxy] [--seconds 60]
"""

import argparse
import atexit
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

import fleet
import harness


def load(topk, target, seconds, *flags):
    """Begins a load that ends at its first failure, or with this process."""
    process = subprocess.Popen(
        [topk, "bench", "--target", target, "--k", "10", "--json", "--shape",
         "4,4096", "--concurrency", "16", "--connections", "4", "--duration",
         str(seconds), "--verify", "0.2", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    atexit.register(process.kill)
    return process


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topkd")
    parser.add_argument("topk")
    parser.add_argument("--haproxy", default=shutil.which("haproxy") or
                        "/usr/sbin/haproxy")
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    with fleet.fleet(options.topkd, "--drain-delay", "4s") as replicas, \
            contextlib.ExitStack() as stack:
        for replica in replicas:
            stack.callback(replica.stop)  # it must end with 0
        addresses = ",".join(replica.target for replica in replicas)
        running = [
            load(options.topk, addresses, options.seconds, "--path", path)
            for path in ("unary", "stream", "many")]
        roll("client-side round robin", replicas, running, 1)
        if not os.path.exists(options.haproxy):
            sys.exit("NOT   HAProxy is not here")
        with harness.haproxy(options.haproxy,
                             *(r.target for r in replicas)) as (address, _):
            running = [load(options.topk, address, options.seconds)]
            roll("HAProxy", replicas, running, 4)


if __name__ == "__main__":
    main()
