"""House rules as tests.

usage: tidy.py RULE     one of those below; prints what breaks it, exits 1
       tidy.py --list

Every rule is tested first: it must find a fault in each sample that has one,
and no fault in the correct sample.
"""

import fnmatch
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
SKIPPED = 77  # ctest's SKIP_RETURN_CODE
CODE = (".h", ".cc", ".proto", ".py", ".sh", "CMakeLists.txt", ".ci/run")
TEXT = (*CODE, "Dockerfile", ".dockerignore", ".json", ".yaml", ".yml", ".md",
        ".cases", ".toml")
# Kept as their authors publish them.
OF_OTHERS = ("proto/opentelemetry/",)
FOLDERS = ("proto", "core", "server", "client", "deploy", "tests", ".ci")


def sources():
    """Returns {path: text} of every text file of the project. Does not
    read build folders, virtual environments and the files of others."""
    paths = list(ROOT.iterdir())
    for folder in FOLDERS:
        paths += (ROOT / folder).rglob("*")
    names = {str(path.relative_to(ROOT)): path for path in sorted(paths)}
    return {name: path.read_text(encoding="utf-8")
            for name, path in names.items()
            if name.endswith(TEXT) and path.is_file()
            and not name.startswith(OF_OTHERS)}


def lines(files, *suffixes):
    for name, text in files.items():
        if name.endswith(suffixes):
            for number, line in enumerate(text.split("\n"), 1):
                yield name, number, line


# The allowed includes per folder. The row with the longest path applies.
GRPC = re.compile(r"^(grpc|grpcpp)/|\.grpc\.pb\.h$")
PROTOBUF = re.compile(r"^google/protobuf/|\.pb\.h$")
LOG_OR_METRICS = re.compile(r"^(spdlog|prometheus)/")
STANDARD = re.compile(r"^(\w+|sys/\w+\.h|sched\.h|unistd\.h)$")
PROJECT = ("core", "server", "client", "proto", "tests")
# Each folder of the server may include those before it, so that there is no
# cycle; its root may include all.
SERVER = [f"server/{name}" for name in (
    "transport", "telemetry", "grpc_workarounds", "security", "admission",
    "shared_memory", "calls", "config", "health", "oip")]
_OF_SERVER = ["core/base", "core/engine.h", "core/wire", "core/security",
              "core/command_line", "core/dialects/registry.h",
              "core/backends/registry.h", "proto"]
MAY_INCLUDE = {
    "core/base": ["core/base"],
    "core/plan": ["core/plan", "core/base"],
    "core/backends": ["core/backends", "core/plan", "core/base"],
    "core/dialects": ["core/dialects", "core/plan", "core/base"],
    "core/merge": ["core/merge", "core/plan", "core/base"],
    "core/wire": ["core/wire"],
    "core/security": ["core/security", "core/base"],
    "core/command_line": ["core/command_line", "core/base"],
    "core": ["core"],
    "server": ["server", *_OF_SERVER],
    **{folder: [*SERVER[:i + 1], *_OF_SERVER]
       for i, folder in enumerate(SERVER)},
    "client": ["client", "core/base", "core/command_line", "core/dialects",
               "core/merge", "core/security", "core/wire", "proto"],
    # --local, the bench's check of what the server answers, and whether an
    # engine can be had at all.
    "client/cli/command.cc": ["client", "core/base", "core/command_line",
                              "core/engine.h"],
    "client/cli/run.cc": ["client", "core/base", "core/engine.h"],
    "client/bench/bench.cc": ["client", "core/base", "core/engine.h"],
    "client/bench/request_template.cc": ["client", "core/base",
                                         "core/engine.h"],
}


def below(name, folder):
    return name == folder or name.startswith(folder + "/")


def longest(name, folders):
    found = [folder for folder in folders if below(name, folder)]
    return max(found, key=len, default=None)


