"""Loads three servers while faults are injected; see README.md.

usage: soak.py TOPKD TOPK [--minutes 10] [--seed N] [--haproxy PATH]

Exits with 1 if a response was wrong, a call was lost, a server exited, or a
server's memory or descriptors grew beyond the limits below.
"""

import argparse
import contextlib
import itertools
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time

import harness
import loads
from chaos import Chaos
from topology import FAKETIME, Topology

# The fractions of the time, at the beginning and at the end, that have load but
# no faults. The second half of CALM is the steady part.
WARM_UP, CALM = 0.1, 0.4
# The max growth in MiB per minute in the steady part. Not checked if the steady
# part is shorter than LEAST_STEADY.
MOST_SLOPE = 3
LEAST_STEADY = 60  # seconds
# The max growth of the first server in MiB from the warm-up to the end.
MOST_GROWTH = 128
# File descriptors that may still be open, e.g. for HAProxy's health check.
SPARE = 4


class Watch:
    """Samples every second, by process name: (seconds, pid, MiB, descriptors)."""

    def __init__(self, topology, chaos, begin):
        self.samples = {name: [] for name in topology.processes()}
        self.died = []
        self._topology = topology
        self._chaos = chaos
        self._begin = begin
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._end.set()
        self._thread.join()

    def _run(self):
        while not self._end.wait(1):
            self._look()

    def _look(self):
        at = time.monotonic() - self._begin
        dead = [f"server {i}" for i, server in
                enumerate(self._topology.servers, 1)
                if server not in self._chaos.expected_dead
                and server.process.poll() is not None]
        self.died += [f"{name} at {at:.0f} s" for name in dead
                      if not any(one.startswith(name) for one in self.died)]
        for name, process in self._topology.processes().items():
            with contextlib.suppress(OSError):  # the process has just exited
                self.samples[name].append(
                    (at, process.process.pid, process.memory(),
                     process.descriptors()))

    def since(self, name, moment):
        """Returns the samples of the current process since `moment`."""
        rows = self.samples[name]
        return [row for row in rows
                if row[0] >= moment and row[1] == rows[-1][1]]


def slope(rows):
    """Returns MiB per minute by the Theil-Sen estimator, the median slope of
    all pairs of samples. Long runs are thinned to about 300 samples."""
    rows = rows[::max(1, len(rows) // 300)]
    return 60 * statistics.median(
        (later[2] - early[2]) / (later[0] - early[0])
        for early, later in itertools.combinations(rows, 2))


def run(options, directory, stack):
    """Runs the soak. Returns the findings."""
    topology = Topology(stack, options.topkd, options.haproxy, directory)
    if not FAKETIME:
        print("no libfaketime in build/tools: no clock steps", flush=True)
    descriptors = {name: process.descriptors()
                   for name, process in topology.processes().items()}
    seconds = 60 * options.minutes
    begin = time.monotonic()
    chaos = Chaos(topology, options.seed, begin)
    processes = loads.begin(options.topk, topology.target, seconds,
                            options.seed)
    for process in processes.values():
        stack.callback(process.kill)
    watch = Watch(topology, chaos, begin)
    time.sleep(WARM_UP * seconds)
    misbehaving = chaos.run_until(begin + (1 - CALM) * seconds)
    rows = loads.end(processes, CALM * seconds + 120)
    watch.stop()
    steady = (1 - CALM / 2) * seconds
    found = {"load": rows, "misbehaving": misbehaving, "events": chaos.events,
             "died": watch.died, "processes": {}}
    for name, process in topology.processes().items():
        begun = descriptors[name]
        with contextlib.suppress(AssertionError):
            harness.poll(
                "file descriptors to be closed",
                lambda process=process, begun=begun:
                process.descriptors() <= begun + SPARE, 60)
        rows = watch.since(name, steady)
        long = seconds - steady >= LEAST_STEADY and len(rows) > 10
        found["processes"][name] = {
            "descriptors_at_begin": begun,
            "descriptors_at_end": process.descriptors(),
            "mib_peak": max(row[2] for row in watch.samples[name]),
            "mib_at_end": process.memory(),
            "mib_a_minute": round(slope(rows), 2) if long else None}
    life = watch.since("server 1", WARM_UP * seconds)
    found["growth_mib"] = life[-1][2] - life[0][2]
    for server in topology.servers:
        server.stop()  # raises unless the exit status is 0
    return found


def checks(found):
    """Yields a line for each check, and whether it passed."""
    for kind, row in found["load"].items():
        extra = "".join(f", {key} {row[key]:.0f}" for key in
                        ("p99_ms", "not_sent") if key in row)
        yield (f"{kind}: {row['requests']} answered and compared, "
               f"{row['wrong']} wrong, {sum(row['lost'].values())} lost "
               f"{dict(row['lost']) or ''}, retry delays "
               f"{row['retryable'] or 'never'}{extra}",
               row["requests"] > 0 and not row["wrong"] and not row["lost"])
    nonsense = found["misbehaving"]["nonsense"]
    yield f"misbehaving clients: {found['misbehaving']}", not (
        nonsense.get("accepted") or nonsense.get("no_hint"))
    for name, row in found["processes"].items():
        speed = row["mib_a_minute"]
        yield (f"{name}: {row['descriptors_at_begin']} descriptors at the "
               f"begin, {row['descriptors_at_end']} at the end; "
               f"{row['mib_at_end']:.0f} MiB, at most {row['mib_peak']:.0f}; "
               + ("too short for a slope" if speed is None else
                  f"{speed:+.2f} MiB a minute in the steady part"),
               row["descriptors_at_end"] <= row["descriptors_at_begin"] + SPARE
               and (speed is None or speed <= MOST_SLOPE))
    yield (f"server 1 grew by {found['growth_mib']:.0f} MiB from the warm-up "
           "to the end", found["growth_mib"] <= MOST_GROWTH)
    faults = [row for row in found["events"] if "fault" in row]
    yield (f"{len(found['events'])} events, {len(faults)} of them ended "
           "otherwise than they should", not faults)
    yield (f"servers that died of themselves: {found['died'] or 'none'}",
           not found["died"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topkd")
    parser.add_argument("topk")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--haproxy", default=shutil.which("haproxy") or
                        "/usr/sbin/haproxy")
    options = parser.parse_args()
    harness.skip_without(options.haproxy)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory, \
            contextlib.ExitStack() as stack:
        found = run(options, directory, stack)
    good = True
    for text, fine in checks(found):
        print(("ok    " if fine else "NOT   ") + text)
        good &= fine
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
