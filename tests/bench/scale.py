"""Measures how topkd scales with the number of CPUs. See scale.sh."""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib

import harness
import recorded
from service import KIB, MIB, load, topkd

# (name, path of `topk bench --path`, bytes of the tensor, callers)
LOADS = (("1 KiB", "unary", KIB, 1),
         ("1 KiB", "unary", KIB, 8),
         ("64 KiB", "unary", 64 * KIB, 1),
         ("64 KiB", "unary", 64 * KIB, 8),
         ("many 1 KiB", "many", KIB, 1),
         ("many 1 KiB", "many", KIB, 8),
         ("shared memory 4 MiB", "shm", 4 * MIB, 1),
         ("shared memory 4 MiB", "shm", 4 * MIB, 16),
         ("stream 64 MiB", "stream", 64 * MIB, 1))
SECONDS, WARMUP = 1.5, 0.3  # of each measurement
# Load programs at a time, when several servers share a port.
PROGRAMS = 5
CALLERS = 8  # of each program


def compare(topk, ours, plain):
    """Yields a row for each load. The no-op server has neither ComputeTopKMany
    nor shared memory."""
    for name, path, size, callers in LOADS:
        rate, p50 = load(topk, ours, path, size, callers, SECONDS, WARMUP)
        row = {"load": name, "instances": 1, "callers": callers,
               "calls_per_second": rate, "p50_us": p50}
        if path in ("unary", "stream"):
            rate, p50 = load(topk, plain, path, size, callers, SECONDS, WARMUP)
            row |= {"no_op_calls_per_second": rate, "no_op_p50_us": p50,
                    "ratio": row["calls_per_second"] / rate}
        yield row


def instances(programs, count):
    """Returns the row of `count` servers on one port, and several loads."""
    with contextlib.ExitStack() as stack:
        flags = ("--instances", str(count)) if count > 1 else ()
        first = stack.enter_context(
            harness.Server(programs / "topkd", *flags))
        for _ in range(count - 1):
            stack.enter_context(harness.Server(
                programs / "topkd", *flags, listen=first.target))
        with concurrent.futures.ThreadPoolExecutor(PROGRAMS) as pool:
            loads = [pool.submit(load, programs / "topk", first.target, "unary",
                                 KIB, CALLERS, SECONDS, WARMUP)
                     for _ in range(PROGRAMS)]
            rates = [one.result()[0] for one in loads]
    return {"load": f"1 KiB, {PROGRAMS} load programs", "instances": count,
            "callers": PROGRAMS * CALLERS, "calls_per_second": sum(rates)}


def measure(programs, cpus):
    """Yields the rows for these CPUs, shared by servers and loads."""
    os.sched_setaffinity(0, cpus)
    with topkd(programs / "topkd") as ours:
        with harness.Server(programs / "service_bench") as plain:
            yield from compare(programs / "topk", ours.target, plain.target)
    for count in (1, 2, 4, 6):
        if count <= len(cpus):
            yield instances(programs, count)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    available = sorted(os.sched_getaffinity(0))
    record = recorded.recorder(options.json, "tests/bench/scale.sh")
    for count in (1, 2, 4, 8, 16, 32, 64):
        if count <= len(available):
            for row in measure(options.programs, available[:count]):
                record({"cores": count, **row})


if __name__ == "__main__":
    main()
