# shellcheck shell=bash
# Installs the packages of the benchmarks and builds targets in build/bench with
# optimization. Source this file in the repository's root. With --help, it prints
# the comment of the script that sources it.

case "${1:-}" in
  -h | --help)
    (cd "$OLDPWD" && sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0")
    exit 0
    ;;
esac
# shellcheck source=deploy/packages.sh
source deploy/packages.sh
# The Python modules that the folders of tests/ share.
export PYTHONPATH=$PWD/tests/support/python

bench_options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON
  -DCMAKE_UNITY_BUILD_BATCH_SIZE=0)

# build_bench TARGET...
build_bench() {
  install_packages "${TOPK_BUILD_PACKAGES[@]}" libbenchmark-dev libgtest-dev \
    libgmock-dev python3 python3-venv >&2
  echo "== building $*" >&2
  cmake -S . -B build/bench "${bench_options[@]}" >/dev/null
  cmake --build build/bench --target "$@" >&2
}

# install_python PACKAGE...: installs packages from PyPI into $peers_venv.
peers_venv=build/peers
install_python() {
  if [ ! -x "$peers_venv/bin/pip" ]; then
    /usr/bin/python3 -m venv "$peers_venv"
  fi
  echo "== installing $* into $peers_venv" >&2
  "$peers_venv/bin/pip" install -q "$@" >&2
}
