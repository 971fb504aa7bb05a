"""Loads a server with twice its capacity, among clients that cancel and
clients that send invalid messages, in a cgroup with little memory. Fails if a
response is wrong, the server exits, memory exceeds the limit, or a rejection is
not RESOURCE_EXHAUSTED with a retry delay. Prints the latency of small requests
with and without the load, and of an idle server next to the loaded one.

The load comes from the same machine. Its priority is below that of the server
and of the small requests' client, so that their waits for a CPU do not count.

usage: overload.py TOPKD TOPK [--minutes 5] [--memory 1024]
"""

import argparse
import atexit
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import cgroup
import harness
import misbehaving_clients

# The mix of requests: mostly small, a few as large as 64 MiB.
KINDS = [(60, [1, 256]), (20, [8, 2048]), (10, [1, 262144]), (6, [1, 1048576]),
         (3, [4, 1048576]), (1, [16, 1048576])]
MESSAGE_BYTES = 65 << 20  # 64 MiB of tensor, and its message around it
CLIENTS = 64
CANCELLING = 6
MALFORMED = 3
REFUSALS = {"RESOURCE_EXHAUSTED"}
RATE_MISSED = 7  # `topk bench` ends so when it could not keep its rate


def go_first():
    with contextlib.suppress(PermissionError):
        os.nice(-10)


def bench(topk, target, *flags, priority=misbehaving_clients.give_way):
    """Begins `topk bench`; JSON comes out. It does not outlive this process."""
    process = subprocess.Popen(
        [topk, "bench", "--target", target, "--k", "10", "--json",
         "--keep-going", "--max-attempts", "1", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=priority)
    atexit.register(process.kill)
    return process


def report(process):
    out, err = process.communicate()
    if process.returncode not in (0, RATE_MISSED):
        raise AssertionError(f"topk bench: {process.returncode}: {err}")
    return json.loads(out)


def small(topk, target, seconds):
    """Small requests at an easy pace, whatever else there is."""
    return bench(topk, target, "--shape", "1,256", "--rate", "100",
                 "--concurrency", "8", "--connections", "2", "--duration",
                 str(seconds), "--verify", "1", priority=go_first)


def measure(options, server, idle_target, mix):
    target = server.target
    usual = report(small(options.topk, target, 10))
    capacity = report(bench(
        options.topk, target, "--mix", mix, "--concurrency", "8",
        "--connections", "4", "--duration", "10", "--verify", "0.05"))
    rate = 2 * capacity["requests_per_second"]
    print(f"alone: small p99 {usual['p99_us']:.0f} us; the mix: "
          f"{rate / 2:.0f} requests a second, "
          f"{capacity['gigabytes_per_second']:.2f} GB/s; "
          f"{server.memory():.0f} MiB", flush=True)
    seconds = 60 * options.minutes
    load = bench(options.topk, target, "--mix", mix, "--rate", str(rate),
                 "--concurrency", str(CLIENTS - CANCELLING - MALFORMED),
                 "--connections", "16", "--duration", str(seconds), "--verify",
                 "0.05", "--deadline", "20")
    probe = small(options.topk, target, seconds)
    idle = small(options.topk, idle_target, seconds)
    end_cancelling = misbehaving_clients.crowd(
        misbehaving_clients.cancel, target, CANCELLING, options.seed)
    end_nonsense = misbehaving_clients.crowd(
        misbehaving_clients.nonsense, target, MALFORMED, options.seed + 100)
    peak = 0
    while load.poll() is None or probe.poll() is None:
        if not server.is_alive():
            raise AssertionError("the server is gone")
        peak = max(peak, server.memory())
        time.sleep(0.2)
    return {"usual": usual, "loaded": report(probe), "idle": report(idle),
            "load": report(load), "cancelled": end_cancelling(),
            "nonsense": end_nonsense(), "peak_mib": peak}


def judge(found, options, grouped):
    """Prints what was found and returns whether all of it is as it should."""
    load, loaded, usual = found["load"], found["loaded"], found["usual"]
    ratio = loaded["p99_us"] / usual["p99_us"]
    other = (set(load["errors"]) | set(loaded["errors"])) - REFUSALS
    refused = sum(load["errors"].values()) + sum(loaded["errors"].values())
    hints = load["retry_hints"] + loaded["retry_hints"]
    checks = [
        (f"load: {load['requests']} requests, {load['verified']} verified, "
         f"errors {load['errors']}, p99 {load['p99_us'] / 1000:.0f} ms",
         not other),
        (f"refused: {refused}, {hints} of them with a retry delay",
         hints == refused),
        (f"small ones: {loaded['requests']}, errors {loaded['errors']}, p99 "
         f"{loaded['p99_us']:.0f} us, {ratio:.1f} times the usual; of an idle "
         f"server next to it {found['idle']['p99_us'] / usual['p99_us']:.1f}",
         True),
        (f"cancelled: {found['cancelled']}", True),
        (f"nonsense: {found['nonsense']}",
         not any(count for key, count in found["nonsense"].items()
                 if key not in ("malformed", "refused"))),
        (f"memory: at most {found['peak_mib']:.0f} of {options.memory} MiB"
         + ("" if grouped else ", not enforced here"),
         found["peak_mib"] < options.memory)]
    for text, good in checks:
        print(("ok    " if good else "NOT   ") + text)
    return all(good for _, good in checks)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topkd")
    parser.add_argument("topk")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--memory", type=int, default=1024, help="MiB")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory, cgroup.limited(
            options.memory) as enter:
        mix = os.path.join(directory, "mix.jsonl")
        with open(mix, "w", encoding="ascii") as file:
            for weight, shape in KINDS:
                print(json.dumps({"weight": weight, "shape": shape}), file=file)
        flags = [] if enter else [
            "--max-inflight-bytes", f"{options.memory * 2 // 5}MiB",
            "--max-receive-memory", f"{options.memory * 2 // 5}MiB"]
        flags += ["--max-client-inflight-calls", "4096",
                  "--max-message-bytes", str(MESSAGE_BYTES)]
        how = {"preexec_fn": enter} if enter else {}
        with harness.AttackedServer(options.topkd, *flags, **how) as server, \
                harness.AttackedServer(options.topkd) as idle:
            found = measure(options, server, idle.target, mix)
        good = judge(found, options, enter is not None)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
