"""Measures two builds alternately. See compare.sh, which makes the builds.

usage: compare.py BASE_BIN NEW_BIN [--rounds N] [--only ROWS] [--threads N]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import harness

ALLOWED_LOSS = 0.05
SECONDS = 0.5  # per round, for each row of SERVICE
# Flags of `topk bench`.
SERVICE = {
    "unary 1 KiB, 1 caller": ("--shape", "1,256"),
    "unary 1 KiB, 8 callers": ("--shape", "1,256", "--concurrency", "8"),
    "unary 64 KiB": ("--shape", "16,1024"),
    "unary 4 MiB": ("--shape", "1,1048576"),
    "stream 64 KiB, 8 callers": ("--shape", "16,1024", "--path", "stream",
                                 "--concurrency", "8"),
    "stream 4 MiB": ("--shape", "1,1048576", "--path", "stream"),
    "stream 64 MiB": ("--shape", "16,1048576", "--path", "stream"),
    "many 1 KiB": ("--shape", "1,256", "--path", "many", "--batch", "64"),
    "shared memory 4 MiB": ("--shape", "1,1048576", "--path", "shm"),
}


def kernels(binaries, threads):
    """Returns the runs per second of each workload."""
    out = subprocess.run(
        [binaries / "topk_bench", f"--threads={threads}",
         "--benchmark_min_time=0.1", "--benchmark_format=json"],
        stdout=subprocess.PIPE, check=True).stdout
    return {row["name"].split("/")[0]: 1e6 / row["min_us"]
            for row in json.loads(out)["benchmarks"]}


def topkd(binaries):
    return harness.Server(binaries / "topkd", "--allow-shared-memory",
                          "--max-message-bytes", "2147483647")


def ask(client, address, flags):
    """Returns the requests per second of one row."""
    out = harness.run(
        client, "bench", "--target", address, "--k", 5, "--json", "--duration",
        SECONDS, "--warmup", 0.1, "--verify", 0.01, *flags)
    return json.loads(out)["requests_per_second"]


def report(rows):
    """Prints a line for each row. Returns the names of rows that are slower."""
    lost = []
    print(f"{'row':40} {'base/s':>10} {'new/s':>10} {'ratio':>7} {'spread':>7}")
    for name, pairs in rows.items():
        ratios = [new / base for base, new in pairs]
        ratio = statistics.median(ratios)
        # The standard error of the median, from the median absolute deviation.
        spread = 1.86 * statistics.median(
            abs(one - ratio) for one in ratios) / len(ratios)**0.5
        base, new = (statistics.median(side) for side in zip(*pairs))
        loses = ratio + 2 * spread < 1 - ALLOWED_LOSS
        lost += [name] if loses else []
        print(f"{name:40} {base:10.4g} {new:10.4g} {ratio:7.3f} "
              f"{spread:7.3f}{'  LOST' if loses else ''}")
    return lost


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("base", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=("kernels", "service"))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    sides = (options.base, options.new)
    rows = {}
    if options.only != "service":
        for number in range(options.rounds):
            print(f"kernels, round {number + 1}", file=sys.stderr)
            base, new = (kernels(side, options.threads) for side in sides)
            for name in base.keys() & new.keys():
                rows.setdefault(name, []).append((base[name], new[name]))
        rows = dict(sorted(rows.items()))
    if options.only != "kernels":
        client = options.new / "topk"
        with topkd(options.base) as base, topkd(options.new) as new:
            for number in range(options.rounds):
                print(f"service, round {number + 1}", file=sys.stderr)
                for name, flags in SERVICE.items():
                    rows.setdefault(name, []).append(tuple(
                        ask(client, server.target, flags)
                        for server in (base, new)))
    sys.exit(1 if report(rows) else 0)


main()
