"""Runs topkd with the image's environment and TLS. The image's health check
must pass without further variables, and fail once the server has stopped.

usage: healthcheck_test.py TOPKD TOPK
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import harness

DOCKERFILE = pathlib.Path(__file__).resolve().parents[3] / "Dockerfile"


def main():
    topkd, topk = sys.argv[1:]
    text = DOCKERFILE.read_text("utf-8").replace("\\\n", "")
    variables = dict(re.findall(r"\b(TOPKD?_\w+)=(\S+)",
                                re.search(r"(?m)^ENV .*", text)[0]))
    check = json.loads(re.search(r"(?m)^HEALTHCHECK .*?CMD (.*)", text)[1])
    assert check.pop(0) == "/usr/bin/topk", check
    # Use free ports of this machine instead of the image's.
    listen = {name: value.rpartition(":")[2]
              for name, value in variables.items() if "LISTEN" in name}
    here = dict(zip(listen.values(), map(str, harness.free_ports(len(listen)))))
    listen = {name: f"127.0.0.1:{here[port]}" for name, port in listen.items()}
    host, _, port = check.pop().rpartition(":")
    check.append(f"{host}:{here[port]}")
    with tempfile.TemporaryDirectory() as folder:
        harness.make_certificate(folder)
        with harness.Server(
                topkd, "--tls-cert", f"{folder}/tls.crt", "--tls-key",
                f"{folder}/tls.key", listen=listen.pop("TOPKD_LISTEN"),
                environment={**variables, **listen,
                             "TOPKD_DRAIN_DELAY": "0"}):
            assert harness.run(topk, *check) == "SERVING\n"
    assert subprocess.run([topk, *check], check=False,
                          capture_output=True).returncode != 0
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
