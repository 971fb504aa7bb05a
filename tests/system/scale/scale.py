"""Runs TopK of one tensor over many workers. See tests/system/scale/run.sh.

usage: scale.py TOPKD [--elements N] [--parts PART,...] [--out FOLDER]
"""

import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import time

import array_file
import harness
import topk_client
from topk_client import _shards

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PARTS = ("small", "dask", "peers", "ray", "page")
WORKERS = 4
KS = (1, 100, 10000)
PAGE = ROOT / "deploy" / "SCALING.md"


class Scale:
    """The state that all parts share: servers and the file."""

    def __init__(self, options):
        self.options = options
        self.stack = contextlib.ExitStack()
        options.out.mkdir(parents=True, exist_ok=True)
        self.file = options.out.resolve() / "array.f32"
        self.single = {}
        chunks = options.elements // array_file.CHUNK
        self.shapes = {"axis": (1, options.elements),
                       "others": (chunks, array_file.CHUNK),
                       "both": (chunks // 4, 4 * array_file.CHUNK)}

    def start_servers(self, count=2):
        """Starts and returns `count` servers."""
        return [self.stack.enter_context(harness.Server(
            self.options.topkd, "--allow-shared-memory"))
                for _ in range(count)]

    def one_server(self, cut, k, largest):
        """Returns the result of one streamed call, which is cached."""
        key = (cut, k, largest)
        if key not in self.single:
            x = array_file.view(self.file, self.shapes[cut])
            begin = time.perf_counter()
            with topk_client.Client(self.targets[0], timeout=600) as client:
                answer = client.compute_topk(x, topk_client.OpenVINO(
                    k, 1, "max" if largest else "min", "value", "i64"),
                    stream=True)
            self.single[key] = (answer.values, answer.indices,
                                time.perf_counter() - begin)
        return self.single[key]

    def compare(self, engine, cut, k, largest, ask, killed=""):
        """Computes with an engine and with one server. Raises AssertionError if
        the results are not byte-identical."""
        begin = time.perf_counter()
        values, indices, *notes = ask()
        seconds = time.perf_counter() - begin
        want_values, want_indices, one = self.one_server(cut, k, largest)
        line = (f"{engine:5} {cut:7} k {k:6} "
                f"{'largest' if largest else 'smallest':9}{seconds:8.1f} s, "
                f"one streamed call {one:6.1f} s {killed} {notes or ''}")
        print(line, flush=True)
        if (values.shape != want_values.shape
                or values.tobytes() != want_values.tobytes()
                or indices.tobytes() != want_indices.tobytes()):
            raise AssertionError(f"the bytes differ: {line}")

    def questions(self):
        return [(cut, k, largest) for cut in self.shapes for k in KS
                for largest in (True, False)]


def small(scale):
    """Tests arrays of every chunking and type."""
    import ray_side
    import small as cases

    ray_side.start(WORKERS, 256 << 20)
    with topk_client.Client(scale.targets[0]) as client:
        counts = {"dask": cases.dask_is_right(client, scale.targets),
                  "ray": cases.ray_is_right(client, scale.targets)}
    ray_side.ray.shutdown()
    print(f"small arrays: {counts} results, all equal to one server's")


def on_dask(scale):
    """Tests Dask with three chunkings, then kills a worker and a server."""
    import dask_side

    with dask_side.cluster(WORKERS) as client, client.cluster:
        for cut, k, largest in scale.questions():
            x = dask_side.array(scale.file, scale.shapes[cut])
            scale.compare("dask", cut, k, largest, lambda: dask_side.ours(
                x, k, largest, scale.targets))
        for cut in ("axis", "both"):
            victim, = scale.start_servers(1)
            x = dask_side.array(scale.file, scale.shapes[cut])
            scale.compare(
                "dask", cut, 100, True, lambda: dask_side.while_killing(
                    client, x, 100, True, [scale.targets[0], victim.target],
                    victim.kill), killed="a worker and a server killed")


def peers(scale):
    """Compares Dask's topk with ours on the same array and workers."""
    import dask_side

    ways = {
        "ours": lambda x, k: dask_side.ours(x, k, True, scale.targets),
        "argtopk": lambda x, k: dask_side.theirs_argtopk(x, k, True),
        "topk and argtopk": lambda x, k: dask_side.theirs(x, k, True),
    }
    # No memory limit: Dask's own topk would exceed it.
    with dask_side.cluster(WORKERS, memory=0) as client, client.cluster:
        first = dask_side.array(scale.file, (1, WORKERS * array_file.CHUNK))
        for ask in ways.values():  # warm-up: import and connect
            ask(first, 1)
        for k in KS:
            x = dask_side.array(scale.file, scale.shapes["axis"])
            took = {}
            for way, ask in ways.items():
                begin = time.perf_counter()
                ask(x, k)
                took[way] = time.perf_counter() - begin
            ours = took.pop("ours")
            print(f"k {k:6}: ours {ours:.1f} s; " + "; ".join(
                f"Dask's {way} {seconds:.1f} s, {seconds / ours:.1f} times as "
                "long" for way, seconds in took.items()), flush=True)


def on_ray(scale):
    """Like on_dask(), for Ray with the file's chunks in its object store."""
    import ray_side

    ray_side.start(WORKERS, 4 * scale.options.elements + (512 << 20))
    refs = ray_side.grid(scale.file, scale.shapes["axis"])
    for cut, k, largest in scale.questions():
        grid = refs.reshape(scale.shapes[cut][0], -1)
        scale.compare("ray", cut, k, largest, lambda: ray_side.ours(
            grid, k, largest, scale.targets))
    victim, = scale.start_servers(1)
    scale.compare("ray", "axis", 100, True, lambda: ray_side.while_killing(
        refs, 100, True, [scale.targets[0], victim.target], victim.kill),
        killed="a worker and a server killed")
    ray_side.ray.shutdown()


def page(scale):
    """Runs the page's examples, each in a separate process."""
    blocks = re.findall(r"^```python\n(.*?)^```$",
                        PAGE.read_text(encoding="utf-8"), re.M | re.S)
    for block in blocks:
        name = re.search(r"import (dask|ray|pyarrow)", block)[1]
        program = block.replace("localhost:50051", scale.targets[0])
        done = subprocess.run(
            [sys.executable, "-c", program], check=False, capture_output=True,
            env=dict(os.environ, PYSPARK_PYTHON=sys.executable), text=True,
            timeout=600)
        if done.returncode:
            raise AssertionError(f"{name}: {done.stderr[-3000:]}")
        print(f"page: {name}: {done.stdout.strip() or 'ok'}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("topkd", type=pathlib.Path)
    parser.add_argument("--elements", type=int, default=1 << 30)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--out", type=pathlib.Path,
                        default=ROOT / "build" / "scale_out")
    options = parser.parse_args()
    wanted = options.parts.split(",")
    parts = {"small": small, "dask": on_dask, "peers": peers, "ray": on_ray,
             "page": page}
    if set(wanted) - set(parts):
        parser.error(f"parts are {', '.join(parts)}")
    if options.elements % (4 * array_file.CHUNK):
        parser.error(f"elements are multiples of {4 * array_file.CHUNK}")
    scale = Scale(options)
    with scale.stack:
        scale.servers = scale.start_servers()
        scale.targets = [server.target for server in scale.servers]
        array_file.make(scale.file, options.elements)
        for name in wanted:
            print(f"== {name}", flush=True)
            try:
                parts[name](scale)
            finally:
                _shards.remove_abandoned()  # left by the killed workers
    print("all results are byte-identical")


if __name__ == "__main__":
    main()
