"""A Prometheus that scrapes a topkd of a test, and what deploy/ asks it."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

import harness

ROOT = pathlib.Path(__file__).resolve().parents[3]
DASHBOARD = ROOT / "deploy/grafana/topkd.json"
RULES = ROOT / "deploy/prometheus/alerts.yml"
# The labels are those that Kubernetes' service discovery adds.
CONFIG = """
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["%s"]
scrape_configs:
  - job_name: topkd
    static_configs:
      - targets: ["%s"]
        labels: {namespace: default, pod: topkd-0}
"""


def need(*tools):
    """Ends the test if a tool is missing."""
    for tool in tools:
        if not os.access(tool, os.X_OK):
            sys.exit(f"{tool} is missing: tests/run.sh fetches it, or "
                     "configure with -DTOPK_PROMETHEUS=OFF")


class Prometheus:
    """A Prometheus on a free loopback port that scrapes one address each
    second, with the alerts of deploy/, stopped at the end of a with block."""

    def __init__(self, prometheus, metrics):
        self._folder = tempfile.TemporaryDirectory()
        config = pathlib.Path(self._folder.name) / "prometheus.yml"
        config.write_text(CONFIG % (RULES, metrics), encoding="utf-8")
        self._address = f"127.0.0.1:{harness.free_ports(1)[0]}"
        self._process = subprocess.Popen(
            [prometheus, f"--config.file={config}",
             f"--storage.tsdb.path={self._folder.name}/data",
             f"--web.listen-address={self._address}", "--log.level=error"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(timeout=30)
        self._folder.cleanup()

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
        """Returns [(labels, value)] of an expression now."""
        result = self._ask("query", query=expression).get("result", [])
        return [(one["metric"], float(one["value"][1])) for one in result]

    def value(self, expression):
        """Returns the value of the only series of an expression, or None."""
        found = self.series(expression)
        return found[0][1] if found else None

    def range(self, expression, start, end, step):
        """Returns [(labels, [(time, value)])] of an expression."""
        result = self._ask("query_range", query=expression, start=start,
                           end=end, step=step).get("result", [])
        return [(one["metric"],
                 [(float(at), float(value)) for at, value in one["values"]])
                for one in result]

    def alerts(self):
        """Returns the names of the rules that it has."""
        groups = self._ask("rules").get("groups", [])
        return [rule["name"] for group in groups for rule in group["rules"]]


def dashboard(rate_interval):
    """Yields (panel, [(expression, legend)]) of the dashboard, with Grafana's
    variables filled in as Grafana would."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        targets = []
        for target in panel["targets"]:
            expression = target["expr"]
            for variable, value in (("$__rate_interval", rate_interval),
                                    ("$job", "topkd"), ("$instance", ".*")):
                expression = expression.replace(variable, value)
            assert "$" not in expression, expression
            targets.append((expression, target["legendFormat"]))
        yield panel, targets


def legend(form, labels):
    """Returns a legend with its labels filled in."""
    return re.sub(r"\{\{(\w+)\}\}", lambda m: labels.get(m[1], ""), form)
