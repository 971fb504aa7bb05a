"""Three servers under load, one killed and one drained: no call may fail. They
are reached by clients that balance by themselves, or through a proxy with the
configuration of deploy/.

usage: fronts_test.py TOPKD TOPK client | haproxy HAPROXY | envoy ENVOY
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

import fleet
import harness

SKIPPED = 77  # ctest's SKIP_RETURN_CODE
ENVOY = fleet.ROOT / "deploy/envoy/envoy.yaml"
# Longer than a balancer needs to notice it.
DELAY = ("--drain-delay", "3s")


def await_health(topk, target):
    harness.poll("the proxy to serve", lambda: subprocess.run(
        [topk, "health", "--target", target], capture_output=True,
        check=False).returncode == 0)


@contextlib.contextmanager
def haproxy(program, replicas):
    """HAProxy in front; its address."""
    addresses = (replica.address for replica in replicas)
    with harness.haproxy(program, *addresses) as (address, _):
        yield address


def envoy_config(replicas, listen, admin):
    """The configuration with these servers and at these ports."""
    text = ENVOY.read_text(encoding="utf-8")

    def replace(old, new):
        nonlocal text
        assert text.count(old) == 1, f"{ENVOY} does not have exactly one {old}"
        text = text.replace(old, new)
    replace("address: 0.0.0.0, port_value: 50050",
            f"address: 127.0.0.1, port_value: {listen}")
    replace("port_value: 9901", f"port_value: {admin}")
    server, = (line for line in text.splitlines(True) if "50051" in line)
    replace(server, "".join(
        server.replace("topkd, port_value: 50051",
                       "127.0.0.1, port_value: " +
                       replica.address.partition(":")[2])
        for replica in replicas))
    return text


@contextlib.contextmanager
def envoy(program, replicas):
    """Envoy in front; its address."""
    subprocess.run([program, "--mode", "validate", "-l", "warn", "-c", ENVOY],
                   check=True, stdout=subprocess.DEVNULL)
    listen, admin = harness.free_ports(2)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "envoy.yaml"
        path.write_text(envoy_config(replicas, listen, admin),
                        encoding="utf-8")
        with fleet.running([program, "-c", path, "-l", "error",
                            "--concurrency", "1", "--use-dynamic-base-id"]):
            yield f"127.0.0.1:{listen}"


def by_clients(topkd, topk):
    with tempfile.TemporaryDirectory() as directory, fleet.fleet(
            topkd, directory) as replicas:
        target = ",".join(replica.address for replica in replicas)
        parts = fleet.misfortunes("client-side round robin", replicas, [
            fleet.python_load(topkd, target),
            *(fleet.bench(topk, target, path)
              for path in ("unary", "stream", "many"))])
        # In turn.
        assert max(parts) < 1.5 * min(parts), parts


def by_proxy(topkd, topk, front, program):
    if not os.access(program, os.X_OK):
        print(f"SKIPPED: there is no {program}; tests/run.sh installs it")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as directory, fleet.fleet(
            topkd, directory, *DELAY) as replicas, front(
                program, replicas) as target:
        await_health(topk, target)
        # The calls of a load have one connection: each goes by itself. Envoy
        # sends again what a dead server had; behind HAProxy the client does.
        once = ["--max-attempts", "1"] if front is envoy else []
        fleet.misfortunes(front.__name__, replicas, [
            fleet.bench(topk, target, "unary", *once),
            *(fleet.bench(topk, target, path)
              for path in ("stream", "many"))])


def main():
    topkd, topk, front, *program = sys.argv[1:]
    if front == "client":
        by_clients(topkd, topk)
    else:
        by_proxy(topkd, topk, {"haproxy": haproxy, "envoy": envoy}[front],
                 *program)


if __name__ == "__main__":
    main()
