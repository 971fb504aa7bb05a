"""Writes the tables of server/CONFIGURATION.md, or compares them.

usage: configuration.py TOPKD [--write]

The tables have the flags of `topkd --help` and the first sentence of each
text.
"""

import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).parents[2] / "server/CONFIGURATION.md"
MARK = "<!-- The rest is written by tests/docs/configuration.py --write. -->\n"
ENTRY = re.compile(r"  --([a-z0-9-]+) ?(.*?) ?\(Env:(\w+)\)\s*(.*)")
# The descriptions of values that CLI11 prints before the default.
TYPES = {"BYTES": "bytes", "DURATION": "seconds", "RATE": "per second",
         "SHARE": "0 to 1", "ADDRESS": "address", "MODE": "octal mode",
         "NAME": "name", "PREFIX": "prefix"}


def value_of(text):
    """Returns what a flag takes, with its default, of CLI11's description."""
    text = text.removesuffix("...").strip()
    if not text:
        return "on or off (off)"
    takes, _, default = text.partition("=")
    kind = takes.partition(":")[2] or takes
    if kind.startswith("{"):
        kind = ", ".join(f"`{word}`" for word in kind[1:-1].split(","))
    elif kind.startswith("INT in"):
        least, most = re.findall(r"-?\d+", kind)
        kind = (f"{least} to {most}" if len(most) < 19 else f"from {least} on")
    else:
        kind = TYPES.get(kind, "text")
    default = default.strip()
    # A number of 19 digits is the largest one: no limit.
    if default in ("", "[]") or len(default) == 19:
        return kind
    return f"{kind} (`{default}`)"


def tables(topkd):
    done = subprocess.run([topkd, "--help"], check=True, capture_output=True,
                          text=True, env={})
    lines = re.sub(r"\n {20,}", " ", done.stdout).splitlines()
    heading = None
    for line in lines:
        found = ENTRY.fullmatch(line)
        if re.fullmatch(r"[A-Z][\w ]+:", line):
            heading = line[:-1]
        if not found or heading == "Options":
            continue
        if heading is not None:
            yield f"\n## {heading}\n\n| flag | value (default) | meaning |"
            yield "|---|---|---|"
            heading = None
        name, value, variable, text = found.groups()
        assert variable == "TOPKD_" + name.upper().replace("-", "_"), variable
        meaning = re.split(r"\. (?=[A-Z])", text)[0]
        yield f"| `--{name}` | {value_of(value)} | {meaning} |"


def main():
    kept = PAGE.read_text(encoding="utf-8").split(MARK)[0]
    page = kept + MARK + "\n".join(tables(sys.argv[1])) + "\n"
    if sys.argv[2:] == ["--write"]:
        PAGE.write_text(page, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page:
        sys.exit(f"{PAGE} differs from topkd --help; write it again with "
                 "tests/docs/configuration.py TOPKD --write")


if __name__ == "__main__":
    main()
