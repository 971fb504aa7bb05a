"""The Ray part of the scale test, with the chunks in the object store."""

import os
import signal
import time

import array_file
import numpy as np
import psutil
import ray
import topk_client.ray


def start(workers, store_bytes):
    """Starts Ray on this machine only. ray.shutdown() stops it."""
    for tries_left in reversed(range(5)):
        try:
            ray.init(num_cpus=workers, object_store_memory=store_bytes,
                     include_dashboard=False, log_to_driver=False,
                     _node_ip_address="127.0.0.1")
            return
        except Exception as error:  # Ray raises no specific type
            ray.shutdown()
            # Ray's startup timeout of half a minute is not configurable, and
            # too short on a busy machine.
            if not tries_left or "timed out during startup" not in str(error):
                raise


@ray.remote(name="load")
def _load(path, shape, location):
    return np.array(array_file.view(path, shape, location))


def grid(path, shape):
    """Returns an object array with a reference for each chunk."""
    size = array_file.CHUNK
    refs = np.empty((shape[0], shape[1] // size), object)
    for row, column in np.ndindex(refs.shape):
        refs[row, column] = _load.remote(str(path), shape, [
            (row, row + 1), (column * size, (column + 1) * size)])
    return refs


def whole(outputs):
    """Waits for (values, indices) and joins their parts."""
    return tuple(np.concatenate(
        [np.concatenate(ray.get(list(row)), 1) for row in output])
        for output in outputs)


def ours(refs, k, largest, servers):
    """Returns (values, indices), computed by topk_client.ray."""
    return whole(topk_client.ray.topk(
        refs, k, 1, largest, servers=servers, shared_memory=True, timeout=600))


def _is_shard_worker(process):
    try:
        return "ray::topk_shard" in "".join([process.name(),
                                             *process.cmdline()])
    except psutil.Error:  # has exited or was already killed
        return False


def _shard_workers():
    return [process for process in psutil.Process().children(recursive=True)
            if _is_shard_worker(process)]


def while_killing(refs, k, largest, servers, kill_server):
    """Like ours(), but kills a worker and a server during the computation. Also
    returns the killed worker process."""
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
