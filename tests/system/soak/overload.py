"""Loads a server with twice its capacity, in a cgroup with little memory, while
other clients cancel calls or send invalid messages. Fails if a response is
wrong, the server exits, memory exceeds the limit, or a rejection is not
RESOURCE_EXHAUSTED with a retry delay.

usage: overload.py TOPKD TOPK [--minutes 5] [--memory 1024]
"""

import argparse
import atexit
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import attacks
import cgroup
import harness
import misbehaving_clients

# The mix of requests: mostly small, a few as large as 64 MiB.
KINDS = [(60, [1, 256]), (20, [8, 2048]), (10, [1, 262144]), (6, [1, 1048576]),
         (3, [4, 1048576]), (1, [16, 1048576])]
MESSAGE_BYTES = 65 << 20  # a tensor of 64 MiB, and the fields around it
RATE_MISSED = 7  # exit status of `topk bench`: it could not keep its rate


def bench(options, target, mix, seconds, *flags):
    """Starts `topk bench`, which does not outlive this process."""
    process = subprocess.Popen(
        [options.topk, "bench", "--target", target, "--k", "10", "--json",
         "--keep-going", "--max-attempts", "1", "--mix", mix, "--duration",
         str(seconds), "--verify", "0.05", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: os.nice(10))
    atexit.register(process.kill)
    return process


def crowd(function, count, options, target):
    return attacks.Attackers(attacks.Attack(function, processes=count), target,
                             options.seed)


def report(process):
    out, err = process.communicate()
    if process.returncode not in (0, RATE_MISSED):
        raise AssertionError(f"topk bench: {process.returncode}: {err}")
    return json.loads(out)


def measure(options, server, mix):
    """Returns the load's report, the outcomes of the invalid calls, and the
    peak memory in MiB."""
    target = server.target
    alone = report(bench(options, target, mix, 10, "--concurrency", "8",
                         "--connections", "4"))
    rate = alone["requests_per_second"]
    print(f"capacity: {rate:.0f} requests a second", flush=True)
    load = bench(options, target, mix, 60 * options.minutes, "--rate",
                 str(2 * rate), "--concurrency", "55", "--connections", "16",
                 "--deadline", "20")
    peak = 0
    with crowd(misbehaving_clients.cancel, 6, options, target), \
            crowd(misbehaving_clients.nonsense, 3, options, target) as nonsense:
        while load.poll() is None:
            if not server.is_alive():
                raise AssertionError("the server is gone")
            peak = max(peak, server.memory())
            time.sleep(0.2)
        return report(load), nonsense.stop(patience=60), peak


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topkd")
    parser.add_argument("topk")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--memory", type=int, default=1024, help="MiB")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, cgroup.limited(
            options.memory) as enter:
        mix = pathlib.Path(folder) / "mix.jsonl"
        mix.write_text("\n".join(
            json.dumps({"weight": weight, "shape": shape})
            for weight, shape in KINDS), encoding="ascii")
        flags = [] if enter else [
            "--max-inflight-bytes", f"{options.memory * 2 // 5}MiB",
            "--max-receive-memory", f"{options.memory * 2 // 5}MiB"]
        with harness.AttackedServer(
                options.topkd, "--max-client-inflight-calls", "4096",
                "--max-message-bytes", str(MESSAGE_BYTES), *flags,
                **({"preexec_fn": enter} if enter else {})) as server:
            load, nonsense, peak = measure(options, server, mix)
    errors = load["errors"]
    print(f"{load['requests']} requests, {load['verified']} verified, errors "
          f"{errors}, {load['retry_hints']} retry delays; invalid requests: "
          f"{nonsense}; peak {peak:.0f} MiB")
    good = (set(errors) <= {"RESOURCE_EXHAUSTED"}
            and load["retry_hints"] == sum(errors.values())
            and set(key for key, count in nonsense.items() if count)
            <= {"malformed", "refused"}
            and peak < options.memory)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
