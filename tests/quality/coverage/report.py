"""Prints coverage by folder, from llvm-cov's output in a build folder. Writes
the uncovered lines of each file to report.txt in the build folder.

A line or branch of a template counts once, as covered if any instance covers
it. Conditions that were reached but took neither branch are constants, which do
not count.

usage: report.py FOLDER
"""

import collections
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
# The required percentage of lines and of branches.
TARGETS = {"core": 95, "server": 90}
PARTS = ("core", "server", "client")


def name_of(path):
    """Returns the path from the root, or "" outside the measured folders."""
    name = os.path.relpath(path, ROOT)
    return name if name.split("/")[0] in PARTS else ""


def read_lines(path):
    """Returns {file: {line: execution count}}."""
    files = collections.defaultdict(dict)
    for row in path.read_text(encoding="utf-8").splitlines():
        kind, _, rest = row.partition(":")
        if kind == "SF":
            name = name_of(rest)
        elif kind == "DA" and name:
            line, count = map(int, rest.split(",")[:2])
            files[name][line] = max(count, files[name].get(line, 0))
    return files


def read_branches(path, lines):
    """Returns {file: {(place, outcome): how often it was taken}}."""
    files = collections.defaultdict(collections.Counter)
    report = json.loads(path.read_text(encoding="utf-8"))
    for file in report["data"][0]["files"]:
        name = name_of(file["filename"])
        if not name:
            continue
        for branch in file["branches"]:
            for outcome in (True, False):
                count = branch[4 if outcome else 5]
                files[name][tuple(branch[:4]), outcome] += count
        taken = files[name]
        for place in {place for place, _ in taken}:
            reached = lines[name].get(place[0], 0) > 0
            if reached and not taken[place, True] and not taken[place, False]:
                del taken[place, True], taken[place, False]
    return files


class Row:
    """Counts of lines and branches: in total, and executed."""

    def __init__(self, parts):
        parts = list(parts)
        self.lines = sum(len(lines) for lines, _ in parts)
        self.run = sum(n > 0 for lines, _ in parts for n in lines.values())
        self.branches = sum(len(taken) for _, taken in parts)
        self.taken = sum(n > 0 for _, taken in parts for n in taken.values())

    def of_lines(self):
        return 100 * self.run / max(self.lines, 1)

    def of_branches(self):
        return 100 * self.taken / self.branches if self.branches else 100

    def cells(self):
        return (f"{self.lines} | {self.of_lines():.1f} | {self.branches} | "
                f"{self.of_branches():.1f}")


def main():
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    folder = pathlib.Path(sys.argv[1])
    lines = read_lines(folder / "lines.lcov")
    branches = read_branches(folder / "branches.json", lines)
    files = {name: (lines[name], branches[name]) for name in sorted(lines)}

    print("| | lines | % | branches | % |\n|---|---:|---:|---:|---:|")
    folders = {name.rpartition("/")[0] for name in files}
    for place in sorted(folders | set(PARTS)):
        below = place in PARTS
        row = Row(parts for name, parts in files.items()
                  if name.rpartition("/")[0] == place
                  or below and name.startswith(place + "/"))
        print(f"| {'**' + place + '**' if below else place} | {row.cells()} |")

    with (folder / "report.txt").open("w", encoding="utf-8") as report:
        for name, (counts, taken) in files.items():
            missed = [line for line, n in counts.items() if n == 0]
            never = [f"{place[0]}:{place[1]} {outcome}"
                     for (place, outcome), n in taken.items()
                     if n == 0 and counts.get(place[0], 0) > 0]
            print(f"{name}: {Row([(counts, taken)]).cells()}\n"
                  f"  lines: {missed}\n  branches: {never}", file=report)

    failed = False
    for part, target in TARGETS.items():
        row = Row(parts for name, parts in files.items()
                  if name.startswith(part + "/"))
        for what, share in (("lines", row.of_lines()),
                            ("branches", row.of_branches())):
            if share < target:
                failed = True
                print(f"{part}: {share:.1f} % of {what} are covered, below "
                      f"{target} %")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
