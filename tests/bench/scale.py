"""Measures how topkd scales with the number of CPUs. See scale.sh.

usage: scale.py BIN [--cores N[,N]] [--seconds S]
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib

import harness
from service import HEADER, KIB, MIB, measure, runs, servers

# (path of `topk bench --path`, bytes of the tensor, callers)
LOADS = (("unary", KIB, 1), ("unary", KIB, 8), ("unary", 64 * KIB, 1),
         ("unary", 64 * KIB, 8), ("many", KIB, 1), ("many", KIB, 8),
         ("shm", 4 * MIB, 1), ("shm", 4 * MIB, 16), ("stream", 64 * MIB, 1))
# Load programs at a time, when several servers share a port.
PROGRAMS = 5
CALLERS = "8"  # of each program


def instances(programs, count, seconds):
    """Returns the calls per second of `count` servers on one port."""
    with contextlib.ExitStack() as stack:
        flags = ("--instances", str(count)) if count > 1 else ()
        first = stack.enter_context(
            harness.Server(programs / "topkd", *flags))
        for _ in range(count - 1):
            stack.enter_context(harness.Server(
                programs / "topkd", *flags, listen=first.target))
        load = (programs / "topk", "bench", "--json", "--target", first.target,
                "--shape", "256", "--k", "10", "--concurrency", CALLERS,
                "--connections", CALLERS, "--duration", str(seconds),
                "--warmup", "0.3", "--verify", "0")
        with concurrent.futures.ThreadPoolExecutor(PROGRAMS) as pool:
            return sum(rate for rate, _ in pool.map(runs, [load] * PROGRAMS))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--cores")
    parser.add_argument("--seconds", type=float, default=1.5)
    options = parser.parse_args()
    available = sorted(os.sched_getaffinity(0))
    most = len(available)
    cores = [int(n) for n in options.cores.split(",")] if options.cores else [
        n for n in (1, 2, 4, 8, 16, 32, 64) if n <= most]
    if not all(1 <= n <= most for n in cores):
        parser.error(f"--cores: this process may use {most} CPUs")
    for count in cores:
        # The servers and the loads share these CPUs.
        os.sched_setaffinity(0, available[:count])
        print(f"\nCPUs: {count}\n\n{HEADER}", flush=True)
        with servers(options.programs) as targets:
            for load in LOADS:
                print(measure(options.programs / "topk", targets, *load,
                              options.seconds), flush=True)
        print("\n| servers on one port | calls/s of 1 KiB |\n|---:|---:|")
        for number in (1, 2, 4, 6):
            if number <= count:
                rate = instances(options.programs, number, options.seconds)
                print(f"| {number} | {rate:.0f} |", flush=True)


if __name__ == "__main__":
    main()
