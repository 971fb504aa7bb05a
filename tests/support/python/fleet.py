"""Puts three servers under load. No call of the load may fail."""

import contextlib
import json
import pathlib
import re
import signal
import subprocess

import harness

ROOT = pathlib.Path(__file__).resolve().parents[3]

ANSWERED = re.compile(
    r'^grpc_server_handled_total\{grpc_code="OK",grpc_method="\w*TopK\w*",'
    r'grpc_service="topk.v1.TopKService".*\} (\d+)$', re.MULTILINE)
MIN_ANSWERS = 30  # shows that a server gets a share of the load


class Replica(harness.Server):
    """A topkd that can report its number of successful calls."""

    def __init__(self, topkd, listen, *flags):
        super().__init__(topkd, "--metrics-listen", "127.0.0.1:0", *flags,
                         listen=listen)

    def answered(self):
        """Returns the number of successful TopK calls since the start."""
        return sum(map(int, ANSWERED.findall(self.metrics())))


@contextlib.contextmanager
def fleet(topkd, *flags):
    """Yields three replicas, which are killed at the end."""
    with contextlib.ExitStack() as stack:
        replicas = []
        for port in harness.free_ports(3):
            replicas.append(Replica(topkd, f"127.0.0.1:{port}", *flags))
            stack.callback(replicas[-1].kill)
        yield replicas


class Load:
    """A load that ends at its first failed call or wrong answer."""

    def __init__(self, command):
        self.command = command
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def check(self):
        if self.process.poll() is not None:
            raise AssertionError(
                f"{self.command} ended with {self.process.returncode}: "
                f"{self.process.stderr.read()}")

    def end(self):
        """Ends the load. Returns its output."""
        self.check()
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        # `topk bench` exits with 130 if it was interrupted and no call failed.
        if self.process.returncode not in (0, 130) or not out:
            raise AssertionError(f"{self.command} failed: {err}")
        return out


def bench(topk, target, path="unary", *flags):
    """Returns a `topk bench` command that verifies all responses. Its streams
    have several messages in flight when a connection breaks."""
    shape = {"unary": "4,1000", "stream": "1,1000000", "many": "1,100000"}[path]
    return [topk, "bench", "--target", target, "--k", "10", "--json", "--path",
            path, "--shape", shape, "--concurrency", "4", "--warmup", "0",
            "--duration", "600", *(flags if "--max-attempts" in flags else
                                   (*flags, "--max-attempts", "4"))]


def python_load(topkd, target):
    """Returns a command that makes calls with topk_client."""
    return ["/usr/bin/python3", ROOT / "tests/system/servers/python_load.py",
            topkd, target]


def await_answers(replicas, loads, count=MIN_ANSWERS):
    """Waits until each replica has served `count` more calls. Returns the
    number of additional calls per replica."""
    before = [replica.answered() for replica in replicas]

    def more():
        for load in loads:
            load.check()
        now = [r.answered() - b for r, b in zip(replicas, before)]
        return now if min(now) >= count else None
    return harness.poll("every server's part of the load", more)


@contextlib.contextmanager
def running_loads(commands, replicas):
    """Starts loads on the replicas, each after the previous load has received
    responses. Kills the loads at the end."""
    loads = []
    try:
        for command in commands:
            loads.append(Load(command))
            await_answers(replicas, loads)
        yield loads
    finally:
        for load in loads:
            load.process.kill()
            load.process.communicate()


def end_all(loads):
    """Ends the loads. Returns the total number of (successful) requests."""
    return sum(json.loads(load.end())["requests"] for load in loads)


def kill_and_drain(name, replicas, commands):
    """Under load, kills one replica, drains another and restarts both."""
    a, b, c = replicas
    with running_loads(commands, replicas) as loads:
        parts = await_answers(replicas, loads, 10 * MIN_ANSWERS)
        a.kill()
        await_answers([b, c], loads)
        b.stop()
        await_answers([c], loads)
        a.start()
        b.start()
        await_answers(replicas, loads)
        requests = end_all(loads)
    print(f"ok    {name}: {requests} calls, none lost; the servers' parts "
          f"were {parts}", flush=True)
    return parts
