#!/usr/bin/env python3
"""Follows the extension recipes of ARCHITECTURE.md: applies the patches of this
folder, each a toy, to a copy of the tree, builds it and tests the toys. A patch
may change only files that its recipe names, and no more than are listed here.

usage: tests/quality/recipes/run.py [--check] [--tree FOLDER]

  --check  applies the patches; does not build
  --tree   where the copy is; build/recipes
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
# How many files each changes or adds.
FILES = {"dialect": 6, "data_type": 6, "backend": 4, "flag": 2, "metric": 1,
         "rpc": 4}


def git(*arguments, cwd=ROOT, **options):
    return subprocess.run(["git", *arguments], cwd=cwd, check=True, text=True,
                          stdout=subprocess.PIPE, **options).stdout


def patched(name):
    """Returns a patch and the paths that it changes or adds."""
    patch = pathlib.Path(__file__).with_name(f"{name}.patch")
    return patch, re.findall(r"^\+\+\+ b/(.*)$",
                             patch.read_text(encoding="utf-8"), re.M)


def copy_tree(tree, names):
    """Makes the copy the same as these files, but leaves its build folder."""
    tree.mkdir(parents=True, exist_ok=True)
    for path in tree.iterdir():
        if path.is_dir() and path.name != "build":
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()
    for name in names:
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def recipes():
    """Returns the paths that each recipe names."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.split("## Extension recipes")[1].split("\n## ")[0]
    return {
        re.sub(r"\W", "_", name).lower(): [
            path for path in re.findall(r"`([^`]+)`", text) if "/" in path]
        for name, text in re.findall(
            r"^- \*\*An? ([^*]+)\*\*(.*?)(?=^- |\Z)", section, re.M | re.S)}


def apply(tree):
    """Applies the patches; returns the number of faults."""
    faults = 0
    named = recipes()
    for name, allowed in FILES.items():
        patch, paths = patched(name)
        before = {path: (tree / path).is_file() and (tree / path).read_bytes()
                  for path in paths}
        # In the repository around the copy, git would ignore the paths.
        git("apply", "--whitespace=nowarn", str(patch), cwd=tree,
            env=dict(os.environ, GIT_CEILING_DIRECTORIES=str(tree.parent)))
        print(f"{name}: {len(paths)} files: {' '.join(paths)}", flush=True)
        for path in paths:
            if (tree / path).read_bytes() == before[path]:
                print(f"{name}: {path} is unchanged")
                faults += 1
            if not any(path == place or path.startswith(place.rstrip("/") + "/")
                       for place in named.get(name, [])):
                print(f"{name}: its recipe does not name {path}")
                faults += 1
        if len(paths) != allowed:
            print(f"{name}: {len(paths)} files, expected {allowed}")
            faults += 1
    return faults


def build_and_test(tree):
    subprocess.run(["cmake", "--preset", "dev"], cwd=tree, check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "dev", "--target",
                    "topk_conformance_test", "topk_server", "topk_cli"],
                   cwd=tree, check=True)
    binaries = tree / "build" / "dev" / "bin"
    # Every case on every backend, among them the toys.
    subprocess.run([binaries / "topk_conformance_test", "--gtest_brief=1",
                    "--gtest_filter=All/Cases*:CaseFile.*"],
                   cwd=tree, check=True)
    # The one that Debian's packages of gRPC are for.
    subprocess.run(["/usr/bin/python3",
                    pathlib.Path(__file__).with_name("toys_test.py"),
                    binaries / "topkd", binaries / "topk"],
                   env=dict(os.environ,
                            PYTHONPATH=str(tree / "tests/support/python")),
                   check=True)


def main():
    parser = argparse.ArgumentParser(
        usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tree", type=pathlib.Path,
                        default=ROOT / "build" / "recipes")
    options = parser.parse_args()
    options.tree = options.tree.resolve()
    if options.check:
        names = {path for name in FILES for path in patched(name)[1]}
    else:
        names = set(git("ls-files", "-co", "--exclude-standard",
                        "-z").split("\0")) - {""}
    copy_tree(options.tree, sorted(names))
    faults = apply(options.tree)
    if faults == 0 and not options.check:
        build_and_test(options.tree)
    return faults


if __name__ == "__main__":
    sys.exit(main())
