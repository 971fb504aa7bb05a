"""Tests HAProxy's limits, stop, addresses and certificate, with the
configuration in deploy/.

usage: haproxy_test.py TOPKD TOPK HAPROXY
"""

import contextlib
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.request

import numpy as np

import chart_test
import client_package  # makes topk_client importable
import fleet
import h2
import harness
import topk_client

FILES = fleet.ROOT / "deploy/kubernetes/helm/topkd/files"
OTHER = "127.0.0.9"  # another client


@contextlib.contextmanager
def haproxy(program, **environment):
    """Runs HAProxy with variables TOPK_... Yields its port and its process."""
    port, status = harness.free_ports(2)
    variables = {"TOPK_LISTEN": f"127.0.0.1:{port}",
                 "TOPK_STATUS_LISTEN": f"127.0.0.1:{status}"}
    for name, value in environment.items():
        variables[f"TOPK_{name}"] = str(value).replace("PORT", str(port))

    def is_ready():
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{status}/ready")
        return None
    with harness.running(
            [program, "-db", "-f", FILES / "haproxy.cfg"],
            stderr=subprocess.DEVNULL,
            env={**os.environ, **variables}) as process:
        harness.poll("HAProxy to be ready", is_ready)
        yield port, process


def error_of(client, size, stream=False):
    """Makes a call. Returns the error, or None."""
    try:
        client.compute_topk(np.zeros(size), topk_client.Onnx(k=1),
                            stream=stream)
    except topk_client.TopKError as error:
        return error
    return None


def limits_calls(topk, program, server):
    with haproxy(program, SERVER_1=server.target, CALL_RATE=3) as (port, _):
        target = f"127.0.0.1:{port}"
        with topk_client.Client(target, max_attempts=1) as once:
            for _ in range(3):
                assert error_of(once, 4) is None
            for size, stream in ((4, False), (4, True), (1 << 20, False)):
                error = error_of(once, size, stream)
                assert error.code.name == "RESOURCE_EXHAUSTED", error
            # Small requests get an error message and a retry delay.
            error = error_of(once, 4)
            assert "TOPK_CALL_RATE" in str(error), error
            assert error.retry_delay == 1, error
        assert harness.serves(target, source=OTHER)

        def info(attempts):
            return subprocess.run(
                [topk, "info", "--target", target,
                 "--max-attempts", str(attempts)], capture_output=True,
                check=False, text=True)
        assert "TOPK_CALL_RATE" in info(1).stderr
        harness.poll("the next 10 s", lambda: info(5).returncode == 0)
    print("ok    calls above the limit fail, and can be retried")


def limits_errors(program, server):
    def get(client):
        """Makes an HTTP request. Returns whether it gets a response."""
        client.send(h2.call(1, h2.fields(method="GET"), end_stream=True))
        return client.answer(1) is not None
    with haproxy(program, SERVER_1=server.target, ERROR_RATE=2) as (port, _):
        target = f"127.0.0.1:{port}"
        for allowed in (True, True, True, False):
            with h2.Connection(target) as client:
                assert get(client) == allowed, allowed
        assert harness.serves(target)
    print("ok    a client with too many errors can still make calls")


def serves_both_families(topkd, topk, program):
    """Checks that HAProxy accepts IPv4 and IPv6 connections, counts IPv4
    addresses separately, and finds servers that have only IPv6 addresses."""
    with harness.Server(topkd, listen="[::1]:0") as server, \
            chart_test.Names() as names:
        names.hosts = ["::1"]
        with haproxy(program, LISTEN="[::]:PORT", CONNECTIONS=1,
                     SERVERS="topkd.test:" + server.target.rpartition(":")[2],
                     RESOLVER=names.address) as (port, _):
            harness.run(topk, "health", "--target", f"[::1]:{port}")
            with h2.Connection(f"127.0.0.1:{port}") as first, \
                    h2.Connection(f"127.0.0.1:{port}",
                                  greets=False) as second:
                assert harness.call(first) is None
                assert harness.call(second) == "connection closed"
                assert harness.serves(f"127.0.0.1:{port}", source=OTHER)
    print("ok    IPv4 and IPv6 clients reach servers with IPv6 addresses")


def stops_in_time(program, server):
    """Checks that an endless call does not keep HAProxy from stopping."""
    with haproxy(program, SERVER_1=server.target,
                 HARD_STOP_AFTER="1s") as (port, process):
        with h2.Connection(f"127.0.0.1:{port}") as client:
            assert harness.call(client) is None
            client.send(h2.call(3, h2.fields(rpc="StreamTopK")))
            process.send_signal(signal.SIGUSR1)
            process.wait(timeout=20)
    print("ok    HAProxy stops despite a call that does not end")


def stops_under_load(topkd, topk, program):
    """Checks that clients of two HAProxies lose no call if one stops, even
    without retries."""
    with fleet.fleet(topkd) as replicas, contextlib.ExitStack() as stack:
        servers = {f"SERVER_{i}": replica.target
                   for i, replica in enumerate(replicas, 1)}
        (port, process), (other, _) = (
            stack.enter_context(haproxy(program, **servers)) for _ in range(2))
        target = f"127.0.0.1:{port},127.0.0.1:{other}"
        commands = [fleet.bench(topk, target, path, "--max-attempts", "1")
                    for path in ("unary", "stream", "many")]
        with fleet.running_loads(commands, replicas) as loads:
            process.send_signal(signal.SIGUSR1)
            assert process.wait(timeout=50) == 0
            fleet.await_answers(replicas, loads)
            requests = fleet.end_all(loads)
    print(f"ok    one of two HAProxies stopped: {requests} calls, none lost")


def renews_certificate(program, server):
    with tempfile.TemporaryDirectory() as folder:
        certificate = pathlib.Path(folder, "tls.crt")

        def make():
            harness.make_certificate(folder)
            shutil.move(f"{folder}/tls.key", f"{folder}/tls.crt.key")
            return certificate.read_text()
        make()
        with haproxy(program, SERVER_1=server.target, TLS_CERT=certificate,
                     CERTIFICATE_LUA=FILES / "certificate.lua") as (port, _):
            renewed = make()
            harness.poll("the renewed certificate", lambda:
                         ssl.get_server_certificate(("127.0.0.1", port))
                         == renewed)
    print("ok    HAProxy uses a renewed certificate")


def main():
    topkd, (topk, program) = client_package.TOPKD, sys.argv[1:]
    harness.skip_without(program)
    with harness.Server(topkd) as server:
        limits_calls(topk, program, server)
        limits_errors(program, server)
        stops_in_time(program, server)
        renews_certificate(program, server)
    serves_both_families(topkd, topk, program)
    stops_under_load(topkd, topk, program)


if __name__ == "__main__":
    main()
