"""Runs HAProxy with the configuration that the Helm chart renders, in front of
servers that a DNS server on loopback lists.

usage: chart_test.py TOPKD TOPK HAPROXY TOOLS    TOOLS: helm and Python's venv,
                                                 see ../deploy/kubernetes.sh
"""

import contextlib
import json
import math
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

import fleet
import h2
import harness

CHART = fleet.ROOT / "deploy/kubernetes/helm/topkd"
DIGITS = fleet.ROOT / "deploy/data/digits_similarity.npy"
BALANCER = "127.0.0.2"
HOSTS = ("127.0.0.11", "127.0.0.12", "127.0.0.13")
VALUES = ("haproxy.enabled=true", "haproxy.limits.connections=2",
          f"haproxy.proxyProtocolFrom={{{BALANCER}/32}}",
          "settings.max-inflight-calls=4")
PLAIN = ("haproxy.enabled=true",)
TLS = ("haproxy.enabled=true", "tls.enabled=true",
       "tls.clientCertificates=true")
# The test replaces these flags: the chart's values are for a pod.
PLACES = ("--listen", "--metrics-listen", "--health-listen", "--log-format")


class Chart:
    """The chart's objects, rendered with some values."""

    def __init__(self, tools, *values):
        done = subprocess.run(
            [tools / "helm", "template", "topkd", CHART, "--kube-version=1.33",
             *(f"--set={value}" for value in values)],
            check=True, capture_output=True)
        done = subprocess.run(
            [tools / "venv/bin/python", "-c", "import json, sys, yaml; "
             "json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)"],
            input=done.stdout, check=True, capture_output=True)
        self._objects = {(one["kind"], one["metadata"]["name"]): one
                         for one in json.loads(done.stdout) if one}

    def pod(self, name):
        deployment = self._objects["Deployment", name]
        return deployment["spec"]["template"]["spec"]

    def files(self, config_map):
        return self._objects["ConfigMap", config_map]["data"]

    def flags(self):
        """Returns the container's arguments, as pairs of flags and values."""
        container, = self.pod("topkd")["containers"]
        flags = []
        for argument in container["args"]:
            flag, _, value = argument.partition("=")
            if flag not in PLACES:
                flags += [flag, value]
        return flags


class Names(contextlib.AbstractContextManager):
    """A DNS server that resolves every name to the addresses `hosts`."""

    def __init__(self):
        self.hosts = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.asked = set()
        threading.Thread(target=self._serve, daemon=True).start()

    def __exit__(self, *_):
        self._socket.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                query, client = self._socket.recvfrom(4096)
                self._socket.sendto(self._answer(query), client)

    def _answer(self, query):
        end = query.index(0, 12)
        labels, at = [], 12
        while at < end:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        self.asked.add(".".join(labels))
        kind, = struct.unpack_from(">H", query, end + 1)  # A or AAAA
        family = {1: socket.AF_INET, 28: socket.AF_INET6}[kind]
        hosts = [socket.inet_pton(family, host) for host in self.hosts
                 if (":" in host) == (kind == 28)]
        # NXDOMAIN if there are no servers, like Kubernetes' DNS.
        flags = 0x8180 if self.hosts else 0x8183
        records = b"".join(
            struct.pack(">HHHIH", 0xc00c, kind, 1, 1, len(host)) + host
            for host in hosts)
        return (query[:2] + struct.pack(">HHHHH", flags, 1, len(hosts), 0, 0) +
                query[12:end + 5] + records)


