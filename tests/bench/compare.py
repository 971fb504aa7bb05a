"""Measures two builds alternately. See compare.sh, which makes the builds."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from service import KIB, MIB, load, topkd

ALLOWED_LOSS = 0.05
SECONDS = 0.5  # per round, for each row of SERVICE
# For each row: the path of `topk bench --path`, the tensor (see load()), and the
# number of callers.
SERVICE = {
    "unary 1 KiB, 1 caller": ("unary", KIB, 1),
    "unary 1 KiB, 8 callers": ("unary", KIB, 8),
    "unary 64 KiB": ("unary", 64 * KIB, 1),
    "unary 4 MiB": ("unary", 4 * MIB, 1),
    "unary [100000, 10], short rows": ("unary", ("100000,10", 2), 1),
    "unary [4096, 256], scans": ("unary", ("4096,256", 8), 1),
    "unary [1024, 1024], columns": (
        "unary", ("1024,1024", 8, "--axis", 0), 1),
    "unary [64, 16384], sorts": ("unary", ("64,16384", 16384), 1),
    "stream 64 KiB, 8 callers": ("stream", 64 * KIB, 8),
    "stream 4 MiB": ("stream", 4 * MIB, 1),
    "stream 64 MiB": ("stream", 64 * MIB, 1),
    "many 1 KiB": ("many", KIB, 1),
    "shared memory 4 MiB": ("shm", 4 * MIB, 1),
}


def kernels(binaries, names):
    """Returns the runs per second of each workload."""
    out = subprocess.run(
        [binaries / "topk_bench", "--threads=1",
         f"--benchmark_filter=^({'|'.join(names)})/",
         "--benchmark_min_time=0.1", "--benchmark_format=json"],
        stdout=subprocess.PIPE, check=True).stdout
    return {row["name"].split("/")[0]: 1e6 / row["min_us"]
            for row in json.loads(out or '{"benchmarks": []}')["benchmarks"]}


def measure(options, only):
    """Returns pairs of rates (base, new) of the rows in `only`, which may
    contain "kernels" and "service" for all rows of a kind, or of all rows if
    `only` is empty."""
    sides = (options.base, options.new)
    service = {name: row for name, row in SERVICE.items()
               if not only or "service" in only or name in only}
    names = {*only} - {*service, "service", "kernels"}
    if not only or "kernels" in only:
        names = {".*"}
    rows = {}
    for number in range(options.rounds):
        print(f"round {number + 1}", file=sys.stderr)
        # Take turns at being first.
        order = (0, 1) if number % 2 == 0 else (1, 0)
        if names:
            rates = {side: kernels(sides[side], names) for side in order}
            for name in sorted(rates[0].keys() & rates[1].keys()):
                rows.setdefault(name, []).append(
                    (rates[0][name], rates[1][name]))
        # New processes in each round: speed varies with a process's addresses.
        with topkd(sides[0] / "topkd") as base, topkd(
                sides[1] / "topkd") as new:
            for name, row in service.items():
                rates = {side: load(options.new / "topk",
                                    (base, new)[side].target, *row, SECONDS,
                                    warmup=0.1, verify=0.01)[0]
                         for side in order}
                rows.setdefault(name, []).append((rates[0], rates[1]))
    return rows


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", default=[])
    options = parser.parse_args()
    rows = measure(options, options.only)
    if absent := {*options.only} - {"kernels", "service", *rows}:
        sys.exit(f"no row is named {', '.join(absent)}")
    lost = report(rows)
    if lost:
        print("Measuring the lost rows again.")
        lost = report(measure(options, lost))
    sys.exit(1 if lost else 0)


main()
