"""Result files: lines of JSON. The first line describes the run (machine, commit
and command), and each other line is a row of its results."""

import json
import os
import pathlib
import re
import subprocess
import sys


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        facts = dict(re.findall(r"(.*?)\s*: (.*)", file.read()))
    return (f"{facts.get('model name')} (family {facts.get('cpu family')}, "
            f"model {facts.get('model')})")


def run_of(script):
    """Describes this run of a script. The command lacks the file for the results,
    and the first argument, the programs, which the script finds itself."""
    command = " ".join([script, *sys.argv[2:]])
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], check=False,
        capture_output=True, text=True).stdout.strip()
    return {"machine": f"{processor()}, {os.cpu_count()} CPUs",
            "commit": commit, "command": re.sub(r" --json[ =]\S+", "", command)}


def recorder(path, script):
    """Returns a function that prints a row of a Markdown table with the keys of
    the first row. If there is a path, adds the row to a new file for this run.
    """
    file = path and open(path, "w", encoding="utf-8")
    if file:
        print(json.dumps(run_of(script)), file=file, flush=True)
    heads = []

    def print_cells(cells):
        print("| " + " | ".join(
            f"{cell:.2f}" if isinstance(cell, float) else str(cell)
            for cell in cells) + " |", flush=True)

    def add(row):
        if not heads:
            heads.extend(row)
            print_cells(heads)
            print_cells("---" for _ in heads)
        print_cells(row.get(head, "") for head in heads)
        if file:
            print(json.dumps(row), file=file, flush=True)
    return add


def read(path):
    """Returns the description of the run, and the rows."""
    run, *rows = map(json.loads, pathlib.Path(path).read_text(
        encoding="utf-8").splitlines())
    return run, rows
