"""Calls wrong servers by the Python clients; as wrong_servers_probe.cc.

usage: wrong_servers_probe.py TOPKD HOW SECONDS     HOW: sync, aio or shards,
                                                or aio-unary: no streams
"""

import asyncio
import concurrent.futures
import json
import sys
import time

import client_package  # noqa: F401, makes topk_client importable
import numpy as np
import topk_client
import topk_client.aio
from topk_client import Onnx, Request, _shards

X = np.zeros((2, 5), np.float32)
METHODS = ("ComputeTopK", "StreamTopK", "ComputeTopKMany")
CONCURRENT = 12


def kibibytes(name):
    with open("/proc/self/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith(name):
                return int(line.split()[1])
    return 0


def last(results):
    for result in results:
        if isinstance(result, topk_client.TopKError):
            raise result


def call_sync(client, method):
    if method == "ComputeTopKMany":
        return last(list(client.compute_topk_many(
            [Request(X, Onnx(2), request_id="a")] * 2)))
    return client.compute_topk(X, Onnx(2), request_id="a",
                               stream=method == "StreamTopK")


async def call_aio(client, method):
    if method == "ComputeTopKMany":
        return last([result async for result in client.compute_topk_many(
            [Request(X, Onnx(2), request_id="a")] * 2)])
    return await client.compute_topk(X, Onnx(2), request_id="a",
                                     stream=method == "StreamTopK")


def call_shards(target, timeout):
    _shards.answer(X, 0, _shards.Question.of(
        2, -1, 2, True, "value", None, [target, target], False,
        {"timeout": timeout}))


def report(name, method, begin, error):
    code, reason = "OK", ""
    if isinstance(error, topk_client.TopKError):
        code, reason = error.code.name, error.reason
    elif error is not None:
        code = type(error).__name__
    sys.stdout.write(json.dumps({
        "name": name, "method": method, "code": code, "reason": reason,
        "message": str(error), "seconds": time.monotonic() - begin}) + "\n")


def run_sync(name, target, method, timeout):
    begin = time.monotonic()
    try:
        with topk_client.Client(target, timeout=timeout) as client:
            call_sync(client, method)
        report(name, method, begin, None)
    except Exception as error:
        report(name, method, begin, error)


def run_shards(name, target, method, timeout):
    begin = time.monotonic()
    try:
        call_shards(target, timeout)
        report(name, method, begin, None)
    except Exception as error:
        report(name, method, begin, error)


async def run_aio(calls, timeout):
    places = asyncio.Semaphore(CONCURRENT)

    async def one(name, target, method):
        async with places:
            begin = time.monotonic()
            try:
                async with topk_client.aio.Client(
                        target, timeout=timeout) as client:
                    await call_aio(client, method)
                report(name, method, begin, None)
            except Exception as error:
                report(name, method, begin, error)

    await asyncio.gather(*(one(*call) for call in calls))


def main():
    how, timeout = sys.argv[1], float(sys.argv[2])
    methods = METHODS if how in ("sync", "aio") else METHODS[:1]
    calls = [(*line.rstrip("\n").split("\t"), method)
             for line in sys.stdin for method in methods]
    before = kibibytes("VmRSS:")
    if how.startswith("aio"):
        asyncio.run(run_aio(calls, timeout))
    else:
        one = run_sync if how == "sync" else run_shards
        with concurrent.futures.ThreadPoolExecutor(CONCURRENT) as threads:
            list(threads.map(lambda call: one(*call, timeout), calls))
    print(json.dumps({"grown": (kibibytes("VmHWM:") - before) << 10}))


if __name__ == "__main__":
    main()
