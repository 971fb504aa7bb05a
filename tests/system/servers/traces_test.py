"""Spans of topkd in a real OpenTelemetry Collector.

usage: traces_test.py TOPKD TOPK COLLECTOR DATA
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import harness

SKIPPED = 77  # ctest's SKIP_RETURN_CODE
SPAN = re.compile(
    r"Trace ID +: (\w+)\n +Parent ID +: (\w*)\n +ID +: (\w+)\n +Name +: (.+)\n"
    r"(?: +TraceState +: .*\n)? +Kind +: (\w+)\n")


def collector_config(port):
    return json.dumps({
        "receivers": {"otlp": {"protocols": {
            "grpc": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"debug": {"verbosity": "detailed"}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {
                "receivers": ["otlp"], "exporters": ["debug"]}}}})


def run(topk, target, data, *flags):
    """Asks with --trace; returns the trace's id."""
    done = subprocess.run(
        [topk, "run", "--target", target, data, "--k", "2", "--trace", *flags],
        capture_output=True, text=True, check=True)
    return re.fullmatch(r"trace (\w{32})\n", done.stderr)[1]


def spans(log, trace):
    """Returns what the collector received of a trace."""
    return [span[1:] for span in SPAN.findall(log.read_text("utf-8"))
            if span[0] == trace]


def main():
    topkd, topk, collector, data = sys.argv[1:]
    if not os.access(collector, os.X_OK):
        print(f"SKIPPED: there is no {collector}; see "
              "tests/system/servers/collector.yaml")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as directory:
        port, = harness.free_ports(1)
        config = pathlib.Path(directory) / "collector.json"
        config.write_text(collector_config(port), "utf-8")
        log = pathlib.Path(directory) / "collector.log"
        with log.open("wb") as output:
            receiver = subprocess.Popen(
                [collector, "--config", config], stderr=output)
        server = harness.Server(topkd, environment={
            "OTEL_SERVICE_NAME": "topkd of a test",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_TRACES_SAMPLER": "parentbased_always_off"})
        try:
            harness.poll("the collector",
                         lambda: "Everything is ready" in log.read_text())
            traces = [run(topk, server.target, data, "--stream", stream)
                      for stream in ("on", "off")]
            subprocess.run([topk, "run", "--target", server.target, data,
                            "--k", "2"], check=True, capture_output=True)
            server.stop()
            for trace, method in zip(traces, ("StreamTopK", "ComputeTopK")):
                def received(trace=trace, method=method):
                    found = [s for s in spans(log, trace)
                             if s[2] == f"topk.v1.TopKService/{method}"]
                    return found and found[0]
                parent, call, _, kind = harness.poll("its span", received)
                assert parent and kind == "Server", (parent, kind)
                stages = {name for above, _, name, _ in spans(log, trace)
                          if above == call}
                assert stages == {"queue", "decode", "compute", "encode"}, (
                    stages)
            text = log.read_text("utf-8")
            assert "service.name: Str(topkd of a test)" in text
            received = {span[0] for span in SPAN.findall(text)}
            assert received == set(traces), "a call without a parent"
            print("ok    spans with their parents")
        finally:
            server.kill()
            receiver.send_signal(signal.SIGTERM)
            receiver.wait()


if __name__ == "__main__":
    main()
