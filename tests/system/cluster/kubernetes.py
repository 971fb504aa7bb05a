"""Installs the Helm chart in a real cluster, and counts the calls that clients
lose during upgrades and failures. Exits with 1 if a check fails, or if a client
loses a call that it must not lose.

usage: kubernetes.py [--only PART...]
       PART: defaults, page, "shared memory", overload, or an event's name

Needs the cluster of cluster.sh, and its images topkd:0.1.0, haproxy:2.6 and
topk/clients.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import harness

ROOT = pathlib.Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy/kubernetes/helm/topkd"
NAMESPACE = "topk"
# A release without a proxy and one behind HAProxy, and their Deployments.
PLAIN, EDGE = "topkd", "edge"
DEPLOYMENTS = {PLAIN: "topkd", EDGE: "edge-topkd"}
DOMAIN = f"{NAMESPACE}.svc.cluster.local"
NAMES = f"subjectAltName=DNS:*.{DOMAIN},DNS:*.{NAMESPACE}.svc"
WAYS = {"ClusterIP": f"topkd.{DOMAIN}:50051",
        "headless": f"dns:///topkd-headless.{DOMAIN}:50051",
        "HAProxy": f"edge-topkd.{DOMAIN}:50051"}
# The values of the releases, with one replica on each node.
SECURE = ("tls.enabled=true,tokensSecretName=topkd-tokens,"
          "test.tokenSecretName=test-token,spread=DoNotSchedule")
VALUES = {PLAIN: SECURE, EDGE: f"{SECURE},haproxy.enabled=true"}


def say(text):
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def run(*command, text=None, check=True):
    """Returns the output of a command. Raises AssertionError if it fails. With
    check=False, returns the CompletedProcess instead."""
    done = subprocess.run(command, input=text, capture_output=True, text=True,
                          check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} failed:\n"
                             f"{done.stdout}{done.stderr}")
    return done.stdout if check else done


def kubectl(*arguments, **options):
    return run("kubectl", "--namespace", NAMESPACE, *arguments, **options)


def helm(*arguments, **options):
    return run("helm", "--namespace", NAMESPACE, *arguments, **options)


def helm_test(release):
    done = helm("test", release, check=False)
    if done.returncode != 0:
        pod = f"{DEPLOYMENTS[release]}-test"
        raise AssertionError(f"{done.stderr}{kubectl('logs', pod)}")


def objects(kind, *arguments):
    return json.loads(kubectl("get", kind, "-o", "json", *arguments))["items"]


def pods(release, name="topkd"):
    return objects("pods", "-l", f"app.kubernetes.io/instance={release},"
                   f"app.kubernetes.io/name={name}")


def poll(what, function):
    """Returns the first true result of `function`."""
    return harness.poll(what, function, seconds=120)


def is_ready(pod):
    return any(one["type"] == "Ready" and one["status"] == "True"
               for one in pod["status"].get("conditions", []))


def settle(release, count=2):
    """Waits until exactly `count` pods exist, are ready, and are endpoints of
    the headless Service."""
    kubectl("rollout", "status", f"deployment/{DEPLOYMENTS[release]}",
            "--timeout=180s")

    def settled():
        found = pods(release)
        endpoints = {
            address for part in objects(
                "endpointslices", "-l", "kubernetes.io/service-name="
                f"{DEPLOYMENTS[release]}-headless")
            for one in part["endpoints"] or [] if one["conditions"]["ready"]
            for address in one["addresses"]}
        return len(found) == count and all(
            is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
            for pod in found) and endpoints == {
                pod["status"]["podIP"] for pod in found}
    poll(f"{count} ready pods of {release}", settled)


def settle_all(count=2):
    for release in DEPLOYMENTS:
        settle(release, count)


def restarts(release):
    return {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0][
        "restartCount"] for pod in pods(release)}


def process_of(pod):
    """Returns the ID of a process in a pod's container. The nodes run on this
    machine."""
    container = pod["status"]["containerStatuses"][0]["containerID"]
    identity = container.partition("://")[2]
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if identity in (folder / "cgroup").read_text():
                return int(folder.name)
    raise AssertionError(f"no process of {pod['metadata']['name']}")


def secret(name, data):
    kubectl("apply", "-f", "-", text=json.dumps({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "stringData": data}))


class Credentials:
    """An authority, server certificates, and tokens."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self.token = "first-token-of-the-test"
        self._openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days",
                      "2", "-subj", "/CN=ca", "-keyout", "ca.key", "-out",
                      "ca.crt")
        self.renew()

    def _openssl(self, *arguments):
        run("sh", "-c", 'cd "$0" && exec openssl "$@"', self._folder,
            *arguments)

    def renew(self):
        (self._folder / "names").write_text(NAMES)
        self._openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj",
                      "/CN=topkd", "-keyout", "tls.key", "-out", "request")
        self._openssl("x509", "-req", "-in", "request", "-CA", "ca.crt",
                      "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                      "-out", "tls.crt", "-extfile", "names")

    def tokens(self, *others):
        """Returns a file for the server with the current token and others."""
        return "".join(run("docker", "run", "--rm", "-i", "topkd:0.1.0",
                           "hash-token", f"client{number}", text=token)
                       for number, token in enumerate((self.token, *others)))

    def write(self, folder):
        """Writes files like those in deploy/OPERATIONS.md: a self-signed
        certificate, its key, and a tokens file."""
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days",
            "2", "-subj", "/CN=topkd", "-addext", NAMES, "-keyout",
            f"{folder}/server.key", "-out", f"{folder}/server.pem")
        pathlib.Path(folder, "tokens").write_text(self.tokens())

    def apply(self, *others):
        """Applies the Secrets, with the current token and `others`."""
        secret("topkd-tls", {
            name: (self._folder / name).read_text()
            for name in ("tls.crt", "tls.key", "ca.crt")})
        secret("topkd-tokens", {"tokens": self.tokens(*others)})
        secret("test-token", {"token": self.token})

    def serial(self):
        """Returns the serial number, in the format of served_certificate()."""
        return run("openssl", "x509", "-noout", "-serial", "-in",
                   self._folder / "tls.crt").strip()


