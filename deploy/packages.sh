# shellcheck shell=bash disable=SC2034  # the lists are for those who source it
# The Debian 12 packages that the project needs, and how to get them. Sourced by
# quickstart.sh, tests/run.sh and the Dockerfile's build stage.

# To build topkd and topk.
TOPK_BUILD_PACKAGES=(
  g++ cmake ninja-build pkg-config
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libtbb-dev libspdlog-dev prometheus-cpp-dev libcli11-dev
  nlohmann-json3-dev
)

# To build and run the tests as well: GoogleTest, the Python client's NumPy and
# gRPC, the house rules' formatter and script checker, and what fetches the
# Prometheus that scrapes the server.
TOPK_TEST_PACKAGES=(
  libgtest-dev libgmock-dev
  python3 python3-numpy python3-grpcio python3-protobuf
  clang-format-14 shellcheck git
)

# Installs what is missing of the named packages; says how if it may not.
install_packages() {
  local missing=() package sudo=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null |
      grep -q 'install ok installed' || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then return 0; fi
  if ! command -v apt-get >/dev/null; then
    echo "This needs Debian 12's packages: ${missing[*]}" >&2
    return 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "Not root, and no sudo. As root: apt-get install ${missing[*]}" >&2
      return 1
    fi
    sudo=(sudo)
  fi
  echo "== installing ${missing[*]}" >&2
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}
