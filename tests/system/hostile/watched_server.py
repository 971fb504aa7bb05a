"""A topkd whose memory, threads, scrapes and log are watched all the time."""

import contextlib
import http.client
import re
import signal
import subprocess
import threading
import time
import urllib.request

import harness

MIB = 1 << 20


class Readings:
    """The greatest of each quantity since reset(), in MiB and seconds.

    beyond  what topk_inflight_bytes was if not within 0 .. its limit
    """

    def __init__(self):
        self.reset()

    def reset(self):
        self.counted = 0.0
        self.beyond = None
        self.resident = 0.0
        self.threads = 0
        self.scrape = 0.0
        self.scrapes = 0


class WatchedServer(harness.AttackedServer):
    """A server's process and what is read of it; killed at the end.

    period  seconds between two readings
    """

    def __init__(self, path, *flags, descriptors=None, period=0.02):
        super().__init__(path, "--metrics-listen", "127.0.0.1:0", *flags,
                         descriptors=descriptors)
        self.readings = Readings()
        self._period = period
        self._over = threading.Event()
        self._scraping_since = None
        self._watch = [threading.Thread(target=one, daemon=True)
                       for one in (self._watch_metrics, self._watch_process)]
        for thread in self._watch:
            thread.start()

    def __exit__(self, *_):
        self._over.set()
        self.kill()
        for thread in self._watch:
            thread.join()

    def scrape(self):
        """Returns the metrics without labels as a dict."""
        url = f"http://{self.addresses['metrics']}/metrics"
        with urllib.request.urlopen(url, timeout=60) as page:
            text = page.read().decode()
        return {name: float(value) for name, value in re.findall(
            r"^(\w+) (\S+)$", text, re.M)}

    def settle(self):
        """Forgets what was read; the readings begin with the next one."""
        self.forget_peak()
        self.readings.reset()

    def longest_scrape(self):
        """In seconds, one that still waits for its answer included."""
        since = self._scraping_since
        waiting = 0 if since is None else time.monotonic() - since
        return max(self.readings.scrape, waiting)

    def end(self, seconds):
        """Sends SIGTERM and waits; returns the seconds until the process has
        ended, None if it did not in time."""
        self._over.set()
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=seconds)
            return time.monotonic() - begin
        return None

    def _watch_metrics(self):
        readings = self.readings
        while not self._over.wait(self._period):
            self._scraping_since = begin = time.monotonic()
            try:
                metrics = self.scrape()
                counted = metrics["topk_inflight_bytes"] / MIB
                limit = metrics["topk_max_inflight_bytes"] / MIB
            except (OSError, KeyError, http.client.HTTPException):  # it died
                continue
            finally:
                self._scraping_since = None
            readings.scrape = max(readings.scrape, time.monotonic() - begin)
            readings.counted = max(readings.counted, counted)
            if not 0 <= counted <= limit:
                readings.beyond = counted
            readings.scrapes += 1

    def _watch_process(self):
        readings = self.readings
        while not self._over.wait(self._period / 2):
            with contextlib.suppress(OSError):
                readings.threads = max(readings.threads, self.threads())
                readings.resident = max(readings.resident, self.memory())
