#!/usr/bin/env bash
# Builds examples in build/examples and runs them against a server. Each must
# print what output.txt has. Languages whose tools are absent are skipped: status
# 77. Needs the registries of the languages. The page of web is only built.
#
# usage: client/examples/run.sh TARGET [LANGUAGE...]    LANGUAGE: a folder here
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tools_of() {
  case $1 in
    web) echo npm protoc ;;
    *) echo "no-example-in-$1" ;;
  esac
}
# Builds and runs the example in the current folder.
run_example() {  # run_example LANGUAGE TARGET
  case $1 in
    web) npm install --silent && npm run --silent build ;;
  esac
}

target=$1
shift
[ $# -gt 0 ] || set -- web
mkdir -p build/examples
skipped=
for language; do
  for tool in $(tools_of "$language"); do
    command -v "$tool" >/dev/null && continue
    echo "SKIPPED $language: there is no $tool" >&2
    skipped+=" $language"
    continue 2
  done
  cp -r "client/examples/$language" build/examples/
  (cd "build/examples/$language" && run_example "$language" "$target")
done
[ -z "$skipped" ] || exit 77
