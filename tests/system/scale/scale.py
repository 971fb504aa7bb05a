"""Runs TopK of one tensor over many workers. See tests/system/scale/run.sh.

usage: scale.py TOPKD [--parts PART...]

PARTs: `small` compares Dask's and Ray's results with one server's, `peers`
measures Dask's own topk and ours, and `page` runs the examples of the page.
"""

import argparse
import contextlib
import itertools
import os
import pathlib
import re
import subprocess
import sys
import time

import dask
import dask.array as da
import distributed
import numpy as np
import pyarrow
import ray

import harness
import topk_client
import topk_client.dask
import topk_client.ray

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "deploy" / "SCALING.md"
CHUNK = 1 << 24  # elements, 64 MiB
ELEMENTS = 1 << 30  # of the file
WORKERS = 4
PATIENCE = 600  # seconds


def make_file(path):
    """Writes the file unless it exists."""
    if path.exists() and path.stat().st_size >= 4 * ELEMENTS:
        return
    array = np.memmap(path, np.float32, "w+", shape=(ELEMENTS,))
    for number, begin in enumerate(range(0, ELEMENTS, CHUNK)):
        np.random.default_rng(number).random(
            out=array[begin:begin + CHUNK], dtype=np.float32)
    array.flush()


def read_block(path, block_info=None):
    """Maps a chunk of the file. Runs on a worker."""
    (begin, end), = block_info[None]["array-location"]
    return np.memmap(path, np.float32, "r", 4 * begin, (end - begin,))


def require_same(what, got, answer):
    """Requires that values and indices are byte-identical to an answer's."""
    for ours, wanted in zip(got, (answer.values, answer.indices)):
        assert (ours.dtype, ours.shape, ours.tobytes()) == (
            wanted.dtype, wanted.shape, wanted.tobytes()), what


def dask_array(path, elements):
    """Returns the beginning of the file as a Dask array."""
    return da.map_blocks(
        read_block, str(path), chunks=((CHUNK,) * (elements // CHUNK),),
        dtype=np.float32, meta=np.empty(0, np.float32))


def _small_array(dtype):
    """Returns random elements with ties and, for float types, NaNs."""
    x = np.random.default_rng(1).integers(0, 50, (60, 700)).astype(dtype)
    if x.dtype.kind == "f":
        x[x == 3] = np.nan
        x[x == 0] = -0.0
    return x


def small_arrays(targets):
    """Compares small arrays of every chunking: on Dask's threads, and Ray's
    lists, grids and datasets."""
    ray.init(num_cpus=WORKERS, object_store_memory=256 << 20,
             include_dashboard=False, log_to_driver=False,
             _node_ip_address="127.0.0.1")
    for number, (dtype, axis, largest, order) in enumerate(itertools.product(
            ("float32", "int64"), (0, 1), (True, False), ("value", "index"))):
        x = _small_array(dtype)
        with topk_client.Client(targets[0]) as client:
            answer = client.compute_topk(x, topk_client.OpenVINO(
                20, axis, "max" if largest else "min", order, "i64"))
        how = {"k": 20, "axis": axis, "largest": largest, "order": order,
               "servers": targets, "shared_memory": number % 2 == 0,
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
        topk_client.ray.topk(nulls, 1, 0, column="data", servers=targets)
        raise AssertionError("a dataset with nulls was accepted")
    ray.shutdown()


def peers(targets):
    """Measures Dask's topk and ours on the same array and workers."""
    file = ROOT / "build/scale.f32"
    make_file(file)
    dask.config.set({"distributed.comm.timeouts.connect": "10s"})
    ways = {
        "ours": lambda x, k: dask.compute(*topk_client.dask.topk(
            x, k, servers=targets, shared_memory=True, timeout=PATIENCE)),
        "argtopk": lambda x, k: da.argtopk(x, k).compute(),
        "topk and argtopk": lambda x, k: dask.compute(
            da.topk(x, k), da.argtopk(x, k))}
    # Dask's own topk would exceed a limit of memory.
    with distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, memory_limit=0,
            host="127.0.0.1", dashboard_address="127.0.0.1:0") as local, \
            distributed.Client(local) as client:
        client.wait_for_workers(WORKERS, timeout=300)
        first = dask_array(file, WORKERS * CHUNK)
        for ask in ways.values():  # warm-up: import and connect
            ask(first, 1)
        x = dask_array(file, ELEMENTS)
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


def page(targets):
    """Runs the page's examples, each in a separate process."""
    for block in re.findall(r"^```python\n(.*?)^```$",
                            PAGE.read_text(encoding="utf-8"), re.M | re.S):
        subprocess.run(
            [sys.executable, "-c",
             block.replace("localhost:50051", targets[0])], check=True,
            env=dict(os.environ, PYSPARK_PYTHON=sys.executable),
            timeout=PATIENCE)


PARTS = {"small": small_arrays, "peers": peers, "page": page}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("topkd", type=pathlib.Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(harness.Server(
            options.topkd, "--allow-shared-memory")).target for _ in range(2)]
        for name in options.parts:
            print(f"== {name}", flush=True)
            PARTS[name](targets)


if __name__ == "__main__":
    main()
