#!/usr/bin/env python3
"""Mutation testing: applies each mutant of mutants.toml to a copy of the tree,
one at a time, builds the tests that should detect it, and runs them until one
fails.

usage: tests/quality/mutation/run.py [--list] [--only NAME...] [--jobs N]
                                     [--again] [--tree FOLDER]

  --list   the mutants, and stop
  --only   only these mutants
  --jobs   concurrent compilers; the number of CPUs
  --again  also the mutants that were killed before
  --tree   where the copy is; build/mutation

A killed mutant is not run again until its file or its row changes, so that an
interrupted run resumes; build/mutation.jsonl has the results. The exit status
is the number of survivors, without those whose row gives a reason.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[3]
RESULTS = ROOT / "build" / "mutation.jsonl"
MUTANTS = pathlib.Path(__file__).with_name("mutants.toml")


def copy_tree(tree):
    """Makes the copy the same as the tree, and leaves alone what is already,
    which then need not be built again."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT,
        check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        source, copy = ROOT / name, tree / name
        if not source.is_file():
            copy.unlink(missing_ok=True)
            continue
        content = source.read_bytes()
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            copy.chmod(source.stat().st_mode)


def mutated(mutant):
    """The file's text and what becomes of it."""
    text = (ROOT / mutant["file"]).read_text(encoding="utf-8")
    if text.count(mutant["old"]) != 1:
        sys.exit(f"{mutant['name']}: its text stands "
                 f"{text.count(mutant['old'])} times in {mutant['file']}: "
                 "the list has gone stale")
    return text, text.replace(mutant["old"], mutant["new"])


def digest(mutant):
    text, _ = mutated(mutant)
    row = json.dumps(mutant, sort_keys=True)
    return hashlib.sha256((row + text).encode()).hexdigest()


class Tests:
    """The programs, as built from the copy."""

    def __init__(self, tree, jobs):
        self.tree = tree
        self.build_folder = tree / "build" / "dev"
        self.jobs = jobs
        self.limits = {}
        subprocess.run(
            ["cmake", "--preset", "dev", "-DCMAKE_GTEST_DISCOVER_TESTS_"
             "DISCOVERY_MODE=PRE_TEST"],  # a mutant might not list its tests
            cwd=tree, check=True, stdout=subprocess.DEVNULL)

    def build(self, tests):
        """Returns the compiler's words if they cannot be built."""
        programs = sorted({test.split(":")[0] for test in tests})
        result = subprocess.run(
            ["cmake", "--build", str(self.build_folder), "-j", str(self.jobs),
             "--target", *programs],
            capture_output=True, text=True, check=False)
        return "" if result.returncode == 0 else result.stdout

    def run(self, test, limit):
        """Returns which test failed first, "" if none did."""
        program, _, pattern = test.partition(":")
        command = [str(self.build_folder / "bin" / program), "--gtest_brief=1",
                   "--gtest_fail_fast", f"--gtest_filter={pattern or '*'}"]
        with subprocess.Popen(command, cwd=self.tree, text=True,
                              stdout=subprocess.PIPE, errors="replace",
                              stderr=subprocess.STDOUT,
                              start_new_session=True) as process:
            try:
                output, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return f"{program}, which did not end"
        if process.returncode == 0:
            if re.search(r"^\[=+\] 0 tests", output, re.M):
                sys.exit(f"{test}: there are no such tests")
            return ""
        failed = re.search(r"^\[  FAILED  \] ([^\s,]+)", output, re.M)
        return failed[1] if failed else f"{program}, which crashed"

    def learn_limits(self, tests):
        """Runs each once on the right code: it must pass, and a mutant that
        takes many times as long hangs."""
        if words := self.build(tests):
            sys.exit(f"the tree does not build:\n{words[-4000:]}")
        for test in sorted(tests):
            start = time.monotonic()
            if failed := self.run(test, 1800):
                sys.exit(f"{failed} fails without a mutant")
            self.limits[test] = 60 + 5 * (time.monotonic() - start)


def judge(mutant, tests):
    """Returns what became of a mutant: killed, survived or not compiled, and
    by which test."""
    text, changed = mutated(mutant)
    file = tests.tree / mutant["file"]
    file.write_text(changed, encoding="utf-8")
    try:
        if words := tests.build(mutant["tests"]):
            error = re.search(r".*\berror: .*", words)
            return "not compiled", error[0] if error else words[-500:]
        for test in mutant["tests"]:
            if failed := tests.run(test, tests.limits[test]):
                return "killed", failed
        return "survived", mutant.get("survives", "")
    finally:
        file.write_text(text, encoding="utf-8")


def known_results():
    results = {}
    if RESULTS.exists():
        for line in RESULTS.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            results[row["name"]] = row
    return results


def main():
    parser = argparse.ArgumentParser(
        usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--tree", type=pathlib.Path,
                        default=ROOT / "build" / "mutation")
    options = parser.parse_args()
    mutants = tomllib.loads(MUTANTS.read_text(encoding="utf-8"))["mutant"]
    if unknown := set(options.only) - {row["name"] for row in mutants}:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    if options.list:
        for row in mutants:
            print(f"{row['name']:24} {row['file']}: {row['breaks']}")
        return 0
    if options.only:
        mutants = [row for row in mutants if row["name"] in options.only]

    before = {} if options.again else known_results()
    kept = [row for row in mutants
            if before.get(row["name"], {}).get("result") == "killed"
            and before[row["name"]]["digest"] == digest(row)]
    todo = [row for row in mutants if row not in kept]
    counts = {"killed": len(kept), "survived": 0, "must survive": 0,
              "not compiled": 0}
    if todo:
        copy_tree(options.tree)
        tests = Tests(options.tree, options.jobs)
        print(f"{len(kept)} were killed before, {len(todo)} to go: building "
              "and running the tests without one", flush=True)
        tests.learn_limits({test for row in todo for test in row["tests"]})
        start = time.monotonic()
        for done, row in enumerate(todo):
            began = time.monotonic()
            result, why = judge(row, tests)
            if result == "survived" and "survives" in row:
                result = "must survive"
            counts[result] += 1
            now = time.monotonic()
            left = (now - start) / (done + 1) * (len(todo) - done - 1)
            print(f"[{done + 1}/{len(todo)}] {row['name']}: {result}: {why} "
                  f"({now - began:.0f} s; {left / 60:.0f} min left)",
                  flush=True)
            with RESULTS.open("a", encoding="utf-8") as results:
                print(json.dumps({"name": row["name"], "result": result,
                                  "by": why, "digest": digest(row)}),
                      file=results)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return min(counts["survived"] + counts["not compiled"], 125)


if __name__ == "__main__":
    sys.exit(main())
