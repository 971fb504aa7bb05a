"""Kills one of three servers and drains another under load, in which no call
may fail. Clients reach the servers by client-side load balancing, or through
Envoy with the configuration in deploy/. ../soak does the same behind HAProxy.

usage: fronts_test.py TOPKD TOPK client | envoy ENVOY PROTOSET
"""

import contextlib
import json
import re
import signal
import subprocess
import sys

import harness

# Longer than a balancer needs to notice the drain.
DELAY = ("--drain-delay", "3s")
ANSWERED = re.compile(
    r'^grpc_server_handled_total\{grpc_code="OK",grpc_method="\w*TopK\w*",'
    r'grpc_service="topk.v1.TopKService".*\} (\d+)$', re.MULTILINE)
MIN_ANSWERS = 30  # shows that a server gets a share of the load


def answered(server):
    """Returns the number of successful TopK calls since the start."""
    return sum(map(int, ANSWERED.findall(server.metrics())))


@contextlib.contextmanager
def three_servers(topkd, *flags):
    """Yields three servers, which are killed at the end."""
    with contextlib.ExitStack() as stack:
        replicas = []
        for port in harness.free_ports(3):
            replicas.append(harness.Server(
                topkd, "--metrics-listen", "127.0.0.1:0", *flags,
                listen=f"127.0.0.1:{port}"))
            stack.callback(replicas[-1].kill)
        yield replicas


def check(load):
    """Checks that a load, which ends at its first failed call, is running."""
    if load.poll() is not None:
        raise AssertionError(f"{load.args} ended with {load.returncode}: "
                             f"{load.stderr.read()}")


def end(load):
    """Ends a load. Returns the number of its requests."""
    check(load)
    load.send_signal(signal.SIGINT)
    out, err = load.communicate(timeout=60)
    # `topk bench` exits with 130 if it was interrupted and no call failed.
    if load.returncode not in (0, 130) or not out:
        raise AssertionError(f"{load.args} failed: {err}")
    return json.loads(out)["requests"]


def bench(topk, target, path, attempts=4):
    """Returns a `topk bench` command that verifies all responses. Its streams
    have several messages in flight when a connection breaks."""
    shape = {"unary": "4,1000", "stream": "1,1000000", "many": "1,100000"}[path]
    return [topk, "bench", "--target", target, "--k", "10", "--json", "--path",
            path, "--shape", shape, "--concurrency", "4", "--warmup", "0",
            "--duration", "600", "--max-attempts", str(attempts)]


def await_answers(replicas, loads, count=MIN_ANSWERS):
    """Waits until each replica has served `count` more calls. Returns the
    number of additional calls per replica."""
    before = [answered(replica) for replica in replicas]

    def more():
        for load in loads:
            check(load)
        now = [answered(r) - b for r, b in zip(replicas, before)]
        return now if min(now) >= count else None
    return harness.poll("every server's part of the load", more)


@contextlib.contextmanager
def running_loads(commands, replicas):
    """Starts loads on the replicas, each after the previous load has received
    responses. Kills the loads at the end."""
    with contextlib.ExitStack() as stack:
        loads = []
        for command in commands:
            loads.append(stack.enter_context(harness.running(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True)))
            await_answers(replicas, loads)
        yield loads


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
        requests = sum(end(load) for load in loads)
    print(f"ok    {name}: {requests} calls, none lost; the servers' parts "
          f"were {parts}", flush=True)
    return parts


def by_clients(topkd, topk):
    with three_servers(topkd) as replicas:
        target = ",".join(replica.target for replica in replicas)
        parts = kill_and_drain("client-side round robin", replicas, [
            bench(topk, target, path) for path in ("unary", "stream", "many")])
        # Each server has answered a similar number of calls.
        assert max(parts) < 1.5 * min(parts), parts


def by_envoy(topkd, topk, program, protoset):
    harness.skip_without(program)
    with three_servers(topkd, *DELAY) as replicas, harness.envoy(
            program, protoset,
            *(replica.target for replica in replicas)) as target:
        harness.await_health(topk, target)
        harness.await_health(topk, f"[::1]:{target.rpartition(':')[2]}")
        # Envoy balances each call, even though all calls of a load share a
        # connection, and retries the calls of a server that has died.
        kill_and_drain("Envoy", replicas, [
            bench(topk, target, "unary", 1),
            *(bench(topk, target, path) for path in ("stream", "many"))])


def main():
    topkd, topk, _, *program = sys.argv[1:]
    if program:
        by_envoy(topkd, topk, *program)
    else:
        by_clients(topkd, topk)


if __name__ == "__main__":
    main()
