#!/usr/bin/env bash
# Installs a wheel of topkd and topk into a new virtual environment, and checks a
# server's answer. Exits with 77 if packing the wheel needs PyPI, which is
# unreachable.
#
# usage: tests/clients/package/wheel_test.sh BIN|WHEEL [IMAGE...]
#
# BIN    the folder with the programs, which are packed first
# IMAGE  checks the wheel also in containers of these Debian or Ubuntu images,
#        in which apt installs python3-venv
set -euo pipefail
packed=$(realpath "$1")
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/wheel"
if [ -f "$packed" ]; then
  cp "$packed" "$work/wheel"
else
  python3 -m venv "$work/tools"
  if ! "$work/tools/bin/pip" install -q --retries 1 wheel; then
    echo "SKIPPED: pip reaches no package index" >&2
    exit 77
  fi
  deploy/wheel.sh "$packed" "$work/wheel"
fi

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
