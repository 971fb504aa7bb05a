"""Runs three servers behind HAProxy, two of them with a handicap."""

import pathlib

import harness

ROOT = pathlib.Path(__file__).resolve().parents[3]
FLAGS = ["--threads", "2", "--allow-shared-memory", "--drain-delay", "3s",
         "--drain-timeout", "10s",
         # To the servers, HAProxy is the only client.
         "--max-client-inflight-bytes", "1TiB",
         "--max-connections-per-client", "0", "--access-log-sample", "0.05"]
FAKETIME = sorted(
    ROOT.glob("build/tools/usr/lib/*/faketime/libfaketimeMT.so.1"))


class Topology:
    """The processes of a soak. chaos.py injects faults into them.

    servers  the first is never restarted, so that its memory shows long-term
             growth. The second logs to a full disk. The third has a clock that
             can be stepped.
    """

    def __init__(self, stack, topkd, haproxy, directory):
        self._clock = pathlib.Path(directory, "clock")
        self.step_clock(0)
        faked = {"LD_PRELOAD": str(FAKETIME[0]),
                 "FAKETIME_TIMESTAMP_FILE": str(self._clock),
                 "FAKETIME_CACHE_DURATION": "1",
                 "FAKETIME_DONT_FAKE_MONOTONIC": "1"} if FAKETIME else {}
        self.servers = []
        for port, log, environment in zip(
                harness.free_ports(3),
                (f"{directory}/log-1", "/dev/full", f"{directory}/log-3"),
                ({}, {}, faked)):
            server = harness.Server(
                topkd, *FLAGS, log_level="info", listen=f"127.0.0.1:{port}",
                stderr=stack.enter_context(open(log, "wb")),
                environment=environment)
            self.servers.append(server)
            stack.callback(server.kill)
        self.target, self.haproxy = stack.enter_context(harness.haproxy(
            haproxy, *(server.target for server in self.servers)))

    def step_clock(self, seconds):
        """Offsets the third server's clock by `seconds`."""
        new = self._clock.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n", encoding="ascii")
        new.rename(self._clock)

    def processes(self):
        """Returns {name: harness.Process} of the processes to watch."""
        found = {f"server {i}": harness.Process(server.process)
                 for i, server in enumerate(self.servers, 1)}
        return {**found, "HAProxy": self.haproxy}
