"""Runs three servers behind HAProxy, each with a different handicap."""

import contextlib
import os
import pathlib
import resource
import subprocess

import harness

ROOT = pathlib.Path(__file__).resolve().parents[3]
FLAGS = ["--threads", "2", "--allow-shared-memory", "--drain-delay", "3s",
         "--drain-timeout", "10s",
         # To the servers, HAProxy is the only client.
         "--max-client-inflight-bytes", "1TiB",
         "--max-connections-per-client", "0", "--access-log-sample", "0.05"]
GROUP_MIB = 512
GROUPS = pathlib.Path("/sys/fs/cgroup")
FAKETIME = sorted(
    ROOT.glob("build/tools/usr/lib/*/faketime/libfaketimeMT.so.1"))


@contextlib.contextmanager
def limited_group(mebibytes):
    """Yields a function that moves the calling process into a cgroup with a
    memory limit, or None if this machine does not allow that."""
    for folder, limit in ((GROUPS / "memory", "memory.limit_in_bytes"),
                          (GROUPS, "memory.max")):
        group = folder / f"topk-{os.getpid()}"
        try:
            group.mkdir()
            if not (group / "cgroup.procs").exists():
                raise OSError(f"{folder} is an ordinary folder")
            (group / limit).write_text(str(mebibytes << 20), encoding="ascii")
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        try:
            yield lambda group=group: (group / "cgroup.procs").write_text(
                "0", encoding="ascii")
        finally:
            group.rmdir()
        return
    yield None


class Topology:
    """The processes of a soak. chaos.py injects faults into them.

    servers  the first is never restarted, so that its memory shows long-term
             growth. The second logs to a full disk, in a control group with
             little memory. The third has a clock that can be stepped.
    missing  faults that this machine does not support
    """

    def __init__(self, stack, topkd, haproxy, directory):
        self.directory = pathlib.Path(directory)
        self.missing = []
        enter = stack.enter_context(limited_group(GROUP_MIB))
        self.enter_group = enter
        if enter is None:
            self.missing.append("no control group can be made here: no memory "
                                "pressure")
        self.clock = self.directory / "clock"
        self.step_clock(0)
        if not FAKETIME:
            self.missing.append("no libfaketime in build/tools: no clock steps")
        burdens = [
            {"stderr": stack.enter_context(
                open(self.directory / "log-1", "wb"))},
            {"stderr": stack.enter_context(open("/dev/full", "wb")),
             **({"preexec_fn": enter} if enter else {})},
            {"stderr": stack.enter_context(
                open(self.directory / "log-3", "wb")),
             "environment": self._faked()}]
        self.servers = []
        for port, burden in zip(harness.free_ports(3), burdens):
            server = harness.Server(topkd, *FLAGS, log_level="info",
                                    listen=f"127.0.0.1:{port}", **burden)
            self.servers.append(server)
            stack.callback(server.kill)
        self.target, self.haproxy = stack.enter_context(harness.haproxy(
            haproxy, *(server.target for server in self.servers)))

    def _faked(self):
        if not FAKETIME:
            return {}
        return {"LD_PRELOAD": str(FAKETIME[0]),
                "FAKETIME_TIMESTAMP_FILE": str(self.clock),
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def step_clock(self, seconds):
        """Offsets the third server's clock by `seconds`."""
        new = self.clock.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n", encoding="ascii")
        new.rename(self.clock)

    def processes(self):
        """Returns {name: harness.Process} of the processes to watch."""
        found = {f"server {i}": harness.Process(server.process)
                 for i, server in enumerate(self.servers, 1)}
        return {**found, "HAProxy": self.haproxy}

    @contextlib.contextmanager
    def few_descriptors(self, server, spare):
        """Lowers a running server's limit to `spare` more file descriptors."""
        pid = server.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        most = server.descriptors() + spare
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))
        try:
            yield most
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

    def fill_memory(self, seconds):
        """Runs a process that takes all memory of the second server's control
        group, until the kernel kills it or the time is up. Returns the exit
        status of the process."""
        hog = ("import time\nheld = []\nend = time.monotonic() + %f\n"
               "while time.monotonic() < end:\n"
               "    held.append(b'x' * (1 << 20))\n" % seconds)

        def enter():
            self.enter_group()
            # Make the kernel choose this process, not the server.
            with open("/proc/self/oom_score_adj", "w",
                      encoding="ascii") as file:
                file.write("1000")
        return subprocess.run(["/usr/bin/python3", "-c", hog],
                              preexec_fn=enter, check=False,
                              stderr=subprocess.DEVNULL).returncode
