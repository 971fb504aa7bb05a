"""House rules as tests.

usage: tidy.py RULE     one of those below; prints what breaks it, exits 1
       tidy.py --list

Every rule first proves itself: it must find a fault in a sample that has one.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77  # ctest's SKIP_RETURN_CODE
CODE = (".h", ".cc", ".proto", ".py", ".sh")


def sources():
    """Returns {path: text} of every source file of the project."""
    files = {}
    for folder in ("proto", "core", "server", "client", "deploy", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in CODE or path.name == "CMakeLists.txt":
                files[str(path.relative_to(ROOT))] = path.read_text(
                    encoding="utf-8")
    for name in ("CMakeLists.txt", "Dockerfile", ".ci/run"):
        files[name] = (ROOT / name).read_text(encoding="utf-8")
    return files


def lines(files, *suffixes):
    for name, text in files.items():
        if name.endswith(suffixes):
            for number, line in enumerate(text.split("\n"), 1):
                yield name, number, line


# Who may include what: design by folder. A header's folder is the longest of
# these that it begins with.
GRPC = re.compile(r"^(grpc|grpcpp)/|\.grpc\.pb\.h$")
PROTOBUF = re.compile(r"^google/protobuf/|\.pb\.h$")
LOG_OR_METRICS = re.compile(r"^(spdlog|prometheus)/")
MAY_INCLUDE = {
    "core/base": ["core/base"],
    "core/plan": ["core/plan", "core/base"],
    "core/backends": ["core/backends", "core/plan", "core/base"],
    "core/dialects": ["core/dialects", "core/plan", "core/base"],
    "core": ["core"],
    "server": ["server", "core"],
    # The library; the command in client/cli alone may compute here (--local).
    "client/cli": ["client", "core"],
    "client": ["client", "core/base"],
}


def longest(name, folders):
    found = [folder for folder in folders if name.startswith(folder + "/")]
    return max(found, key=len, default=None)


def include_direction(files):
    for name, number, line in lines(files, ".h", ".cc"):
        include = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        folder = longest(name, MAY_INCLUDE)
        if not include or folder is None:
            continue
        header = include.group(1)
        project = header.split("/")[0] in ("core", "server", "client", "tests")
        bad = project and not any(
            header.startswith(allowed + "/")
            for allowed in MAY_INCLUDE[folder])
        in_core = folder.startswith("core")
        bad |= in_core and bool(GRPC.search(header))
        bad |= in_core and bool(LOG_OR_METRICS.match(header))
        bad |= folder in ("core/base", "core/plan", "core/backends") and bool(
            PROTOBUF.search(header))
        bad |= name == "client/topk_client.h" and bool(GRPC.search(header))
        if bad:
            yield f"{name}:{number}: {folder} may not include {header}"


def eighty_columns(files):
    for name, number, line in lines(files, *CODE, "CMakeLists.txt"):
        whole = ("://", "#include", "option go_package")  # cannot be cut
        if len(line) > 80 and not any(mark in line for mark in whole):
            yield f"{name}:{number}: {len(line)} columns"


def pragma_once(files):
    for name, text in files.items():
        if name.endswith(".h") and "\n#pragma once\n" not in text:
            yield f"{name}: no #pragma once"


def no_output_in_core(files):
    banned = re.compile(
        r"<iostream>|<fstream>|<cstdio>.*//|spdlog|std::c(out|err)\b|"
        r"\bf?printf\(|\bputs\(|\babort\(|\bassert\(")
    for name, number, line in lines(files, ".h", ".cc"):
        # Result's one precondition is a programmer's error.
        if name == "core/base/status.h" and "std::abort" in line:
            continue
        if name.startswith("core/") and banned.search(line):
            yield f"{name}:{number}: {line.strip()}"


def ascii_only(files):
    for name, number, line in lines(files, *CODE):
        # Comments may hold an ellipsis; nothing that a compiler reads may.
        code = line.split("//")[0].split("#")[0]
        if not code.isascii():
            yield f"{name}:{number}: {line.strip()}"


def no_dead_files(files):
    lists = {}
    for name, text in files.items():
        if name.endswith("CMakeLists.txt"):
            lists[name.rpartition("/")[0]] = text
    for name in files:
        if not name.endswith((".h", ".cc", ".proto")):
            continue
        folder = name.rpartition("/")[0]
        while folder and folder not in lists:
            folder = folder.rpartition("/")[0]
        local = name[len(folder) + 1:] if folder else name
        # A test's helper header is included, not listed.
        included = name.startswith("tests/") and any(
            f'"{name}"' in text for text in files.values())
        # A list may name a test's only source without its suffix.
        stem = local.rpartition(".")[0]
        listed = re.search(rf"\b{re.escape(local)}\b|\({re.escape(stem)}\)",
                           lists.get(folder, ""))
        if not listed and not included:
            yield f"{name}: not in a CMakeLists.txt"


def documented(files):
    """Every class, struct, enum and free function of a header has a ///."""
    symbol = re.compile(
        r"^(?:template <.*>\s*)?(?:\[\[nodiscard\]\] )?"
        r"(?:class|struct|enum(?: class)?) (?:\[\[nodiscard\]\] )?\w+[^;]*$|"
        r"^(?:inline |constexpr |static )*[A-Za-z_:][\w:<>,&* ]*[ &*]"
        r"\w+\((?!.*= default)")
    for name, text in files.items():
        if not name.endswith(".h") or name.startswith("tests/"):
            continue
        previous, kept = "", []
        for number, line in enumerate(text.split("\n"), 1):
            top = line and not line[0].isspace()
            if top and symbol.match(line) and not previous.startswith(
                    ("///", "template")):
                # A group of declarations shares one comment.
                if not (kept and kept[-1] == number - 1):
                    yield f"{name}:{number}: no /// comment: {line.strip()}"
            if top and symbol.match(line):
                kept.append(number)
            elif kept and kept[-1] == number - 1 and line.strip():
                kept[-1] = number  # the rest of a declaration
            previous = line