def include_direction(files):
    for name, number, line in lines(files, ".h", ".cc"):
        include = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        folder = longest(name, MAY_INCLUDE)
        if not include or folder is None:
            continue
        quote, header = include.groups()
        project = header.split("/")[0] in PROJECT
        bad = project and not any(
            below(header, allowed) for allowed in MAY_INCLUDE[folder])
        # Every path from the root, so that no other form goes unseen.
        bad |= quote == '"' and not project and not PROTOBUF.search(header)
        in_core = folder.startswith("core")
        bad |= folder in ("core/base", "core/plan") and not project and not (
            STANDARD.match(header))
        bad |= in_core and bool(GRPC.search(header))
        bad |= in_core and bool(LOG_OR_METRICS.match(header))
        bad |= folder in ("core/base", "core/plan", "core/backends") and bool(
            PROTOBUF.search(header))
        bad |= name == "client/topk_client.h" and bool(GRPC.search(header))
        if bad:
            yield f"{name}:{number}: {folder} may not include {header}"


def pragma_once(files):
    for name, text in files.items():
        # Highway includes these once for each instruction set.
        guard = ("HWY_TARGET_TOGGLE" if name.endswith("-inl.h")
                 else "\n#pragma once\n")
        if name.endswith(".h") and guard not in text:
            yield f"{name}: no {guard.strip()}"


# A definition in a namespace, which clang-format leaves unindented: a type,
# otherwise the declarator up to its parameters, value or end.
_TYPE = re.compile(r"^(?:enum class|enum|class|struct|union) (\w+)")
_DECLARED = re.compile(
    r"^(?!template|static_assert|return|namespace|using|#|/|\}|\]|\s)"
    r"[\w:<>,&*\[\] ]*?[\s&*>](\w+)(?:\(([^;{]*?)\)|\[| = |\{|;)", re.M)


def _unnamed_namespace_names(text):
    """Yields the names that a file declares in unnamed namespaces; functions
    with their parameters, because overloads may differ in these."""
    for body in re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text,
                           re.M | re.S):
        for line in body.split("\n"):
            if found := _TYPE.match(line):
                yield found[1]
        for found in _DECLARED.finditer(body):
            parameters = re.sub(r"\s+", " ", found[2] or "")
            yield found[1] + (f"({parameters})" if found[2] is not None else "")


# Each of these is one translation unit of the release build.
UNITS = ("core/base", "core/merge", "core/plan", "core/backends/cpu",
         "core/backends/cuda", "core/backends/cuda/device", "core/security",
         "core/wire", "core", "server", "client")
NO_UNITS = ("core/dialects", "client/python")


def unity_names(files):
    """So that files can be compiled together."""
    seen = {}
    for name, text in files.items():
        unit = longest(name, UNITS + NO_UNITS)
        if not name.endswith(".cc") or unit is None or unit in NO_UNITS:
            continue
        for declared in set(_unnamed_namespace_names(text)):
            other = seen.setdefault((unit, declared), name)
            if other != name:
                yield (f"{name}: {other} has {declared} in its unnamed "
                       "namespace too, and the release build compiles both "
                       "as one file")


# Literals that look like a reason and are in no response: names of codes
# and variables, and errors of the start.
_NO_REASONS = re.compile(
    r"TOPKD?_.*|GRPC_.*|OTEL_.*|TLS_.*|TOKENS_FILE|TOKEN_NAME|"
    r"READY_FILE|TOKEN|FILE|FLAG|START|"
    r"INSTRUCTION_SET|NO_CUDA|NO_CUDA_DEVICE|NOT_ON_THIS_BACKEND|"
    r"INVALID_ARGUMENT|NOT_FOUND|ALREADY_EXISTS|PERMISSION_DENIED|"
    r"RESOURCE_EXHAUSTED|FAILED_PRECONDITION")


def error_reasons(files):
    """proto/ERRORS.md has the reasons of the code, and no others."""
    used, page = {}, "proto/ERRORS.md"
    for name, text in files.items():
        if re.match(r"(core/|server/|client/\w+\.)", name) and name.endswith(
                (".h", ".cc")):
            for reason in (re.findall(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"',
                                      text)
                           + re.findall(r'(?:Argument|Unimplemented)\(\s*'
                                        r'"([A-Z]+)"', text)):
                if not _NO_REASONS.fullmatch(reason):
                    used.setdefault(reason, name)
    listed = [reason for line in files.get(page, "").splitlines()
              if line.startswith("| `")
              for reason in re.findall(r"`(\w+)`", line.split("|")[1])]
    for reason in sorted(set(used) - set(listed)):
        yield f"{used[reason]}: {reason} is not in {page}"
    for reason in sorted(set(listed) - set(used)):
        yield f"{page}: {reason} is not in the code"
    for reason in sorted(set(listed)):
        if listed.count(reason) > 1:
            yield f"{page}: {reason} is listed twice"


