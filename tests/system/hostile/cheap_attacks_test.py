"""Attacks a server while an honest client calls it.

usage: cheap_attacks_test.py --server TOPKD [--only NAME...] [--seed N]
                             [--sanitized]

Each attack gets its own server. An honest client with another address calls
ComputeTopK. At the end, SIGTERM must stop the server while the attack goes on.
Required of the server:

- no call of the honest client fails
- half of the time that the honest client waits, apart from its slowest call,
  is for calls of at most 250 ms (some attacks: 1 s). The time for which the
  server or the client had to wait for a processor is not counted
- the log reports no poller that was busy for 100 ms of CPU time
- resident memory grows by at most topk_inflight_bytes, 64 MiB, and the messages
  that are arriving
- topk_inflight_bytes stays within 0 and topk_max_inflight_bytes
- the server starts at most 32 threads
- metrics can be scraped
- the server exits with status 0; --drain-timeout is 20 ms

--seed       selects the variants of the attacks (default 1)
--sanitized  allows 8 times the memory and 10 times the time
"""

import argparse
import contextlib
import http.client
import re
import signal
import subprocess
import sys
import time

import harness
import service_attacks  # noqa: F401, registers its attacks
import topk_stubs
from attacks import ATTACKS, Attackers

MIB = 1 << 20
# One poller, shared by all connections, and limits that let two clients hold
# 1 GiB each.
FLAGS = ("--threads=2", "--pollers=1", "--max-inflight-bytes=3GiB",
         "--drain-timeout=20ms")
UNCOUNTED_MIB = 64
MORE_THREADS = 32
PATIENCE = 40  # max seconds until the calls of an attack have been sent


class WatchedServer(harness.AttackedServer):
    """A topkd whose peak resource use is recorded. Killed at the end.

    counted, limit  topk_inflight_bytes and its limit in MiB
    least           the lowest topk_inflight_bytes
    scrapes         the number of successful scrapes
    """

    def __init__(self, path, *flags):
        super().__init__(path, "--metrics-listen", "127.0.0.1:0", *flags)
        self.counted = self.least = self.limit = 0
        self.scrapes = self.most_threads = 0

    def __exit__(self, *_):
        self.kill()

    def look(self):
        """Scrapes the metrics and counts the threads, unless the server has
        exited."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.most_threads = max(self.most_threads, self.threads())
            text = self.metrics()
            counted, self.limit = (
                float(re.search(rf"^{name} (\S+)$", text, re.M)[1]) / MIB
                for name in ("topk_inflight_bytes", "topk_max_inflight_bytes"))
            self.scrapes += 1
            self.counted = max(self.counted, counted)
            self.least = min(self.least, counted)

    def end(self):
        """Sends SIGTERM. Returns the exit status, or None after 60 s."""
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(timeout=60)
        return None


def typical_wait(latencies):
    """Returns the latency up to which calls took half of the total time. The
    slowest call does not count, because the machine may stop for a moment, but
    many fast calls do not hide slow ones."""
    counted = sorted(latencies)[:-1]
    left = sum(counted) / 2
    for latency in counted:
        left -= latency
        if left <= 0:
            return latency
    return float("inf")


def run(name, options):
    """Runs an attack and prints its results. Returns whether it failed."""
    chosen = ATTACKS[name]
    # Without duplicates, which topkd rejects.
    flags = {flag.partition("=")[0]: flag for flag in FLAGS + chosen.flags}
    with WatchedServer(options.server, *flags.values()) as server, \
            harness.Neighbour(server, **chosen.caller) as honest:
        honest.calls(30)  # until connections and threads are warm
        before = server.memory()
        server.forget_peak()
        server.counted = server.scrapes = 0
        threads = server.threads()
        with Attackers(chosen, server.target, options.seed) as attackers:
            begin = time.monotonic()
            least = chosen.seconds * (0.25 if options.sanitized else 1)
            while (took := time.monotonic() - begin) < PATIENCE and (
                    server.is_alive() and
                    (took < least or attackers.rounds < chosen.rounds)):
                server.look()
                time.sleep(0.02)
            rounds = attackers.rounds
            latencies, failed = honest.calls()
            server.look()
            growth = server.peak() - before if server.is_alive() else 0
            status = server.end()
            outcomes = attackers.stop()
    typical = typical_wait(latencies)
    most = (server.counted + chosen.arriving + UNCOUNTED_MIB) * (
        8 if options.sanitized else 1)
    busy = server.busy_pollers()
    faults = [text for wrong, text in (
        (failed, f"{len(failed)} honest calls failed: {failed[:1]}"),
        (typical > chosen.longest * (10 if options.sanitized else 1),
         "honest calls took long"),
        (busy, f"{len(busy)} times a poller was busy: {busy[:1]}"),
        (growth > most, f"memory grew by more than {most:.0f} MiB"),
        (server.least < 0 or server.counted > server.limit,
         f"topk_inflight_bytes was {server.least:.0f} to {server.counted:.0f} "
         f"MiB (limit {server.limit:.0f})"),
        (server.most_threads - threads > MORE_THREADS, "too many threads"),
        (not server.scrapes, "the metrics could not be scraped"),
        (status != 0, f"the server ended with {status}"),
        (chosen.valid and outcomes["INVALID_ARGUMENT"],
         "requests of the attack were invalid"),
        (rounds < chosen.rounds, f"the attack sent less than {chosen.rounds}"),
    ) if wrong]
    ends = ", ".join(f"{count} {how}" for how, count in outcomes.most_common(4))
    print(f"{'FAILED' if faults else 'ok':6} {name:28} {len(latencies)} calls, "
          f"typical {typical:.4f} s, longest "
          f"{max(latencies, default=0):.3f} s; memory {growth:+.0f} MiB, "
          f"counted {server.counted:.0f}; "
          f"{server.most_threads - threads:+} threads; {rounds} sent: {ends}",
          *faults, sep="\n       ", flush=True)
    return bool(faults)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--only", nargs="+", choices=ATTACKS, default=ATTACKS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sanitized", action="store_true")
    options = parser.parse_args()
    topk_stubs.load_oip_stubs()  # before the attackers fork
    failed = sum([run(name, options) for name in options.only])
    print(f"{len(options.only) - failed} passed, {failed} failed, seed "
          f"{options.seed}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
