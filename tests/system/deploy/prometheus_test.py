"""A real Prometheus scrapes a real topkd.

usage: prometheus_test.py TOPKD TOPK PROMETHEUS PROMTOOL

Has promtool check the configuration and the alerts of deploy/prometheus, and
fire each alert by alerts_test.yml. Calls the server with topk, requires that
`promtool check metrics` accepts its exposition, checks the PromQL examples of the metrics page, lets
Prometheus scrape the server, and queries the results.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

import harness
import prometheus_api

TELEMETRY = prometheus_api.ROOT / "server/telemetry/README.md"
DATA = prometheus_api.ROOT / "deploy/data/digits_similarity.npy"


def check_rules(promtool):
    """Checks the alerts; a separate test fires each of them."""
    tests = pathlib.Path(__file__).parent / "alerts_test.yml"
    for command in (["check", "config", prometheus_api.ROOT /
                     "deploy/prometheus/prometheus.yml"],
                    ["test", "rules", tests]):
        result = subprocess.run([promtool, *command], capture_output=True,
                                text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
    rules = prometheus_api.RULES.read_text(encoding="utf-8")
    alerts = set(re.findall(r"- alert: (\w+)", rules))
    fired = set(re.findall(r"alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:"
                           r"\n", tests.read_text(encoding="utf-8")))
    assert alerts and alerts == fired, alerts ^ fired
    return alerts


def check_examples(promtool, exposition):
    """Checks the PromQL of the metrics page and the metrics that it reads."""
    page = TELEMETRY.read_text(encoding="utf-8")
    block = re.search(r"^```promql\n(.*?)^```$", page, re.M | re.S)[1]
    examples = re.split(r"\n(?=\w)", block.rstrip())
    with tempfile.NamedTemporaryFile("w", suffix=".json") as rules:
        json.dump({"groups": [{"name": "page", "rules": [
            {"record": f"example_{number}", "expr": example}
            for number, example in enumerate(examples)]}]}, rules)
        rules.flush()
        check = subprocess.run([promtool, "check", "rules", rules.name],
                               capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout + check.stderr
    metrics = re.findall(r"(\w+_bucket)\{", block)
    assert len(metrics) == len(examples), block
    for metric in metrics:
        assert f"\n{metric}{{".encode() in exposition, metric


def main():
    topkd, topk, prometheus, promtool = sys.argv[1:]
    prometheus_api.need(prometheus, promtool)
    alerts = check_rules(promtool)
    with harness.Server(topkd, "--metrics-listen", "127.0.0.1:0") as server:
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
        check_examples(promtool, exposition)

        with prometheus_api.Prometheus(prometheus, metrics) as watcher:
            harness.poll("the target to be up",
                         lambda: watcher.value("up") == 1)
            for expression, expected in (
                ('grpc_server_handled_total{grpc_method="ComputeTopK",'
                 'grpc_code="OK"}', 5),
                ('grpc_server_handled_total{grpc_method="ComputeTopK",'
                 'grpc_code="InvalidArgument"}', 1),
                ('sum(topk_requests_total)', 6),
                ('sum(topk_compute_seconds_count)', 5),
                ('topk_ready', 1),
            ):
                harness.poll(f"{expression} == {expected}",
                             lambda e=expression, x=expected:
                             watcher.value(e) == x)
            assert set(watcher.alerts()) == alerts, watcher.alerts()
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
