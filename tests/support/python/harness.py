"""Processes that tests start, such as servers, and the commands of pages."""

import contextlib
import json
import multiprocessing
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import h2

SKIPPED = 77  # ctest's SKIP_RETURN_CODE
ROOT = pathlib.Path(__file__).resolve().parents[3]
HAPROXY_FILES = ROOT / "deploy/kubernetes/helm/topkd/files"
ENVOY_CONFIG = ROOT / "deploy/envoy/envoy.yaml"
# A block of commands of a page. If a ```text block follows, it must match the
# end of the standard output, where "..." stands for any text within a line.
BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^```sh\n(?P<commands>.*?)^```\n"
    r"(?:\n?```text\n(?P<text>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
BLOCK_SECONDS = 600  # the time limit of a block
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def field(number, value):
    """Returns a protobuf field with bytes or an integer."""
    if isinstance(value, int):
        return h2.varint(number << 3) + h2.varint(value)
    return h2.varint(number << 3 | 2) + h2.varint(len(value)) + value


def request(values=(1, 9, 3, 7), k=2):
    """Returns a serialized ONNX TopKRequest for the k largest of u8 values."""
    tensor = field(1, 9) + field(2, len(values)) + field(4, bytes(values))
    return (field(1, tensor) + field(2, field(1, 1) + field(2, 11)) +
            field(3, field(2, field(1, k))))


REQUEST = request()


def call(client, stream=1, pairs=None, payload=REQUEST, seconds=10):
    """Makes a call with one message. Returns an error message, or None."""
    client.send(h2.request(stream, pairs or h2.fields(), payload))
    return fault(client.answer(stream, seconds), client)


def fault(answer, client):
    """Returns an error message, or None if the call succeeded."""
    if answer is None:
        return "connection closed" if client.closed else "no answer"
    if b"grpc-status\x010" in answer[0]:
        return None
    text = answer[0][max(0, answer[0].find(b"grpc-status")):][:150]
    return text.decode("latin-1").encode("ascii", "replace").decode()


def serves(target, pairs=None, payload=REQUEST, source=None):
    """Returns whether a call on a new connection succeeds."""
    with contextlib.suppress(OSError), h2.Connection(
            target, source=source) as client:
        return call(client, 1, pairs, payload) is None
    return False


class Process:
    """A process and its resource usage according to /proc."""

    def __init__(self, process):
        self.process = process

    def is_alive(self):
        return self.process.poll() is None

    def _status(self, key):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        return int(text.partition(f"\n{key}:")[2].split(None, 1)[0] or 0)

    def memory(self):
        """Returns the resident memory in MiB."""
        return self._status("VmRSS") / 1024

    def peak(self):
        """Returns the peak resident memory since forget_peak(), in MiB."""
        return self._status("VmHWM") / 1024

    def threads(self):
        return self._status("Threads")

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def cpu_seconds(self):
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def poll(what, function, seconds=30):
    """Polls until the function returns a true value. Returns that value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = function()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"gave up waiting for {what}")


def skip_without(*paths):
    """Reports the test as skipped, unless these files exist."""
    for path in paths:
        if not os.path.exists(path):
            print(f"SKIPPED: {path} is missing; tests/run.sh installs it")
            sys.exit(SKIPPED)


def make_certificate(folder):
    """Writes a self-signed tls.crt for this machine, and its tls.key."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
         f"{folder}/tls.key", "-out", f"{folder}/tls.crt"], check=True,
        capture_output=True)


