"""Result files: lines of JSON. The first line describes the run (machine, commit
and command), and each other line is a row of its results."""

import functools
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


def command_of(script, arguments):
    """Returns the command of a run, without the file for the results, and without
    the first argument, the programs, which the script finds itself."""
    command = " ".join([script, *arguments[1:]])
    return re.sub(r" --json[ =]\S+", "", command)


def run_of(script):
    """Describes this run of a script."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], check=False,
        capture_output=True, text=True).stdout.strip()
    return {"machine": f"{processor()}, {os.cpu_count()} CPUs",
            "commit": commit, "command": command_of(script, sys.argv[1:])}


def recorder(path, script):
    """Creates a file for this run. Returns a function that adds a row, which
    does nothing if there is no path."""
    if path is None:
        return lambda row: None
    add = functools.partial(write_row, open(path, "w", encoding="utf-8"))
    add(run_of(script))
    return add


def write_row(file, row):
    print(json.dumps(row), file=file, flush=True)


def read(path):
    """Returns the description of the run, and the rows."""
    run, *rows = map(json.loads, pathlib.Path(path).read_text(
        encoding="utf-8").splitlines())
    return run, rows
