"""Draws the README's chart from the output of peers.py: for each workload, the
time of each library as a multiple of ours, on a logarithmic axis. Requires
Matplotlib.

usage: plot.py ONE_THREAD.jsonl SVG
"""

import json
import pathlib
import sys

import matplotlib
from matplotlib import pyplot

PEERS = {"ort": ("ONNX Runtime", "#4477aa"),
         "openvino": ("OpenVINO", "#ee6677"),
         "numpy": ("NumPy", "#ccbb44"),
         "torch": ("PyTorch", "#228833")}
LABELS = {"1_router": "router, 8192x256, k 8",
          "2_sampler": "sampler, 32x131072, k 50",
          "3_sampler_one": "sampler, 1x131072, k 50",
          "4_neighbours": "neighbours, 1M, k 100",
          "5_recommender": "recommender, 10M, k 1000",
          "6_detector": "detector, 4x8400, k 300",
          "7_anchors": "anchors, 120000, k 1000",
          "8_beam": "beam, 8x640000, k 10",
          "9_channel": "channel axis, 4x1000x64x64, k 5",
          "10_tall": "first axis, 100000x64, k 10",
          "11_full_sort": "full sort, 1M",
          "12_bytes": "u8, 10M, k 100",
          "13_half": "f16, 64x131072, k 50",
          "13b_bfloat16": "bf16, 64x131072, k 50",
          "14_double": "f64, 4M, k 100",
          "15_int64": "i64, 16x1M, k 64",
          "16_tiny": "tiny, 1000, k 5",
          "A4_ascending": "1M ascending, k 100",
          "A4_constant": "1M equal, k 100",
          "A4_zeros": "1M, nine in ten zero, k 100",
          "A5_ascending": "10M ascending, k 1000",
          "T9_channel_k100": "channel axis, k 100",
          "T9_channel_f16": "channel axis, f16, k 5",
          "T9_channel_u8": "channel axis, u8, k 5"}


def draw(rows):
    axes = pyplot.subplots(figsize=(9, 0.25 * len(rows) + 1.2))[1]
    axes.set_title("How many times longer than topk: TopK of the libraries "
                   "that people use", loc="left", weight="bold", y=1.05)
    axes.set_yticks(range(len(rows)), [LABELS[row["case"]] for row in rows])
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
    draw([measured[case] for case in LABELS if case in measured])
    pyplot.savefig(svg, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
