"""Draws the README's chart from the output of peers.py: for each workload, the
time of each library as a multiple of ours, on a logarithmic axis. Requires
Matplotlib.

usage: plot.py ONE_THREAD.jsonl SVG
"""

import json
import pathlib
import re
import sys

import matplotlib
from matplotlib import pyplot

PEERS = {"ort": ("ONNX Runtime", "#4477aa"),
         "openvino": ("OpenVINO", "#ee6677"),
         "numpy": ("NumPy", "#ccbb44"),
         "torch": ("PyTorch", "#228833")}
CASES = pathlib.Path(__file__).with_name("workloads.cases")


def labels():
    """Returns the names and labels of the workloads, in order. Omits most of the
    workloads T..., which repeat others with other types."""
    for line in CASES.read_text("utf-8").splitlines():
        if re.match(r"\d|A|T9", line):
            name, shape, axis, k, *_ = map(str.strip, line.split("|"))
            title = name.split("_", 1)[1].replace("_", " ")
            place = "" if axis == "-1" else f", axis {axis}"
            yield name, f"{title}: {shape}{place}, k {k}"


def draw(rows):
    axes = pyplot.subplots(figsize=(9, 0.25 * len(rows) + 1.2))[1]
    axes.set_title("How many times longer than topk: TopK of the libraries "
                   "that people use", loc="left", weight="bold", y=1.05)
    axes.set_yticks(range(len(rows)), [row["label"] for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.set_xlabel("Farther right is slower. Least time of up to 30 runs, one "
                    "thread. Our results are verified byte for byte.")
    axes.grid(color="#ddd")
    axes.set_axisbelow(True)
    axes.scatter([1] * len(rows), range(len(rows)), color="#111", label="topk")
    for name, (label, color) in PEERS.items():
        points = [(row[f"{name}_us"] / row["topk_us"], i)
                  for i, row in enumerate(rows) if f"{name}_us" in row]
        axes.scatter(*zip(*points), color=color, label=label)
    axes.legend(ncols=1 + len(PEERS), loc="lower left", bbox_to_anchor=(0, 1),
                frameon=False, borderaxespad=0)


def main():
    source, svg = map(pathlib.Path, sys.argv[1:])
    measured = {row["case"]: row for row in map(
        json.loads, source.read_text("utf-8").splitlines())}
    matplotlib.rcParams["svg.fonttype"] = "none"  # text, not outlines
    matplotlib.rcParams["svg.hashsalt"] = "topk"  # the same file every time
    draw([{**measured[case], "label": label} for case, label in labels()
          if case in measured])
    pyplot.savefig(svg, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
