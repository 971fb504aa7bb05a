"""Compares topkd with a no-op gRPC server. See service.sh."""

import argparse
import contextlib
import json
import pathlib
import statistics
import tempfile

import harness
import recorded

KIB, MIB = 1 << 10, 1 << 20
SIZES = (KIB, 64 * KIB, MIB, 4 * MIB, 64 * MIB, 256 * MIB)
# {path of `topk bench --path`: (name, sizes)}
CALLS = {"unary": ("ComputeTopK", SIZES),
         "stream": ("StreamTopK", SIZES),
         "many": ("ComputeTopKMany", (KIB,)),
         "shm": ("ComputeTopK, shared memory",
                 (64 * KIB, MIB, 4 * MIB, 64 * MIB))}
TURNS = 4


def load(topk, target, path, tensor, callers, seconds, warmup, verify=0):
    """Returns (requests per second, median microseconds). `tensor` is the size
    of a row in bytes, or the shape and k, and other flags of `topk bench`."""
    if isinstance(tensor, int):
        tensor = (tensor // 4, 10)
    shape, k, *more = tensor
    batch = ("--batch", 256) if path == "many" else ()
    report = json.loads(harness.run(
        topk, "bench", "--json", "--target", target, "--path", path, "--shape",
        shape, "--k", k, *more, "--concurrency", callers, "--connections",
        callers, "--duration", seconds, "--warmup", warmup, "--verify", verify,
        *batch))
    return report["requests_per_second"], report["p50_us"]


def topkd(program):
    return harness.Server(program, "--allow-shared-memory",
                          "--max-message-bytes", "2147483647")


def measure(topk, targets, path, size, callers, seconds):
    """Returns a row of the results. The no-op server has neither ComputeTopKMany
    nor shared memory, so it receives unary calls instead."""
    other = path if path == "stream" else "unary"
    how = (size, callers, seconds / TURNS, 0.1)
    turns = [(load(topk, targets["topkd"], path, *how, verify=0.05),
              load(topk, targets["plain"], other, *how))
             for _ in range(TURNS)]
    (rate, p50), (other_rate, other_p50) = (
        [statistics.median(figures) for figures in zip(*side)]
        for side in zip(*turns))
    name = f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"
    return {"call": CALLS[path][0], "tensor": name, "callers": callers,
            "gb_per_second": rate * size / 1e9, "calls_per_second": rate,
            "p50_us": p50, "other_calls_per_second": other_rate,
            "other_p50_us": other_p50, "ratio": rate / other_rate}


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", nargs="+", choices=CALLS, default=CALLS)
    parser.add_argument("--servers", type=pathlib.Path)
    parser.add_argument("--json")
    options = parser.parse_args()
    record = recorded.recorder(options.json, "tests/bench/service.sh")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())

        def server(name):
            return program(options.programs / name, options.servers, folder)

        ours = stack.enter_context(topkd(server("topkd")))
        plain = stack.enter_context(harness.Server(server("service_bench")))
        targets = {"topkd": ours.target, "plain": plain.target}
        for path in options.only:
            for size in CALLS[path][1]:
                for callers in (1, 8):
                    if callers == 1 or size <= 4 * MIB:
                        record(measure(options.programs / "topk", targets, path,
                                       size, callers, options.seconds))


if __name__ == "__main__":
    main()
