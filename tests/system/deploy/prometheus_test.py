"""Tests the metrics with a real Prometheus and a real topkd.

usage: prometheus_test.py TOPKD TOPK PROMETHEUS PROMTOOL

promtool checks the configuration of deploy/compose, fires each alert with
alerts_test.yml and release_alerts_test.yml, and checks the server's metrics.
Then Prometheus scrapes the server under load. Each query of the Grafana
dashboard and of the metrics page, and the query that scales the replicas, must
find data.
"""

import contextlib
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import harness

ROOT = pathlib.Path(__file__).resolve().parents[3]
ADAPTER = ROOT / "deploy/kubernetes/prometheus-adapter.yaml"
FILES = ROOT / "deploy/kubernetes/helm/topkd/files"
DASHBOARD = FILES / "topkd.json"
DATA = ROOT / "deploy/data/digits_similarity.npy"
RULES = FILES / "alerts.yml"
TELEMETRY = ROOT / "server/telemetry/README.md"
TESTS = pathlib.Path(__file__).parent / "alerts_test.yml"
RELEASE_TESTS = pathlib.Path(__file__).parent / "release_alerts_test.yml"
# The matchers that each selector in the dashboard must have.
MATCHERS = ('job="$job", namespace=~"$namespace", pod=~"$pod", '
            'instance=~"$instance"')
# Scrapes one server as two pods in Kubernetes, with the labels that service
# discovery adds, and as a server outside Kubernetes.
CONFIG = """
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["%(rules)s"]
scrape_configs:
  - job_name: topkd
    static_configs:
      - targets: ["%(metrics)s"]
        labels: {namespace: default, pod: topkd-0}
      - targets: ["%(metrics)s"]
        labels: {namespace: default, pod: other-0}
  - job_name: plain
    static_configs: [{targets: ["%(metrics)s"]}]
"""
# Calls of each kind, some of which exceed the server's limits.
LOADS = [
    ["--shape", "8,1000", "--rate", "50"],
    ["--shape", "1,200000", "--path", "stream", "--dialect", "openvino",
     "--rate", "20"],
    ["--shape", "1,1000", "--path", "many", "--dialect", "directml",
     "--rate", "5"],
    ["--shape", "1,900000", "--concurrency", "4"],  # exceeds the client's limit
]


class Prometheus:
    """A Prometheus on a free loopback port, with the alerts of deploy/. Scrapes
    one server every second."""

    def __init__(self, address):
        self._address = address

    def _ask(self, path, **parameters):
        url = f"http://{self._address}/api/v1/{path}?" + urllib.parse.urlencode(
            parameters)
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code != 503:  # still starting
                raise AssertionError(
                    f"{parameters}: {error.read().decode()}") from error
        except OSError:
            pass
        return {}

    def series(self, expression):
        """Returns the current [(labels, value)] with finite values."""
        result = self._ask("query", query=expression).get("result", [])
        return [(one["metric"], float(one["value"][1])) for one in result
                if math.isfinite(float(one["value"][1]))]

    def await_value(self, expression, expected):
        harness.poll(f"{expression} == {expected}", lambda: [
            value for _, value in self.series(expression)] == [expected])

    def alerts(self):
        """Returns the names of the loaded alerts."""
        groups = self._ask("rules").get("groups", [])
        return {rule["name"] for group in groups for rule in group["rules"]}


