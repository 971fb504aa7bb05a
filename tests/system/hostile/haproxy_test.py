"""Well-behaved clients through HAProxy, as deploy/haproxy/haproxy.cfg has it.

usage: haproxy_test.py TOPKD TOPK HAPROXY

Hostile ones: hostile_test.py --haproxy.
"""

import os
import pathlib
import subprocess
import sys

import h2
import harness

ROOT = pathlib.Path(__file__).resolve().parents[3]
SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def main():
    topkd, topk, haproxy = sys.argv[1:]
    if not os.access(haproxy, os.X_OK):
        print(f"{haproxy} is missing: skipped. tests/run.sh installs it.")
        sys.exit(SKIPPED)
    subprocess.run([haproxy, "-c", "-f", ROOT / "deploy/haproxy/haproxy.cfg"],
                   check=True)
    with harness.AttackedServer(topkd) as server, harness.haproxy(
            haproxy, server.target) as (address, _):
        def run(*words):
            subprocess.run([topk, *words, "--target", address], check=True,
                           stdout=subprocess.DEVNULL, timeout=100)
        run("health")
        run("run", str(ROOT / "deploy/data/digits_similarity.npy"), "--k", "3")
        run("bench", "--path", "many", "--shape", "1,1000", "--k", "5",
            "--requests", "32")
        # 256 MiB of f32 in pieces.
        run("bench", "--path", "stream", "--shape", "1,67108864", "--k", "5",
            "--requests", "1")
        with h2.Connection(address) as client:
            path = "/topk.v1.TopKService/GetCapabilities"
            client.send(h2.call(1, h2.fields(path=path)) + h2.data(
                1, h2.message(b""), end_stream=True))
            assert b"ONNX TopK-1" in client.answer(1)[1]
        # Not gRPC: HAProxy answers itself.
        for changed, status in (({"method": "GET"}, b"405"),
                                ({"content_type": "text/html"}, b"415")):
            with h2.Connection(address) as client:
                client.send(h2.call(1, h2.fields(**changed), end_stream=True))
                assert status in client.answer(1)[0]
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
