"""The load of a soak: a `topk bench` for each kind of call. Every response is
compared byte for byte."""

import collections
import json
import subprocess
import time

# `topk bench` counts requests that it could not send at these rates as missed.
BENCHES = {
    "unary": "--k 10 --shape 8,1000 --rate 60 --concurrency 8 --connections 2",
    "f16": "--k 100 --shape 1,65536 --dtype f16 --rate 20 --concurrency 4",
    "i64": "--k 10 --smallest --shape 64,257 --dtype i64 --rate 10",
    "u8": "--k 10 --axis 0 --shape 500,40 --dtype u8 --rate 5",
    "4 MB": "--k 10 --shape 1,1000000 --rate 5 --concurrency 4",
    "stream": "--k 10 --path stream --shape 1,1000000 --rate 4 --concurrency 4 "
              "--connections 2",
    "many": "--k 10 --path many --batch 16 --shape 4,1000 --rate 160 "
            "--concurrency 4 --connections 2",
    "shared memory": "--k 10 --path shm --shape 1,262144 --rate 40 "
                     "--concurrency 4 --connections 2",
}
RETRYABLE = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")
WRONG = 6  # exit status of `topk bench`: a wrong answer
RATE_MISSED = 7  # exit status of `topk bench`: it could not keep its rate


def begin(topk, target, seconds, seed):
    """Starts a process for each kind. Returns {kind: process}."""
    commands = {
        kind: [topk, "bench", "--target", target, "--json", "--keep-going",
               "--warmup", "0", "--arrivals", "poisson", "--max-attempts", "4",
               "--timeout", "20", "--duration", str(seconds), "--seed",
               str(seed), *flags.split()]
        for kind, flags in BENCHES.items()}
    return {kind: subprocess.Popen(command, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
            for kind, command in commands.items()}


def _row(found):
    """Converts a report of `topk bench`."""
    lost = collections.Counter(found["errors"])
    retryable = {code: lost.pop(code) for code in RETRYABLE if code in lost}
    # A rejection without a retry delay counts as lost.
    no_delay = retryable.get("RESOURCE_EXHAUSTED", 0) - found["retry_hints"]
    if no_delay > 0:
        lost["RESOURCE_EXHAUSTED without a retry delay"] = no_delay
    return {"requests": found["requests"], "wrong": 0, "lost": lost,
            "retryable": retryable, "p99_ms": found["p99_us"] / 1000,
            "not_sent": found["missed"]}


def end(processes, seconds):
    """Waits at most `seconds` for the processes. Returns {kind: row}."""
    until = time.monotonic() + seconds
    rows = {}
    for kind, process in processes.items():
        out, err = process.communicate(
            timeout=max(1, until - time.monotonic()))
        status = process.returncode
        rows[kind] = _row(json.loads(out)) if status in (0, RATE_MISSED) else {
            "requests": 0, "wrong": int(status == WRONG), "retryable": {},
            "lost": {f"{status}: {err[-500:]}": 1}}
    return rows
