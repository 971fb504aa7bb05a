# shellcheck shell=bash disable=SC2034  # used by scripts that source this file
# The Debian packages that the project needs, and their installation. Used by
# quickstart.sh, tests/run.sh, tests/quality/grpc_current.sh and the Dockerfile.

# Required to build topkd, topk and their Debian packages.
TOPK_BUILD_PACKAGES=(
  g++ cmake ninja-build
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libtbb-dev libhwy-dev libspdlog-dev prometheus-cpp-dev
  libmicrohttpd-dev
  libcli11-dev nlohmann-json3-dev libssl-dev libzip-dev
  zlib1g-dev libsystemd-dev pkg-config
  dpkg-dev libdebhelper-perl file help2man
)

# The image's libraries for each value of its GRPC argument. Versions are not
# pinned, so that each build gets Debian's security updates.
TOPK_IMAGE_PACKAGES_debian12=(
  libgrpc++1.51 libprotobuf32 libtbb12 libtbbmalloc2 libhwy1 libzip4
  libspdlog1.10 libssl3 libprometheus-cpp-core1.0 libmicrohttpd12 libsystemd0
)
TOPK_IMAGE_PACKAGES_current=(
  libgrpc++1.83 libprotobuf36 libtbb12 libtbbmalloc2 libhwy1t64 libzip5
  libspdlog1.15 libssl3t64 libprometheus-cpp-core1.0 libmicrohttpd12t64
  libsystemd0
)

# Also required to build and run the tests: GoogleTest, the Python clients'
# dependencies, openssl for certificates, git for the pages' tests, HAProxy for
# deploy/haproxy, curl for the commands of deploy/envoy, tools that install and
# check the Debian packages, shellcheck, and Clang for the sanitizers.
TOPK_TEST_PACKAGES=(
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-numpy python3-grpcio python3-protobuf python3-venv
  openssl git
  haproxy curl
  groff-base
  adduser iproute2 systemd lintian
  shellcheck
  clang-14 libclang-rt-14-dev lld llvm-14
)

# Runs a command as root, with sudo if necessary. Fails if there is no sudo.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "Not root, and no sudo. As root, run: $*" >&2
    return 1
  fi
}

# Installs the named packages that are missing, or prints the command to do so.
# Needs neither apt nor root if no package is missing.
install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null |
      grep -q 'install ok installed' || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then return 0; fi
  if ! command -v apt-get >/dev/null; then
    echo "No apt-get here. This needs a machine or container with Debian 12," \
      "and its packages: ${missing[*]}" >&2
    return 1
  fi
  echo "== installing ${missing[*]}" >&2
  as_root apt-get update -qq || {
    echo "Then: apt-get install --no-install-recommends ${missing[*]}" >&2
    return 1
  }
  # Hide dpkg's progress. Errors of apt are on stderr.
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Prints the address of apt's Debian mirror. Fails if there is none.
debian_mirror() {
  # shellcheck disable=SC2016  # apt expands $(SITE)
  apt-get indextargets --format '$(SITE)' 'Created-By: Packages' |
    grep -m1 '/debian/*$'
}

# use_current_grpc FOLDER MIRROR: configures apt in the Debian 13 system in
# FOLDER, so that apt can install a current gRPC from Debian experimental.
# MIRROR may also be the date of a snapshot of Debian's archive.
use_current_grpc() {
  local folder=$1 mirror=$2 options='' suite
  if [[ $mirror == [0-9]* ]]; then
    mirror=http://snapshot.debian.org/archive/debian/$mirror
    # Accept the package lists of a snapshot, which have expired by design.
    options='[check-valid-until=no] '
  fi
  cp "$(dirname "${BASH_SOURCE[0]}")/grpc_current.pins" \
    "$folder/etc/apt/preferences.d/grpc_current"
  for suite in forky experimental; do
    echo "deb $options$mirror $suite main"
  done >"$folder/etc/apt/sources.list.d/grpc_current.list"
}

# Unpacks a package into a folder unless this has been done before. Use this for
# packages that would start a service if they were installed.
unpack_package() {
  local package=$1 folder=$2 deb
  if [ -e "$folder/.$package" ]; then return 0; fi
  echo "== unpacking $package into $folder" >&2
  mkdir -p "$folder"
  # If run by root, apt would switch to a user who cannot write to the folder.
  local get=(apt-get download -qq -o APT::Sandbox::User=root "$package")
  # Update the package lists if the package is not found.
  if ! (cd "$folder" && "${get[@]}" 2>/dev/null); then
    as_root apt-get update -qq
    (cd "$folder" && "${get[@]}")
  fi
  for deb in "$folder/${package}"_*.deb; do
    dpkg -x "$deb" "$folder"
    rm "$deb"
  done
  touch "$folder/.$package"
}
