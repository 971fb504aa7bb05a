"""Cheap attacks against a server that an honest caller uses all the time.

usage: cheap_attacks_test.py --server TOPKD [--only NAME[,NAME]] [--list]
                             [--seed N] [--seconds FACTOR] [--memory-factor N]
                             [--latency-factor N]

Each attack has a separate server. While it lasts, an honest caller calls a
small ComputeTopK from another address and connection. Afterwards, and while the
attack goes on, SIGTERM must end the server. Required of the server:

- no call of the honest caller fails, and the longest takes less than 250 ms
- its resident memory grows by no more than topk_inflight_bytes, 64 MiB and a
  message of 60 MiB that is still arriving
- topk_inflight_bytes stays within 0 .. topk_max_inflight_bytes
- it starts no more than 32 threads
- its metrics are served within 2 s
- it logs no poller that was busy for more than 100 ms
- it ends within --drain-timeout and 2 s, with exit status 0

An attack after which a call or a scrape took too long is repeated, up to
twice: a machine that other processes use delays calls too, but not each time.

--seed            chooses the variants of the attacks (default 1)
--seconds         how much longer than usual each attack lasts
--memory-factor   for sanitizers, whose memory is not the server's
--latency-factor  for sanitizers, which are slower
"""

import argparse
import sys
import time

import harness
import topk_stubs
from cheap_attack import ATTACKS, Attackers
from watched_server import WatchedServer
# Each of these registers its attacks.
import expired_calls  # noqa: F401
import extreme_plans  # noqa: F401
import held_memory  # noqa: F401
import idle_listeners  # noqa: F401
import many_fields  # noqa: F401

DRAIN_SECONDS = 0.5
# One poller, which every connection shares, and limits that let two clients
# hold 1 GiB each.
FLAGS = ("--threads", "2", "--pollers", "1", "--max-inflight-bytes",
         str(3 << 30), "--drain-timeout", f"{DRAIN_SECONDS}s")
LONGEST_CALL = 0.25
UNCOUNTED_MIB = 64
MORE_THREADS = 32
LONGEST_SCRAPE = 2
SECONDS_TO_END = DRAIN_SECONDS + 2
PATIENCE = 20
ATTEMPTS = 3


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--memory-factor", type=float, default=1)
    parser.add_argument("--latency-factor", type=float, default=1)
    options = parser.parse_args()
    if options.server is None and not options.list:
        parser.error("--server is required")
    unknown = set(options.only.split(",")) - {"", *ATTACKS}
    if unknown:
        parser.error(f"no such attack: {', '.join(sorted(unknown))}")
    return options


def flags_of(chosen):
    """Returns the server's flags: CLI11 takes each one once."""
    own = dict(zip(FLAGS[::2], FLAGS[1::2]))
    more = list(chosen.flags)
    while more:
        name = more.pop(0)
        own[name] = more.pop(0) if more and more[0][:2] != "--" else None
    return [word for pair in own.items() for word in pair if word is not None]


def run(name, options):
    """Lets an attack happen; returns its row of the table."""
    chosen = ATTACKS[name]
    row = {"attack": name, "faults": [], "delays": []}
    with WatchedServer(options.server, *flags_of(chosen),
                       descriptors=chosen.descriptors) as server:
        honest = harness.Neighbour(server.target, patience=5, **chosen.caller)
        try:
            _warm_up(server, honest)
            _attack(server, honest, chosen, options, row)
        finally:
            honest.kill()
    return row


def _warm_up(server, honest):
    served = 0

    def called():
        nonlocal served
        served += len(honest.latencies()[0])
        return served >= 30
    harness.poll("the honest caller to be served", called)
    server.settle()
    harness.poll("a scrape", lambda: server.readings.scrapes > 0)


