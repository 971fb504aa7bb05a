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
    """Creates a file for this run. Returns a function that adds a row, which
    does nothing if there is no path."""
    if path is None:
        return lambda row: None
    file = open(path, "w", encoding="utf-8")

    def add(row):
        print(json.dumps(row), file=file, flush=True)
    add(run_of(script))
    return add


def read(path):
    """Returns the description of the run, and the rows."""
    run, *rows = map(json.loads, pathlib.Path(path).read_text(
        encoding="utf-8").splitlines())
    return run, rows
