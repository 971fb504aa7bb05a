"""Injects random server faults during a soak, determined by the seed."""

import contextlib
import random
import time

import attacks
import misbehaving_clients
from topology import FAKETIME

PAUSE = (0.5, 4)  # seconds between faults
HOURS = 3600
# Each client has its own address, because HAProxy's limits are per address.
MISBEHAVING = [(misbehaving_clients.cancel, 2, "127.0.0.2"),
               (misbehaving_clients.nonsense, 1, "127.0.0.3"),
               (misbehaving_clients.dawdle, 2, "127.0.0.4")]


class Chaos:
    """Injects faults one at a time and records their outcomes."""

    def __init__(self, topology, seed, begin):
        self.topology = topology
        self.chance = random.Random(seed)
        self.begin = begin
        self.events = []
        self.expected_dead = set()
        self._kinds = [(5, self.kill), (1, self.roll), (6, self.attack)]
        if FAKETIME:
            self._kinds.append((3, self.step_clock))
        # Inject each kind once before repeating any, and the slowest one last.
        others = [kind for _, kind in self._kinds if kind != self.roll]
        self._first = [self.roll, *self.chance.sample(others, len(others))]

    def run_until(self, end):
        """Injects faults until `end`, while clients misbehave all the time.
        Returns the counts of the misbehaving clients."""
        with contextlib.ExitStack() as stack:
            crowds = {function.__name__: stack.enter_context(attacks.Attackers(
                attacks.Attack(function, processes=count), self.topology.target,
                self.chance.randrange(1 << 30), source))
                for function, count, source in MISBEHAVING}
            while time.monotonic() < end:
                self._happen(self._next())
                time.sleep(min(self.chance.uniform(*PAUSE),
                               max(0, end - time.monotonic())))
            self.topology.step_clock(0)
            return {name: dict(crowd.stop(patience=60))
                    for name, crowd in crowds.items()}

    def _next(self):
        if self._first:
            return self._first.pop()
        weights, kinds = zip(*self._kinds)
        return self.chance.choices(kinds, weights)[0]

    def _happen(self, event):
        begin = time.monotonic()
        row = {"at": round(begin - self.begin, 1), "event": event.__name__}
        try:
            row["what"] = event()
        except (AssertionError, OSError) as error:
            row["what"], row["fault"] = repr(error), True
        row["seconds"] = round(time.monotonic() - begin, 1)
        self.events.append(row)
        print(f"{row['at']:7.1f} s  {event.__name__}: {row['what']} "
              f"({row['seconds']} s)", flush=True)

    def _mortal(self):
        return self.chance.choice([1, 2])

    def kill(self):
        """Kills a server with SIGKILL and restarts it after a moment."""
        i = self._mortal()
        server = self.topology.servers[i]
        with self._expected(server):
            server.kill()
            time.sleep(self.chance.uniform(0, 3))
            server.start()
        return f"server {i + 1}"

    def roll(self):
        """Drains (with SIGTERM) and restarts one server after the other."""
        took = []
        for i in (1, 2):
            server = self.topology.servers[i]
            with self._expected(server):
                took.append(server.stop())
                server.start()
        return "servers 2 and 3 drained in " + ", ".join(
            f"{seconds:.1f} s" for seconds in took)

    @contextlib.contextmanager
    def _expected(self, server):
        """Marks an exit of the server as expected."""
        self.expected_dead.add(server)
        try:
            yield
        finally:
            self.expected_dead.discard(server)

    def attack(self):
        """Attacks HTTP/2 or the connection limits, maybe through HAProxy."""
        name, chosen = self.chance.choice(sorted(attacks.ATTACKS.items()))
        direct = not chosen.needs_haproxy and self.chance.random() < 0.5
        target = (self.topology.servers[0] if direct else self.topology).target
        with attacks.Attackers(chosen, target,
                               self.chance.randrange(1 << 30)) as attackers:
            time.sleep(self.chance.uniform(0.5, 3))
            outcomes = dict(attackers.stop())
        where = "at server 1" if direct else "through HAProxy"
        return f"{name} {where}: {attackers.rounds} sent, {outcomes}"

    def step_clock(self):
        """Steps the third server's wall clock forwards or backwards."""
        off = self.chance.choice([0, 1, -1, 60, -60, HOURS, -HOURS,
                                  24 * HOURS, -24 * HOURS, 400 * 24 * HOURS])
        self.topology.step_clock(off)
        return f"server 3's clock is {off:+d} s off"
