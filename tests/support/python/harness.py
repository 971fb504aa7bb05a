"""Processes that tests start and watch: servers, a proxy, and a neighbour."""

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


def _length(number, payload):
    """A length-delimited protobuf field."""
    size = len(payload)
    out = bytearray([number << 3 | 2])
    while size >= 128:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes(out) + bytes([size]) + payload


def _varint(number, value):
    out = bytearray([number << 3])
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def request(values=(1, 9, 3, 7), k=2):
    """Returns a TopKRequest by ONNX's rules: the k largest of u8 values."""
    return _request(len(values), _length(4, bytes(values)), k)


def shared_request(name, count, k):
    """The same of values that lie in a shared memory object."""
    return _request(
        count, _length(5, _length(1, name.encode()) + _varint(3, count)), k)


def _request(count, data, k):
    tensor = _varint(1, 9) + _varint(2, count) + data
    return (_length(1, tensor) + _length(2, _varint(1, 1) + _varint(2, 11)) +
            _length(3, _length(2, _varint(1, k))))


REQUEST = request()


class Process:
    """A server's process, looked at from outside."""

    def __init__(self, process):
        self.process = process

    def is_alive(self):
        return self.process.poll() is None

    def _status(self, key):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(key):
                    return int(line.split()[1]) / 1024
        return 0

    def memory(self):
        """Resident, in MiB."""
        return self._status("VmRSS:")

    def peak(self):
        """The most that was resident since forget_peak, in MiB."""
        return self._status("VmHWM:")

    def forget_peak(self):
        path = f"/proc/{self.process.pid}/clear_refs"
        with open(path, "w", encoding="ascii") as file:
            file.write("5")

    def threads(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(file.read().split("Threads:")[1].split()[0])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def processor_seconds(self):
        path = f"/proc/{self.process.pid}/stat"
        with open(path, encoding="ascii") as file:
            after_name = file.read().rsplit(")", 1)[1].split()
        ticks = int(after_name[11]) + int(after_name[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def poll(what, function, seconds=30):
    """Waits until the function returns something true, which is returned."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = function()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"gave up waiting for {what}")


class Server(Process):
    """A topkd on loopback, which ends with 0 at the end of a with block.

    listen       the address to serve at; start() serves at the same one again
                 if its port is not 0
    log_level    that of --log-level
    descriptors  its RLIMIT_NOFILE
    environment  variables in addition to those of this process
    how          other arguments of Popen

    target       the address of the service
    addresses    the content of its ready file
    """

    def __init__(self, path, *flags, listen="127.0.0.1:0", log_level="warn",
                 descriptors=None, environment=None, **how):
        self._folder = tempfile.TemporaryDirectory()
        self._ready = pathlib.Path(self._folder.name) / "ready.json"
        self._listen = listen
        self._command = [path, "--listen", listen, "--ready-file", self._ready,
                         "--log-level", log_level, *flags]
        self._how = {"env": {**os.environ, **(environment or {})}, **how}
        if descriptors is not None:
            self._how["preexec_fn"] = lambda: resource.setrlimit(
                resource.RLIMIT_NOFILE, (descriptors, descriptors))
        self.start()

    def start(self):
        self._ready.unlink(missing_ok=True)  # SIGKILL leaves it
        self._killed = False
        super().__init__(subprocess.Popen(self._command, **self._how))
        try:
            poll("topkd to be ready", self._is_ready)
        except AssertionError:
            self.kill()
            raise
        self.addresses = json.loads(self._ready.read_text("utf-8"))
        # Until a control plane has configured it, an address is without a port.
        self.target = (self.addresses["listen"][0]
                       if self._listen.endswith(":0") else self._listen)

    def _is_ready(self):
        if not self.is_alive():
            raise AssertionError(f"topkd ended with {self.process.returncode}")
        return self._ready.exists()

    def kill(self):
        """Ends it as a crash would."""
        self._killed = True
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Drains it; returns how many seconds that took."""
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
    """A topkd with a log, in which no event may have kept one of its pollers
    busy for 100 ms, or 1 s with AddressSanitizer."""

    def __init__(self, path, *flags, **how):
        self._log = tempfile.NamedTemporaryFile()
        self._most_busy = 1000 if "/asan/" in str(path) else 100
        # Excludes freed memory that a sanitizer keeps from the measurement.
        options = os.environ.get("ASAN_OPTIONS", "quarantine_size_mb=16")
        super().__init__(path, *flags, stderr=self._log,
                         environment={"ASAN_OPTIONS": options}, **how)

    def log(self):
        with open(self._log.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def busy_pollers(self):
        """The lines of the log about events that took too long."""
        return [event[0] for event in re.finditer(
            r".*poller busy: one event took (\d+) ms.*", self.log())
                if int(event[1]) >= self._most_busy]

    def __exit__(self, *_):
        super().__exit__()
        if busy := self.busy_pollers():
            raise AssertionError(busy[0])


def grpc_minor(path):
    """Returns the 51 of the gRPC 1.51.1 that a topkd runs with."""
    version = subprocess.run([path, "--version"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    return int(re.search(r"gRPC 1\.(\d+)", version)[1])


class PlainServer(Process):
    """gRPC as it comes: the benchmark's server that computes nothing."""

    def __init__(self, path):
        with tempfile.TemporaryDirectory() as folder:
            ready = pathlib.Path(folder) / "ready"
            super().__init__(subprocess.Popen(
                [path, "--mode", "null", "--listen", "127.0.0.1:0",
                 "--ready-file", ready], stderr=subprocess.DEVNULL))
            try:
                poll("the server to be ready", ready.exists)
            except AssertionError:
                self.__exit__()
                raise
            self.target = ready.read_text("utf-8").strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@contextlib.contextmanager
def haproxy(path, *targets):
    """HAProxy with the configuration of deploy/ in front of up to three
    servers."""
    config = pathlib.Path(__file__).parents[3] / "deploy/haproxy/haproxy.cfg"
    address = f"127.0.0.1:{free_ports(1)[0]}"
    nobody = ["127.0.0.1:1"] * 3
    servers = {f"TOPK_SERVER_{i}": target for i, target in
               enumerate([*targets, *nobody][:3], 1)}
    process = subprocess.Popen(
        [path, "-db", "-f", config], stderr=subprocess.DEVNULL,
        env={**os.environ, "TOPK_LISTEN": address, **servers})

    def serves():
        with contextlib.suppress(OSError), h2.Connection(address) as client:
            client.send(h2.call(1, h2.fields()) +
                        h2.data(1, h2.message(REQUEST), end_stream=True))
            answer = client.answer(1)
            return answer is not None and b"grpc-status\x010" in answer[0]
        return False
    try:
        poll("HAProxy to serve", serves)
        yield address, Process(process)
    finally:
        process.kill()
        process.wait()


def _fault(answer, connection):
    """Returns why a call failed, None if it did not."""
    if answer is None:
        return "connection closed" if connection.closed else "no answer"
    if b"grpc-status\x010" in answer[0]:
        return None
    text = answer[0][answer[0].find(b"grpc-status"):][:150]
    return text.decode("latin-1").encode("ascii", "replace").decode()


def _ask(target, pipe, pause, patience, count, timeout, reconnects):
    """The neighbour's life: a call, a pause, a call, until it is stopped.
    Reports a pair for each call when it is asked: its latency in seconds and
    why it failed, None if it did not."""
    told = []
    body = h2.message(request(bytes(count - 1) + b"\1", 2))
    fields = h2.fields(grpc_timeout=timeout)
    connection, stream = None, 1
    while True:
        while pipe.poll():
            if pipe.recv() == "stop":
                return
            pipe.send(told)
            told = []
        begin = time.monotonic()
        try:
            if connection is None:
                connection = h2.Connection(target, source="127.0.0.9")
                stream = 1
            connection.send(h2.call(stream, fields))
            connection.upload(stream, body, True, patience)
            fault = _fault(connection.answer(stream, patience), connection)
        except OSError as error:
            fault = str(error)
        told.append((time.monotonic() - begin, fault))
        stream += 2
        if fault is not None or reconnects:
            if connection is not None:
                connection.socket.close()
            connection = None
        time.sleep(pause)


class Neighbour:
    """A well-behaved client in a separate process that calls all the time.

    patience    the seconds that it waits for a response
    count       the number of u8 elements of its tensors
    timeout     the calls' deadline, in the form of grpc-timeout
    reconnects  whether each call opens a new connection
    """

    def __init__(self, target, pause=0.002, patience=30, count=4, timeout=None,
                 reconnects=False):
        self.faults = []
        self._pipe, other = multiprocessing.Pipe()
        self._process = multiprocessing.Process(
            target=_ask, args=(target, other, pause, patience, count, timeout,
                               reconnects), daemon=True)
        self._process.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._pipe.send("stop")
        self._process.join(timeout=40)
        self._process.kill()

    def kill(self):
        self._process.kill()
        self._process.join()

    def latencies(self, patience=40):
        """Returns those since the last time, sorted, and how many calls
        failed, which `faults` then describes."""
        self._pipe.send("tell")
        if not self._pipe.poll(patience):
            self.faults = [f"no answer in {patience} s"]
            return [], 1
        told = self._pipe.recv()
        self.faults = [f"{fault} after {seconds:.2f} s"
                       for seconds, fault in told if fault is not None]
        return (sorted(seconds for seconds, fault in told if fault is None),
                len(self.faults))


def percentile(sorted_values, part):
    if not sorted_values:
        return float("nan")
    return sorted_values[min(len(sorted_values) - 1,
                             int(len(sorted_values) * part))]


def run_cases(cases, *arguments):
    """Calls each case, prints what became of it, and ends the program."""
    failed = 0
    for case in cases:
        begin = time.monotonic()
        try:
            case(*arguments)
            print(f"ok      {case.__name__}, {time.monotonic() - begin:.1f} s",
                  flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED  {case.__name__}: {error!r}, line "
                  f"{error.__traceback__.tb_next.tb_lineno}", flush=True)
    print(f"{len(cases) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
