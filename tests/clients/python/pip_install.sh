#!/usr/bin/env bash
# Installs the Python client as a user would, into fresh virtual environments
# below build/, and runs its tests there. Exits with 77 if PyPI is unreachable.
# The sdist is built from the tree and the wheel from the sdist. Both are
# installed without access to protoc or a compiler.
#
# usage: tests/clients/python/pip_install.sh TOPKD [--oldest-and-newest]
#          [--only PART]
#        --oldest-and-newest tests the oldest and newest supported interpreters
#        of this machine instead of python3; the oldest one also builds. --only
#        runs one test, for example calls.
set -euo pipefail
if [ $# -lt 1 ] || [ "$1" = --help ]; then
  sed -n '2,11s/^# \{0,1\}//p' "$0"
  exit 2
fi

# supported_pythons: prints their versions and paths, oldest first.
supported_pythons() {
  local python
  for python in python3 python3.{9..29} \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3; do
    # Debian has ensurepip in a separate package.
    "$python" -c 'if 1:
      import ensurepip, sys, venv
      if sys.version_info >= (3, 9):
        print("%d.%d.%d" % sys.version_info[:3], sys.executable)
      ' 2>/dev/null || true
  done | sort -V
}

topkd=$(realpath "$1")
shift
pythons=(python3)
only='*'
while [[ "${1:-}" = --* ]]; do
  case "$1" in
    --only) only=$2 && shift ;;
    --oldest-and-newest)
      mapfile -t pythons < <(supported_pythons | sed -n '1p;$p' |
        cut -d' ' -f2 | uniq)
      if [ ${#pythons[@]} -eq 0 ]; then
        echo "SKIPPED: no Python of 3.9 or later has venv and ensurepip" >&2
        exit 77
      fi
      ;;
    *) exec "$0" --help ;;
  esac
  shift
done
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

export PYTHONPATH=$PWD/tests/support/python
# Before 3.10, Python forks to start topkd, and some gRPC versions abort the
# child.
export GRPC_ENABLE_FORK_SUPPORT=false

folder=$PWD/build/pip_install
rm -rf "$folder"
# Share one pip among all environments, since installing it takes seconds. The
# pip bundled with a Python may be too old for a newer Python.
pip() { "$folder/tools/bin/python" -m pip --disable-pip-version-check "$@"; }

"${pythons[0]}" -m venv "$folder/tools"
if ! pip install -q --retries 1 --upgrade build pip; then
  echo "SKIPPED: pip reaches no package index" >&2
  exit 77
fi
if "$folder/tools/bin/python" -c 'import sys; exit(sys.version_info < (3, 13))'
then
  echo "SKIPPED: the sdist is built by Python 3.12 or earlier" >&2
  exit 77
fi
"$folder/tools/bin/python" -m build --outdir "$folder" client/python >&2

# An editable install puts its stubs into the source folder.
mkdir -p "$folder/tree/client"
cp -r proto LICENSE "$folder/tree"
cp -r client/python "$folder/tree/client"

# Put failing programs in the place of compilers and protoc.
mkdir "$folder/without"
for program in protoc cc c++ gcc g++ clang clang++; do
  printf '#!/bin/sh\necho "%s was run" >&2\nexit 1\n' "$program" \
    >"$folder/without/$program"
  chmod +x "$folder/without/$program"
done

# install PACKAGE...: into build/pip_install/venv.
install() {
  PATH="$folder/without:$PATH" pip --python "$folder/venv" install -q \
    --no-compile "$@"
}

# installed_files: a checksum of each file of the client, sorted.
installed_files() {
  (cd "$folder"/venv/lib/python*/site-packages &&
    find topk_client -type f -exec sha256sum {} + | sort -k 2)
}

# What some tests need.
optional=(ml_dtypes)
if [ "$only" = '*' ]; then
  optional+=('dask[array]' pandas polars pyarrow)
fi

for python in "${pythons[@]}"; do
  "$python" -m venv --without-pip --clear "$folder/venv"
  echo "== $("$python" --version)" >&2
  install "$folder"/topk_client-*.tar.gz "${optional[@]}"
  installed_files >"$folder/of_sdist"
  # Make the client's dependencies importable, but not the client.
  pip --python "$folder/venv" uninstall -q -y topk_client
  install "$folder"/topk_client-*.whl
  installed_files | diff "$folder/of_sdist" - >&2
  pip --python "$folder/venv" list
  for test in tests/clients/python/client_${only}_test.py; do
    # Its server has a simulated GPU, and only this tree builds it.
    if [[ $test = *_cuda_test.py ]]; then continue; fi
    echo "== $test" >&2
    (cd "$folder" && TOPK_CLIENT=installed venv/bin/python \
      -W error::DeprecationWarning "../../$test" "$topkd")
  done
  install -e "$folder/tree/client/python"
  (cd "$folder" && venv/bin/python -c 'import topk_client
assert "tree" in topk_client.__file__')
  # Triton's client has its own stubs, which must not collide with ours.
  install --no-deps tritonclient==2.47.0 python-rapidjson packaging
  "$folder/venv/bin/python" -c 'import topk_client, tritonclient.grpc'
  "$folder/venv/bin/python" -c 'import tritonclient.grpc, topk_client'
done
