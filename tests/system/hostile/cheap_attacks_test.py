"""Attacks a server while an honest client calls it.

usage: cheap_attacks_test.py --server TOPKD [--only NAME[,NAME]]
                             [--haproxy HAPROXY] [--seed N] [--sanitized]

Each attack gets its own server. An honest client with another address calls
ComputeTopK on this server and, for comparison, on a second server on the same
machine that is not attacked. At the end, SIGTERM must stop the attacked server
while the attack goes on. Required of the attacked server:

- no call of the honest client fails
- no call takes both 250 ms and ten times the other server's longest call
- resident memory grows by at most topk_inflight_bytes, 64 MiB, and the messages
  that are arriving
- topk_inflight_bytes stays within 0 and topk_max_inflight_bytes
- the server starts at most 32 threads
- a scrape of the metrics takes at most 2 s
- the log reports no poller that was busy for 100 ms of CPU time
- the server exits within 10 s, with status 0; --drain-timeout is 20 ms

If calls to the second server take longer than 25 ms, all time limits are scaled
up in proportion. If a call or a scrape took too long, the attack is repeated up
to twice, because a busy machine also delays calls, but not every time.

--haproxy    runs the attacks that gRPC 1.51 withstands only behind HAProxy,
             with deploy/haproxy's configuration. HAProxy's memory is limited
             too
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
import threading
import time
import urllib.request

import harness
import topk_stubs
from attacks import ATTACKS, Attackers
# Importing these modules registers their attacks.
import expired_calls  # noqa: F401
import extreme_plans  # noqa: F401
import held_memory  # noqa: F401
import many_fields  # noqa: F401

MIB = 1 << 20
# One poller, shared by all connections, and limits that let two clients hold
# 1 GiB each.
FLAGS = ("--threads=2", "--pollers=1", "--max-inflight-bytes=3GiB",
         "--drain-timeout=20ms")
LONGEST_CALL = 0.25
LONGEST_SCRAPE = 2
SECONDS_TO_END = 10
QUIET_TIMES = 10
UNCOUNTED_MIB = 64
MORE_THREADS = 32
PATIENCE = 40  # max seconds until the calls of an attack have been sent
ATTEMPTS = 3


class WatchedServer(harness.AttackedServer):
    """A topkd whose peak resource use is recorded. Killed at the end.

    counted, limit  topk_inflight_bytes and its limit in MiB
    least           the lowest topk_inflight_bytes
    scrape          the duration of the longest scrape in seconds
    """

    def __init__(self, path, *flags):
        super().__init__(path, "--metrics-listen", "127.0.0.1:0", *flags)
        self.counted = self.least = self.limit = self.most_threads = 0
        self.scrape = 0.0
        self._over = threading.Event()
        self._scraping_since = None
        self._watch = threading.Thread(target=self._keep_watching, daemon=True)
        self._watch.start()

    def __exit__(self, *_):
        self._over.set()
        self.kill()
        self._watch.join()

    def longest_scrape(self):
        """The longest scrape so far, including one that is still waiting."""
        since = self._scraping_since
        return max(self.scrape, time.monotonic() - since if since else 0)

    def end(self, seconds):
        """Sends SIGTERM. Returns the seconds until the process exited, or None
        if it did not exit in time."""
        self._over.set()
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=seconds)
            return time.monotonic() - begin
        return None

    def _keep_watching(self):
        url = f"http://{self.addresses['metrics']}/metrics"
        while not self._over.wait(0.02):
            self._scraping_since = begin = time.monotonic()
            try:
                self.most_threads = max(self.most_threads, self.threads())
                with urllib.request.urlopen(url, timeout=60) as page:
                    values = {name: float(value) / MIB for name, value in
                              re.findall(r"^(topk_(?:max_)?inflight_bytes) "
                                         r"(\S+)$", page.read().decode(), re.M)}
                counted = values["topk_inflight_bytes"]
            except (OSError, KeyError, http.client.HTTPException):
                continue  # the server has exited
            finally:
                self._scraping_since = None
            self.scrape = max(self.scrape, time.monotonic() - begin)
            self.counted = max(self.counted, counted)
            self.least = min(self.least, counted)
            self.limit = values["topk_max_inflight_bytes"]


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--haproxy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sanitized", action="store_true")
    options = parser.parse_args()
    options.names = [name for name in options.only.split(",") if name] or [
        name for name, chosen in ATTACKS.items()
        if chosen.needs_haproxy == bool(options.haproxy) and
        (chosen.sanitized or not options.sanitized)]
    if unknown := set(options.names) - set(ATTACKS):
        parser.error(f"no such attack: {', '.join(sorted(unknown))}")
    return options


def flags_of(chosen):
    """Returns the server's flags without duplicates, which topkd rejects."""
    return {flag.partition("=")[0]: flag
            for flag in FLAGS + chosen.flags}.values()


