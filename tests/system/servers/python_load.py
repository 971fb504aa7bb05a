"""Calls servers with topk_client until SIGINT or the first failure, and checks
each answer. At the end, prints the number of requests as JSON.

usage: python_load.py TOPKD TARGET
"""

import json
import signal
import sys

import numpy as np

import client_package  # noqa: F401, makes topk_client importable
import topk_client


def main():
    ended = []
    signal.signal(signal.SIGINT, lambda *_: ended.append(True))
    scores = np.random.default_rng(1).random((4, 1000), np.float32)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    requests = 0
    with topk_client.Client(sys.argv[1]) as client:
        while not ended:
            answer = client.compute_topk(scores, topk_client.Onnx(k=10),
                                         stream=requests % 4 == 0)
            if not np.array_equal(answer.indices, best):
                sys.exit("a wrong answer")
            requests += 1
    print(json.dumps({"requests": requests}))


if __name__ == "__main__":
    main()
