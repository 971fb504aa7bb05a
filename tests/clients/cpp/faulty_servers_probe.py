"""Calls faulty servers with the Python clients, like faulty_servers_probe.cc.

usage: faulty_servers_probe.py TOPKD HOW SECONDS     HOW: sync, aio or shards
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
REQUESTS = [Request(X, Onnx(2), request_id=str(n)) for n in range(3)]
CONCURRENT = 32


async def call(client, method, results):
    """Makes a call with a blocking or an asyncio client, and appends the
    results to `results`."""
    if method == "ComputeTopKMany":
        many = client.compute_topk_many(REQUESTS)
        if hasattr(many, "__aiter__"):
            async for result in many:
                results.append(result)
        else:
            results.extend(many)
        return
    result = client.compute_topk(X, Onnx(2), request_id="0",
                                 stream=method == "StreamTopK")
    results.append(await result if hasattr(result, "__await__") else result)


async def call_sync(target, method, timeout, results):
    with topk_client.Client(target, timeout=timeout) as client:
        await call(client, method, results)


async def call_aio(target, method, timeout, results):
    async with topk_client.aio.Client(target, timeout=timeout) as client:
        await call(client, method, results)


async def call_shards(target, method, timeout, results):
    results.append(_shards.answer(X, 0, _shards.Question.of(
        2, -1, 2, True, "value", None, [target, target], False,
        {"timeout": timeout})))


async def measure(function, name, method, target, timeout):
    begin = time.monotonic()
    results = []
    report = {"name": name, "method": method, "code": "OK", "reason": "",
              "message": "", "delay": 0}
    try:
        await function(target, method, timeout, results)
    except topk_client.TopKError as error:
        report |= {"code": error.code.name, "reason": error.reason,
                   "message": str(error), "delay": error.retry_delay or 0}
    except Exception as error:
        report |= {"code": type(error).__name__, "message": str(error)}
    report |= {"results": len(results), "seconds": time.monotonic() - begin}
    sys.stdout.buffer.write(json.dumps(report).encode() + b"\n")  # thread-safe


async def run_aio(calls):
    places = asyncio.Semaphore(CONCURRENT)

    async def one(*arguments):
        async with places:
            await measure(call_aio, *arguments)

    await asyncio.gather(*(one(*arguments) for arguments in calls))


def main():
    how, timeout = sys.argv[1], float(sys.argv[2])
    calls = [(*line.rstrip("\n").split("\t"), timeout) for line in sys.stdin]
    if how == "aio":
        asyncio.run(run_aio(calls))
    else:
        function = call_sync if how == "sync" else call_shards
        with concurrent.futures.ThreadPoolExecutor(CONCURRENT) as threads:
            list(threads.map(lambda one: asyncio.run(measure(function, *one)),
                             calls))


if __name__ == "__main__":
    main()
