#!/usr/bin/env bash
# Builds and tests with a current gRPC, in a chroot of Debian 13 with gRPC,
# protobuf and Abseil of Debian experimental (deploy/grpc_current.pins). Treats
# warnings as errors, runs the unit, conformance, integration and hostile tests,
# compiles everything with the chroot's Clang too, and measures servers of both
# gRPC versions alternately with the same client. Needs root. A new chroot needs
# packages of trixie, forky and experimental from the machine's Debian mirror.
# Exits with 77 if they are not available.
#
# usage: tests/quality/grpc_current.sh [--only STEP[,STEP]] [FOLDER]
#
# --only STEP    chroot, build, test, clang, bench
# FOLDER         the chroot, which is kept for the next run
#                (build/grpc_current)
#
# The last step prints a Markdown table for each version and round on stdout.
set -euo pipefail

caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
only='' folder=build/grpc_current
while [ $# -gt 0 ]; do
  case "$1" in
    --only) only=${2:?--only needs a value} && shift 2 ;;
    -*) echo "grpc_current.sh: unknown argument: $1" >&2 && exit 2 ;;
    *) folder=$(cd "$caller" && realpath -m "$1") && shift ;;
  esac
done
folder=$(realpath -m "$folder")

wants() { [[ -z $only || ,$only, == *",$1,"* ]]; }

# Reports why the tests cannot run.
unavailable() {
  echo "grpc_current.sh: a current gRPC cannot be had here: $*" >&2
  exit 77
}

# Runs a shell command in the chroot, with the sources at /src and this
# machine's compiler cache, if any. The mounts are gone when the command exits.
# shellcheck disable=SC2016  # the inner shell expands them
inside() {
  unshare --mount --propagation private bash -euc '
    for path in proc dev; do mount --rbind "/$path" "$1/$path"; done
    mkdir -p "$1/src" "$1/ccache"
    mount --bind "$PWD" "$1/src"
    if [ -n "$3" ]; then mount --bind "$3" "$1/ccache"; fi
    exec chroot "$1" /usr/bin/env -i HOME=/root LANG=C.UTF-8 \
      PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin \
      CCACHE_DIR=/ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache \
      DEBIAN_FRONTEND=noninteractive bash -euc "cd /src; $2"' \
    inside "$folder" "$1" "$cache"
}
cache=$(ccache --get-config cache_dir 2>/dev/null || true)
[ -d "$cache" ] || cache=

make_chroot() {
  local mirror
  [ "$(id -u)" -eq 0 ] || unavailable "a chroot needs root"
  if [ -e "$folder/.packages" ]; then return; fi
  install_packages mmdebstrap || unavailable "no mmdebstrap"
  mirror=$(debian_mirror) || unavailable "apt knows no Debian mirror"
  if [ ! -e "$folder/.debian" ]; then
    echo "== installing Debian 13 in $folder" >&2
    mmdebstrap --mode=root --variant=minbase --include=ca-certificates trixie \
      "$folder" "$mirror" || unavailable "no trixie at $mirror"
    touch "$folder/.debian"
  fi
  cp -L /etc/resolv.conf "$folder/etc/resolv.conf"
  # The settings that this machine's apt needs to reach its mirror.
  cp -r /etc/apt/apt.conf.d "$folder/etc/apt/"
  use_current_grpc "$folder" "$mirror"
  echo "== installing the packages" >&2
  inside 'apt-get update -qq' || unavailable "no forky or experimental"
  inside "apt-get install -y -qq --no-install-recommends \
    ${TOPK_BUILD_PACKAGES[*]} ${packages[*]} >/dev/null" ||
    unavailable "packages are missing at $mirror"
  touch "$folder/.packages"
}

# Like TOPK_TEST_PACKAGES, but without the Python packages of gRPC and protobuf,
# which need a newer Python than Debian 13 has.
packages=(libgtest-dev libgmock-dev libbenchmark-dev python3 python3-numpy
  python3-venv openssl git pkg-config ca-certificates ccache clang)
without='^(bench|client|coverage|deploy|docs|oip|python|servers|soak)[.]'
without+='|^hostile[.]cheap_attacks|^package[.]debian'

make_chroot
inside "dpkg-query -W -f '\${Package} \${Version}\n' libgrpc++-dev \
  libprotobuf-dev libabsl-dev g++ clang" >&2
if wants build || wants test; then
  echo "== building with GCC" >&2
  inside "cmake --preset dev -B /build/dev >/dev/null
    cmake --build /build/dev"
fi
if wants test; then
  echo "== running the tests" >&2
  # Skip the tests of pages, and tests that need gRPC and protobuf for Python.
  inside "ctest --test-dir /build/dev --output-on-failure -j 4 \
    -L '^(unit|conformance|integration)$' -E '$without'"
fi
if wants clang; then
  echo "== building with Clang" >&2
  inside "cmake --preset dev -B /build/clang \
      -DCMAKE_CXX_COMPILER=clang++ >/dev/null
    cmake --build /build/clang"
fi
if wants bench; then
  echo "== measuring servers of both versions with the client of this one" >&2
  inside "cmake -S . -B /build/bench ${bench_options[*]} >/dev/null
    cmake --build /build/bench --target service_bench topk_server"
  for round in 1 2; do
    for version in here current; do
      servers=()
      if [ "$version" = current ]; then servers=(--servers "$folder"); fi
      echo "gRPC: $version, round $round"
      tests/bench/service.sh --only unary stream --seconds 1 "${servers[@]}"
    done
  done
fi