class Front:
    """HAProxy as its pod runs it, with folders instead of volumes."""

    def __init__(self, program, chart, names, port, directory):
        container, = chart.pod("topkd-haproxy")["containers"]
        listen, status = (f"127.0.0.1:{at}" for at in harness.free_ports(2))
        environment = {one["name"]: one.get("value") or str(math.ceil(float(
            container["resources"]["limits"]["cpu"])))
                       for one in container["env"]}
        self.name = environment["TOPK_SERVERS"].partition(":")[0]
        environment |= {
            "TOPK_LISTEN": listen, "TOPK_STATUS_LISTEN": status,
            "TOPK_SERVERS": f"{self.name}:{port}",
            "TOPK_RESOLVER": names.address}
        command = list(container["command"])
        for mount in container["volumeMounts"]:
            place = f"{directory}/{mount['name']}"
            os.makedirs(place, exist_ok=True)
            command = [word.replace(mount["mountPath"], place)
                       for word in command]
            environment = {key: value.replace(mount["mountPath"], place)
                           for key, value in environment.items()}
        for name, text in chart.files("topkd-haproxy").items():
            pathlib.Path(directory, "config", name).write_text(
                text, encoding="utf-8")
        self.address, self._status = listen, status
        self.command, self.environment = [program, *command[1:]], environment

    def status(self, path):
        """Returns the HTTP status of a probe, or None if it cannot connect."""
        try:
            return self._page(path).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def metrics(self):
        return self._page("metrics").read().decode()

    def _page(self, path):
        return urllib.request.urlopen(f"http://{self._status}/{path}",
                                      timeout=10)

    def client(self, address=None, source=BALANCER):
        """Returns a connection from a client with this address behind the load
        balancer. Without an address, the connection is direct."""
        client = h2.Connection(self.address, hello=False, source=source)
        if address is not None:
            family = "TCP6" if ":" in address else "TCP4"
            server = "::1" if ":" in address else "127.0.0.1"
            client.send(f"PROXY {family} {address} {server} 4000 443\r\n"
                        .encode(), read=False)
        client.send(h2.PREFACE + h2.settings((h2.HEADER_TABLE_SIZE, 0)))
        return client


@contextlib.contextmanager
def front(program, chart, names, port, directory):
    haproxy = Front(program, chart, names, port, directory)
    with harness.running(haproxy.command,
                       env=haproxy.environment) as haproxy.process:
        harness.poll("HAProxy", lambda: haproxy.status("live") == 200)
        yield haproxy


@contextlib.contextmanager
def deployed(topkd, program, chart):
    """Yields three servers behind HAProxy, and a DNS server that lists none."""
    port, = harness.free_ports(1)
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        replicas = stack.enter_context(fleet.fleet(
            topkd, *chart.flags(),
            addresses=[f"{host}:{port}" for host in HOSTS]))
        names = stack.enter_context(Names())
        yield replicas, names, stack.enter_context(
            front(program, chart, names, port, directory))


def succeeds(client):
    fault = harness.call(client)
    assert fault is None, fault


def is_closed(client):
    return harness.call(client) == "connection closed"


def follows_dns(haproxy, names, replicas):
    """Checks that pods are used exactly while DNS lists them."""
    a, b, _ = replicas

    def moves(to, other):
        """Waits until calls reach one server and no longer the other."""
        before, rest = to.answered(), other.answered()
        for _ in range(10):
            with haproxy.client("203.0.113.9") as client:
                harness.call(client)
        return to.answered() > before and other.answered() == rest
    assert haproxy.status("ready") == 503
    names.hosts = [HOSTS[0]]
    harness.poll("readiness", lambda: haproxy.status("ready") == 200)
    harness.poll("calls to a", lambda: moves(a, b))
    names.hosts = [HOSTS[1]]
    harness.poll("calls to b", lambda: moves(b, a))
    assert names.asked == {haproxy.name}, names.asked
    assert a.process.poll() is None
    assert 'haproxy_server_status{proxy="topkd"' in haproxy.metrics()
    print("ok    calls go only to pods that DNS lists")


