"""A real Prometheus scrapes a real topkd.

usage: prometheus_test.py TOPKD TOPK PROMETHEUS PROMTOOL

Has promtool check the configuration and the alerts of deploy/prometheus, and
fire each alert by alerts_test.yml. Calls the server with topk, requires that
`promtool check metrics` accepts its exposition, and the reference parser its
OpenMetrics, checks the PromQL examples of the metrics page, lets Prometheus
scrape the server, and queries the results and the exemplar of a traced call.
"""

import concurrent.futures
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import urllib.request

import grpc
import harness
import prometheus_api
import prometheus_client.openmetrics.parser
import prometheus_client.parser

TELEMETRY = prometheus_api.ROOT / "server/telemetry/README.md"
DATA = prometheus_api.ROOT / "deploy/data/digits_similarity.npy"
COPY = (prometheus_api.ROOT / "deploy/kubernetes/kustomize/components"
        / "monitoring/prometheusrule.yaml")


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
    copy = textwrap.indent(rules, "  ")
    assert COPY.read_text(encoding="utf-8").endswith("\nspec:\n" + copy), (
        f"{COPY} is not what it says that it was made of")
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


@contextlib.contextmanager
def collector():
    """Accepts all spans; yields its URL."""
    def accept(_request, _context):
        return b""

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
        "opentelemetry.proto.collector.trace.v1.TraceService",
        {"Export": grpc.unary_unary_rpc_method_handler(accept)}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def scrape(metrics, accept):
    """Returns an exposition, and its content type."""
    request = urllib.request.Request(f"http://{metrics}/metrics",
                                     headers={"Accept": accept})
    with urllib.request.urlopen(request) as answer:
        return answer.read(), answer.headers["Content-Type"]


def check_formats(metrics, trace):
    """Parses both formats, compares their series, and finds the exemplars of a
    trace in one of them."""
    def series(families):
        # Both have the same bounds as numbers.
        return {(sample.name, frozenset(
            (name, float(value) if name == "le" else value)
            for name, value in sample.labels.items()))
                for family in families for sample in family.samples}

    text, content_type = scrape(metrics, "text/plain")
    assert content_type == "text/plain; charset=utf-8", content_type
    open_text, content_type = scrape(
        metrics, "application/openmetrics-text; version=1.0.0")
    assert content_type == ("application/openmetrics-text; version=1.0.0; "
                            "charset=utf-8"), content_type
    families = list(
        prometheus_client.openmetrics.parser.text_string_to_metric_families(
            open_text.decode()))
    assert series(families) == series(
        prometheus_client.parser.text_string_to_metric_families(text.decode()))
    assert {family.type for family in families} == {
        "counter", "gauge", "histogram"}
    found = {family.name: sample.exemplar for family in families
             for sample in family.samples if sample.exemplar}
    assert set(found) == {
        "grpc_server_handling_seconds", "topk_stage_seconds",
        "topk_request_seconds", "topk_compute_seconds"}, found
    assert {one.labels["trace_id"] for one in found.values()} == {trace}, found


def main():
    topkd, topk, prometheus, promtool = sys.argv[1:]
    prometheus_api.need(prometheus, promtool)
    alerts = check_rules(promtool)
    with collector() as url, harness.Server(
            topkd, "--metrics-listen", "127.0.0.1:0", "--otlp-endpoint", url,
            environment={"OTEL_TRACES_SAMPLER": "parentbased_always_off"},
    ) as server:
        run = [topk, "run", str(DATA), "--k", "3", "--stream", "off",
               "--target", server.target]
        for _ in range(5):
            subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        refused = subprocess.run(run + ["--axis", "9"], check=False,
                                 stderr=subprocess.DEVNULL)
        assert refused.returncode == 4, refused
        traced = subprocess.run(run + ["--trace"], check=True, text=True,
                                capture_output=True)
        trace = re.search(r"trace (\w{32})\n", traced.stderr)[1]

        metrics = server.addresses["metrics"]
        exposition, _ = scrape(metrics, "text/plain")
        check = subprocess.run([promtool, "check", "metrics"],
                               input=exposition, capture_output=True,
                               check=False)
        assert check.returncode == 0 and not check.stdout + check.stderr, check
        check_examples(promtool, exposition)
        check_formats(metrics, trace)

        with prometheus_api.Prometheus(prometheus, metrics) as watcher:
            harness.poll("the target to be up",
                         lambda: watcher.value("up") == 1)
            for expression, expected in (
                ('grpc_server_handled_total{grpc_method="ComputeTopK",'
                 'grpc_code="OK"}', 6),
                ('grpc_server_handled_total{grpc_method="ComputeTopK",'
                 'grpc_code="InvalidArgument"}', 1),
                ('sum(topk_requests_total)', 7),
                ('sum(topk_compute_seconds_count)', 6),
                ('topk_ready', 1),
            ):
                harness.poll(f"{expression} == {expected}",
                             lambda e=expression, x=expected:
                             watcher.value(e) == x)
            assert set(watcher.alerts()) == alerts, watcher.alerts()
            # The other calls were not sampled.
            for query in (
                "topk_stage_seconds_bucket",
                # As Grafana asks with the query of a panel.
                "histogram_quantile(0.99, sum by (le) (rate("
                "grpc_server_handling_seconds_bucket[5m])))",
            ):
                found = harness.poll(f"exemplars of {query}",
                                     lambda q=query: watcher.exemplars(q))
                traces = {exemplar["labels"]["trace_id"]
                          for _, exemplars in found for exemplar in exemplars}
                assert traces == {trace}, found
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
