"""Drives topk_bench, which runs our kernels in a separate process, so that they
share no library with others."""

import json
import pathlib
import subprocess

CASES = pathlib.Path(__file__).with_name("workloads.cases")


def workloads():
    """Returns {name: line} of workloads.cases."""
    return {line.split("|")[0].strip(): line
            for line in CASES.read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")}


class Kernels:
    def __init__(self, program, threads):
        # Versions of topk_bench that compare.py builds may need --worker.
        self._process = subprocess.Popen(
            [program, "--worker", f"--threads={threads}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **order):
        """Sends a command. topk_bench.cc describes the commands."""
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def time(self, what, seconds, runs):
        """Times a command. Returns (min. microseconds, runs)."""
        done = self.ask(do=what, seconds=seconds, runs=runs)
        return done["min_us"], done["runs"]

    def close(self):
        self._process.communicate()