def versions(files):
    """All that is built has the version of the project."""
    project = re.search(r"project\(\w+ VERSION ([\d.]+)",
                        files.get("CMakeLists.txt", ""))
    for name, text in files.items():
        if name == "tests/quality/tidy/tidy.py":
            continue
        for version in re.findall(
                r"(?m)(?:^ARG VERSION=|^(?:appVersion|version)(?:: | = )[\"']?|"
                r"newTag: \"?|image\.tag=|tags/v|\btopkd(?:-dev)?[:_])"
                r"(\d+\.\d+\.\d+)", text):
            if not project or version != project[1]:
                yield f"{name}: {version} is not the project's version"


def no_output_in_core(files):
    banned = re.compile(
        r"<iostream>|<fstream>|spdlog|std::c(out|err|log)\b|"
        r"\bf?printf\(|\bputs\(|\babort\(|\bassert\(")
    for name, number, line in lines(files, ".h", ".cc"):
        # Result's one precondition is a programmer's error.
        if name == "core/base/status.h" and "std::abort" in line:
            continue
        if name.startswith("core/") and banned.search(line):
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
        listed = re.split(r"[\s()]+", lists.get(folder, ""))
        if "${name}.cc" in listed:  # of a list of test programs
            listed += [word + ".cc" for word in listed]
        # topk_sources() lists folders.
        parent = local.rpartition("/")[0] or "."
        patterns = [word for word in listed if "*" in word]
        # A test's helper header is included, not listed.
        included = name.startswith("tests/") or name.endswith("-inl.h")
        included &= any(
            f'#include "{name}"' in text for text in files.values())
        if not (local in listed or parent in listed or included or any(
                fnmatch.fnmatch(local, word) for word in patterns)):
            yield f"{name}: not in a CMakeLists.txt"


def documented(files):
    """Every class, struct, enum and free function of a header has a ///."""
    symbol = re.compile(
        r"^(?:template <.*>\s*)?(?:\[\[nodiscard\]\] )?"
        r"(?:class|struct|enum(?: class)?) (?:\[\[nodiscard\]\] )?\w+[^;]*$|"
        r"^(?:template <.*>\s*)?(?:\[\[nodiscard\]\] )?"
        r"(?:inline |constexpr |static )*[A-Za-z_:][\w:<>,&* ]*[ &*]"
        r"\w+\((?!.*= default)")
    for name, text in files.items():
        if not name.endswith(".h") or name.startswith("tests/"):
            continue
        text_lines = text.split("\n")
        for number, line in enumerate(text_lines):
            if not symbol.match(line):
                continue
            # Declarations without a blank line between them share one comment.
            above = number
            while above > 0 and text_lines[above - 1].strip():
                above -= 1
            if not any(near.startswith("///")
                       for near in text_lines[above:number]):
                yield f"{name}:{number + 1}: no /// comment: {line}"


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
    for name, number, line in lines(files, *TEXT):
        if marks.search(line):
            yield f"{name}:{number}: {line.strip() or 'trailing space'}"


def no_machine_names(files):
    """Neither a path of somebody's machine nor the host of a package index."""
    # In halves, or this file would break its own rule.
    marks = re.compile(
        r"(^|[^\w.$}])/(" + r"work|home|root|Users)/\w|index" + r"-url|"
        r"://[\w.-]*(pypi|npm|crates|registry|artifact|mirror|proxy)",
        re.IGNORECASE)
    for name, number, line in lines(files, *TEXT):
        if marks.search(line):
            yield f"{name}:{number}: {line.strip()}"