def _attack(server, honest, chosen, options, row):
    faults = row["faults"]
    resident, threads = server.memory(), server.threads()
    with Attackers(chosen, server.addresses, options.seed) as attackers:
        least = time.monotonic() + chosen.seconds * options.seconds
        most = least + PATIENCE * options.latency_factor
        while (now := time.monotonic()) < most and server.is_alive() and (
                now < least or attackers.rounds < chosen.rounds):
            time.sleep(0.02)
        rounds = attackers.rounds
        latencies, failed = honest.latencies(patience=6)
        row["scrape"] = server.longest_scrape()
        if server.is_alive():
            row["growth"] = server.peak() - resident
            row["end"] = server.end(SECONDS_TO_END * options.latency_factor)
            if row["end"] is None:
                faults.append(f"SIGTERM did not end it in {SECONDS_TO_END} s")
            elif server.process.returncode != 0:
                faults.append(f"it ended with {server.process.returncode}")
        else:
            faults.append(f"the server died: {server.process.wait()}")
            row["growth"] = server.readings.resident - resident
            row["end"] = None
        row["outcomes"] = attackers.stop()
    row["rounds"] = rounds
    row["counted"] = server.readings.counted
    row["threads"] = server.readings.threads - threads
    row["calls"] = len(latencies)
    row["failed"] = failed
    row["longest"] = latencies[-1] if latencies else None
    if chosen.valid and row["outcomes"]["INVALID_ARGUMENT"]:
        faults.append("requests of the attack were invalid")
    if rounds < chosen.rounds:
        faults.append(f"only {rounds} of {chosen.rounds} calls of the attack "
                      f"were sent in {PATIENCE} s")
    allowed = row["counted"] + chosen.arriving + UNCOUNTED_MIB
    if row["growth"] > allowed * options.memory_factor:
        faults.append(f"memory grew by {row['growth']:.0f} MiB, "
                      f"{row['counted']:.0f} MiB were counted")
    _judge(row, failed, honest.faults, server, options)


def _judge(row, failed, why, server, options):
    faults = row["faults"]
    if failed:
        faults.append(f"{failed} honest calls failed: {why[0]}")
    elif not row["calls"]:
        faults.append("no honest call ended")
    longest = row["longest"] or 0
    if longest > LONGEST_CALL * options.latency_factor:
        row["delays"].append(f"an honest call took {longest:.2f} s")
    if server.readings.beyond is not None:
        faults.append("topk_inflight_bytes was "
                      f"{server.readings.beyond:.0f} MiB")
    if row["threads"] > MORE_THREADS:
        faults.append(f"{row['threads']} more threads")
    if row["scrape"] > LONGEST_SCRAPE * options.latency_factor:
        row["delays"].append(f"a scrape took {row['scrape']:.1f} s")
    if busy := server.busy_pollers():
        faults.append(f"{len(busy)} times a poller was busy: {busy[0]}")


def show(row):
    def number(value, form):
        return "-" if value is None else format(value, form)
    ends = ", ".join(f"{count} {name}" for name, count in
                     row["outcomes"].most_common(4))
    print(f"{row['attack']:30} {number(row['longest'], '9.3f')} "
          f"{row['calls']:6} {row['failed']:6} {row['growth']:7.0f} "
          f"{row['counted']:7.0f} {row['threads']:8} "
          f"{number(row['end'], '6.2f'):>6}  {row['rounds']} sent: {ends}")


def main():
    options = arguments()
    if options.list:
        for name, chosen in ATTACKS.items():
            text = (chosen.function.__doc__ or "").split("\n\n")[0]
            print(f"{name:30} {' '.join(text.split())}")
        return
    topk_stubs.load_oip_stubs()  # before its processes fork
    rows = []
    for name in options.only.split(",") if options.only else ATTACKS:
        begin = time.monotonic()
        for _ in range(ATTEMPTS):
            row = run(name, options)
            if row["faults"] or not row["delays"]:
                break
            print(f"slow   {name}: {row['delays'][0]}", flush=True)
        row["faults"] += row["delays"]
        rows.append(row)
        print(f"{'FAILED' if row['faults'] else 'ok':6} {name} "
              f"({time.monotonic() - begin:.1f} s)", flush=True)
        for fault in row["faults"]:
            print(f"       {fault}", flush=True)
    print(f"\n{'attack':30}   longest  calls failed  growth counted  threads"
          "     end  the attackers' calls\n" + " " * 30 +
          "   call, s                MiB     MiB                s")
    for row in rows:
        show(row)
    failed = sum(bool(row["faults"]) for row in rows)
    print(f"\n{len(rows) - failed} passed, {failed} failed, seed "
          f"{options.seed}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
