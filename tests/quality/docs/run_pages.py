"""Runs the commands of pages as a reader would, and compares their output with
the pages.

Each block that harness.py describes runs in the root of a copy of this
repository. `localhost:50051` in a command is replaced by the address of a
server that this program starts. A comment before a block may say

  <!-- needs go protoc -->    skip the block unless these programs exist
  <!-- not run: why -->       always skip the block

usage: run_pages.py --bin FOLDER PAGE...     FOLDER has topkd and topk

Exits with 1 if a block fails, or with 77 if one was skipped because a program
is missing.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile

import harness

HERE = "localhost:50051"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    programs = options.bin.resolve()
    # Debian's python3 comes first, because it has the installed packages.
    environment = dict(os.environ,
                       PATH=f"{programs}:/usr/bin:{os.environ['PATH']}")
    failed = ran = skipped = 0
    with tempfile.TemporaryDirectory() as folder, harness.Server(
            programs / "topkd") as server:
        tree = pathlib.Path(folder) / "tree"
        shutil.copytree(harness.ROOT, tree, symlinks=True,
                        ignore=shutil.ignore_patterns("build", ".git"))
        target = environment["TOPK_TARGET"] = server.target
        for page in options.pages:
            text = page.read_text(encoding="utf-8")
            for block in harness.BLOCK.finditer(text):
                first = block["commands"].splitlines()[0]
                note = block["note"] or ""
                absent = [name for name in note.split()[1:]
                          if note.startswith("needs ")
                          and not shutil.which(name)]
                if absent or note.startswith("not run: "):
                    skipped += bool(absent)
                    why = f"no {', '.join(absent)} here" if absent else note
                    print(f"{'SKIPPED' if absent else 'left out':9} {page}: "
                          f"{first}: {why}", flush=True)
                    continue
                commands = block["commands"].replace(HERE, target)
                wrong = harness.run_block(commands, block["text"], tree,
                                          environment)
                ran += 1
                failed += wrong is not None
                print(f"{'ok' if wrong is None else 'WRONG':9} {page}: {first}",
                      flush=True)
                if wrong is not None:
                    print(wrong, flush=True)
    print(f"{ran} blocks, {failed} wrong, {skipped} skipped")
    if failed or not ran + skipped:
        sys.exit(1)
    sys.exit(harness.SKIPPED if skipped else 0)


if __name__ == "__main__":
    main()
