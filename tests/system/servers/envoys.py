"""Runs Envoy with the configuration of deploy/ on free ports."""

import contextlib
import pathlib
import subprocess
import tempfile

import harness

ROOT = pathlib.Path(__file__).parents[3]
CONFIG = ROOT / "deploy/envoy/envoy.yaml"


def _config(protoset, addresses, listen, admin):
    """Returns the configuration for these descriptors, servers and ports."""
    text = CONFIG.read_text(encoding="utf-8")

    def replace(old, new):
        nonlocal text
        assert text.count(old) == 1, f"{CONFIG} does not have exactly one {old}"
        text = text.replace(old, new)
    replace("port_value: 50050", f"port_value: {listen}")
    replace("port_value: 9901", f"port_value: {admin}")
    replace("/usr/share/topkd/topk.protoset", str(protoset))
    server, = (line for line in text.splitlines(True) if "50051" in line)
    replace(server, "".join(
        server.replace("topkd, port_value: 50051",
                       "127.0.0.1, port_value: " + address.partition(":")[2])
        for address in addresses))
    return text


@contextlib.contextmanager
def envoy(program, protoset, *addresses):
    """Runs Envoy in front of servers. Yields Envoy's address."""
    listen, admin = harness.free_ports(2)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "envoy.yaml"
        path.write_text(_config(protoset, addresses, listen, admin),
                        encoding="utf-8")
        subprocess.run([program, "--mode", "validate", "-l", "warn", "-c",
                        path], check=True, stdout=subprocess.DEVNULL)
        with harness.running([program, "-c", path, "-l", "error",
                            "--concurrency", "1", "--use-dynamic-base-id"]):
            yield f"127.0.0.1:{listen}"


def await_health(topk, target):
    harness.poll("the proxy to serve", lambda: subprocess.run(
        [topk, "health", "--target", target], capture_output=True,
        check=False).returncode == 0)
