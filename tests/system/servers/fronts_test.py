"""Kills one of three servers and drains another under load, in which no call
may fail. Clients reach the servers by client-side load balancing, or through a
proxy with the configuration in deploy/.

usage: fronts_test.py TOPKD TOPK
           client | haproxy HAPROXY | envoy ENVOY PROTOSET
"""

import contextlib
import queue
import signal
import sys

import numpy as np

import client_package  # makes topk_client importable
import envoys
import fleet
import h2
import harness
import topk_client

# Longer than a balancer needs to notice the drain.
DELAY = ("--drain-delay", "3s")


@contextlib.contextmanager
def haproxy(program, replicas):
    """Runs HAProxy in front of the servers. Yields HAProxy's address."""
    addresses = (replica.target for replica in replicas)
    with harness.haproxy(program, *addresses) as (address, _):
        yield address


def envoy(program, protoset, replicas):
    """Runs Envoy in front of the servers. Yields Envoy's address."""
    return envoys.envoy(program, protoset,
                        *(replica.target for replica in replicas))


def by_clients(topkd, topk):
    with fleet.fleet(topkd) as replicas:
        target = ",".join(replica.target for replica in replicas)
        parts = fleet.kill_and_drain("client-side round robin", replicas, [
            fleet.python_load(topkd, target),
            *(fleet.bench(topk, target, path)
              for path in ("unary", "stream", "many"))])
        # Each server has answered a similar number of calls.
        assert max(parts) < 1.5 * min(parts), parts


def by_proxy(topkd, topk, front, program, *more):
    harness.skip_without(program)
    with fleet.fleet(topkd, *DELAY) as replicas, front(
            program, *more, replicas) as target:
        envoys.await_health(topk, target)
        if front is envoy:  # which also accepts IPv6 connections
            envoys.await_health(topk, f"[::1]:{target.rpartition(':')[2]}")
        # The proxy balances each call, even though all calls of a load share a
        # connection. Envoy retries the calls of a server that has died; behind
        # HAProxy, the client must retry.
        once = ["--max-attempts", "1"] if front is envoy else []
        fleet.kill_and_drain(front.__name__, replicas, [
            fleet.bench(topk, target, "unary", *once),
            *(fleet.bench(topk, target, path)
              for path in ("stream", "many"))])
        finishes_call(target, replicas)
        if front is haproxy:
            answers_other_requests(target)
            harness.run(topk, "bench", "--target", target, "--path", "stream",
                        "--shape", "1,67108864", "--k", 5, "--requests", 1)


def finishes_call(target, replicas):
    """Checks that a call on a draining server can continue while the proxy
    sends new calls to other servers."""
    requests = queue.SimpleQueue()
    with topk_client.Client(target, retry=None) as client:
        answers = client.compute_topk_many(iter(requests.get, None))

        def succeeds():
            requests.put(topk_client.Request(np.arange(5.0),
                                             topk_client.Onnx(k=1)))
            answer = next(answers)
            assert not isinstance(answer, Exception), answer
            assert answer.indices[0] == 4, answer
        succeeds()
        server, = (replica for replica in replicas
                   if "\ntopk_inflight_calls 1\n" in replica.metrics())
        server.process.send_signal(signal.SIGTERM)
        harness.poll("the server to refuse connections",
                     lambda: not harness.serves(server.target))
        for _ in range(10):
            client.topk(np.arange(5.0), 1)
        succeeds()
        assert server.is_alive()
        requests.put(None)
        assert next(answers, None) is None
    assert server.process.wait(timeout=30) == 0
    server.start()
    print("ok    a call on a draining server continues")


def answers_other_requests(target):
    """Checks that HAProxy itself rejects requests that are not gRPC."""
    for changed, status in (({"method": "GET"}, b"405"),
                            ({"content_type": "text/html"}, b"415")):
        with h2.Connection(target) as client:
            client.send(h2.call(1, h2.fields(**changed), end_stream=True))
            assert status in client.answer(1)[0]


def main():
    topkd = client_package.TOPKD
    topk, front, *program = sys.argv[1:]
    if front == "client":
        by_clients(topkd, topk)
    else:
        by_proxy(topkd, topk, {"haproxy": haproxy, "envoy": envoy}[front],
                 *program)


if __name__ == "__main__":
    main()
