"""Compares topkd with a no-op gRPC server. See service.sh.

usage: service.py BIN [--seconds S] [--only CALL[,CALL]]
                  [--servers FOLDER]
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import tempfile

import harness

KIB, MIB = 1 << 10, 1 << 20
SIZES = (KIB, 64 * KIB, MIB, 4 * MIB, 64 * MIB, 256 * MIB)
# {path of `topk bench --path`: (name, sizes)}
CALLS = {"unary": ("ComputeTopK", SIZES),
         "stream": ("StreamTopK", SIZES),
         "many": ("ComputeTopKMany", (KIB,)),
         "shm": ("ComputeTopK, shared memory",
                 (64 * KIB, MIB, 4 * MIB, 64 * MIB))}
TURNS = 4
HEADER = ("| call | tensor | callers | topkd GB/s | topkd calls/s | "
          "topkd p50 us | other calls/s | other p50 us | ratio |\n"
          "|---|" + "---:|" * 8)


def runs(command):
    """Runs a load. Returns (requests per second, median microseconds)."""
    report = json.loads(harness.run(*command))
    return report["requests_per_second"], report["p50_us"]


def measure(topk, targets, path, size, callers, seconds):
    """Returns a row of the table. The no-op server has neither ComputeTopKMany
    nor shared memory, so it receives unary calls instead."""
    common = [topk, "bench", "--json", "--k", "10", "--shape", str(size // 4),
              "--concurrency", str(callers), "--connections", str(callers),
              "--duration", str(seconds / TURNS), "--warmup", "0.1"]
    ours = [*common, "--target", targets["topkd"], "--path", path, "--verify",
            "0.05"]
    if path == "many":
        ours += ["--batch", "256"]
    plain = [*common, "--target", targets["plain"], "--path",
             path if path == "stream" else "unary", "--verify", "0"]
    turns = [(runs(ours), runs(plain)) for _ in range(TURNS)]
    (rate, p50), (other_rate, other_p50) = (
        [statistics.median(figures) for figures in zip(*side)]
        for side in zip(*turns))
    name = f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"
    cells = [CALLS[path][0], name, str(callers), f"{rate * size / 1e9:.2f}",
             f"{rate:.0f}", f"{p50:.0f}", f"{other_rate:.0f}",
             f"{other_p50:.0f}", f"{rate / other_rate:.2f}"]
    return "| " + " | ".join(cells) + " |"


def program(name, chroot, folder):
    """Returns the program of a server. For a chroot, this is a script that runs
    the server with the chroot's loader and libraries."""
    if chroot is None:
        return name
    script = pathlib.Path(folder) / name.name
    script.write_text(
        f"#!/bin/sh\nexec {chroot}/lib64/ld-linux-x86-64.so.2 --library-path "
        f"{chroot}/usr/lib/x86_64-linux-gnu {chroot}/{name} \"$@\"\n", "utf-8")
    script.chmod(0o755)
    return script


@contextlib.contextmanager
def servers(programs, chroot=None):
    """Runs both servers. Yields {name: target}."""
    with tempfile.TemporaryDirectory() as folder, harness.Server(
            program(programs / "topkd", chroot, folder),
            "--max-message-bytes", "2147483647",
            "--allow-shared-memory") as topkd, harness.Server(
                program(programs / "service_bench", chroot, folder)) as plain:
        yield {"topkd": topkd.target, "plain": plain.target}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", default=",".join(CALLS))
    parser.add_argument("--servers", type=pathlib.Path)
    options = parser.parse_args()
    paths = options.only.split(",")
    if set(paths) - set(CALLS):
        parser.error(f"--only takes {', '.join(CALLS)}")
    print(HEADER)
    with servers(options.programs, options.servers) as targets:
        for path in paths:
            for size in CALLS[path][1]:
                for callers in (1, 8):
                    if callers == 1 or size <= 4 * MIB:
                        print(measure(options.programs / "topk", targets, path,
                                      size, callers, options.seconds),
                              flush=True)


if __name__ == "__main__":
    main()
