"""Calls the Open Inference Protocol and compares every result with NumPy's.
Retries after each retry delay until the time is over. Prints the counts as
JSON.

usage: oip_caller.py --target HOST:PORT [--seconds 60] [--callers 4] [--seed 1]
"""

import argparse
import collections
import json
import sys
import threading
import time

import grpc
import numpy as np

import topk_stubs

TYPES = {"FP32": np.float32, "FP16": np.float16, "INT64": np.int64,
         "INT32": np.int32, "UINT8": np.uint8}
DEADLINE = 20  # seconds that a question may take, with all its attempts
PAUSE = 0.05
COME_AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


class Question:
    """A random tensor, its message, and the bytes of its answer."""

    def __init__(self, rng, pb2):
        name = rng.choice(list(TYPES))
        shape = (int(rng.integers(1, 9)), int(rng.integers(1, 20000)))
        k = int(rng.integers(1, min(100, shape[1]) + 1))
        # Few values: most are there more than once.
        x = rng.integers(0, 100, shape).astype(TYPES[name])
        order = np.argsort(-x.astype(np.int64), axis=1, kind="stable")[:, :k]
        self.answer = [np.take_along_axis(x, order, 1).tobytes(),
                       order.astype("<i8").tobytes()]
        self.message = pb2.ModelInferRequest(
            model_name="onnx_topk", raw_input_contents=[x.tobytes()],
            inputs=[{"name": "X", "datatype": name, "shape": shape}])
        self.message.parameters["k"].int64_param = k


class Caller:
    """Asks one question after the other."""

    def __init__(self, target, questions, rpc):
        self.counts = collections.Counter()
        self.lost = collections.Counter()
        self.told = collections.Counter()
        self._questions = questions
        self._stub = rpc.GRPCInferenceServiceStub(grpc.insecure_channel(
            target, [("grpc.use_local_subchannel_pool", 1)]))

    def ask_until(self, end, seed):
        rng = np.random.default_rng(seed)
        while time.monotonic() < end:
            question = self._questions[rng.integers(len(self._questions))]
            self._ask(question, time.monotonic() + DEADLINE)
            time.sleep(PAUSE)

    def _ask(self, question, deadline):
        pause = PAUSE
        while True:
            try:
                answer = self._stub.ModelInfer(
                    question.message, timeout=deadline - time.monotonic())
            except grpc.RpcError as error:
                code = error.code()
                if code in COME_AGAIN and (
                        time.monotonic() + pause < deadline):
                    self.told[code.name] += 1
                    time.sleep(pause)
                    pause = min(1, 2 * pause)
                    continue
                self.lost[f"{code.name}: {error.details()}"] += 1
                return
            self.counts["requests"] += 1
            if list(answer.raw_output_contents) != question.answer:
                self.counts["wrong"] += 1
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    messages, rpc = topk_stubs.load_oip_stubs()
    rng = np.random.default_rng(options.seed)
    questions = [Question(rng, messages) for _ in range(100)]
    callers = [Caller(options.target, questions, rpc)
               for _ in range(options.callers)]
    end = time.monotonic() + options.seconds
    threads = [threading.Thread(target=caller.ask_until, args=(end, i))
               for i, caller in enumerate(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = {name: sum((getattr(caller, name) for caller in callers),
                       collections.Counter())
             for name in ("counts", "lost", "told")}
    json.dump({"requests": total["counts"]["requests"],
               "wrong": total["counts"]["wrong"], "lost": total["lost"],
               "told_to_come_again": total["told"]}, sys.stdout)


if __name__ == "__main__":
    main()
