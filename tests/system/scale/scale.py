"""Runs TopK of one tensor over many workers. See tests/system/scale/run.sh.

usage: scale.py TOPKD [--elements N] [--parts PART,...] [--out FOLDER]

The tensor is a memory-mapped file of random float32: multiples of 2^-24 below
1. Among 2^30 elements each value occurs about 64 times, so that ties span
chunks.
"""

import argparse
import contextlib
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import dask
import dask.array as da
import distributed
import numpy as np
import psutil
import pyarrow
import ray

import harness
import topk_client
import topk_client.dask
import topk_client.ray
from topk_client import _shards

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "deploy" / "SCALING.md"
CHUNK = 1 << 24  # elements, 64 MiB
WORKERS = 4
PATIENCE = 600  # seconds
HOW = {"shared_memory": True, "timeout": PATIENCE}


def make_file(path, elements):
    """Writes the file unless it exists. The content depends only on the size.
    """
    if path.exists() and path.stat().st_size >= 4 * elements:
        return
    array = np.memmap(path, np.float32, "w+", shape=(elements,))
    for number, begin in enumerate(range(0, elements, CHUNK)):
        np.random.default_rng([elements, number]).random(
            out=array[begin:begin + CHUNK], dtype=np.float32)
    array.flush()


def read(path, shape, location):
    """Maps the part `location` of the file: [(begin, end), ...], one row."""
    (row, _), (begin, end) = location
    return np.memmap(path, np.float32, "r", 4 * (row * shape[1] + begin),
                     (1, end - begin))


def read_block(path, shape, block_info=None):
    return read(path, shape, block_info[None]["array-location"])


def require_same(what, got, answer):
    """Requires that values and indices are byte-identical to an answer's."""
    for ours, wanted in zip(got, (answer.values, answer.indices)):
        assert (ours.dtype, ours.shape, ours.tobytes()) == (
            wanted.dtype, wanted.shape, wanted.tobytes()), what


