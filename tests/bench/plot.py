"""Draws the README's chart from the output of peers.py: for each workload, the
time of each library as a multiple of ours, on a logarithmic axis.

usage: plot.py ONE_THREAD.jsonl SVG
"""

import argparse
import json
import math
import pathlib

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
LEFT, RIGHT, TOP, STEP, WIDTH = 235, 30, 78, 24, 900
MOST = 10000  # the end of the axis


def read(path):
    return {row["case"]: row for row in map(
        json.loads, pathlib.Path(path).read_text("utf-8").splitlines())}


def place(ratio):
    """Returns the position of a ratio on the axis."""
    part = math.log10(max(min(ratio, MOST), 0.5) / 0.5) / math.log10(
        MOST / 0.5)
    return LEFT + part * (WIDTH - LEFT - RIGHT)


def text(x, y, what, anchor="start", size=13, colour="#222", weight=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
            f'font-size="{size}" fill="{colour}"{weight}>{what}</text>')


def picture(rows, title):
    cases = [case for case in LABELS if case in rows]
    height = TOP + STEP * len(cases) + 34
    bottom = TOP + STEP * len(cases)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
           f'height="{height}" viewBox="0 0 {WIDTH} {height}" '
           'font-family="Helvetica, Arial, sans-serif">',
           f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
           text(16, 24, title, size=16, weight=' font-weight="bold"'),
           text(16, 42, "Farther right is slower. Least time of up to 30 "
                "runs, one thread. Our results are verified byte for byte.",
                size=12, colour="#666")]
    x = 16
    for name, (label, colour) in {"topk": ("topk", "#111"), **PEERS}.items():
        out.append(f'<circle cx="{x + 6}" cy="58" r="5.5" fill="{colour}"/>')
        out.append(text(x + 16, 62, label, size=12))
        x += 34 + 7 * len(label)
    for exponent in range(0, 5):
        at = place(10 ** exponent)
        out.append(f'<line x1="{at:.1f}" y1="{TOP - 4}" x2="{at:.1f}" '
                   f'y2="{bottom}" stroke="#ddd"/>')
        out.append(text(at, bottom + 18, f"{10 ** exponent}x", "middle", 12,
                        "#666"))
    for i, case in enumerate(cases):
        y = TOP + STEP * i + STEP / 2
        row = rows[case]
        ours = row["topk_us"]
        shown = (f"{ours:.1f} us" if ours < 10 else f"{ours:.0f} us"
                 if ours < 1000 else f"{ours / 1000:.1f} ms")
        if i % 2 == 0:
            out.append(f'<rect x="0" y="{y - STEP / 2}" width="{WIDTH}" '
                       f'height="{STEP}" fill="#f6f7f9"/>')
        out.append(text(LEFT - 12, y + 4, LABELS[case], "end", 12))
        ratios = {name: row[f"{name}_us"] / ours for name in PEERS
                  if f"{name}_us" in row}
        if ratios:
            out.append(
                f'<line x1="{place(1):.1f}" y1="{y}" '
                f'x2="{place(max(ratios.values())):.1f}" y2="{y}" '
                'stroke="#c9ced6" stroke-width="2"/>')
        out.append(f'<circle cx="{place(1):.1f}" cy="{y}" r="5.5" '
                   f'fill="#111"><title>topk {shown}</title></circle>')
        for name, ratio in sorted(ratios.items(), key=lambda r: -r[1]):
            label, colour = PEERS[name]
            out.append(
                f'<circle cx="{place(ratio):.1f}" cy="{y}" r="5.5" '
                f'fill="{colour}" stroke="#fff"><title>{label} '
                f'{row[f"{name}_us"]:.1f} us, {ratio:.1f}x</title></circle>')
    # Draw the grid over the stripes, and the dots over the grid.
    stripes = [line for line in out if 'fill="#f6f7f9"' in line]
    rest = [line for line in out if 'fill="#f6f7f9"' not in line]
    out = rest[:2] + stripes + rest[2:]
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("rows", type=pathlib.Path)
    parser.add_argument("svg", type=pathlib.Path)
    flags = parser.parse_args()
    flags.svg.write_text(
        picture(read(flags.rows), "How many times longer than topk: TopK of "
                "the libraries that people use"), "utf-8")


if __name__ == "__main__":
    main()