def run(name, quiet_target, options):
    """Runs an attack and prints its results. Returns the violations, and
    separately what took too long."""
    chosen = ATTACKS[name]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            WatchedServer(options.server, *flags_of(chosen)))
        target, processes = server.target, [server]
        if options.haproxy:
            target, proxy = stack.enter_context(
                harness.haproxy(options.haproxy, target))
            processes.append(proxy)
        honest, quiet = (
            stack.enter_context(harness.Neighbour(
                address, patience=30, **chosen.caller))
            for address in (target, quiet_target))
        for caller in (honest, quiet):  # until connections and threads are warm
            caller.latencies(count=30)
        return attack(name, target, processes, honest, quiet, options)


def attack(name, target, processes, honest, quiet, options):
    chosen, server = ATTACKS[name], processes[0]
    before = [process.memory() for process in processes]
    for process in processes:
        process.forget_peak()
    server.counted = server.scrape = 0
    threads = server.threads()
    with Attackers(chosen, target, options.seed) as attackers:
        begin = time.monotonic()
        least = chosen.seconds * (0.25 if options.sanitized else 1)
        while (took := time.monotonic() - begin) < PATIENCE and (
                server.is_alive() and
                (took < least or attackers.rounds < chosen.rounds)):
            time.sleep(0.02)
        rounds = attackers.rounds
        latencies, failed = honest.latencies()
        usual = quiet.latencies()[0][-1]
        slow = max(1, QUIET_TIMES * usual / LONGEST_CALL) * (
            10 if options.sanitized else 1)
        scrape = server.longest_scrape()
        growth, *others = (
            process.peak() - memory if process.is_alive() else float("inf")
            for process, memory in zip(processes, before))
        end = server.end(SECONDS_TO_END * slow)
        outcomes = attackers.stop()
    longest = latencies[-1] if latencies else float("inf")
    most = (server.counted + chosen.arriving + UNCOUNTED_MIB) * (
        8 if options.sanitized else 1)
    busy = server.busy_pollers()
    faults = [text for wrong, text in (
        (failed, f"{failed} honest calls failed: {honest.faults[:1]}"),
        (growth > most, f"memory grew by more than {most:.0f} MiB"),
        (any(other > most for other in others),
         f"HAProxy's memory grew by {others} MiB"),
        (server.least < 0 or server.counted > server.limit,
         f"topk_inflight_bytes was {server.least:.0f} to {server.counted:.0f} "
         f"MiB (limit {server.limit:.0f})"),
        (server.most_threads - threads > MORE_THREADS, "too many threads"),
        (busy, f"{len(busy)} times a poller was busy: {busy[:1]}"),
        (server.process.poll() != 0,
         f"the server ended with {server.process.poll()}"),
        (chosen.valid and outcomes["INVALID_ARGUMENT"],
         "requests of the attack were invalid"),
        (rounds < chosen.rounds, f"the attack sent less than {chosen.rounds}"),
    ) if wrong]
    delays = [text for wrong, text in (
        (longest > chosen.longest * slow, "an honest call took long"),
        (scrape > LONGEST_SCRAPE * slow, f"a scrape took {scrape:.1f} s"),
    ) if wrong]
    ends = ", ".join(f"{count} {how}" for how, count in outcomes.most_common(4))
    word = "FAILED" if faults else "slow" if delays else "ok"
    print(f"{word:6} {name:28} longest call "
          f"{longest:.3f} s of {len(latencies)}, quiet {usual:.3f} s; "
          f"memory {growth:+.0f} MiB, counted {server.counted:.0f}; "
          f"{server.most_threads - threads:+} threads; end in "
          f"{'-' if end is None else f'{end:.2f} s'}; {rounds} sent: {ends}",
          flush=True)
    for fault in faults + delays:
        print(f"       {fault}", flush=True)
    return faults, delays


def main():
    options = arguments()
    if options.haproxy:
        harness.skip_without(options.haproxy)
    topk_stubs.load_oip_stubs()  # before the attackers fork
    with harness.Server(options.server, *FLAGS,
                        "--allow-shared-memory") as quiet:
        failed = 0
        for name in options.names:
            for _ in range(ATTEMPTS):
                faults, delays = run(name, quiet.target, options)
                if faults or not delays:
                    break
            failed += bool(faults or delays)
    print(f"{len(options.names) - failed} passed, {failed} failed, seed "
          f"{options.seed}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