def links(files):
    """The targets of links, and paths from the root in pages, exist."""
    for name, text in files.items():
        if not name.endswith(".md"):
            continue
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
        places = [((ROOT / name).parent, target) for target in re.findall(
            r"\]\((?![a-z]+:)([^)\s]+)\)", prose)]
        places += [(ROOT, target) for target in re.findall(
            r"`((?:%s)/[\w./-]+)`" % "|".join(FOLDERS), prose)]
        for folder, target in places:
            path, _, heading = target.partition("#")
            found = folder / path if path else ROOT / name
            if not (found.resolve().is_relative_to(ROOT) and found.exists()):
                yield f"{name}: no {target}"
            elif heading and heading not in _headings(found):
                yield f"{name}: no such heading: {target}"


def _headings(page):
    """The names that a page's headings have in links."""
    return [re.sub(r"[^\w -]", "", line.lower()).strip().replace(" ", "-")
            for line in page.read_text(encoding="utf-8").split("\n")
            if line.startswith("#")]


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


# Each rule, samples that break it, and one that does not.
RULES = {
    "include_direction": (include_direction, [
        {"server/transport/a.h": '#include "server/calls/call.h"'},
        {"core/plan/a.h": '#include "core/engine.h"'},
        {"core/plan/a.h": '#include "plan.h"'},
        {"core/base/a.h": "#include <tbb/tbb.h>"},
        {"core/backends/cpu/a.cc": '#include "topk/v1/topk.pb.h"'},
        {"core/dialects/a.cc": '#include "topk/v1/topk.grpc.pb.h"'},
        {"core/a.cc": "#include <spdlog/spdlog.h>"},
        {"server/a.cc": '#include "core/plan/plan.h"'},
        {"server/a.cc": '#include "tests/support/oracle.h"'},
        {"client/cli/a.cc": '#include "core/engine.h"'},
        {"client/topk_client.h": "#include <grpcpp/grpcpp.h>"},
    ], {
        "core/base/a.h": "#include <sys/stat.h>\n#include <vector>",
        "core/plan/a.h": '#include "core/base/status.h"',
        "client/cli/run.cc": '#include "core/engine.h"',
    }),
    "pragma_once": (pragma_once, [
        {"core/a.h": "int x;\n"},
        {"core/a-inl.h": "// A.\n#pragma once\n"},
    ], {"core/a.h": "// A.\n#pragma once\n"}),
    "unity_names": (unity_names, [
        {"server/a.cc": "namespace {\nclass A {\n}  // namespace\n",
         "server/b/b.cc": "namespace {\nstruct A;\n}  // namespace\n"},
        {"client/a.cc": "namespace {\nint F(int a) {\n}  // namespace\n",
         "client/b.cc": "namespace {\nint F(int a) {\n}  // namespace\n"},
        {"core/a.cc": "namespace {\nconstexpr int kA = 1;\n}  // namespace\n",
         "core/b.cc": "namespace {\nconst int kA{2};\n}  // namespace\n"},
    ], {"server/a.cc": "namespace {\nint F(int a) {\n}  // namespace\n",
        "server/b.cc": "namespace {\nint F(bool a) {\n}  // namespace\n",
        "client/a.cc": "namespace {\nint F(int a) {\n}  // namespace\n"}),
    "error_reasons": (error_reasons, [
        {"core/a.cc": '"K_MISSING"'},
        {"server/a.cc": 'InvalidArgument(\n    "RANK", "k");'},
        {"proto/ERRORS.md": "| `K_MISSING` | x |"},
        {"proto/ERRORS.md": "| `A_B`, `A_B` | x |", "core/a.cc": '"A_B"'},
    ], {"proto/ERRORS.md": "| `A_B`, `C_D` | `OK` |",
        "core/a.cc": '"A_B"', "server/a.h": '"C_D" "TLS_FILE" "NOT_FOUND"',
        "client/cli/a.cc": '"E_F"'}),
    "versions": (versions, [
        {"CMakeLists.txt": "project(topk VERSION 1.2.3 LANGUAGES CXX)",
         "a.yaml": text} for text in (
             "version: 1.2.4", 'appVersion: "1.2.4"', "  newTag: 1.2.4",
             "image: topkd:1.2.4", "install topkd_1.2.4_amd64.deb",
             "ARG VERSION=1.2.4", 'version = "1.2.4"')
    ], {"CMakeLists.txt": "project(topk VERSION 1.2.3 LANGUAGES CXX)",
        "a.yaml": "version: 1.2.3\nimage: envoy:v1.40.0"}),
    "no_output_in_core": (no_output_in_core, [
        {"core/a.cc": 'std::cout << "x";'},
        {"core/a.cc": 'printf("x");'},
        {"core/a.h": "#include <spdlog/spdlog.h>"},
    ], {"core/a.cc": 'snprintf(b, n, "x"); static_assert(true);'}),
    "no_dead_files": (no_dead_files, [
        {"core/CMakeLists.txt": "b.cc", "core/a.cc": ""},
        {"core/CMakeLists.txt": "b-a.cc", "core/a.cc": ""},
        {"core/CMakeLists.txt": "f(x .)", "core/b/a.cc": ""},
        {"tests/CMakeLists.txt": "", "tests/a.h": ""},
    ], {"core/CMakeLists.txt": "f(x a.cc) g(. b d/*.h)", "core/a.cc": "",
        "core/b/c.cc": "", "core/d/e.h": ""}),
    "documented": (documented, [
        {"core/a.h": "\nint Add(int a, int b);"},
        {"core/a.h": "\n[[nodiscard]] int Add(int a, int b);"},
        {"core/a.h": "\nclass A {"},
        {"core/a.h": "\nenum class A {"},
        {"core/a.h": "\ntemplate <typename T>\nstruct A {"},
        {"core/a.h": "\ntemplate <typename T,\n    int n>\nT Get(A a);"},
    ], {
        "core/a.h": "/// A.\nclass A {\n\nclass B;\n",
        "core/b.h": "/// B.\ntemplate <typename T,\n    int n>\nT Get(A a);",
    }),
    "proto_comments": (proto_comments, [
        {"proto/a.proto": "// A.\nmessage A {\n  int64 b = 1;\n}"},
        {"proto/a.proto": "// A.\nenum A {\n  B = 0;\n}"},
        {"proto/a.proto": "\nmessage A {"},
    ], {"proto/a.proto": "// A.\nmessage A {\n  // B.\n  int64 b = 1;\n}"}),
    "no_leftovers": (no_leftovers, [
        {"core/a.cc": "int x;  "}, {"Dockerfile": "# TO" + "DO: it"},
    ], {"core/a.cc": "int x;"}),
    "no_machine_names": (no_machine_names, [
        {"a.md": "see /ho" + "me/someone/a"},
        {"deploy/a.sh": "pip install --index" + "-url=x"},
        {"Dockerfile": "https://re" + "gistry.example.com/a"},
    ], {"a.md": "https://example.com/home/page $x/work/y"}),
    "links": (links, [
        {"a.md": "[x](b.md)"},
        {"deploy/a.md": "[x](README.md)"},
        {"a.md": "![x\n](deploy/none.png)"},
        {"a.md": "[x](README.md#nowhere)"},
        {"a.md": "[x](../a.md)"},
        {"a.md": "see `tests/none.sh`"},
    ], {"deploy/a.md": "[x](../ARCHITECTURE.md#invariants), `tests/run.sh`\n"
                       "```sh\n[x](none)\n```\n[y](https://example.com/z)"}),
    "clang_format": (clang_format, [
        {"core/a.cc": "int  x ;\n"},
    ], {"core/a.cc": "int x;\n"}),
    "shellcheck": (shellcheck, [
        {"a.sh": "#!/bin/sh\ncd $1\n"},
    ], {"a.sh": '#!/bin/sh\nset -eu\ncd "$1"\n'}),
}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in (*RULES, "--list"):
        print(__doc__)
        sys.exit(2)
    if sys.argv[1] == "--list":
        print("\n".join(RULES))
        return
    rule, bad_samples, good_sample = RULES[sys.argv[1]]
    found = [f"the rule finds nothing in {sample}" for sample in bad_samples
             if not list(rule(sample))]
    found += [f"the rule finds, where all is right: {fault}"
              for fault in rule(good_sample)]
    found += rule(sources())
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
