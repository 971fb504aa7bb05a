"""Writes the benchmarks' figures on the pages, from tests/bench/results.

A page marks where its figures are by the name of a function below:
<!-- figures: NAME --> and <!-- end -->.
"""

import html
import math
import pathlib
import re
import statistics

import recorded

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/bench/results"
CASES = ROOT / "tests/bench/workloads.cases"
PAGES = ("README.md", "tests/bench/README.md", "proto/README.md",
         "deploy/SCALING.md")
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
LIBRARIES = {"ort": ("ONNX Runtime", "#4477aa"),
             "openvino": ("OpenVINO", "#ee6677"),
             "numpy": ("NumPy", "#ccbb44"),
             "torch": ("PyTorch", "#228833")}


def read(name):
    return recorded.read(RESULTS / f"{name}.jsonl")


def source(run):
    return (f"Measured by `{run['command']}` on {run['machine']}, commit "
            f"{run['commit']}.")


def table(heads, rows):
    """Returns a table whose columns are aligned right unless a head begins with
    a space."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [
        [head.strip() for head in heads],
        ["---" if head[0] == " " else "---:" for head in heads], *rows])


def workloads():
    """Returns {name of a workload: its description}."""
    lines = [list(map(str.strip, line.split("|")))
             for line in CASES.read_text(encoding="utf-8").splitlines()
             if "|" in line and not line.startswith("#")]
    return {name: f"{name.split('_', 1)[1].replace('_', ' ')}: {shape}"
            f"{'' if axis == '-1' else f', axis {axis}'}, k {k}"
            for name, shape, axis, k, *_ in lines}


def typical(rows):
    """Returns the rows of the typical workloads, whose mean is reported."""
    return [row for row in rows if row["case"][0].isdigit()]


def mean(rows):
    return statistics.geometric_mean(row["ratio"] for row in rows)


def peers():
    run, rows = read("one_thread")
    _, two = read("two_threads")
    other, others = read("zen4/one_thread")
    names = workloads()
    second = {row["case"]: row["ratio"] for row in others}
    return "\n\n".join([
        source(run) + f" Zen 4: {other['machine']}, commit {other['commit']}.",
        table([" workload", "topk, us", "times as fast", "of read",
               "times as fast on Zen 4"], [
            *([names[row["case"]], f"{row['topk_us']:.1f}",
               f"{row['ratio']:.1f}", f"{row['roofline_fraction']:.2f}",
               f"{second[row['case']]:.1f}"] for row in typical(rows)),
            ["geometric mean", "", f"**{mean(typical(rows)):.1f}**", "",
             f"**{mean(typical(others)):.1f}**"],
            ["with two threads", "", f"{mean(typical(two)):.1f}", "", ""]])])


def summary():
    run, rows = read("one_thread")
    ratios = [row["ratio"] for row in typical(rows)]
    return (
        f"On one thread and without gRPC, topkd selects {min(ratios):.1f} to {max(ratios):.0f} "
        "times as fast as the fastest of these libraries (geometric mean of "
        f"{len(ratios)} workloads: {mean(typical(rows)):.1f}). " + source(run))


def wire(chosen=None):
    run, rows = read("wire")
    return "\n\n".join([source(run), table(
        [" call", "tensor", "callers", "calls/s", "p50, us",
         "times as fast as a no-op server"],
        [[row["call"], row["tensor"], str(row["callers"]),
          f"{row['calls_per_second']:.0f}", f"{row['p50_us']:.0f}",
          f"{row['ratio']:.2f}"] for row in rows
         if chosen is None or (row["call"], row["tensor"]) in chosen])])


def calls():
    return wire([
        ("ComputeTopK", "1 KiB"), ("ComputeTopK", "1 MiB"),
        ("StreamTopK", "256 MiB"), ("ComputeTopKMany", "1 KiB"),
        ("ComputeTopK, shared memory", "4 MiB")])


def many():
    rows = {(row["call"], row["tensor"], row["callers"]): row
            for row in read("wire")[1]}
    one, other = (rows[call, "1 KiB", 8]["calls_per_second"]
                  for call in ("ComputeTopKMany", "ComputeTopK"))
    return (f"With 8 callers and tensors of 1 KiB, one stream for each caller "
            f"reaches {one / other:.1f} times the throughput of unary calls "
            "([measured](../tests/bench/README.md#over-the-wire)).")


def python():
    run, rows = read("python")
    clients = ["topk_client", "generated stub", "tritonclient", "grpcio"]
    return "\n\n".join([source(run), table(
        [" tensor", *clients],
        [[row["tensor"], *(f"{row[name]:.0f}" if name in row else ""
                           for name in clients)] for row in rows])])


def triton():
    run, rows = read("triton")
    return "\n\n".join([source(run), table(
        [" tensor", "callers", "topkd", "Triton", "times as fast"],
        [[row["tensor"], str(row["callers"]), f"{row['topkd']:.0f}",
          f"{row['triton']:.0f}", f"{row['topkd'] / row['triton']:.1f}"]
         for row in rows])])


def scale():
    run, rows = read("scale")
    return "\n\n".join([source(run), table(
        ["CPUs", " load", "callers", "servers", "calls/s",
         "times as fast as a no-op server"],
        [[str(row["cores"]), row["load"], str(row["callers"]),
          str(row.get("instances", 1)), f"{row['calls_per_second']:.0f}",
          f"{row['ratio']:.2f}" if "ratio" in row else ""] for row in rows])])


def dask():
    runs = [read(name) for name in ("dask_amd", "dask_intel")]
    columns = [{row["function"]: f"{row['low']:g} to {row['high']:g} times"
                for row in rows} for _, rows in runs]
    return "\n\n".join([
        source(runs[0][0]),
        table([" Dask function", *(run["machine"] for run, _ in runs)],
              [[name, *(column[name] for column in columns)]
               for name in columns[0]])])


class Chart:
    """A chart as SVG."""

    def __init__(self, width, height, title):
        self.size = width, height
        self.items = []
        self.text(8, 18, title, weight="bold")

    def text(self, x, y, text, anchor="start", weight="normal"):
        self.items.append(
            f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{html.escape(text)}</text>')

    def line(self, x1, y1, x2, y2):
        self.items.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" '
                          'stroke="#ddd"/>')

    def dot(self, x, y, color):
        self.items.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>')

    def legend(self, y, entries):
        """Draws (name, color) in a row."""
        x = 14
        for name, color in entries:
            self.dot(x, y - 4, color)
            self.text(x + 8, y, name)
            x += 34 + 7 * len(name)

    def svg(self):
        width, height = self.size
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
            f'height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *self.items, "</svg>", ""])


def peers_svg():
    """Draws the time of each library as a multiple of topk's."""
    names = workloads()
    rows = [row for row in read("one_thread")[1]
            if re.match(r"\d|A|T9", row["case"])]
    times = [{name: math.log10(row[f"{name}_us"] / row["topk_us"])
              for name in LIBRARIES if f"{name}_us" in row} for row in rows]
    powers = math.ceil(max(max(row.values()) for row in times))
    left, right, top, step = 325, 740, 62, 18
    decade = (right - left) / powers
    bottom = top + step * len(rows)
    drawing = Chart(
        770, bottom + 40, "Time of each library, as a multiple of topk's time")
    drawing.legend(40, [("topk", "#111"), *LIBRARIES.values()])
    for power in range(powers + 1):
        x = left + decade * power
        drawing.line(x, top - 10, x, bottom)
        drawing.text(x, bottom + 14, f"{10 ** power}x", "middle")
    drawing.text(left, bottom + 32, "Farther right is slower. One thread.")
    for i, row in enumerate(rows):
        y = top + step * i
        drawing.line(left, y, right, y)
        drawing.text(left - 12, y + 4, names[row["case"]], "end")
        drawing.dot(left, y, "#111")
        for name, power in times[i].items():
            drawing.dot(left + decade * power, y, LIBRARIES[name][1])
    return drawing.svg()


def files():
    """Yields each file that has figures, and the text that it should have."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        yield ROOT / page, BLOCK.sub(
            lambda block: block[1] + globals()[block[2]]() + "\n" + block[3],
            text)
    yield RESULTS / "peers.svg", peers_svg()


if __name__ == "__main__":
    for path, content in files():
        path.write_text(content, encoding="utf-8")
