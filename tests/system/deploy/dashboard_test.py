"""Each query of the Grafana dashboard finds data in a real Prometheus that
scrapes a real topkd under load; so does the one by which it is scaled.

usage: dashboard_test.py TOPKD TOPK PROMETHEUS
"""

import contextlib
import math
import re
import subprocess
import sys

import harness
import prometheus_api

ADAPTER = prometheus_api.ROOT / "deploy/kubernetes/prometheus-adapter.yaml"
# Calls of each kind, some of which find no room.
LOADS = [
    ["--shape", "8,1000", "--rate", "50"],
    ["--shape", "1,200000", "--path", "stream", "--dialect", "openvino",
     "--rate", "20"],
    ["--shape", "1,1000", "--path", "many", "--dialect", "directml",
     "--rate", "5"],
    ["--shape", "1,3000000", "--rate", "5"],
]


@contextlib.contextmanager
def load(topk, target, loads):
    """Calls a server with `topk bench` until the end of a with block."""
    processes = [
        subprocess.Popen(
            [topk, "bench", "--target", target, "--k", "10", "--keep-going",
             "--duration", "600", "--max-attempts", "1", *flags],
            stdout=subprocess.DEVNULL)
        for flags in loads
    ]
    try:
        yield
        assert all(process.poll() is None for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def finite(series):
    return [value for _, value in series if math.isfinite(value)]


def scaling_query():
    """Returns the adapter's query, filled in as the adapter would."""
    text = ADAPTER.read_text(encoding="utf-8")
    query = re.search(r"metricsQuery: >-\n((?: {8,}.*\n)+)", text)[1]
    return " ".join(query.split()).replace(
        "<<.LabelMatchers>>", 'namespace="default"').replace(
        "<<.GroupBy>>", "pod")


def main():
    topkd, topk, prometheus = sys.argv[1:]
    prometheus_api.need(prometheus)
    checked = 0
    with harness.Server(
            topkd, "--metrics-listen", "127.0.0.1:0", "--max-inflight-bytes",
            "8MiB") as server, prometheus_api.Prometheus(
                prometheus, server.addresses["metrics"]) as watcher, (
                    load(topk, server.target, LOADS)):
        for panel, targets in prometheus_api.dashboard(rate_interval="5s"):
            for expression, _ in targets:
                harness.poll(f"data of {panel['title']}: {expression}",
                             lambda e=expression: finite(watcher.series(e)))
                checked += 1
        harness.poll("rejections",
                     lambda: watcher.value("sum(topk_rejected_total)"))
        harness.poll("what replicas are counted by", lambda: any(
            labels == {"pod": "topkd-0"} and 0 <= value <= 1
            for labels, value in watcher.series(scaling_query())))
    assert checked > 20, checked
    print(f"{checked + 1} queries passed, 0 failed")


if __name__ == "__main__":
    main()
