#!/usr/bin/env bash
# Creates a folder with the arm64 files that the build needs, from unpacked
# Debian packages. This machine's packages do not change: apt reads the same
# sources into separate lists.
#
# usage: tests/quality/arm64/sysroot.sh FOLDER
set -euo pipefail

folder=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh

if [ -e "$folder/.done" ]; then exit 0; fi
# Remove what an interrupted run has left.
if [ -e "$folder/.begun" ]; then rm -rf "$folder"; fi
mkdir -p "$folder"
touch "$folder/.begun"
# Compilers, code generators and cmake are this machine's. The sysroot has only
# libraries and headers, and the files that their CMake packages need.
packages=(libc6-dev libstdc++-12-dev libgtest-dev libgmock-dev libbenchmark-dev)
for package in "${TOPK_BUILD_PACKAGES[@]}"; do
  case "$package" in
    *-dev) packages+=("$package") ;;
  esac
done

apt="$folder/var/apt"
mkdir -p "$apt"/{lists,cache}/partial "$folder"/usr/{bin,lib}
touch "$apt/status"
ln -sfn usr/lib "$folder/lib"
get=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64
  -o Dir::State="$apt" -o Dir::State::Lists="$apt/lists"
  -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache"
  -o Dir::Cache::archives="$apt/cache" -o APT::Sandbox::User=root
  -o Debug::NoLocking=true)
echo "== unpacking arm64 packages into $folder" >&2
"${get[@]}" update
"${get[@]}" install -y --no-install-recommends --download-only "${packages[@]}"
for deb in "$apt"/cache/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" |
    tar -x -C "$folder" --keep-directory-symlink --no-same-owner \
      --exclude='./usr/share/doc' --exclude='./usr/share/locale' \
      --exclude='./dev'
done
rm -r "$apt"
# gRPC's CMake package needs its code generators, which run on this machine.
for plugin in /usr/bin/grpc_*_plugin; do
  ln -sf "$plugin" "$folder/usr/bin/"
done
mv "$folder/.begun" "$folder/.done"
