"""Checks the tables of server/CONFIGURATION.md and the settings that the Helm
chart accepts. With --write, updates them.

usage: configuration.py TOPKD [--write]

The tables have the flags of `topkd --help`, each with the first sentence of its
help text. The chart accepts the same flags, except those of NOT_IN_CHART.
"""

import json
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).parents[3]
PAGE = ROOT / "server/CONFIGURATION.md"
SCHEMA = ROOT / "deploy/kubernetes/helm/topkd/values.schema.json"
# Flags that the templates derive from other values, the flag for unix: sockets,
# which pods do not have (YAML would also read the mode 0660 as 432), and the flag
# for servers on one machine, instead of which a chart has more pods.
NOT_IN_CHART = {
    "listen", "metrics-listen", "health-listen", "drain-delay",
    "drain-timeout", "tls-cert", "tls-key", "tls-client-ca", "tls-client-crl",
    "tls-allowed-san", "auth-tokens-file", "unix-socket-mode", "instances"}
MARK = ("<!-- The rest is written by "
        "tests/quality/docs/configuration.py --write. -->\n")
ENTRY = re.compile(r"  --([a-z0-9-]+) ?(.*?) ?\(Env:(\w+)\)\s*(.*)")
# The value types that CLI11 prints before the default.
TYPES = {"BYTES": "bytes", "DURATION": "seconds", "RATE": "per second",
         "FRACTION": "0 to 1", "ADDRESS": "address", "MODE": "octal mode",
         "NAME": "name", "URL": "URL", "PREFIX": "prefix"}


def value_of(text):
    """Converts CLI11's description of a flag to its value type and default."""
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
    # A number of 19 digits is the largest integer, which means no limit.
    if not default or len(default) == 19:
        return kind
    return f"{kind} (`{default}`)"


def tables(lines):
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


def schema(rows):
    """Returns the chart's schema, with the settings in these rows."""
    names, switches = [], {}
    for row in rows:
        found = re.match(r"\| `--([a-z0-9-]+)` \| (on or off)?", row)
        if found and found[1] not in NOT_IN_CHART:
            names.append(f'"{found[1]}"')
            if found[2]:
                switches[found[1]] = {"type": "boolean"}
    enum = textwrap.fill(", ".join(sorted(names)), 78, break_on_hyphens=False,
                         initial_indent=" " * 8, subsequent_indent=" " * 8)
    return re.sub(
        r'("settings": \{.*?"properties": ).*?(,\n.*?"enum": \[\n).*?(\n *\]\})',
        lambda found: found[1] + json.dumps(switches) + found[2] + enum +
        found[3], SCHEMA.read_text(encoding="utf-8"), count=1, flags=re.S)


def main():
    done = subprocess.run([sys.argv[1], "--help"], check=True,
                          capture_output=True, text=True, env={})
    rows = list(tables(re.sub(r"\n {20,}", " ", done.stdout).splitlines()))
    kept = PAGE.read_text(encoding="utf-8").split(MARK)[0]
    for file, text in ((PAGE, kept + MARK + "\n".join(rows) + "\n"),
                       (SCHEMA, schema(rows))):
        if sys.argv[2:] == ["--write"]:
            file.write_text(text, encoding="utf-8")
        elif file.read_text(encoding="utf-8") != text:
            sys.exit(f"{file} differs from topkd --help; write it again with "
                     "tests/quality/docs/configuration.py TOPKD --write")


if __name__ == "__main__":
    main()
