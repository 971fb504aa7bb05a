"""Calls a server through Envoy with JSON and from a browser.

usage: web_test.py TOPKD TOPK ENVOY PROTOSET
           json | browser CHROMIUM BUNDLE    BUNDLE: of client/examples/web

Runs the curl commands of deploy/envoy/README.md unchanged. Exits with 77 if a
program is missing.
"""

import base64
import functools
import http.client
import http.server
import json
import os
import re
import sys
import tempfile
import threading

import harness

PAGE = harness.ROOT / "deploy/envoy/README.md"
SERVICE = "/topk.v1.TopKService"
SHAPE = {"data_type": "DATA_TYPE_U8", "shape": [4]}
REQUEST = {
    "spec": {"dialect": "DIALECT_ONNX", "version": 11},
    "onnx": {"k": {"value": 2}},
    "tensor": {**SHAPE, "data": "AQkDBw=="},
}
WRONG = {**REQUEST, "onnx": {"k": {"value": 9}}}


def call(target, method, body, path=SERVICE, verb="POST", **headers):
    """Makes a call. Returns the HTTP status, the body and the headers."""
    connection = http.client.HTTPConnection(target, timeout=60)
    connection.request(verb, f"{path}/{method}", body,
                       {"content-type": "application/json", **headers})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    if response.headers["content-type"] == "application/json":
        text = json.loads(text)
    return response.status, text, response.headers


def check_error(error):
    assert error["code"] == 3, error
    info, bad = error["details"]
    assert info["reason"] == "K_EXCEEDS_DIMENSION", info
    assert info["metadata"] == {"field": "onnx.k"}, info
    assert bad["field_violations"][0]["field"] == "onnx.k", bad


def check_json(target):
    one, wrong = json.dumps(REQUEST), json.dumps(WRONG)
    status, response, _ = call(target, "ComputeTopK", one)
    assert (status, response["values"]["data"]) == (200, "CQc="), response
    header = {**WRONG, "tensor": SHAPE}
    for method, body in (("ComputeTopK", wrong),
                         ("StreamTopK", json.dumps([{"header": header}]))):
        status, error, _ = call(target, method, body)
        assert status == 400, (method, status, error)
        check_error(error)
    status, many, _ = call(target, "ComputeTopKMany", f"[{one},{wrong}]")
    assert status == 200, many
    assert many[0]["response"]["values"]["data"] == "CQc=", many
    check_error(many[1]["error"])
    parts = [{"header": {**REQUEST, "tensor": SHAPE}}, {"data": "AQ=="},
             {"data": "CQMH"}]
    status, stream, _ = call(target, "StreamTopK", json.dumps(parts))
    assert (status, stream[0]["header"]["values"]["data"]) == (200, "CQc=")
    # Both messages are longer than Envoy's buffers.
    count = 9 << 20
    status, response, _ = call(target, "ComputeTopK", json.dumps({
        **REQUEST, "onnx": {"k": {"value": 1 << 20}},
        "tensor": {"data_type": "DATA_TYPE_U8", "shape": [count],
                   "data": "AAAA" * (3 << 20)}}))
    assert status == 200, (status, response[:500])
    assert len(base64.b64decode(response["indices"]["data"])) == 8 << 20
    status, text, _ = call(target, "ServerLive", "{}",
                           "/inference.GRPCInferenceService")
    assert status == 404, (status, text)
    print("ok    JSON: results, streams, and errors with their details")


def check_origins(target):
    """Checks that only pages from the configured origins may call."""
    for origin, wanted in (("http://localhost:8000",) * 2,
                           ("https://evil.example", None),
                           ("http://localhost.evil.example", None)):
        _, _, headers = call(
            target, "ComputeTopK", None, verb="OPTIONS", origin=origin,
            **{"access-control-request-method": "POST"})
        got = headers["access-control-allow-origin"]
        assert got == wanted, (origin, got)
    print("ok    cross-origin requests: only from the configured origins")


def check_page(target):
    """Runs the page's commands that call Envoy."""
    ran = 0
    for block in harness.BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if "curl" not in block["commands"]:
            continue
        wrong = harness.run_block(
            block["commands"].replace("localhost:50050", target),
            block["text"], harness.ROOT, os.environ)
        assert wrong is None, wrong
        ran += 1
    assert ran, f"{PAGE} has no command with curl"
    print(f"ok    {ran} blocks of {PAGE.name}")


def check_browser(target, chromium, bundle):
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(
        http.server.SimpleHTTPRequestHandler,
        directory=os.path.dirname(bundle)))
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        page = harness.run(
            chromium, "--headless", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--no-first-run",
            f"--user-data-dir={profile}", "--virtual-time-budget=20000",
            "--dump-dom", f"http://127.0.0.1:{pages.server_port}/index.html"
            f"?server=http://{target}")
    lines = re.findall("<p>(.*?)</p>", page)
    assert lines == ["values 9,7, indices 1,3",
                     "InvalidArgument: K_EXCEEDS_DIMENSION in onnx.k"], page
    print("ok    a page in Chromium, over gRPC-Web:", *lines, sep="\n      ")


def main():
    topkd, topk, program, protoset, what, *more = sys.argv[1:]
    harness.skip_without(program, *more)
    with harness.Server(topkd) as server, harness.envoy(
            program, protoset, server.target) as target:
        harness.await_health(topk, target)
        if what == "browser":
            check_browser(target, *more)
        else:
            check_json(target)
            check_origins(target)
            check_page(target)


if __name__ == "__main__":
    main()
