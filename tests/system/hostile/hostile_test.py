"""Hostile clients against a real server.

usage: hostile_test.py TOPKD [--plain SERVICE_BENCH] [--haproxy HAPROXY]
                       [--only NAME[,NAME]] [--scale N] [--memory-factor N]
                       [--json] [--flag=--a-flag=of-topkd]...

Runs each attack of attacks.py against a server that a neighbour is calling all
the time, and requires that the server survives, that its memory stays within
the attack's bound, that all of the neighbour's calls succeed, and that the file
descriptors are closed.

--plain    the benchmark's null server instead: gRPC with its defaults
--haproxy  with HAProxy in front, as deploy/haproxy/haproxy.cfg has it
--flag     instead of those of the test
--scale    multiplies the amount of each attack, for figures
"""

import argparse
import contextlib
import json
import os
import sys
import time

import attacks
import harness


# Two threads that poll: whatever is between them may go wrong. Clients that do
# not begin are given up while the test can see it.
FLAGS = ["--threads", "4", "--handshake-timeout", "1s"]
# Descriptors of the proxy's connections to the server, which it keeps.
SPARE = 8
SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def returned(server, before):
    """Whether the descriptors are back to what they were."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if server.descriptors() <= before:
            return True
        time.sleep(0.02)
    return False


def calls_of(neighbour):
    """Returns the neighbour's latencies and failures, None without a call."""
    found = neighbour.latencies()
    return found if any(found) else None


def run(attack, stage, servers, neighbour, usual, memory_factor):
    """Returns what the attack did, as a row, and its faults."""
    neighbour.latencies()
    server = servers[0]
    before = [(one.descriptors(), one.memory()) for one in servers]
    for one in servers:
        one.forget_peak()
    processor = server.processor_seconds()
    begin = time.monotonic()
    outcome = attack(stage)
    row = {"attack": attack.__name__, "outcome": outcome,
           "seconds": round(time.monotonic() - begin, 2), "faults": []}
    # An attack may be shorter than any of the neighbour's calls.
    latencies, failed = harness.poll("the neighbour's next call",
                                     lambda: calls_of(neighbour))
    row["neighbour_calls"] = len(latencies)
    row["neighbour_failed"] = failed
    if latencies:
        p99 = harness.percentile(latencies, 0.99)
        row["neighbour_p99_us"] = round(p99 * 1e6)
        row["neighbour_most_us"] = round(latencies[-1] * 1e6)
        row["p99_ratio"] = round(p99 / usual, 1)
    if failed:
        row["faults"].append(f"{failed} of the neighbour's calls failed")
    if not all(one.is_alive() for one in servers):
        row["faults"].append("the server died")
        return row
    row["processor_seconds"] = round(server.processor_seconds() - processor, 2)
    for one, (descriptors, memory), name in zip(servers, before,
                                                ("", "proxy_")):
        row[name + "peak_mib"] = round(one.peak() - memory, 1)
        if not returned(one, descriptors + SPARE):
            row["faults"].append(f"descriptors: {descriptors} before, "
                                 f"{one.descriptors()} after")
        row[name + "after_mib"] = round(one.memory() - memory, 1)
        bound = attack.memory * stage.scale * memory_factor
        if row[name + "peak_mib"] > bound:
            row["faults"].append(f"{name}memory grew by more than {bound} MiB")
    return row


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("topkd")
    parser.add_argument("--plain")
    parser.add_argument("--haproxy")
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--memory-factor", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--flag", action="append", default=[])
    return parser.parse_args()


@contextlib.contextmanager
def scene(options):
    """A server, what is in front of it, a neighbour, how it usually fares."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            harness.PlainServer(options.plain) if options.plain else
            harness.AttackedServer(options.topkd, *(options.flag or FLAGS)))
        servers, target = [server], server.target
        if options.haproxy:
            target, proxy = stack.enter_context(
                harness.haproxy(options.haproxy, target))
            servers.append(proxy)
        neighbour = stack.enter_context(harness.Neighbour(target))
        time.sleep(0.5)
        neighbour.latencies()
        time.sleep(1)
        usual = harness.percentile(neighbour.latencies()[0], 0.99)
        yield attacks.Stage(target, options.scale), servers, neighbour, usual


def main():
    options = arguments()
    if options.haproxy and not os.access(options.haproxy, os.X_OK):
        print(f"{options.haproxy} is missing: skipped. tests/run.sh installs "
              "it.")
        sys.exit(SKIPPED)
    chosen = [name for name in options.only.split(",") if name]
    left = chosen or list(attacks.ATTACKS)
    passed = failed = 0
    while left:  # a server that died is followed by another
        with scene(options) as (stage, servers, neighbour, usual):
            print(f"usual p99 {usual * 1e6:.0f} us")
            while left and all(one.is_alive() for one in servers):
                row = run(attacks.ATTACKS[left.pop(0)], stage, servers,
                          neighbour, usual, options.memory_factor)
                failed += bool(row["faults"])
                passed += not row["faults"]
                if options.json:
                    print(json.dumps(row), flush=True)
                else:
                    show(row)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


def show(row):
    print(f"{'FAILED' if row['faults'] else 'ok':6} {row['attack']:25} "
          f"{row['seconds']:5.2f} s, memory {row.get('peak_mib', 0):+6.1f} MiB "
          f"then {row.get('after_mib', 0):+6.1f}; neighbour "
          f"{row['neighbour_calls']:5} calls, "
          f"p99 {row.get('neighbour_p99_us', 0):7} us "
          f"({row.get('p99_ratio', 0):6.1f} x); {row['outcome']} "
          f"{'; '.join(row['faults'])}", flush=True)


if __name__ == "__main__":
    main()
