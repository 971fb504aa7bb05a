"""Draws the Grafana dashboard without Grafana: the panels, from what their
queries find in a Prometheus that watched a topkd for two minutes of changing
load. Needs matplotlib, which tests/run.sh does not install.

usage: dashboard_picture.py TOPKD TOPK PROMETHEUS PICTURE [--seconds 120]
"""

import argparse
import math
import time

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot, ticker  # noqa: E402

import dashboard_test  # noqa: E402
import harness  # noqa: E402
import prometheus_api  # noqa: E402

RATE_INTERVAL = "10s"
# The load of each quarter: low, higher, above capacity, low. Some deadlines of
# the third are too short.
PHASES = [
    [["--shape", "8,1000", "--rate", "100"],
     ["--shape", "1,200000", "--path", "stream", "--dialect", "openvino",
      "--rate", "10"]],
    [["--shape", "8,1000", "--rate", "400"],
     ["--shape", "1,200000", "--path", "stream", "--dialect", "openvino",
      "--rate", "40"],
     ["--shape", "1,1000", "--path", "many", "--dialect", "directml",
      "--rate", "40"]],
    [["--shape", "8,1000", "--rate", "400"],
     ["--shape", "1,2000000", "--concurrency", "48"],
     ["--shape", "1,8000000", "--path", "stream", "--concurrency", "4",
      "--deadline", "0.05"]],
    [["--shape", "8,1000", "--rate", "100"]],
]
UNITS = {"s": ("ms", 0.001), "bytes": ("MB", 1e6), "Bps": ("MB/s", 1e6),
         "percentunit": ("%", 0.01), "reqps": ("/s", 1)}


def draw(panel, lines, axis, start):
    """One panel; lines are (legend, [(time, value)])."""
    unit, scale = UNITS.get(panel["fieldConfig"]["defaults"]["unit"], ("", 1))
    axis.set_title(panel["title"], fontsize=8, loc="left", fontweight="bold")
    if panel["type"] == "stat":
        last = lines[0][1][-1][1] / scale
        axis.text(0.5, 0.45, f"{last:.3g} {unit}", fontsize=15, ha="center",
                  va="center", transform=axis.transAxes, color="#228833")
        axis.set_axis_off()
        return
    # The highest ones: a server also reports methods without calls.
    lines = sorted(lines, key=lambda line: -max(value for _, value in line[1]))
    for name, points in lines[:8]:
        axis.plot([at - start for at, _ in points],
                  [value / scale if math.isfinite(value) else math.nan
                   for _, value in points], linewidth=0.9, label=name)
    axis.set_ylim(bottom=0)
    axis.set_ylabel(unit, fontsize=6)
    axis.tick_params(labelsize=6, length=2)
    axis.yaxis.set_major_locator(ticker.MaxNLocator(4))
    axis.grid(linewidth=0.3)
    axis.legend(fontsize=5, frameon=False, loc="upper left", ncols=2)


def main():
    parser = argparse.ArgumentParser()
    for name in ("topkd", "topk", "prometheus", "picture"):
        parser.add_argument(name)
    parser.add_argument("--seconds", type=float, default=120)
    options = parser.parse_args()

    with harness.Server(
            options.topkd, "--metrics-listen", "127.0.0.1:0",
            "--max-inflight-bytes", "32MiB", "--max-client-inflight-bytes",
            "32MiB", "--slow-request", "0") as server, \
            prometheus_api.Prometheus(
                options.prometheus, server.addresses["metrics"]) as watcher:
        harness.poll("the target to be up", lambda: watcher.value("up") == 1)
        start = time.time()
        for phase in PHASES:
            with dashboard_test.load(options.topk, server.target, phase):
                time.sleep(options.seconds / len(PHASES))
        end = time.time()
        panels = [
            (panel, [(prometheus_api.legend(form, labels), points)
                     for expression, form in targets
                     for labels, points in watcher.range(
                         expression, start, end, options.seconds / 240)])
            for panel, targets in prometheus_api.dashboard(RATE_INTERVAL)
        ]

    columns = 24
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"]
                 for panel, _ in panels)
    figure = pyplot.figure(figsize=(12, height * 0.27), layout="constrained")
    grid = figure.add_gridspec(height, columns)
    for panel, lines in panels:
        place = panel["gridPos"]
        axis = figure.add_subplot(grid[place["y"]:place["y"] + place["h"],
                                       place["x"]:place["x"] + place["w"]])
        draw(panel, lines, axis, start)
    figure.savefig(options.picture, dpi=90)


if __name__ == "__main__":
    main()
