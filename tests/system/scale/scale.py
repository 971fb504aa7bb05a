"""One tensor over many workers; tests/system/scale/run.sh describes it.

usage: scale.py TOPKD [--elements N] [--parts PART,...] [--out FOLDER]
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import array_file
import harness
import model
import numpy as np
import psutil
import topk_client
from topk_client import _shards
from topk_client.merge import merge

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PARTS = ("small", "dask", "peers", "ray", "page", "model")
WORKERS = 4
KS = (1, 100, 10000)
PAGE = ROOT / "deploy" / "SCALING.md"


class Scale:
    """The shared state of the parts: servers, the file, the report."""

    def __init__(self, options):
        self.options = options
        self.stack = contextlib.ExitStack()
        self.out = options.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.file = self.out / "array.f32"
        self.report = {}  # of the part
        self.single = {}
        chunks = options.elements // array_file.CHUNK
        self.shapes = {"axis": (1, options.elements),
                       "others": (chunks, array_file.CHUNK),
                       "both": (chunks // 4, 4 * array_file.CHUNK)}

    def say(self, line):
        self.report["lines"].append(line)
        print(line, flush=True)

    def run(self, name, part):
        """Runs a part and puts what it reports in the place of an earlier
        run's; that of the other parts stays."""
        self.report = {"elements": self.options.elements, "workers": WORKERS,
                       "cpus": os.cpu_count(), "lines": []}
        begin = time.perf_counter()
        part(self)
        self.report["seconds"] = time.perf_counter() - begin
        self.report["load"] = os.getloadavg()
        path = self.out / "report.json"
        parts = json.loads(path.read_text("utf-8")) if path.exists() else {}
        parts[name] = self.report
        path.write_text(json.dumps(parts, indent=1) + "\n", encoding="utf-8")
        lines = [f"{line}\n" for name in PARTS if name in parts for line in (
            f"== {name}: {parts[name]['elements']} elements, "
            f"{parts[name]['seconds']:.0f} s, load "
            f"{parts[name]['load'][0]:.0f} on {parts[name]['cpus']} CPUs",
            *parts[name]["lines"])]
        (self.out / "report.txt").write_text("".join(lines), encoding="utf-8")
        wrong = [row for row in self.report.get("answers", ())
                 if not row["same"]]
        if wrong:
            raise AssertionError(f"{name}: {len(wrong)} answers differ")

    def start_servers(self, count=2):
        """Starts and returns `count` servers."""
        return [self.stack.enter_context(harness.Server(
            self.options.topkd, "--allow-shared-memory"))
                for _ in range(count)]

    def processor_seconds(self, pids):
        """Returns what the servers and some processes have taken so far."""
        pids = [*pids, *(server.process.pid for server in self.servers)]
        return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)

    def one_server(self, cut, k, largest):
        """Returns what one streamed call answers, asked once."""
        key = (cut, k, largest)
        if key not in self.single:
            x = array_file.view(self.file, self.shapes[cut])
            begin = time.perf_counter()
            with topk_client.Client(self.targets[0], timeout=600) as client:
                answer = client.stream_topk(x, topk_client.OpenVINO(
                    k, 1, "max" if largest else "min", "value", "i64"))
            self.single[key] = (answer.values, answer.indices,
                                time.perf_counter() - begin)
        return self.single[key]

    def compare(self, engine, cut, k, largest, ask, **more):
        """Asks an engine and one server, and notes whether the bytes are the
        same and how long each took."""
        begin = time.perf_counter()
        values, indices, *notes = ask()
        seconds = time.perf_counter() - begin
        want_values, want_indices, one = self.one_server(cut, k, largest)
        same = (values.shape == want_values.shape
                and values.tobytes() == want_values.tobytes()
                and indices.tobytes() == want_indices.tobytes())
        row = {"engine": engine, "cut": cut, "k": k, "largest": largest,
               "same": same, "seconds": seconds, "one_server_seconds": one,
               **more, **(notes[0] if notes else {})}
        self.report.setdefault("answers", []).append(row)
        self.say(f"{engine:5} {cut:7} k {k:6} "
                 f"{'largest' if largest else 'smallest':9}"
                 f"{seconds:8.1f} s, one streamed call {one:6.1f} s, bytes "
                 f"{'the same' if same else 'DIFFER'}"
                 + (f" ({row['killed']})" if more else ""))

    def questions(self):
        return [(cut, k, largest) for cut in self.shapes for k in KS
                for largest in (True, False)]


