#!/usr/bin/env bash
# Packs topkd and topk into a wheel, installs the wheel into a new virtual
# environment, and checks a server's answer. Exits with 77 if PyPI is unreachable.
#
# usage: tests/clients/package/wheel_test.sh BIN [IMAGE...]
#
# BIN    the folder with the programs
# IMAGE  checks the wheel also in containers of these Debian or Ubuntu images,
#        in which apt installs python3-venv
set -euo pipefail
bin=$(realpath "$1")
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/tools"
if ! "$work/tools/bin/pip" install -q --retries 1 wheel; then
  echo "SKIPPED: pip reaches no package index" >&2
  exit 77
fi
mkdir "$work/wheel"
deploy/wheel.sh "$bin" "$work/wheel"

cat >"$work/wheel/check.sh" <<'END'
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
PATH=$folder/venv/bin:$PATH
pip install -q --no-index --disable-pip-version-check "$1"/topkd-*.whl
topkd --listen 127.0.0.1:0 --log-level warn --ready-file "$folder/ready" &
timeout 30 sh -c "until [ -e '$folder/ready' ]; do sleep 0.1; done"
target=$(sed 's/.*"listen":\["\([^"]*\)".*/\1/' "$folder/ready")
answer=$(printf '3,1,4,1\n' | topk run - --k 2 --target "$target")
[ "$answer" = '[:]  4 @2  3 @0' ] || { echo "wrong answer: $answer" && exit 1; }
kill $!
wait $!
echo "ok: $(topkd --version) on $(. /etc/os-release && echo "$PRETTY_NAME")"
END
env -i PATH=/usr/bin:/bin sh "$work/wheel/check.sh" "$work/wheel"
for image in "$@"; do
  docker run --rm --network host --volume "$work/wheel:/mnt:ro" "$image" sh -c '
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends python3-venv >/dev/null 2>&1
    sh /mnt/check.sh /mnt'
done
