"""A real Prometheus scrapes a real topkd.

usage: prometheus_test.py TOPKD TOPK PROMETHEUS PROMTOOL

Calls the server with topk, demands that `promtool check metrics` has nothing to
say about its exposition, lets Prometheus scrape it, and asks Prometheus for
what it found.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
import topk_stubs  # noqa: E402

DATA = pathlib.Path(__file__).parents[2] / "deploy/data/digits_similarity.npy"
CONFIG = """
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: topkd
    static_configs: [{targets: ["%s"]}]
"""


def poll(what, function):
    """Calls the function until it returns something, for up to 30 s."""
    for _ in range(300):
        found = function()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"gave up waiting for {what}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def query(address, expression):
    """Returns the value of the only series of an expression, or None."""
    url = f"http://{address}/api/v1/query?" + urllib.parse.urlencode(
        {"query": expression})
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            result = json.load(answer)["data"]["result"]
    except OSError:
        return None
    return float(result[0]["value"][1]) if result else None


def main():
    topkd, topk, prometheus, promtool = sys.argv[1:]
    for tool in (prometheus, promtool):
        if not os.access(tool, os.X_OK):
            sys.exit(f"{tool} is missing: tests/run.sh fetches it, or "
                     "configure with -DTOPK_PROMETHEUS=OFF")
    with tempfile.TemporaryDirectory() as directory, topk_stubs.Server(
            topkd, directory, "--metrics-listen", "127.0.0.1:0") as server:
        run = [topk, "run", str(DATA), "--k", "3", "--stream", "off",
               "--target", server.target]
        for _ in range(5):
            subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        refused = subprocess.run(run + ["--axis", "9"], check=False,
                                 stderr=subprocess.DEVNULL)
        assert refused.returncode == 4, refused

        metrics = server.addresses["metrics"]
        with urllib.request.urlopen(f"http://{metrics}/metrics") as answer:
            exposition = answer.read()
        check = subprocess.run([promtool, "check", "metrics"],
                               input=exposition, capture_output=True,
                               check=False)
        assert check.returncode == 0 and not check.stdout + check.stderr, check

        config = pathlib.Path(directory) / "prometheus.yml"
        config.write_text(CONFIG % metrics, encoding="utf-8")
        address = f"127.0.0.1:{free_port()}"
        scraper = subprocess.Popen(
            [prometheus, f"--config.file={config}",
             f"--storage.tsdb.path={directory}/data",
             f"--web.listen-address={address}", "--log.level=error"])
        try:
            poll("the target to be up", lambda: query(address, "up") == 1)
            for expression, expected in (
                ('grpc_server_handled_total{grpc_method="ComputeTopK",'
                 'grpc_code="OK"}', 5),
                ('grpc_server_handled_total{grpc_method="ComputeTopK",'
                 'grpc_code="InvalidArgument"}', 1),
                ('sum(topk_requests_total)', 6),
                ('sum(topk_compute_seconds_count)', 5),
                ('topk_ready', 1),
            ):
                poll(f"{expression} == {expected}",
                     lambda e=expression, x=expected: query(address, e) == x)
        finally:
            scraper.terminate()
            scraper.wait(timeout=30)
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