def small(scale):
    """Arrays of every chunking and type."""
    import ray_side
    import small as cases

    ray_side.start(WORKERS, 256 << 20)
    with topk_client.Client(scale.targets[0]) as client:
        counts = {"dask": cases.dask_is_right(client, scale.targets),
                  "ray": cases.ray_is_right(client, scale.targets)}
    ray_side.ray.shutdown()
    scale.report["answers_compared"] = counts
    scale.say(f"small arrays: {counts} answers, all as one server's")


def on_dask(scale):
    """The file, cut three ways; then with a worker and a server killed."""
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
    # Without a bound: Dask's own would not always keep to ours.
    with dask_side.cluster(WORKERS, memory=0) as client, client.cluster:
        pids = list(client.run(os.getpid).values())
        first = dask_side.array(scale.file, (1, WORKERS * array_file.CHUNK))
        for ask in ways.values():  # imports and connects
            ask(first, 1)
        for k in KS:
            x = dask_side.array(scale.file, scale.shapes["axis"])
            took = {way: [] for way in ways}
            for _ in range(scale.options.rounds):
                for way, ask in ways.items():
                    begin = time.perf_counter()
                    before = scale.processor_seconds(pids)
                    ask(x, k)
                    took[way].append((time.perf_counter() - begin,
                                      scale.processor_seconds(pids) - before))
            wall, cpu = ({way: statistics.median(t[i] for t in times)
                          for way, times in took.items()} for i in (0, 1))
            scale.report.setdefault("ratios", []).append(
                {"k": k, "seconds_and_processor_seconds": took})
            scale.say(f"k {k:6}: ours {wall['ours']:.1f} s, "
                      f"{cpu['ours']:.1f} of processors; " + "; ".join(
                          f"Dask's {way} {wall[way]:.1f} and {cpu[way]:.1f} s "
                          f"({wall[way] / wall['ours']:.1f} and "
                          f"{cpu[way] / cpu['ours']:.1f} times as much)"
                          for way in ways if way != "ours"))
        ties(scale, dask_side)


