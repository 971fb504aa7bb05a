"""A Markdown table of runs of service.sh with the servers of several versions
of gRPC, by the same client.

usage: versions.py NAME=ROWS.jsonl [NAME=ROWS.jsonl ...]

A repeated name is a further run. Each cell has calls/s of topkd and of
the null server, the medians of the version's runs.
"""

import json
import pathlib
import statistics
import sys

import report


def main():
    runs = {}
    for argument in sys.argv[1:]:
        name, _, path = argument.partition("=")
        rows = runs.setdefault(name, {})
        for line in pathlib.Path(path).read_text("utf-8").splitlines():
            row = json.loads(line)
            key = (row["path"], row.get("bytes", 0), row.get("callers", 1))
            for side in ("topkd", "null"):
                figure = row.get(f"{side}_rps")
                if figure is not None:
                    rows.setdefault(key, {}).setdefault(side, []).append(figure)
    print("| call | tensor | callers |", " | ".join(runs), "|")
    print("|---|---|---:|" + "---:|" * len(runs))
    for key in next(iter(runs.values())):
        path, size, callers = key
        cells = []
        for rows in runs.values():
            sides = rows.get(key, {})
            cells.append(" / ".join(
                f"{statistics.median(sides[side]):.0f}" if sides.get(side)
                else "-" for side in ("topkd", "null")))
        print("|", report.PATHS[path], "|", report.size_name(size), "|",
              callers, "|", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
