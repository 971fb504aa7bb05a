"""Samples the memory and descriptors of processes every second."""

import contextlib
import itertools
import statistics
import threading
import time

EVERY = 1  # seconds


class Watch:
    """Samples, by process name: (seconds, pid, MiB, descriptors)."""

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
        while not self._end.wait(EVERY):
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