@contextlib.contextmanager
def prometheus(program, metrics):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "prometheus.yml"
        config.write_text(CONFIG % {"rules": RULES, "metrics": metrics},
                          encoding="utf-8")
        address = f"127.0.0.1:{harness.free_ports(1)[0]}"
        with harness.running([
                program, f"--config.file={config}",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={address}", "--log.level=error"]):
            yield Prometheus(address)


@contextlib.contextmanager
def load(topk, target):
    """Loads a server with `topk bench` until the end of a with block."""
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(harness.running(
                [topk, "bench", "--target", target, "--k", "10", "--keep-going",
                 "--duration", "600", "--max-attempts", "1", *flags],
                stdout=subprocess.DEVNULL)) for flags in LOADS]
        yield
        assert all(process.poll() is None for process in processes)


def run(*command, **how):
    """Runs promtool, which must succeed without output on stderr."""
    done = subprocess.run(command, capture_output=True, check=False, **how)
    assert done.returncode == 0 and not done.stderr, done


def fire_alerts(promtool):
    """Fires the alerts. Returns their names."""
    with tempfile.TemporaryDirectory() as folder:
        # Arrange the files as Compose mounts them.
        for file in (ROOT / "deploy/prometheus/prometheus.yml", RULES):
            shutil.copy(file, folder)
        run(promtool, "check", "config", f"{folder}/prometheus.yml")
    run(promtool, "test", "rules", TESTS)
    fire_release_alerts(promtool)
    alerts = set(re.findall(r"- alert: (\w+)", RULES.read_text("utf-8")))
    fired = set(re.findall(r"'{alertname=\"(\w+)\"",
                           TESTS.read_text("utf-8")))
    assert alerts and alerts == fired, alerts ^ fired
    return alerts


def fire_release_alerts(promtool):
    """Fires the alerts with the selectors that the Helm chart writes for three
    releases."""
    rules = RULES.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for namespace, name in (("a", "topkd"), ("a", "other"), ("b", "topkd")):
            pathlib.Path(folder, f"{namespace}-{name}.yml").write_text(
                rules.replace('job="topkd"',
                              f'job="topkd",namespace="{namespace}",'
                              f'service="{name}-headless"'), encoding="utf-8")
        run(promtool, "test", "rules", shutil.copy(RELEASE_TESTS, folder))


def dashboard(job, namespace, pod):
    """Yields (title, expression) of each query, with variables filled in."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            metrics = re.findall(r"\b(?:topk|process|grpc_server)_\w+",
                                 expression)
            assert metrics and len(metrics) == expression.count(
                "{" + MATCHERS), expression
            for variable, value in (("$__rate_interval", "5s"), ("$job", job),
                                    ("$namespace", namespace), ("$pod", pod),
                                    ("$instance", ".*")):
                expression = expression.replace(variable, value)
            assert "$" not in expression, expression
            yield panel["title"], expression


def page_example():
    return re.search(r"^```promql\n(.*?)^```$",
                     TELEMETRY.read_text(encoding="utf-8"), re.M | re.S)[1]


def scaling_query():
    """Returns the adapter's query, filled in as the adapter would."""
    text = ADAPTER.read_text(encoding="utf-8")
    query = re.search(r"metricsQuery: >-\n((?: {8,}.*\n)+)", text)[1]
    return " ".join(query.split()).replace(
        "<<.LabelMatchers>>", 'namespace="default",pod=~"topkd-0"').replace(
        "<<.GroupBy>>", "pod")


def main():
    topkd, topk, program, promtool = sys.argv[1:]
    for tool in (program, promtool):
        if not os.access(tool, os.X_OK):
            sys.exit(f"{tool} is missing: tests/run.sh fetches it, or "
                     "configure with -DTOPK_PROMETHEUS=OFF")
    alerts = fire_alerts(promtool)
    with harness.Server(topkd, "--metrics-listen", "127.0.0.1:0",
                        "--max-inflight-bytes", "8MiB") as server:
        call = [topk, "run", str(DATA), "--k", "3", "--target", server.target]
        for _ in range(5):
            subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
        refused = subprocess.run(call + ["--axis", "9"], check=False,
                                 stderr=subprocess.DEVNULL)
        assert refused.returncode == 4, refused
        run(promtool, "check", "metrics", input=server.metrics(), text=True)
        with prometheus(program, server.addresses["metrics"]) as watcher:
            calls = ('grpc_server_handled_total{job="plain",'
                     'grpc_method="StreamTopK",')
            for expression, expected in (
                    ("sum(up)", 3), ('topk_ready{job="plain"}', 1),
                    (calls + 'grpc_code="OK"}', 5),
                    (calls + 'grpc_code="InvalidArgument"}', 1),
                    ('sum(topk_requests_total{job="plain"})', 6),
                    ('sum(topk_compute_seconds_count{job="plain"})', 5)):
                watcher.await_value(expression, expected)
            assert watcher.alerts() == alerts, watcher.alerts()
            with load(topk, server.target):
                queries = [("the metrics page", page_example()),
                           *dashboard("topkd", "default", "topkd-0"),
                           *dashboard("plain", ".*", ".*")]
                assert len(queries) > 40, queries
                for title, expression in queries:
                    harness.poll(f"data of {title}: {expression}",
                                 lambda e=expression: watcher.series(e))
                harness.poll("rejections", lambda: any(
                    value for _, value in
                    watcher.series("sum(topk_rejected_total)")))
                # Only the pods of the release that is scaled, even if another
                # release is in the same namespace.
                harness.poll("data for the autoscaler", lambda: [
                    (labels, 0 <= value <= 1) for labels, value in
                    watcher.series(scaling_query())] ==
                    [({"pod": "topkd-0"}, True)])
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
