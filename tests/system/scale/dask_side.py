"""The Dask part of the scale test, with a cluster of local processes."""

import os
import random
import signal
import time

import array_file
import dask
import dask.array as da
import distributed
import numpy as np
import topk_client.dask

WORKER_BYTES = 1 << 30


def cluster(workers, memory=WORKER_BYTES):
    """Returns a client of a new cluster, for use in a with block. A worker that
    exceeds `memory` bytes is restarted; 0 = no limit."""
    dask.config.set({"distributed.comm.timeouts.connect": "10s"})
    local = distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, memory_limit=memory,
        host="127.0.0.1", dashboard_address="127.0.0.1:0")
    client = distributed.Client(local)
    client.wait_for_workers(workers, timeout=300)
    return client


def _load(path, shape, block_info=None):
    return array_file.view(path, shape, block_info[None]["array-location"])


def array(path, shape, chunk=array_file.CHUNK):
    """Returns the file as a Dask array with chunks of `chunk` elements of a
    row. Each worker maps the chunks that it needs."""
    chunks = ((1,) * shape[0], (chunk,) * (shape[1] // chunk))
    return da.map_blocks(_load, str(path), shape, chunks=chunks,
                         dtype=np.float32, meta=np.empty((0, 0), np.float32))


def ours(x, k, largest, servers):
    """Returns (values, indices), computed by topk_client.dask."""
    return dask.compute(*topk_client.dask.topk(
        x, k, 1, largest, servers=servers, shared_memory=True, timeout=600))


def theirs_argtopk(x, k, largest):
    """Returns the indices, computed by Dask itself."""
    return da.argtopk(x, k if largest else -k, axis=1).compute()


def theirs(x, k, largest):
    """Returns (values, indices), computed by Dask itself."""
    sign = k if largest else -k
    return dask.compute(da.topk(x, sign, axis=1), da.argtopk(x, sign, axis=1))


def _answered(dask_scheduler):
    return sum(task.state == "memory" and "topk_shard" in task.prefix.name
               for task in dask_scheduler.tasks.values())


def while_killing(client, x, k, largest, servers, kill_server):
    """Like ours(), but kills a worker and a server once the first chunks have
    been computed. Also returns the killed worker process."""
    pids = sorted(client.run(os.getpid).values())
    futures = client.compute(topk_client.dask.topk(
        x, k, 1, largest, servers=servers, shared_memory=True, timeout=600))
    deadline = time.monotonic() + 600
    while client.run_on_scheduler(_answered) < 2:
        if time.monotonic() > deadline or futures[0].done():
            raise RuntimeError("nothing in flight could be killed")
        time.sleep(0.01)
    victim = random.choice(pids)
    os.kill(victim, signal.SIGKILL)
    kill_server()
    under_way = not futures[0].done()
    values, indices = client.gather(list(futures))
    return values, indices, {"worker": victim, "under_way": under_way}
