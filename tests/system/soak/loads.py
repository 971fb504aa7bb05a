"""The load of a soak: a `topk bench` for each kind of call. Every response is
compared byte for byte."""

import collections
import json
import pathlib
import subprocess
import time

# The mix of unary calls.
MIX = [{"weight": 60, "shape": [8, 1000]},
       {"weight": 20, "shape": [1, 65536], "dtype": "f16", "k": 100},
       {"weight": 10, "shape": [64, 257], "dtype": "i64", "smallest": True},
       {"weight": 5, "shape": [500, 40], "dtype": "u8", "axis": 0},
       {"weight": 5, "shape": [1, 1000000]}]
# `topk bench` counts requests that it could not send at these rates as missed.
BENCHES = {
    "unary": ["--mix", "MIX", "--rate", "100", "--concurrency", "16",
              "--connections", "4"],
    "stream": ["--path", "stream", "--shape", "1,1000000", "--rate", "4",
               "--concurrency", "4", "--connections", "2"],
    "many": ["--path", "many", "--batch", "16", "--shape", "4,1000", "--rate",
             "160", "--concurrency", "4", "--connections", "2"],
    "shared memory": ["--path", "shm", "--shape", "1,262144", "--rate", "40",
                      "--concurrency", "4", "--connections", "2"],
}
RETRYABLE = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")
WRONG = 6  # exit status of `topk bench`: a wrong answer
RATE_MISSED = 7  # exit status of `topk bench`: it could not keep its rate


def begin(topk, target, seconds, seed, directory):
    """Starts a process for each kind. Returns {kind: process}."""
    mix = pathlib.Path(directory) / "mix.jsonl"
    mix.write_text("\n".join(map(json.dumps, MIX)), encoding="ascii")
    commands = {
        kind: [topk, "bench", "--target", target, "--k", "10", "--json",
               "--keep-going", "--warmup", "0", "--arrivals", "poisson",
               "--max-attempts", "4",
               "--deadline", "20", "--duration", str(seconds), "--seed",
               str(seed), *(str(mix) if flag == "MIX" else flag
                            for flag in flags)]
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