class Scale:
    """The file, two servers, and the expected results."""

    def __init__(self, options, stack):
        self._topkd = options.topkd
        self._stack = stack
        options.out.mkdir(parents=True, exist_ok=True)
        self.elements = options.elements
        self.file = options.out.resolve() / "array.f32"
        make_file(self.file, options.elements)
        # Chunks in one row, and in several rows of four chunks.
        self.shapes = [(1, options.elements),
                       (options.elements // (4 * CHUNK), 4 * CHUNK)]
        self.targets = [self.start_server().target for _ in range(2)]

    def start_server(self):
        return self._stack.enter_context(harness.Server(
            self._topkd, "--allow-shared-memory"))

    def compare(self, name, shape, k, values, indices):
        """Compares a result, byte for byte, with that of one streamed call."""
        x = np.memmap(self.file, np.float32, "r", shape=shape)
        with topk_client.Client(self.targets[0], timeout=PATIENCE) as client:
            answer = client.compute_topk(x, topk_client.OpenVINO(
                k, 1, "max", "value", "i64"), stream=True)
        require_same(f"{name}, {shape}", (values, indices), answer)
        print(f"{name}, {shape}, k {k}: byte-identical", flush=True)


@contextlib.contextmanager
def cluster(memory):
    """Yields a client of a new Dask cluster of local processes. A worker that
    exceeds `memory` bytes is restarted; 0 = no limit."""
    dask.config.set({"distributed.comm.timeouts.connect": "10s"})
    with distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, memory_limit=memory,
            host="127.0.0.1", dashboard_address="127.0.0.1:0") as local, \
            distributed.Client(local) as client:
        client.wait_for_workers(WORKERS, timeout=300)
        yield client


def dask_array(path, shape):
    """Returns the file as a Dask array. Each worker maps its chunks."""
    chunks = ((1,) * shape[0], (CHUNK,) * (shape[1] // CHUNK))
    return da.map_blocks(read_block, str(path), shape, chunks=chunks,
                         dtype=np.float32, meta=np.empty((0, 0), np.float32))


def start_ray(store_bytes):
    """Starts Ray on this machine only. ray.shutdown() stops it."""
    ray.init(num_cpus=WORKERS, object_store_memory=store_bytes,
             include_dashboard=False, log_to_driver=False,
             _node_ip_address="127.0.0.1")


def _small_array(dtype):
    """Returns random elements with ties and, for float types, NaNs."""
    x = np.random.default_rng(1).integers(0, 50, (60, 700)).astype(dtype)
    if x.dtype.kind == "f":
        x[x == 3] = np.nan
        x[x == 0] = -0.0
    return x


def small_arrays(scale):
    """Compares small arrays of every chunking: on Dask's threads, and Ray's
    lists, grids and datasets."""
    start_ray(256 << 20)
    for number, (dtype, axis, largest, order) in enumerate(itertools.product(
            ("float32", "int64"), (0, 1), (True, False), ("value", "index"))):
        x = _small_array(dtype)
        with topk_client.Client(scale.targets[0]) as client:
            answer = client.compute_topk(x, topk_client.OpenVINO(
                20, axis, "max" if largest else "min", order, "i64"))
        how = {"k": 20, "axis": axis, "largest": largest, "order": order,
               "servers": scale.targets, "shared_memory": number % 2 == 0,
               "split_every": 3}
        for chunks in ((60, 100), (7, 700), (13, 33), ((0, 60), (0, 300, 400))):
            got = topk_client.dask.topk(da.from_array(x, chunks=chunks), **how)
            assert [part.shape for part in got] == [answer.values.shape] * 2
            require_same((how, chunks),
                         dask.compute(*got, scheduler="threads"), answer)
        listed = topk_client.ray.topk(
            [ray.put(part) for part in np.array_split(x, 13, axis)], **how)
        require_same((how, "list"), [ray.get(one[0]) for one in listed], answer)
        grids = topk_client.ray.topk(
            [[ray.put(part) for part in np.array_split(row, 7, 1)]
             for row in np.array_split(x, 4, 0)], **how)
        require_same((how, "grid"), [np.block([
            [ray.get(ref) for ref in row] for row in grid]) for grid in grids],
            answer)
        sets = topk_client.ray.topk(
            ray.data.from_numpy(np.array_split(x, 5, 0)), column="data", **how)
        require_same((how, "dataset"), [np.concatenate(ray.get(
            one.to_numpy_refs(column="data"))) for one in sets], answer)
    nulls = ray.data.from_arrow([pyarrow.table({"data": [1, None]})])
    with contextlib.suppress(TypeError):
        topk_client.ray.topk(nulls, 1, 0, column="data", servers=scale.targets)
        raise AssertionError("a dataset with nulls was accepted")
    ray.shutdown()


def _answered(dask_scheduler):
    return sum(task.state == "memory" and "topk_shard" in task.prefix.name
               for task in dask_scheduler.tasks.values())


def on_dask(scale):
    """Kills a worker and a server once Dask has computed the first chunks."""
    with cluster(1 << 30) as client:
        for shape in scale.shapes:
            victim = scale.start_server()
            futures = client.compute(topk_client.dask.topk(
                dask_array(scale.file, shape), 100, 1, **HOW,
                servers=[scale.targets[0], victim.target]))
            harness.poll("the first chunks", lambda:
                         client.run_on_scheduler(_answered) >= 2, PATIENCE)
            os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
            victim.kill()
            print("under way:", not futures[0].done())
            scale.compare("dask", shape, 100, *client.gather(list(futures)))


def _shard_workers():
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # has exited
            if "ray::topk_shard" in "".join([process.name(),
                                             *process.cmdline()]):
                found.append(process)
    return found


@ray.remote(name="load")
def _load(path, shape, location):
    return np.array(read(path, shape, location))


def on_ray(scale):
    """Kills a worker and a server while Ray computes, with the file's chunks in
    its object store."""
    start_ray(4 * scale.elements + (512 << 20))
    shape = scale.shapes[0]
    refs = np.empty((1, shape[1] // CHUNK), object)
    for column in range(refs.size):
        refs[0, column] = _load.remote(str(scale.file), shape, [
            (0, 1), (column * CHUNK, (column + 1) * CHUNK)])
    victim = scale.start_server()
    outputs = topk_client.ray.topk(
        refs, 100, 1, True, servers=[scale.targets[0], victim.target], **HOW)
    workers = harness.poll("a worker", _shard_workers, PATIENCE)
    os.kill(workers[0].pid, signal.SIGKILL)
    victim.kill()
    print("under way:", not ray.wait([outputs[0].reshape(-1)[-1]],
                                     timeout=0)[0])
    scale.compare("ray", shape, 100, *(
        np.concatenate(ray.get(list(output[0])), 1) for output in outputs))
    ray.shutdown()


def peers(scale):
    """Measures Dask's topk and ours on the same array and workers."""
    ways = {
        "ours": lambda x, k: dask.compute(*topk_client.dask.topk(
            x, k, 1, servers=scale.targets, **HOW)),
        "argtopk": lambda x, k: da.argtopk(x, k, axis=1).compute(),
        "topk and argtopk": lambda x, k: dask.compute(
            da.topk(x, k, axis=1), da.argtopk(x, k, axis=1))}
    with cluster(0):  # Dask's own topk would exceed a limit
        first = dask_array(scale.file, (1, WORKERS * CHUNK))
        for ask in ways.values():  # warm-up: import and connect
            ask(first, 1)
        x = dask_array(scale.file, scale.shapes[0])
        for k in (1, 100, 10000):
            took = {}
            for way, ask in ways.items():
                begin = time.perf_counter()
                ask(x, k)
                took[way] = time.perf_counter() - begin
            ours = took.pop("ours")
            print(f"k {k:6}: ours {ours:.1f} s; " + "; ".join(
                f"Dask's {way} {seconds:.1f} s, {seconds / ours:.1f} times as "
                "long" for way, seconds in took.items()), flush=True)


def page(scale):
    """Runs the page's examples, each in a separate process."""
    for block in re.findall(r"^```python\n(.*?)^```$",
                            PAGE.read_text(encoding="utf-8"), re.M | re.S):
        subprocess.run(
            [sys.executable, "-c",
             block.replace("localhost:50051", scale.targets[0])], check=True,
            env=dict(os.environ, PYSPARK_PYTHON=sys.executable),
            timeout=PATIENCE)


PARTS = {"small": small_arrays, "dask": on_dask, "peers": peers, "ray": on_ray,
         "page": page}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("topkd", type=pathlib.Path)
    parser.add_argument("--elements", type=int, default=1 << 30)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--out", type=pathlib.Path,
                        default=ROOT / "build" / "scale_out")
    options = parser.parse_args()
    wanted = options.parts.split(",")
    if set(wanted) - set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}")
    if options.elements % (4 * CHUNK):
        parser.error(f"elements are multiples of {4 * CHUNK}")
    with contextlib.ExitStack() as stack:
        scale = Scale(options, stack)
        for name in wanted:
            print(f"== {name}", flush=True)
            try:
                PARTS[name](scale)
            finally:
                _shards.remove_abandoned()  # left by the killed workers
    print("all results are byte-identical")


if __name__ == "__main__":
    main()
