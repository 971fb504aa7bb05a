"""The scale test's Ray: the file's chunks in its object store."""

import os
import signal
import time

import array_file
import numpy as np
import psutil
import ray
import topk_client.ray


def start(workers, store_bytes):
    """Starts a Ray of this machine alone; ray.shutdown() ends it."""
    for tries_left in reversed(range(5)):
        try:
            ray.init(num_cpus=workers, object_store_memory=store_bytes,
                     include_dashboard=False, log_to_driver=False,
                     _node_ip_address="127.0.0.1")
            return
        except Exception as error:  # Ray has no specific type
            ray.shutdown()
            # Half a minute, which Ray does not let one change, is not enough
            # on a machine that does much else.
            if not tries_left or "timed out during startup" not in str(error):
                raise


@ray.remote(name="load")
def _load(path, shape, location):
    return np.array(array_file.view(path, shape, location))


def grid(path, shape):
    """Returns an object array of references, one for each chunk."""
    size = array_file.CHUNK
    refs = np.empty((shape[0], shape[1] // size), object)
    for row, column in np.ndindex(refs.shape):
        refs[row, column] = _load.remote(str(path), shape, [
            (row, row + 1), (column * size, (column + 1) * size)])
    return refs


def whole(outputs):
    """Waits for (values, indices) and puts their parts together."""
    return tuple(np.concatenate(
        [np.concatenate(ray.get(list(row)), 1) for row in output])
        for output in outputs)


def ours(refs, k, largest, servers):
    """Returns (values, indices) by topk_client.ray."""
    return whole(topk_client.ray.topk(
        refs, k, 1, largest, servers=servers, shared_memory=True, timeout=600))


def _is_shard_worker(process):
    try:
        return "ray::topk_shard" in "".join([process.name(),
                                             *process.cmdline()])
    except psutil.Error:  # has ended or was killed before
        return False


def _shard_workers():
    return [process for process in psutil.Process().children(recursive=True)
            if _is_shard_worker(process)]


def while_killing(refs, k, largest, servers, kill_server):
    """Returns (values, indices) and the process that was killed, with a
    server."""
    outputs = topk_client.ray.topk(
        refs, k, 1, largest, servers=servers, shared_memory=True, timeout=600)
    last = outputs[0].reshape(-1)[-1]
    deadline = time.monotonic() + 600
    while not (victims := _shard_workers()):
        if time.monotonic() > deadline:
            raise RuntimeError("nothing in flight could be killed")
        time.sleep(0.01)
    os.kill(victims[0].pid, signal.SIGKILL)
    kill_server()
    under_way = not ray.wait([last], timeout=0)[0]
    return (*whole(outputs), {"worker": victims[0].pid, "under_way": under_way})
