"""The cost of a TopK over many workers: a model of four terms with constants
that the scale test measures.

usage: model.py REPORT.json     predictions from the constants of a report
"""

import dataclasses
import json
import math
import sys

WIDTH = 4  # bytes of an element
PAIR = WIDTH + 8  # bytes of a value and its index


@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds, measured on one machine.

    Attributes:
      byte: of a shard, handed over in shared memory and computed.
      wire_byte: of one that is streamed to a server instead.
      cpu_byte: of processors, client's and server's together, per byte in
        shared memory.
      call: that carries next to nothing.
      candidate: of a merge, per element that goes in.
      handling: of a worker of the engine, per chunk, in addition to the call.
      schedule: of the engine's client and scheduler, which have one thread,
        per chunk, with its part of the tree.
      network_byte: between workers; not measured, 10 Gbit/s.
    """

    byte: float
    wire_byte: float
    cpu_byte: float
    call: float
    candidate: float
    handling: float
    schedule: float
    network_byte: float = 8e-10


def predict(costs, elements, workers, k, *, cores=None, wire=False,
            chunk=1 << 24, fan_in=8):
    """Returns the seconds of each term and all together, and those of
    processors: for workers on separate machines, or for all workers on one
    machine: its number of cores."""
    shards = math.ceil(elements / chunk)
    size = WIDTH * min(chunk, elements)
    shard = (costs.call + costs.handling
             + size * (costs.wire_byte if wire else costs.byte))
    compute = math.ceil(shards / workers) * shard
    schedule = shards * costs.schedule
    processors = (shards * (size * costs.cpu_byte + costs.handling)
                  + schedule)
    if cores:
        compute = max(compute, processors / cores)
    # The tree's lower levels have more nodes than workers, the upper fewer.
    merge = moved = 0.0
    nodes = shards
    while nodes > 1:
        inputs = min(fan_in, nodes)
        nodes = math.ceil(nodes / fan_in)
        turns = math.ceil(nodes / workers)
        merge += turns * inputs * k * costs.candidate
        moved += turns * inputs * k * PAIR * costs.network_byte
        processors += nodes * inputs * k * costs.candidate
    return {"compute": compute, "merge": merge, "network": moved,
            "schedule": schedule, "processors": processors,
            # Scheduling overlaps with the work and limits if it takes longer.
            "seconds": max(compute + merge + moved, schedule)}


def table(costs, k=100, elements=10**12):
    """Returns the prediction for many workers as lines of text."""
    lines = [f"{elements:.0e} elements, k = {k}, one worker a machine:",
             f"{'workers':>8}{'compute':>10}{'merge':>9}{'network':>9}"
             f"{'schedule':>10}{'seconds':>10}{'streamed':>10}"]
    for workers in (1, 10, 100, 1000):
        row = predict(costs, elements, workers, k)
        streamed = predict(costs, elements, workers, k, wire=True)
        lines.append(
            f"{workers:8}{row['compute']:10.1f}{row['merge']:9.2f}"
            f"{row['network']:9.3f}{row['schedule']:10.1f}"
            f"{row['seconds']:10.1f}{streamed['seconds']:10.1f}")
    return lines


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        sys.exit(2)
    with open(sys.argv[1], encoding="utf-8") as file:
        costs = Costs(**json.load(file)["model"]["costs"])
    for k in (1, 100, 10000):
        print("\n".join(table(costs, k)))


if __name__ == "__main__":
    main()
