"""Tests HAProxy's limits, addresses and certificates, with the configuration in
deploy/.

usage: haproxy_test.py TOPKD TOPK HAPROXY
"""

import contextlib
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile

import numpy as np

import client_package  # makes topk_client importable
import h2
import harness
import topk_client
from harness import haproxy

OTHER = "127.0.0.9"  # another client
BALANCER = "127.0.0.2"


def error_of(client, size, stream=False):
    """Makes a call. Returns the error, or None."""
    try:
        client.compute_topk(np.zeros(size), topk_client.Onnx(k=1),
                            stream=stream)
    except topk_client.TopKError as error:
        return error
    return None


def limits_calls(topk, program, server):
    with haproxy(program, server.target, CALL_RATE=3) as (target, _):
        with topk_client.Client(target, retry=None) as once:
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


def limits_open_calls(program, server):
    with haproxy(program, server.target, OPEN_CALLS=2) as (target, _), \
            topk_client.Client(target, retry=None) as once:
        with h2.Connection(target) as client:
            for stream in (1, 3):
                client.send(h2.call(stream, h2.fields("StreamTopK")))
            harness.poll("the limit", lambda: "TOPK_OPEN_CALLS" in str(
                error_of(once, 4)))
            assert harness.serves(target, source=OTHER)
            client.send(h2.call(5, h2.fields("StreamTopK")))
            assert client.wait_closed()
        harness.poll("calls to end", lambda: error_of(once, 4) is None)
    print("ok    idle streams of one client leave calls to others")


def limits_errors(program, server):
    def get(client):
        """Makes an HTTP request. Returns whether it gets a response."""
        client.send(h2.call(1, h2.fields(method="GET"), end_stream=True))
        answer = client.answer(1)
        assert answer is None or b"405" in answer[0], answer
        return answer is not None
    with haproxy(program, server.target, ERROR_RATE=2) as (target, _):
        for allowed in (True, True, True, False):
            with h2.Connection(target) as client:
                assert get(client) == allowed, allowed
        assert harness.serves(target)
    print("ok    a client with too many errors can still make calls")


def limits_connections(program, server):
    """Checks the limit per client, with and without a load balancer that sends
    the client's address."""
    with contextlib.ExitStack() as stack:
        def outcome(client=None, source=BALANCER):
            """Makes a call on a new connection, which stays open."""
            connection = stack.enter_context(
                h2.Connection(target, hello=False, source=source))
            header = b""
            if client is not None:
                family, to = (("TCP6", "::1") if ":" in client else
                              ("TCP4", "127.0.0.1"))
                header = f"PROXY {family} {client} {to} 4000 443\r\n".encode()
            connection.send(header + h2.PREFACE +
                            h2.settings((h2.HEADER_TABLE_SIZE, 0)))
            return harness.call(connection)

        target, _ = stack.enter_context(haproxy(
            program, server.target, CONNECTIONS=2, PROXY_FROM=f"{BALANCER}/32"))
        for same in (["192.0.2.1"] * 3,
                     # Addresses in one /64 network.
                     ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:9::"]):
            assert [outcome(client) for client in same] == [
                None, None, "connection closed"]
        assert outcome("192.0.2.2") is None
        assert outcome("2001:db8:0:1::") is None
        # A direct client is limited too.
        assert [outcome(source=OTHER) for _ in range(3)] == [
            None, None, "connection closed"]
        # Only the load balancer may send a client's address, and must send it.
        assert outcome("192.0.2.3", source="127.0.0.8") == "connection closed"
        assert outcome() == "connection closed"
    print("ok    a client above its limit is rejected, another one is served")


def serves_both_families(topkd, topk, program):
    """Checks that HAProxy accepts IPv4 and IPv6 connections, and counts IPv4
    addresses separately."""
    with harness.Server(topkd, listen="[::1]:0") as server, haproxy(
            program, server.target, LISTEN="[::]:PORT",
            CONNECTIONS=1) as (target, _):
        port = target.rpartition(":")[2]
        harness.run(topk, "health", "--target", f"[::1]:{port}")
        with h2.Connection(target) as first, h2.Connection(
                target, greets=False) as second:
            assert harness.call(first) is None
            assert harness.call(second) == "connection closed"
            assert harness.serves(target, source=OTHER)
    print("ok    IPv4 and IPv6 clients reach a server with an IPv6 address")


def ends_tls(topk, program, server):
    with tempfile.TemporaryDirectory() as folder:
        certificate = pathlib.Path(folder, "tls.crt")
        # The authority, HAProxy and the client use the same certificate.
        key, authority = f"{folder}/tls.crt.key", f"{folder}/ca.crt"

        def make():
            harness.make_certificate(folder)
            shutil.move(f"{folder}/tls.key", key)
            return certificate.read_text()
        make()
        shutil.copy(certificate, authority)
        with haproxy(program, server.target, TLS_CERT=certificate,
                     TLS_CLIENT_CA=authority, CERTIFICATE_LUA=(
                         harness.HAPROXY_FILES / "certificate.lua")
                     ) as (target, _):
            def accepts(*flags):
                return subprocess.run(
                    [topk, "info", "--target", target, "--timeout", "2",
                     *flags], capture_output=True, check=False).returncode == 0
            trust = "--tls-ca", authority
            assert accepts(*trust, "--tls-cert", certificate, "--tls-key", key)
            assert not accepts(*trust)
            assert not accepts()
            renewed = make()
            host, port = target.split(":")
            harness.poll("the renewed certificate", lambda:
                         ssl.get_server_certificate((host, int(port)))
                         == renewed)
    print("ok    HAProxy requires client certificates, and uses a renewed "
          "certificate")


def main():
    topkd, (topk, program) = client_package.TOPKD, sys.argv[1:]
    harness.skip_without(program)
    with harness.Server(topkd) as server:
        limits_calls(topk, program, server)
        limits_open_calls(program, server)
        limits_errors(program, server)
        limits_connections(program, server)
        ends_tls(topk, program, server)
    serves_both_families(topkd, topk, program)


if __name__ == "__main__":
    main()