def proto_comments(files):
    element = re.compile(
        r"^\s*(message|enum|service|rpc|oneof|optional|repeated|map<|"
        r"[\w.]+ \w+ = \d+|[A-Z0-9_]+ = -?\d+)")
    for name, text in files.items():
        if not name.endswith(".proto"):
            continue
        previous = ""
        for number, line in enumerate(text.split("\n"), 1):
            if element.match(line) and not previous.strip().startswith("//"):
                yield f"{name}:{number}: no comment: {line.strip()}"
            previous = line


def no_leftovers(files):
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME)\b|[ \t]+$")
    for name, number, line in lines(files, *CODE, "CMakeLists.txt",
                                    "Dockerfile"):
        if marks.search(line):
            yield f"{name}:{number}: {line.strip() or 'trailing space'}"


def _tool(files, suffixes, command, names=()):
    """Runs a tool on the files; yields what it prints if it fails."""
    tool = shutil.which(command[0])
    if tool is None:
        print(f"{command[0]} is not installed: skipped")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        shutil.copy(ROOT / ".clang-format", root)
        chosen = []
        for name, text in files.items():
            if name.endswith(suffixes) or name in names:
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                chosen.append(name)
        result = subprocess.run([tool, *command[1:], *chosen], cwd=root,
                                capture_output=True, text=True, check=False)
    if result.returncode != 0:
        yield result.stdout + result.stderr


def clang_format(files):
    yield from _tool(files, (".h", ".cc"),
                     ["clang-format-14", "--dry-run", "--Werror"])


def shellcheck(files):
    yield from _tool(files, (".sh",), ["shellcheck", "-x", "-P", "SCRIPTDIR"],
                     (".ci/run",))


# Each rule, and a sample that breaks it.
RULES = {
    "include_direction": (include_direction, {
        "core/plan/a.h": '#include "core/engine.h"\n'}),
    "eighty_columns": (eighty_columns, {"core/a.h": "x" * 81}),
    "pragma_once": (pragma_once, {"core/a.h": "int x;\n"}),
    "no_output_in_core": (no_output_in_core, {
        "core/a.cc": 'std::cout << "x";\n'}),
    "ascii_only": (ascii_only, {"core/a.cc": 'f("\u00e4");\n'}),
    "no_dead_files": (no_dead_files, {
        "core/CMakeLists.txt": "b.cc", "core/a.cc": ""}),
    "documented": (documented, {
        "core/a.h": "\nint Add(int a, int b);\n"}),
    "proto_comments": (proto_comments, {
        "proto/a.proto": "// A.\nmessage A {\n  int64 b = 1;\n}\n"}),
    "no_leftovers": (no_leftovers, {"core/a.cc": "int x;  \n"}),
    "clang_format": (clang_format, {"core/a.cc": "int  x ;\n"}),
    "shellcheck": (shellcheck, {"a.sh": "#!/bin/sh\ncd $1\n"}),
}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in (*RULES, "--list"):
        print(__doc__)
        sys.exit(2)
    if sys.argv[1] == "--list":
        print("\n".join(RULES))
        return
    rule, bad_sample = RULES[sys.argv[1]]
    if not list(rule(bad_sample)):
        print(f"{sys.argv[1]} finds nothing in {bad_sample}")
        sys.exit(1)
    found = list(rule(sources()))
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
