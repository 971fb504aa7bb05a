"""House rules as tests.

usage: tidy.py RULE     prints violations of the rule, then exits with 1
       tidy.py --list

Each rule is first tested with a sample that violates it.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
SKIPPED = 77  # ctest's SKIP_RETURN_CODE
TEXT = (".h", ".cc", ".proto", ".py", ".sh", "CMakeLists.txt", "Dockerfile",
        ".yaml", ".yml", ".md", ".toml")
FOLDERS = ("proto", "core", "server", "client", "deploy", "tests")


def sources():
    """Returns {path: text} of the project's text files. Excludes build folders,
    virtual environments and third-party files."""
    paths = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        paths += (ROOT / folder).rglob("*")
    names = {str(path.relative_to(ROOT)): path for path in sorted(paths)}
    return {name: path.read_text(encoding="utf-8")
            for name, path in names.items()
            if name.endswith(TEXT) and path.is_file()
            and not name.startswith("proto/opentelemetry/")
            and "/_stubs/" not in name}


# The headers of the project that a folder may include, besides core/include.
# The row with the longest path applies.
_OF_SERVER = ["core/base", "core/engine.h", "core/common",
              "core/dialects/registry.h", "core/backends/registry.h", "proto"]
# Each folder of the server may include the folders before it, which rules out
# cycles. The root of the server may include all.
SERVER = [f"server/{name}" for name in (
    "threads", "transport", "telemetry", "grpc_workarounds", "security",
    "admission", "shared_memory", "config", "calls", "health", "oip")]
MAY_INCLUDE = {
    "core/include": [],
    "core/base": ["core/base"],
    "core/plan": ["core/plan", "core/base"],
    "core/backends": ["core/backends", "core/plan", "core/base"],
    "core/dialects": ["core/dialects", "core/plan", "core/base"],
    "core/common": ["core/common", "core/base"],
    "core": ["core"],
    "server": ["server", *_OF_SERVER],
    **{folder: [*SERVER[:i + 1], *_OF_SERVER]
       for i, folder in enumerate(SERVER)},
    "client": ["client", "core/base", "core/common", "core/dialects",
               "core/engine.h", "core/plan", "proto"],
}
# The headers of other projects that a folder may not include.
GRPC, PROTOBUF = r"(grpc|grpcpp)/|.*\.grpc\.pb\.h", r"google/|.*\.pb\.h"
MAY_NOT_INCLUDE = {"core": GRPC, "core/base": PROTOBUF, "core/plan": PROTOBUF,
                   "core/backends": PROTOBUF, "client/include": GRPC}


def below(name, folder):
    return name == folder or name.startswith(folder + "/")


def include_direction(files):
    for name, text in files.items():
        folders = [folder for folder in MAY_INCLUDE if below(name, folder)]
        if not folders:
            continue
        for header in re.findall(r'(?m)^#include ["<]([^">]+)[">]', text):
            own = re.match("(core|server|client|proto|tests)/", header)
            if (own and not any(below(header, allowed) for allowed in [
                    "core/include", *MAY_INCLUDE[max(folders, key=len)]])) or (
                        any(below(name, folder) and re.match(pattern, header)
                            for folder, pattern in MAY_NOT_INCLUDE.items())):
                yield f"{name}: may not include {header}"


# Literals that look like reasons but are never in a response: names of codes
# and variables, and startup errors.
_NO_REASONS = re.compile(
    r"TOPKD?_.*|GRPC_.*|OTEL_.*|TLS_(ALLOWED|CLIENT)_.*|TOKENS_FILE|TOKEN_NAME|"
    r"READY_FILE|FLAG|START|LISTEN|CANCELLED|"
    r"INSTRUCTION_SET|NO_CUDA|NO_CUDA_DEVICE|"
    r"INVALID_ARGUMENT|NOT_FOUND|ALREADY_EXISTS|PERMISSION_DENIED|"
    r"RESOURCE_EXHAUSTED|FAILED_PRECONDITION")


def error_reasons(files):
    """proto/ERRORS.md lists exactly the reasons that the code uses."""
    used, page = {}, "proto/ERRORS.md"
    for name, text in files.items():
        if re.match(r"(core/|server/|client/\w+\.)", name) and name.endswith(
                (".h", ".cc")):
            for reason in (re.findall(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"',
                                      text)
                           + re.findall(r'(?:Argument\(|Unimplemented\(|::k\w+,)'
                                        r'\s*"([A-Z]+)"', text)):
                if not _NO_REASONS.fullmatch(reason):
                    used.setdefault(reason, name)
    listed = [reason for line in files.get(page, "").splitlines()
              if line.startswith("| `")
              for reason in re.findall(r"`(\w+)`", line.split("|")[1])]
    for reason in sorted(set(used) - set(listed)):
        yield f"{used[reason]}: {reason} is not in {page}"
    for reason in sorted(set(listed) - set(used)):
        yield f"{page}: {reason} is not in the code"


def versions(files):
    """Packages, charts and pages have the project's version."""
    project = re.search(r"project\(\w+ VERSION ([\d.]+)",
                        files.get("CMakeLists.txt", ""))
    for name, text in files.items():
        for version in re.findall(
                r"(?m)(?:^ARG VERSION=|^(?:appVersion|version)(?:: | = )[\"']?|"
                r"--version |image\.tag=|(?:tags/|tag |download )v|"
                r"\btopk(?:d|d-dev|_client)[:_-])(\d+\.\d+\.\d+)", text):
            if not project or version != project[1]:
                yield f"{name}: {version} is not the project's version"


def links(files):
    """In pages, link targets and paths from the root exist."""
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
    """Returns the anchors of a page's headings."""
    return [re.sub(r"[^\w -]", "", line.lower()).strip().replace(" ", "-")
            for line in page.read_text(encoding="utf-8").split("\n")
            if line.startswith("#")]


def shellcheck(files):
    if shutil.which("shellcheck") is None:
        print("shellcheck is not installed: skipped")
        sys.exit(SKIPPED)
    result = subprocess.run(
        ["shellcheck", "-x", "-P", "SCRIPTDIR",
         *(name for name in files if name.endswith(".sh"))],
        cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        yield result.stdout + result.stderr


# Each rule, with a sample that violates it.
RULES = {
    include_direction: {"core/plan/a.h": '#include "core/engine.h"'},
    error_reasons: {"core/a.cc": '"K_MISSING"'},
    versions: {"a.yaml": "version: 0.0.1"},
    links: {"a.md": "[x](none.md)"},
    shellcheck: None,
}


def main():
    rules = {rule.__name__: rule for rule in RULES}
    if len(sys.argv) != 2 or sys.argv[1] not in (*rules, "--list"):
        print(__doc__)
        sys.exit(2)
    if sys.argv[1] == "--list":
        print("\n".join(rules))
        return
    rule = rules[sys.argv[1]]
    sample = RULES[rule]
    found = list(rule(sources()))
    if sample and not list(rule(sample)):
        found.append(f"the rule finds nothing in {sample}")
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
