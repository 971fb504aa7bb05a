"""Writes the benchmarks' figures on the pages, from tests/bench/results.

A page marks where its figures are by the name of a function below:
<!-- figures: NAME --> and <!-- end -->.
"""

import math
import pathlib
import re
import statistics

import chart
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
    drawing = chart.Chart(
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


def scale_svg():
    """Draws calls per second over the number of CPUs."""
    rows = read("scale")[1]
    lines = {}  # (name, color) -> {CPUs: calls per second}
    for row in rows:
        if row["load"] == "1 KiB" and row["callers"] == 8:
            lines.setdefault(("topkd, 8 callers", "#4477aa"), {})[
                row["cores"]] = row["calls_per_second"]
            lines.setdefault(("no-op server, 8 callers", "#ccbb44"), {})[
                row["cores"]] = row["no_op_calls_per_second"]
        elif "instances" in row:
            best = lines.setdefault(
                ("topkd, best number of servers, 40 callers", "#ee6677"), {})
            best[row["cores"]] = max(best.get(row["cores"], 0),
                                     row["calls_per_second"])
    cores = sorted({row["cores"] for row in rows})
    most = max(max(line.values()) for line in lines.values())
    left, right, top, bottom = 70, 620, 62, 262
    unit = 10 ** math.floor(math.log10(most))
    drawing = chart.Chart(700, bottom + 40, "Calls per second, 1 KiB tensors")
    drawing.legend(40, lines)

    def x(count):
        return left + 30 + (right - left) * math.log2(count) / max(
            1, math.log2(cores[-1]))

    def y(rate):
        return bottom - (bottom - top) * rate / most

    for tick in range(math.floor(most / unit) + 1):
        drawing.line(left, y(tick * unit), right + 50, y(tick * unit))
        drawing.text(left - 8, y(tick * unit) + 4, f"{tick * unit}", "end")
    for count in cores:
        drawing.text(x(count), bottom + 18, f"{count} CPU{'s' * (count > 1)}", "middle")
    for (_, color), line in lines.items():
        points = [(x(count), y(rate)) for count, rate in sorted(line.items())]
        for start, end in zip(points, points[1:]):
            drawing.line(*start, *end, color)
        for point in points:
            drawing.dot(*point, color)
    drawing.text(left, bottom + 36,
                 "Servers and load programs share the CPUs.")
    return drawing.svg()


def files():
    """Yields each file that has figures, and the text that it should have."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        yield ROOT / page, BLOCK.sub(
            lambda block: block[1] + globals()[block[2]]() + "\n" + block[3],
            text)
    yield RESULTS / "peers.svg", peers_svg()
    yield RESULTS / "scale.svg", scale_svg()


if __name__ == "__main__":
    for path, content in files():
        path.write_text(content, encoding="utf-8")