class Load:
    """The clients of client/load.py, in a pod."""

    def __init__(self, token):
        kubectl("delete", "pod", "clients", "--ignore-not-found", "--wait")
        kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "clients"},
            "spec": {"nodeName": "node1", "terminationGracePeriodSeconds": 0,
                     "containers": [{"name": "clients",
                                     "image": "topk/clients:latest",
                                     "imagePullPolicy": "Never",
                                     "volumeMounts": [{"name": "tls",
                                                       "mountPath": "/tls"}]}],
                     "volumes": [{"name": "tls", "secret": {
                         "secretName": "topkd-tls",
                         "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}))
        kubectl("wait", "--for=condition=Ready", "pod/clients",
                "--timeout=60s")
        self.exec("sh", "-c", "cat > /tmp/load.py", text=(
            pathlib.Path(__file__).parent / "client/load.py").read_text())
        self.use_token(token)
        self._process = subprocess.Popen(
            ["kubectl", "--namespace", NAMESPACE, "exec", "-i", "clients", "--",
             "python3", "/tmp/load.py",
             *(f"{way}={target}" for way, target in WAYS.items())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @staticmethod
    def exec(*command, **options):
        return kubectl("exec", "-i", "clients", "--", *command, **options)

    def use_token(self, token):
        # The file is never empty, even for a moment.
        self.exec("sh", "-c", "cat > /tmp/new && mv /tmp/new /tmp/token",
                  text=token)

    def _command(self, word):
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def begin(self):
        self._command("begin")

    def end(self):
        return self._command("end")

    def close(self):
        self._process.kill()
        self._process.wait()
        kubectl("delete", "pod", "clients", "--wait")


def both(command, *arguments):
    """Runs a Helm command for both releases."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda release: helm(
            command, release, *arguments, "--wait"), DEPLOYMENTS))


def upgrade_both(values):
    both("upgrade", CHART, "--reuse-values", "--set", values)


def restart():
    kubectl("rollout", "restart", *(f"deployment/{name}"
                                    for name in DEPLOYMENTS.values()))
    settle_all()


def resize(count):
    kubectl("scale", f"--replicas={count}",
            *(f"deployment/{name}" for name in DEPLOYMENTS.values()))
    settle_all(count)


def scale():
    for count in (4, 2):
        resize(count)


def upgrade():
    upgrade_both("settings.max-elements=123456789")
    settle_all()


def rollback():
    both("rollback")
    settle_all()


def restart_haproxy():
    name = "deployment/edge-topkd-haproxy"
    kubectl("rollout", "restart", name)
    kubectl("rollout", "status", name, "--timeout=180s")
    poll("the end of the old pods", lambda: len(
        pods(EDGE, "topkd-haproxy")) == 2)


def drain_node():
    assert objects("pods", "--field-selector=spec.nodeName=node2")
    try:
        kubectl("drain", "node2", "--ignore-daemonsets",
                "--delete-emptydir-data", "--timeout=180s")
        settle_all()
    finally:
        kubectl("uncordon", "node2")


def evict():
    for release in DEPLOYMENTS:
        name = pods(release)[0]["metadata"]["name"]
        kubectl("create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
                "/eviction", "-f", "-", text=json.dumps({
                    "apiVersion": "policy/v1", "kind": "Eviction",
                    "metadata": {"name": name, "namespace": NAMESPACE}}))
    settle_all()


def served_certificate(address):
    found = run("sh", "-c", f"openssl s_client -connect {address} -alpn h2 "
                "</dev/null 2>/dev/null | openssl x509 -noout -serial",
                check=False)
    return found.stdout.strip()


OVER_TLS = f"--tls-ca /tls/ca.crt --tls-server-name topkd.{DOMAIN}"


def accepts(load, address, token, how=OVER_TLS):
    """Returns whether a pod accepts a token."""
    return load.exec(
        "sh", "-c", f"cat > /tmp/other && topk info --target {address} {how} "
        "--token-file /tmp/other", text=token, check=False).returncode == 0


def rotate(load, credentials):
    """Renews the certificate, and replaces the token while both are valid."""
    old, new = credentials.token, f"token-of-{time.time():.0f}-for-the-test"
    addresses = [f"{pod['status']['podIP']}:50051" for pod in pods(PLAIN)]
    proxies = [f"{pod['status']['podIP']}:50050"
               for pod in pods(EDGE, "topkd-haproxy")]
    credentials.renew()
    credentials.apply(new)
    for address in addresses + proxies:
        poll("the new certificate", lambda a=address: served_certificate(a) ==
             credentials.serial())
    for address in addresses:
        poll("the new token", lambda a=address: accepts(load, a, new))
    for pod in pods(EDGE):
        edge = f"{pod['status']['podIP']}:50051"
        poll("the new token behind HAProxy", lambda a=edge: accepts(
            load, a, new, "--token-over-plaintext"))
    load.use_token(new)
    credentials.token = new
    credentials.apply()
    for address in addresses:
        poll("the old token's end", lambda a=address: not accepts(
            load, a, old))


def autoscale():
    resize(4)
    before = {release: set(restarts(release)) for release in DEPLOYMENTS}
    upgrade_both("autoscaling.enabled=true")
    for release in DEPLOYMENTS:
        assert set(restarts(release)) == before[release], "other replicas"
    both("rollback")
    settle_all()


def kill():
    for release in DEPLOYMENTS:
        os.kill(process_of(pods(release)[0]), signal.SIGKILL)
    poll("the restarts", lambda: all(
        any(restarts(release).values()) for release in DEPLOYMENTS))
    settle_all()


def lose_node():
    """Cuts off the pods of node2, as if the node had lost power."""
    lost = objects("pods", "--field-selector=spec.nodeName=node2")
    kubelet = int(pathlib.Path(
        "/run/topk-cluster/node2-kubelet").read_text())
    links = [json.loads(run("nsenter", "-t", str(process_of(pod)), "-n", "ip",
                            "-j", "link", "show", "eth0"))[0]["link_index"]
             for pod in lost]
    names = [socket.if_indextoname(link) for link in links]
    try:
        os.kill(kubelet, signal.SIGSTOP)
        for name in names:
            run("ip", "link", "set", name, "down")
        for release in DEPLOYMENTS:
            poll("the end of the lost endpoints", lambda r=release: sum(
                map(is_ready, pods(r))) == 1)
    finally:
        for name in names:
            run("ip", "link", "set", name, "up")
        os.kill(kubelet, signal.SIGCONT)
    settle_all()


def reject_setting():
    """Checks that a wrong setting stops no pod, that the error can be found,
    and that no setting of the failed upgrade remains after a correct one."""
    before = pods(PLAIN)[0]["spec"]["containers"][0]["args"]
    failed = helm("upgrade", PLAIN, CHART, "--reuse-values", "--wait",
                  "--timeout", "20s", "--set", "settings.max-elements=abc,"
                  "settings.allow-shared-memory=true", check=False)
    assert failed.returncode != 0, failed.stdout

    crashed = next(pod["metadata"]["name"] for pod in pods(PLAIN)
                   if not is_ready(pod))
    # For a moment after each restart, there is no log.
    log = poll("the log of the new pod", lambda: kubectl(
        "logs", crashed, check=False).stdout.strip())
    assert re.search("max-elements.*abc", log), log
    description = kubectl("describe", "pod", crashed)
    assert re.search("Message: .*max-elements.*abc", description), description
    assert sum(map(is_ready, pods(PLAIN))) == 2, "the old pods stopped"
    helm("upgrade", PLAIN, CHART, "--wait", "--set", VALUES[PLAIN])
    settle(PLAIN)
    for pod in pods(PLAIN):
        assert pod["spec"]["containers"][0]["args"] == before, pod["spec"]


EVENTS = {
    "rolling restart": restart,
    "2 to 4 replicas and back": scale,
    "changed setting": upgrade,
    "rollback": rollback,
    "rejected setting": reject_setting,
    "autoscaling on and off": autoscale,
    "restart of HAProxy": restart_haproxy,
    "drained node": drain_node,
    "evicted pod": evict,
    "new certificate and token": rotate,
    "SIGKILL": kill,
    "lost node": lose_node}
# The clients that may lose calls. If a process dies, only retries can help. If
# a node dies, connecting to it takes up to 20 s, longer than retries last.
MAY_LOSE = {"SIGKILL": {"stub", "stream", "tritonclient"},
            "lost node": {"stub", "stream", "tritonclient", "topk_client",
                          "aio", "bench"}}


class Results:
    """The lost calls of each event, client and entry of WAYS."""

    def __init__(self):
        self.calls = 0
        self.failures = []

    def add(self, event, found):
        self.calls += sum(one["calls"] for ways in found.values()
                          for one in ways.values())
        say(f"{event}: lost " + ", ".join(
            f"{client} " + "/".join(str(one["lost"]) for one in ways.values())
            for client, ways in found.items()))
        for client, ways in found.items():
            for way, one in ways.items():
                if one["error"]:
                    say(f"    {client} over {way}, {one['calls']} calls: "
                        f"{one['error']}")
                if not one["calls"] or (
                        one["lost"] and client not in MAY_LOSE.get(event, ())):
                    self.failures.append(f"{event}: {client} over {way}: {one}")


def check_defaults():
    """Installs, tests, upgrades, rolls back and removes a release with default
    values, on one node of 2 CPUs and 4 GiB."""
    kubectl("cordon", "node2")
    try:
        install_and_remove()
    finally:
        kubectl("uncordon", "node2")
    # Test names that YAML would read as other types, and all kinds of objects.
    for name in ("y", "123"):
        helm("install", name, CHART, "--dry-run=server")
    helm("install", "shm", CHART, "--dry-run=server", "--set",
         "settings.allow-shared-memory=true,runtimeClassName=nvidia")
    say("defaults: install, test, upgrade, rollback and uninstall")


def install_and_remove():
    node, = objects("node", "--field-selector=metadata.name=node1")
    size = node["status"]["allocatable"]
    assert size["cpu"] == "2", size
    assert int(size["memory"].rstrip("Ki")) <= 4 << 20, size
    begun = time.monotonic()
    helm("install", PLAIN, CHART, "--wait", "--timeout", "60s")
    say(f"defaults: ready {time.monotonic() - begun:.0f} s after helm install")
    settle(PLAIN)
    helm_test(PLAIN)
    helm("upgrade", PLAIN, CHART, "--wait", "--set",
         "settings.max-elements=1000000,minReadySeconds=0")
    settle(PLAIN)
    helm_test(PLAIN)
    helm("rollback", PLAIN, "--wait")
    settle(PLAIN)
    helm_test(PLAIN)
    # The test must notice a Service without pods.
    kubectl("scale", "--replicas=0", "deployment/topkd")
    poll("no pods", lambda: not pods(PLAIN))
    assert helm("test", PLAIN, "--timeout", "60s", check=False).returncode != 0
    kubectl("delete", "pod", "topkd-test")  # Helm keeps it for its log
    helm("uninstall", PLAIN, "--wait")
    left = kubectl("get", "all,pdb,cm,sa,networkpolicy", "-o", "name", "-l",
                   f"app.kubernetes.io/instance={PLAIN}")
    assert not left, left


def check_page(credentials):
    """Runs the commands of deploy/kubernetes/README.md with the values on that
    page. Replaces what this cluster lacks: a registry, load balancers, the
    Prometheus Operator and large nodes."""
    text = (ROOT / "deploy/kubernetes/README.md").read_text(encoding="utf-8")
    install, secrets = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[:2]
    production, untrusted = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    for old, new in (("registry: images.example.org, ", ""),
                     ("deploy/kubernetes/helm/topkd", str(CHART))):
        assert old in install, old
        install = install.replace(old, new)
    heredoc = install[:install.index("chart=")]
    values = heredoc.splitlines()[1]
    commands = install[install.index("chart="):]
    values = f"{values}\nminReadySeconds: 0"  # faster
    test = "test: {tokenSecretName: test-token}\n"
    with tempfile.TemporaryDirectory() as folder:
        def bash(script):
            run("bash", "-euc", 'cd "$0"\n' + script, folder)
        credentials.write(folder)
        kubectl("delete", "secret", "topkd-tls", "topkd-tokens",
                "--ignore-not-found")
        bash(heredoc + commands)
        settle(PLAIN)
        bash(secrets)
        secret("test-token", {"token": credentials.token})
        production = production.replace('cpu: "2", memory: 2Gi',
                                        "cpu: 250m, memory: 512Mi")
        production = re.sub("monitoring:.*\n", "", production)
        file = pathlib.Path(folder, "topkd-values.yaml")
        file.write_text(f"{values}\n{production}{test}", encoding="utf-8")
        bash(commands)
        settle(PLAIN, 3)
        untrusted = untrusted.replace("LoadBalancer", "NodePort")
        file.write_text(f"{values}\n{untrusted}{test}", encoding="utf-8")
        bash(commands)
    helm("uninstall", PLAIN, "--wait")
    kubectl("delete", "secret", "topkd-tls", "topkd-tokens")
    say("page: every command works")


def check_shared_memory():
    """Checks that a second container of the pod can pass a tensor in shared
    memory."""
    client = {"name": "client", "image": "topkd:0.1.0",
              "command": ["sleep", "infinity"], "volumeMounts": [
                  {"name": "shared-memory", "mountPath": "/dev/shm"}]}
    helm("install", PLAIN, CHART, "--wait", "--set", "replicaCount=1,"
         "settings.allow-shared-memory=true", "--set-json",
         f"extraContainers={json.dumps([client])}")
    kubectl("exec", "deployment/topkd", "-c", "client", "--", "sh", "-c",
            "[ \"$(seq 100000 | topk run - --k 5 --shared-memory)\" = "
            "\"$(seq 100000 | topk run - --k 5 --local)\" ]")
    helm("uninstall", PLAIN, "--wait")
    say("shared memory: a second container passes a tensor")


def check_overload(load):
    """Checks that floods restart no pod and make none unready."""
    helm("upgrade", PLAIN, CHART, "--reuse-values", "--wait", "--set",
         "resources.limits.memory=512Mi")
    settle(PLAIN)
    unready = set()
    bench = ["topk", "bench", "--target", WAYS["ClusterIP"], "--k", "10",
             "--max-attempts", "4",
             "--json", "--keep-going", "--duration", "15"]
    floods = {
        "512 connections": [*bench, "--shape", "4,1000", "--connections", "512",
                            "--concurrency", "512"],
        "tensors of 60 MB": [*bench, "--path", "stream", "--shape",
                             "1,15000000", "--connections", "16",
                             "--concurrency", "16"]}
    for name, command in floods.items():
        flood = subprocess.Popen(
            ["kubectl", "--namespace", NAMESPACE, "exec", "clients", "--",
             "env", "TOPK_TLS_CA=/tls/ca.crt", "TOPK_TOKEN_FILE=/tmp/token",
             *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True)
        while flood.poll() is None:
            unready |= {pod["metadata"]["name"] for pod in pods(PLAIN)
                        if not is_ready(pod)}
            time.sleep(0.5)
        found = json.loads(flood.stdout.read())
        count = found["requests"]
        say(f"overload: {name}: {count}; restarts "
            f"{sum(restarts(PLAIN).values())}, unready {len(unready)}")
        assert count > 0, found
    assert not any(restarts(PLAIN).values()), restarts(PLAIN)
    assert not unready, unready


def main():
    parts = ["defaults", "page", "shared memory", "overload", *EVENTS]
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    wanted = parser.parse_args().only
    kubectl("create", "namespace", NAMESPACE, check=False)
    for release in DEPLOYMENTS:  # of an earlier run that failed
        helm("uninstall", release, "--wait", check=False)
    if "defaults" in wanted:
        check_defaults()
    results = Results()
    with tempfile.TemporaryDirectory() as folder:
        credentials = Credentials(folder)
        if "page" in wanted:
            check_page(credentials)
        if "shared memory" in wanted:
            check_shared_memory()
        credentials.apply()
        for release, values in VALUES.items():
            helm("upgrade", "--install", release, CHART, "--wait", "--set",
                 values)
            helm_test(release)
        load = Load(credentials.token)
        for name, function in EVENTS.items():
            if name in wanted:
                load.begin()
                if name == "new certificate and token":
                    rotate(load, credentials)
                else:
                    function()
                results.add(name, load.end())
        if "overload" in wanted:
            check_overload(load)
        load.close()
    for release in DEPLOYMENTS:
        helm("uninstall", release, "--wait")
    say(f"{results.calls} calls")
    if results.failures:
        sys.exit("\n".join(results.failures))


if __name__ == "__main__":
    main()
