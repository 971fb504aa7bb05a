"""Processes that tests start: servers, HAProxy and a client."""

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

import h2

SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number, value):
    """Returns a protobuf field with bytes or an integer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def request(values=(1, 9, 3, 7), k=2, shared_memory=None):
    """Returns a serialized ONNX TopKRequest for the k largest of u8 values. If
    `shared_memory` is the name of an object, it contains the values."""
    source = field(4, bytes(values)) if shared_memory is None else field(
        5, field(1, shared_memory.encode()) + field(3, len(values)))
    tensor = field(1, 9) + field(2, len(values)) + source
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

    def threads(self, name=None):
        """Returns the number of threads, or of those with this name."""
        if name is None:
            return self._status("Threads")
        found = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # The thread has just ended.
                found += (task / "comm").read_text("ascii").strip() == name
        return found

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
            print(f"SKIPPED: {path} is missing; tests/run.sh or "
                  "tests/system/deploy/kubernetes.sh installs it")
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


def grpc_minor(path):
    """Returns the minor version of the gRPC that a topkd is linked to."""
    return int(re.search(r"gRPC 1\.(\d+)", run(path, "--version"))[1])


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@contextlib.contextmanager
def haproxy(path, *targets):
    """Runs HAProxy with deploy/'s configuration for one or three servers."""
    config = pathlib.Path(__file__).parents[3] / (
        "deploy/kubernetes/helm/topkd/files/haproxy.cfg")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    servers = {f"TOPK_SERVER_{i}": target for i, target in
               enumerate((targets * 3)[:3], 1)}
    with running([path, "-db", "-f", config], stderr=subprocess.DEVNULL, env={
            **os.environ, "TOPK_LISTEN": address, **servers}) as process:
        poll("HAProxy to serve", lambda: serves(address))
        yield address, Process(process)


def _keep_calling(target, pipe, pause, patience, count, timeout, shared):
    """Makes calls until killed. Whenever it receives a message, it sends a list
    of the calls since the previous message, as pairs of the latency in seconds
    and an error message or None."""
    calls = []
    values = bytes(count - 1) + b"\1"
    payload = request(values, 2, f"/{shared.name}" if shared else None)
    fields = h2.fields(grpc_timeout=timeout)
    connection, stream = None, 1
    while True:
        while pipe.poll():
            pipe.recv()
            pipe.send(calls)
            calls = []
        if shared:  # a new object, because the server caches the old one
            shared.unlink(missing_ok=True)
            shared.write_bytes(values)
        begin = time.monotonic()
        try:
            if connection is None:
                connection = h2.Connection(target, source="127.0.0.9")
                stream = 1
            connection.send(h2.call(stream, fields))
            connection.upload(stream, h2.message(payload), True, patience)
            why = fault(connection.answer(stream, patience), connection)
        except OSError as error:
            why = str(error)
        calls.append((time.monotonic() - begin, why))
        stream += 2
        if why is not None and connection is not None:
            connection.socket.close()
            connection = None
        time.sleep(pause)


class Neighbour:
    """A well-behaved client process that makes calls continuously.

    patience       the maximum seconds to wait for a response
    count          the number of u8 elements per tensor
    timeout        the deadline of the calls, in the format of grpc-timeout
    shared_memory  whether each call passes its tensor in a new shared memory
                   object
    """

    def __init__(self, target, pause=0.002, patience=30, count=4, timeout=None,
                 shared_memory=False):
        self.faults = []
        self._shared = shared_memory and pathlib.Path(
            f"/dev/shm/topk-{os.getpid()}-{target}")
        self._pipe, other = multiprocessing.Pipe()
        self._process = multiprocessing.Process(
            target=_keep_calling,
            args=(target, other, pause, patience, count, timeout,
                  self._shared), daemon=True)
        self._process.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.join()
        if self._shared:
            self._shared.unlink(missing_ok=True)

    def latencies(self, patience=40, count=1):
        """Waits until there are `count` new calls. Returns the sorted latencies
        of the new successful calls and the number of new failed calls, which
        are described in `faults`."""
        calls = []
        while len(calls) < count:
            self._pipe.send("tell")
            if not self._pipe.poll(patience):
                self.faults = [f"no answer in {patience} s"]
                return [], 1
            calls += self._pipe.recv()
            time.sleep(0.001)
        self.faults = [f"{why} after {seconds:.2f} s"
                       for seconds, why in calls if why is not None]
        return (sorted(seconds for seconds, why in calls if why is None),
                len(self.faults))