def ties(scale, dask_side):
    """Compares the selected ones of equal elements for two chunkings."""
    shape = (1, min(scale.options.elements, 1 << 26))
    cuts = [dask_side.array(scale.file, shape, array_file.CHUNK // part)
            for part in (1, 4)]
    k = 100
    ours = [dask_side.ours(x, k, True, scale.targets)[1] for x in cuts]
    theirs = [dask_side.theirs_argtopk(x, k, True) for x in cuts]
    row = {"k": k, "ours_differ": int((ours[0] != ours[1]).sum()),
           "dask_differ": int((theirs[0] != theirs[1]).sum()),
           "dask_descends": int((np.diff(theirs[0]) < 0).sum()),
           "dask": theirs[0][0, :8].tolist(), "ours": ours[0][0, :8].tolist()}
    scale.report["ties"] = row
    scale.say(f"ties: of {k} indices {row['ours_differ']} with topkd and "
              f"{row['dask_differ']} with Dask differ between chunks of 64 and "
              f"of 16 MiB; the first: ours {row['ours']}, Dask's "
              f"{row['dask']}")
    if row["ours_differ"]:
        raise AssertionError("our answer depends on the cut")


def on_ray(scale):
    """The same over Ray, whose store has the file's chunks."""
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
    """Runs the page's examples, each as a separate program."""
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
        scale.report.setdefault("blocks", []).append(
            {"block": name, "printed": done.stdout.strip()})
        scale.say(f"page: {name}: {done.stdout.strip() or 'ok'}")


def costs(scale):
    """Measures the model's constants, apart from the scheduler's. The best of
    several each: whatever else the machine does is not in them."""
    x = array_file.view(scale.file, (1, array_file.CHUNK))

    def chunk():  # mapped again, as by a worker
        return array_file.view(scale.file, (1, array_file.CHUNK))

    def question(k):
        return _shards.Question.of(k, 1, 2, True, "value", None,
                                   scale.targets[:1], True, {})

    def best(ask, count=9):
        ask()
        took = []
        for _ in range(count):
            begin = time.perf_counter()
            ask()
            took.append(time.perf_counter() - begin)
        return min(took)

    shard = best(lambda: _shards.answer(chunk(), 0, question(100)))
    before = scale.processor_seconds([os.getpid()])
    for _ in range(8):
        _shards.answer(chunk(), 0, question(100))
    cpu = (scale.processor_seconds([os.getpid()]) - before) / 8
    spec = topk_client.Onnx(100)
    with topk_client.Client(scale.targets[0], timeout=600) as client:
        wire = best(lambda: client.stream_topk(chunk(), spec), 5)
        call = best(lambda: client.compute_topk(x[:, :100], spec), 101)
    fan = [_shards.answer(x[:, :1 << 20], i << 20, question(10000))
           for i in range(8)]
    return {"byte": shard / x.nbytes, "wire_byte": wire / x.nbytes,
            "cpu_byte": cpu / x.nbytes, "call": call,
            "candidate": best(lambda: merge(fan)) / (8 * fan[0].k)}


def fit(scale):
    """Measures the cost model's constants and checks it with 1 to 4 workers."""
    import dask_side

    elements = min(scale.options.elements, 1 << 28)
    constants = costs(scale)
    for workers in (1, 2, 4):
        with dask_side.cluster(workers) as client, client.cluster:
            if "handling" not in constants:
                constants["handling"], constants["schedule"] = map(
                    float, dask_side.chunk_seconds(client, scale.targets))
            fitted = model.Costs(**constants)
            pids = list(client.run(os.getpid).values())
            x = dask_side.array(scale.file, (1, elements))
            dask_side.ours(x, 100, True, scale.targets)  # connects
            took = []
            for _ in range(3):
                # The cores that other processes leave to these workers.
                cores = dask_side.cores_had(client)
                begin = time.perf_counter()
                before = scale.processor_seconds(pids)
                dask_side.ours(x, 100, True, scale.targets)
                took.append({
                    "cores": cores, "seconds": time.perf_counter() - begin,
                    "processors": scale.processor_seconds(pids) - before,
                    "predicted": model.predict(
                        fitted, elements, workers, 100, cores=cores)})
        scale.report.setdefault("measured", []).append(
            {"workers": workers, "took": took})
        middle = sorted(took, key=lambda one: one["seconds"])[1]
        predicted = middle["predicted"]
        scale.say(
            f"{elements} elements, {workers} workers, {middle['cores']:.2f} "
            f"processors had: {middle['seconds']:.2f} s measured, "
            f"{predicted['seconds']:.2f} predicted; of processors "
            f"{middle['processors']:.2f} s measured, "
            f"{predicted['processors']:.2f} predicted")
    scale.report["costs"] = vars(fitted)
    scale.say("constants: " + ", ".join(
        f"{name} {value:.3g} s" for name, value in vars(fitted).items()))
    for k in KS:
        for line in model.table(fitted, k):
            scale.say(line)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("topkd", type=pathlib.Path)
    parser.add_argument("--elements", type=int, default=1 << 30)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path,
                        default=ROOT / "build" / "scale_out")
    options = parser.parse_args()
    wanted = options.parts.split(",")
    parts = {"small": small, "dask": on_dask, "peers": peers, "ray": on_ray,
             "page": page, "model": fit}
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
                scale.run(name, parts[name])
            finally:
                _shards.remove_abandoned()  # of those that were killed
    print(f"all as it should be; {scale.out}/report.json, report.txt")


if __name__ == "__main__":
    main()
