"""Makes the tables of tests/bench/README.md from the lines of service.sh, and
lists the targets that are met.

usage: report.py [--targets] ROWS.jsonl

Prints a Markdown table, or with --targets a line for each target: the figure
measured, and yes or no. Omits figures that were not measured.
"""

import argparse
import json
import pathlib

KIB, MIB = 1 << 10, 1 << 20
PATHS = {"unary": "ComputeTopK",
         "oip": "ModelInfer, other: ComputeTopK", "stream": "StreamTopK",
         "many": "ComputeTopKMany", "unix": "ComputeTopK, Unix socket",
         "shm": "ComputeTopK, shared memory",
         "python": "ComputeTopK, other: Python"}


class Rows:
    """The rows of a run by path, size and callers."""

    def __init__(self, path):
        self.all = [json.loads(line)
                    for line in path.read_text("utf-8").splitlines()]

    def of(self, path, size=None, callers=None):
        return [row for row in self.all
                if row["path"] == path and size in (None, row.get("bytes"))
                and callers in (None, row.get("callers"))]

    def figure(self, name, *which):
        """Returns a figure of the one such row, or None without it."""
        found = [row[name] for row in self.of(*which) if name in row]
        return found[0] if found else None


def size_name(size):
    return (f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB")


def at_least(what, figure, least, unit="x"):
    if figure is not None:
        yield what, f"{figure:.2f}{unit}", f">= {least}{unit}", figure >= least


def at_most(what, figure, most, unit):
    if figure is not None:
        yield what, f"{figure:.2f}{unit}", f"<= {most}{unit}", figure <= most


def over(one, other):
    return None if one is None or not other else one / other


def unary_targets(rows):
    for size in (KIB, 64 * KIB):
        for row in rows.of("unary", size, 1):
            above = row["topkd_p50_us"] - row["null_p50_us"]
            yield from at_most(f"unary {size_name(size)}: p50 above null",
                               above, 15, " us")
    for row in rows.of("unary"):
        size = row["bytes"]
        least = (5 if size == 64 * MIB
                 else 1.1 if MIB <= size <= 4 * MIB else 1)
        yield from at_least(f"unary {size_name(size)}, {row['callers']} "
                            "caller(s): throughput to null", row["ratio"],
                            least)


def oip_targets(rows):
    for row in rows.of("oip"):
        yield from at_least(
            f"ModelInfer {size_name(row['bytes'])} to ComputeTopK, "
            f"{row['callers']} caller(s)", row["ratio"], 0.9)


def stream_targets(rows):
    largest = 256 * MIB
    for row in rows.of("stream"):
        yield from at_least(
            f"stream {size_name(row['bytes'])}, {row['callers']} caller(s): "
            "throughput to null", row["ratio"], 1)
    for name, least in (("tcp", 0.85), ("flight", 1.3)):
        yield from at_least(f"stream 256 MiB to {name}", rows.figure(
            f"{name}_ratio", "peers", largest), least)
    yield from at_least("stream 256 MiB to null unary 64 MiB", over(
        rows.figure("topkd_gbps", "stream", largest, 1),
        rows.figure("null_gbps", "unary", 64 * MIB, 1)), 10)
    for row in rows.of("stream", callers=1):
        if row["bytes"] >= MIB:
            yield from at_least(
                f"stream {size_name(row['bytes'])} to unary",
                over(row["topkd_gbps"], rows.figure(
                    "topkd_gbps", "unary", row["bytes"], 1)), 1)


def other_targets(rows):
    for callers in (1, 8):
        which = f", {callers} caller(s)"
        yield from at_least(f"many 1 KiB to null unary{which}", rows.figure(
            "ratio", "many", KIB, callers), 6)
        yield from at_least(f"unix 1 KiB to TCP{which}", rows.figure(
            "tcp_ratio", "unix", KIB, callers), 1.2)
        yield from at_least(f"shm 4 MiB to null{which}", rows.figure(
            "ratio", "shm", 4 * MIB, callers), 15)
    for row in rows.of("python"):
        yield from at_least(
            f"unary {size_name(row['bytes'])} to Python, {row['callers']} "
            "caller(s)", row["ratio"], 5 if row["bytes"] < MIB else 2)


def server_targets(rows):
    idle = rows.figure("topkd_p99_us", "idle")
    yield from at_most("p99 after idleness", idle and idle / 1000, 2, " ms")
    for row in rows.of("memory"):
        if "rss_growth_mib" in row:
            yield from at_most(f"memory: growth by a {row['what']}",
                               row["rss_growth_mib"], 64, " MiB")
        else:
            yield from at_most(f"memory: after {row['what']} to after 100",
                               row["ratio"], 1.2, "x")


def targets(rows):
    lines = [*unary_targets(rows), *oip_targets(rows), *stream_targets(rows),
             *other_targets(rows), *server_targets(rows)]
    return "".join(f"{'yes' if met else 'NO ':3} {figure:>12} {wanted:>11}  "
                   f"{what}\n" for what, figure, wanted, met in lines)


def table(rows):
    head = ["call", "tensor", "callers", "topkd GB/s", "topkd calls/s",
            "topkd p50 us", "topkd p99 us", "other calls/s", "other p50 us",
            "ratio"]
    lines = ["| " + " | ".join(head) + " |",
             "|---|" + "---:|" * (len(head) - 1)]
    for path, label in PATHS.items():
        for row in rows.of(path):
            other = {"python": "python", "oip": "compute"}.get(path, "null")
            cells = [label, size_name(row["bytes"]), str(row["callers"]),
                     f"{row['topkd_gbps']:.2f}", f"{row['topkd_rps']:.0f}",
                     f"{row['topkd_p50_us']:.0f}",
                     f"{row['topkd_p99_us']:.0f}", f"{row[f'{other}_rps']:.0f}",
                     f"{row[f'{other}_p50_us']:.0f}", f"{row['ratio']:.2f}"]
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "| also measured | figure |", "|---|---:|"]
    lines += [f"| {what} | {figure} |" for what, figure in others(rows)]
    return "\n".join(lines) + "\n"


def others(rows):
    """Yields the figures that compare no two servers."""
    for row in rows.of("peers"):
        yield (f"StreamTopK, {size_name(row['bytes'])}",
               f"{row['topkd_gbps']:.2f} GB/s")
    for name, label in (("tcp", "raw TCP"), ("flight", "Arrow Flight DoPut")):
        for row in rows.of(name):
            yield (f"{label}, {size_name(row['bytes'])}",
                   f"{row['gbps']:.2f} GB/s")
    for row in rows.of("unix"):
        yield (f"Unix socket to TCP, {size_name(row['bytes'])}, "
               f"{row['callers']} caller(s)", f"{row['tcp_ratio']:.2f}")
    for row in rows.of("idle"):
        yield ("after 1 to 3 s of idleness: p99, p99 of null",
               f"{row['topkd_p99_us']:.0f} us, {row['null_p99_us']:.0f} us")
    for row in rows.of("memory"):
        if "rss_growth_mib" in row:
            yield (f"memory, {row['what']}", f"+{row['rss_growth_mib']:.0f} "
                   f"MiB at {row['gbps']:.2f} GB/s")
        else:
            yield (f"memory, {row['what']}: to that after 100",
                   f"{row['ratio']:.2f}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("rows", type=pathlib.Path)
    parser.add_argument("--targets", action="store_true")
    flags = parser.parse_args()
    rows = Rows(flags.rows)
    print(targets(rows) if flags.targets else table(rows), end="")


if __name__ == "__main__":
    main()