def limits_each_client(haproxy):
    """Checks that a client at its limit is rejected while others are served."""
    with contextlib.ExitStack() as stack:
        def connect(*address, **source):
            return stack.enter_context(haproxy.client(*address, **source))
        for same in (["192.0.2.1"] * 3,
                     # Addresses in one /64 network.
                     ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:9::"]):
            first, second, third = same
            succeeds(connect(first))
            succeeds(connect(second))
            assert is_closed(connect(third))
        succeeds(connect("192.0.2.2"))
        succeeds(connect("2001:db8:0:1::"))
        # A direct client is limited too.
        succeeds(connect(source="127.0.0.9"))
        succeeds(connect(source="127.0.0.9"))
        assert is_closed(connect(source="127.0.0.9"))
        # Only the load balancer may send a client's address.
        assert is_closed(connect("192.0.2.3", source="127.0.0.8"))
        # The load balancer must send the client's address.
        assert is_closed(connect())
    print("ok    a client above its limit is rejected, another one is served")


def shares_no_limit(haproxy, replica):
    """Checks that topkd, to which HAProxy is the only client, lets this client
    have more than half of the calls."""
    with contextlib.ExitStack() as stack:
        for number in (1, 2, 3):
            client = stack.enter_context(haproxy.client(f"198.51.100.{number}"))
            client.send(h2.call(1, h2.fields(rpc="StreamTopK")))
        harness.poll("three calls in flight", lambda:
                     "\ntopk_inflight_calls 3\n" in replica.metrics())
        with haproxy.client("198.51.100.4") as client:
            succeeds(client)
    print("ok    HAProxy may have three of the four calls in flight")


def keeps_limits(tools):
    """Checks that the chart keeps the user's limits and limits per token."""
    limit = "--max-client-inflight-calls"
    flags = Chart(tools, *PLAIN, "settings.max-client-inflight-calls=7").flags()
    assert flags[flags.index(limit) + 1] == "7", flags
    flags = Chart(tools, *PLAIN, "tokensSecretName=tokens").flags()
    assert limit not in flags, flags
    # Tokens do not distinguish connections.
    assert flags[flags.index("--max-connections-per-client") + 1] == "0", flags
    print("ok    the chart keeps limits of the values and per token")


def ends_tls(program, topkd, topk, chart, directory):
    """Checks that HAProxy terminates TLS and checks client certificates."""
    harness.make_certificate(directory)
    # The CA, the server and the client use the same certificate.
    shutil.copy(f"{directory}/tls.crt", f"{directory}/ca.crt")
    volume, = (volume for volume in chart.pod("topkd-haproxy")["volumes"]
               if "secret" in volume)
    folder = pathlib.Path(directory, volume["name"])
    folder.mkdir()
    for item in volume["secret"]["items"]:
        shutil.copy(f"{directory}/{item['key']}", folder / item["path"])
    # There are no TLS flags: connections to topkd are plaintext.
    with harness.Server(topkd, *chart.flags()) as server, Names() as names:
        host, port = server.target.split(":")
        names.hosts = [host]
        with front(program, chart, names, port, directory) as haproxy:
            harness.poll("readiness", lambda: haproxy.status("ready") == 200)

            def run(*flags):
                return subprocess.run(
                    [topk, "run", DIGITS, "--k", "3", "--target",
                     haproxy.address, *flags], capture_output=True, check=False,
                    timeout=60).returncode == 0
            authority = ["--tls-ca", f"{directory}/tls.crt"]
            identity = ["--tls-cert", f"{directory}/tls.crt", "--tls-key",
                        f"{directory}/tls.key"]
            assert run(*authority, *identity)
            assert not run(*authority, "--deadline", "1")
            assert not run("--deadline", "1")
            harness.make_certificate(directory)
            for item in volume["secret"]["items"]:
                shutil.copy(f"{directory}/{item['key']}", folder / item["path"])
            renewed = pathlib.Path(directory, "tls.crt").read_text()
            host, port = haproxy.address.split(":")
            harness.poll("the renewed certificate", lambda:
                         ssl.get_server_certificate((host, int(port)))
                         == renewed)
    print("ok    TLS ends at HAProxy, which requires client certificates and "
          "uses a renewed certificate")


def main():
    topkd, topk, program, tools = sys.argv[1:]
    tools = pathlib.Path(tools)
    harness.skip_without(program, tools / "helm", tools / "venv/bin/python")
    keeps_limits(tools)
    with deployed(topkd, program, Chart(tools, *VALUES)) as (
            replicas, names, haproxy):
        follows_dns(haproxy, names, replicas)
        limits_each_client(haproxy)
        shares_no_limit(haproxy, replicas[1])
    with tempfile.TemporaryDirectory() as directory:
        ends_tls(program, topkd, topk, Chart(tools, *TLS), directory)


if __name__ == "__main__":
    main()
