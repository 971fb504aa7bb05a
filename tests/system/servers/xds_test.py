"""topkd --xds and a client of xds:///, with a control plane. Run by the Python
that venv.sh sets up.

usage: xds_test.py TOPKD TOPK
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import control_plane
import fleet
import harness


def end_of(topkd, **environment):
    """Returns how a topkd that cannot start ends, and what it says."""
    done = subprocess.run(
        [topkd, "--xds", "--listen", "127.0.0.1:0"], capture_output=True,
        text=True, timeout=30, check=False,
        env=dict(os.environ, **environment))
    return done.returncode, done.stderr


def wants_a_bootstrap(topkd):
    status, said = end_of(topkd)
    assert status == 2 and "GRPC_XDS_BOOTSTRAP" in said, (status, said)
    for broken in ("{", '{"xds_servers": []}', json.dumps({
            # All but what a server needs.
            "xds_servers": [{"server_uri": "127.0.0.1:1", "channel_creds": [
                {"type": "insecure"}]}], "node": {"id": "test"}})):
        status, said = end_of(topkd, GRPC_XDS_BOOTSTRAP_CONFIG=broken)
        assert status == 2 and "cannot use the bootstrap" in said, (
            status, said)
    status, said = end_of(topkd, GRPC_XDS_BOOTSTRAP="/no/such/file")
    assert status == 2 and "cannot use the bootstrap" in said, (status, said)
    print("ok    no bootstrap, no server")


def serves(topk, replica, deadline="20", *flags):
    return subprocess.run(
        [topk, "health", "--target", replica.target, "--deadline", deadline,
         *flags], capture_output=True, check=False).returncode == 0


def follows_the_listeners(topk, plane, replicas):
    """A server comes and goes with its listener."""
    a, b, c = replicas
    assert not any(serves(topk, one, "0.5") for one in replicas)
    plane.set(control_plane.LISTENER, *(
        control_plane.server_listener(one.target) for one in (a, b)))
    harness.poll("a and b to serve",
                 lambda: serves(topk, a) and serves(topk, b))
    assert not serves(topk, c, "0.5")
    plane.set(control_plane.LISTENER,
              control_plane.server_listener(b.target))
    harness.poll("a to serve no more", lambda: not serves(topk, a, "0.5"))
    assert serves(topk, b)
    print("ok    servers come and go with their listeners")


def has_tls(topkd, topk, plane, directory):
    """Our own TLS is there with a control plane too."""
    key, certificate = (f"{directory}/{name}.pem" for name in ("key", "cert"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days",
         "1", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True)
    with fleet.Replica(topkd, harness.free_ports(1)[0], "--xds", "--tls-cert",
                       certificate, "--tls-key", key) as replica:
        plane.set(control_plane.LISTENER,
                  control_plane.server_listener(replica.target))
        harness.poll("TLS", lambda: serves(topk, replica, "20", "--tls-ca",
                                           certificate))
        assert not serves(topk, replica, "0.5")
    print("ok    TLS is that of --tls-cert")


def follows_the_endpoints(topkd, topk, plane, replicas):
    """Clients go to those servers that are listed, and lose no call."""
    a, b, c = replicas

    def listed(*some):
        plane.set(control_plane.ENDPOINTS, control_plane.endpoints(
            "topk", [one.target for one in some]))
    plane.set(control_plane.CLUSTER, control_plane.cluster("topk"))
    plane.set(control_plane.ROUTES, control_plane.routes("topk"))
    listed(a, b)
    plane.set(control_plane.LISTENER, control_plane.client_listener("topk"), *(
        control_plane.server_listener(one.target) for one in replicas))
    with fleet.under([fleet.python_load(topkd, "xds:///topk"),
                      fleet.bench(topk, "xds:///topk")], [a, b]) as loads:
        assert c.answered() == 0
        listed(b, c)

        def moved():
            before = a.answered()
            fleet.await_answers([b, c], loads)
            return a.answered() == before
        harness.poll("the load to leave a", moved)
        c.kill()
        fleet.await_answers([b], loads)
        requests = fleet.end_all(loads)
    print(f"ok    clients of xds:///topk: {requests} calls, none lost")


def main():
    topkd, topk = sys.argv[1:]
    wants_a_bootstrap(topkd)
    plane = control_plane.ControlPlane()
    with control_plane.serve(plane) as bootstrap, \
            tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "bootstrap.json"
        path.write_text(bootstrap, encoding="utf-8")
        os.environ["GRPC_XDS_BOOTSTRAP"] = str(path)
        has_tls(topkd, topk, plane, directory)
        with fleet.fleet(topkd, "--xds") as replicas:
            follows_the_listeners(topk, plane, replicas)
            follows_the_endpoints(topkd, topk, plane, replicas)
            replicas[1].stop()
        assert not plane.refused, plane.refused


if __name__ == "__main__":
    main()