def run(*command, **environment):
    """Runs a command, which must succeed within 500 s. Returns its stdout."""
    done = subprocess.run(list(map(str, command)), check=False, text=True,
                          capture_output=True, timeout=500,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        raise AssertionError(f"{command}:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def running(command, **options):
    """Runs a program and kills it at the end."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Server(Process):
    """A topkd on loopback, drained at the end of a with block.

    listen       the listening address; start() reuses it if the port is not 0
    log_level    the value of --log-level
    descriptors  the limit on file descriptors (RLIMIT_NOFILE)
    environment  additional environment variables
    options      other arguments of Popen

    target       the address of the service
    addresses    the contents of the ready file
    """

    def __init__(self, path, *flags, listen="127.0.0.1:0", log_level="warn",
                 descriptors=None, environment=None, **options):
        self._folder = tempfile.TemporaryDirectory()
        self._ready = pathlib.Path(self._folder.name) / "ready.json"
        self._command = [path, "--listen", listen, "--ready-file", self._ready,
                         "--log-level", log_level, *flags]
        self._options = {"env": {**os.environ, **(environment or {})},
                         **options}
        if descriptors is not None:
            self._options["preexec_fn"] = lambda: resource.setrlimit(
                resource.RLIMIT_NOFILE, (descriptors, descriptors))
        self.start()

    def start(self):
        self._ready.unlink(missing_ok=True)  # may remain after SIGKILL
        self._killed = False
        super().__init__(subprocess.Popen(self._command, **self._options))
        try:
            poll("topkd to be ready", self._is_ready)
        except AssertionError:
            self.kill()
            raise
        self.addresses = json.loads(self._ready.read_text("utf-8"))
        self.target = self.addresses["listen"][0]

    def _is_ready(self):
        if not self.is_alive():
            raise AssertionError(f"topkd ended with {self.process.returncode}")
        return self._ready.exists()

    def metrics(self):
        """Returns the text of the metrics, if the server serves them."""
        url = f"http://{self.addresses['metrics']}/metrics"
        with urllib.request.urlopen(url, timeout=60) as page:
            return page.read().decode()

    def kill(self):
        """Kills the server, like a crash."""
        self._killed = True
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Drains the server. Returns how many seconds it took."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=60)
        if status != 0:
            raise AssertionError(f"topkd ended with {status}")
        return time.monotonic() - begin

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self._killed:
            self.stop()


class AttackedServer(Server):
    """A topkd whose pollers must never be busy with one event for 100 ms or
    more (1 s with AddressSanitizer)."""

    def __init__(self, path, *flags, **options):
        self._log = tempfile.NamedTemporaryFile()
        self._most_busy = 1000 if "/asan/" in str(path) else 100
        # Limits the memory that AddressSanitizer keeps in quarantine.
        asan = os.environ.get("ASAN_OPTIONS", "quarantine_size_mb=16")
        super().__init__(path, *flags, stderr=self._log,
                         environment={"ASAN_OPTIONS": asan}, **options)

    def log(self):
        with open(self._log.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def busy_pollers(self):
        """Returns the log lines about events that took too long."""
        return [event[0] for event in re.finditer(
            r".*poller busy: one event took (\d+) ms.*", self.log())
                if int(event[1]) >= self._most_busy]

    def __exit__(self, *_):
        super().__exit__()
        if busy := self.busy_pollers():
            raise AssertionError(busy[0])


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@contextlib.contextmanager
def haproxy(path, *targets, **variables):
    """Runs HAProxy with deploy/'s configuration for up to three servers, and
    with variables TOPK_... Yields its address and its Process."""
    port, status = free_ports(2)
    environment = {f"TOPK_SERVER_{number}": target for number, target in
                   enumerate((targets * 3)[:3], 1)}
    for name, value in {"LISTEN": "127.0.0.1:PORT",
                        "STATUS_LISTEN": f"127.0.0.1:{status}",
                        **variables}.items():
        environment[f"TOPK_{name}"] = str(value).replace("PORT", str(port))

    def is_ready():
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{status}/ready")
        return None
    with running([path, "-db", "-f", HAPROXY_FILES / "haproxy.cfg"],
                 stderr=subprocess.DEVNULL,
                 env={**os.environ, **environment}) as process:
        poll("HAProxy to be ready", is_ready)
        yield f"127.0.0.1:{port}", Process(process)


def _envoy_config(protoset, addresses, listen, admin):
    """Returns the configuration for these descriptors, servers and ports."""
    text = ENVOY_CONFIG.read_text(encoding="utf-8")

    def replace(old, new):
        nonlocal text
        assert text.count(old) == 1, (
            f"{ENVOY_CONFIG} does not have exactly one {old}")
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
    listen, admin = free_ports(2)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "envoy.yaml"
        path.write_text(_envoy_config(protoset, addresses, listen, admin),
                        encoding="utf-8")
        subprocess.run([program, "--mode", "validate", "-l", "warn", "-c",
                        path], check=True, stdout=subprocess.DEVNULL)
        with running([program, "-c", path, "-l", "error",
                      "--concurrency", "1", "--use-dynamic-base-id"]):
            yield f"127.0.0.1:{listen}"


def await_health(topk, target):
    poll("the proxy to serve", lambda: subprocess.run(
        [topk, "health", "--target", target], capture_output=True,
        check=False).returncode == 0)


def as_expected(output, text):
    """Returns whether the output ends with the expected text."""
    wanted = text.rstrip().splitlines()
    got = output.rstrip().splitlines()[-len(wanted):]
    return len(got) == len(wanted) and all(
        re.fullmatch(".*".join(map(re.escape, want.split("..."))), line)
        for want, line in zip(wanted, got))


def run_block(commands, text, folder, environment):
    """Runs a block in bash. Returns an error message, or None on success."""
    with tempfile.TemporaryFile("w+") as output, (
            tempfile.TemporaryFile("w+")) as errors, subprocess.Popen(
                ["bash", "-euc", commands], cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                start_new_session=True) as shell:
        try:
            shell.wait(timeout=BLOCK_SECONDS)
        except subprocess.TimeoutExpired:
            return f"not done after {BLOCK_SECONDS} s"
        finally:  # a failed block may leave servers running
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
        output.seek(0)
        errors.seek(0)
        out, err = output.read(), errors.read()
    if shell.returncode != 0:
        return f"exit {shell.returncode}\n{out}{err}"
    printed = COLOURS.sub("", out)
    if text is not None and not as_expected(printed, text):
        return f"expected:\n{text}printed:\n{printed}"
    return None


def _waits(pids):
    """Returns the seconds for which each thread of some processes has been
    ready to run while other threads had the processors."""
    waits = {}
    for pid in pids:
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # The thread has just ended.
                waits[path] = int(path.read_text("ascii").split()[1]) / 1e9
    return waits


def _keep_calling(target, pids, pipe, count, timeout):
    """Makes calls until killed. Whenever it receives a message, it sends a list
    of the calls since the previous message, as pairs of the latency in seconds
    and an error message or None."""
    calls = []
    payload = h2.message(request(bytes(count - 1) + b"\1"))
    fields = h2.fields(grpc_timeout=timeout)
    connection, stream = None, 1
    while True:
        while pipe.poll():
            pipe.recv()
            pipe.send(calls)
            calls = []
        before = _waits(pids)
        begin = time.monotonic()
        for _ in range(4):
            try:
                if connection is None:
                    connection = h2.Connection(target, source="127.0.0.9")
                    stream = 1
                connection.send(h2.call(stream, fields))
                connection.upload(stream, payload, True, 30)
                why = fault(connection.answer(stream, 30), connection)
            except OSError as error:
                why = str(error)
            stream += 2
            if why is None or "grpc-retry-pushback-ms" not in why:
                break
            time.sleep(0.1)
        took = time.monotonic() - begin
        # On a busy machine, calls take longer. Do not count the time for which
        # this process, or a thread of the server, had to wait for a processor.
        waited = {path: wait - before.get(path, wait)
                  for path, wait in _waits(pids).items()}
        own = sum(waited.pop(path) for path in [*waited]
                  if path.parts[2] == "self")
        took -= own + max(waited.values(), default=0)
        calls.append((max(took, 0), why))
        if why is not None and connection is not None:
            connection.socket.close()
            connection = None
        time.sleep(0.002)


class Neighbour:
    """A well-behaved client process that makes calls continuously. The server
    may reject a call up to three times if it names a retry delay.

    count      the number of u8 elements per tensor
    timeout    the deadline of the calls, in the format of grpc-timeout
    """

    def __init__(self, server, count=4, timeout=None):
        self._pipe, other = multiprocessing.Pipe()
        pids = ["self", server.process.pid]
        self._process = multiprocessing.Process(
            target=_keep_calling,
            args=(server.target, pids, other, count, timeout), daemon=True)
        self._process.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.join()

    def calls(self, count=1):
        """Waits until there are `count` new calls. Returns the latencies of the
        new successful calls and descriptions of the new failed calls."""
        calls = []
        while len(calls) < count:
            self._pipe.send("tell")
            if not self._pipe.poll(40):
                return [], ["no response in 40 s"]
            calls += self._pipe.recv()
            time.sleep(0.001)
        return ([seconds for seconds, why in calls if why is None],
                [f"{why} after {seconds:.2f} s" for seconds, why in calls
                 if why is not None])
