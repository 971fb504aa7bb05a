#!/usr/bin/env bash
# Signs an image and a file with a key pair, and verifies them without a
# network. A registry on loopback has an image index like BuildKit's. A changed
# byte and the signature of another image must fail.
#
# usage: tests/system/deploy/signature.sh PROGRAM [--no-fetch]
#        Builds cosign and crane in build/tools/signing. The first time takes
#        minutes and needs Go 1.26 or newer and the network. With --no-fetch,
#        exits with 77 (skipped) if the tools are missing.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

tools=$PWD/build/tools/signing
modules=(
  github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3
  github.com/google/go-containerregistry/cmd/crane@v0.22.1
)
if [ "$(cat "$tools/ready" 2>/dev/null)" != "${modules[*]}" ]; then
  if [ "${2:-}" = --no-fetch ]; then
    echo "SKIPPED: signatures are not checked: there is no cosign;" \
      "tests/system/deploy/signature.sh fetches it" >&2
    exit 77
  fi
  for module in "${modules[@]}"; do
    echo "== building $module" >&2
    GOBIN=$tools go install "$module"
  done
  echo "${modules[*]}" >"$tools/ready"
fi
PATH=$tools:$PATH
work=$(mktemp -d)
registry=
cleanup() {
  if [ -n "$registry" ]; then kill "$registry" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work"

# Verify without a network, if this user can create a network namespace.
offline=()
if unshare --net true 2>/dev/null; then offline=(unshare --net); fi
verify_image() {  # verify_image KEY BUNDLE
  "${offline[@]}" cosign verify-blob-attestation --key "$1" --bundle "$2" \
    --insecure-ignore-tlog --type https://sigstore.dev/cosign/sign/v1 \
    "layout/blobs/sha256/${digest#sha256:}"
}
verify_blobs() (
  cd layout/blobs/sha256
  for blob in *; do echo "$blob  $blob"; done | sha256sum --check --quiet
)
verify_file() {  # verify_file KEY FILE
  "${offline[@]}" cosign verify-blob --key "$1" --insecure-ignore-tlog \
    --bundle file.sigstore.json "$2"
}
rejects() {  # rejects MESSAGE COMMAND...
  local message=$1
  shift
  if "$@" >out 2>&1 || ! grep -q "$message" out; then
    echo "not rejected with '$message': $*" >&2
    cat out >&2
    exit 1
  fi
}
change_a_byte() {
  printf '\xff' | dd of="$1" bs=1 seek=99 conv=notrunc status=none
}

touch log
crane registry serve --address 127.0.0.1:0 2>log &
registry=$!
for _ in $(seq 100); do
  port=$(sed -n 's/.*serving on port //p' log)
  if [ -n "$port" ]; then break; fi
  sleep 0.1
done
image=127.0.0.1:$port/topkd
mkdir -p layer/usr/bin
cp "$program" layer/usr/bin/topkd
tar -C layer -cf layer.tar .
echo '{"predicateType": "https://slsa.dev/provenance/v1"}' >provenance.json
tar -cf provenance.tar provenance.json
{
  crane append --oci-empty-base -f layer.tar -t "$image:program"
  crane append --oci-empty-base -f provenance.tar -t "$image:provenance"
  crane index append -m "$image:program" -m "$image:provenance" -t "$image:1"
} >/dev/null 2>&1
digest=$(crane digest "$image:1")

# Run the commands of the page with an empty password.
export COSIGN_PASSWORD=
cosign generate-key-pair 2>/dev/null
cosign signing-config create --out no_log.json
sign() {  # sign DIGEST BUNDLE
  cosign sign --yes --key cosign.key --signing-config no_log.json \
    --bundle "$2" "$image@$1" 2>/dev/null
}
sign "$digest" topkd.sigstore.json
sign "$(crane digest "$image:program")" other.sigstore.json
cosign sign-blob --yes --key cosign.key --signing-config no_log.json \
  --bundle file.sigstore.json layer.tar 2>/dev/null
cosign verify --key cosign.pub --insecure-ignore-tlog "$image@$digest" \
  >/dev/null 2>&1
echo "the registry has the signature of $digest"
crane pull --format=oci "$image@$digest" layout
crane push layout "$image:copy" >/dev/null 2>&1
[ "$(crane digest "$image:copy")" = "$digest" ]
kill "$registry"
wait "$registry" || true
registry=

verify_image cosign.pub topkd.sigstore.json 2>/dev/null
verify_blobs
verify_file cosign.pub layer.tar 2>/dev/null
echo "without a network: the image's index, its" \
  "$(find layout/blobs -type f | wc -l) blobs and a file are verified"

rejects 'do not match' verify_image cosign.pub other.sigstore.json
layer=$(find layout/blobs -size +100k)
change_a_byte "$layer"
rejects FAILED verify_blobs
change_a_byte "layout/blobs/sha256/${digest#sha256:}"
rejects 'do not match' verify_image cosign.pub topkd.sigstore.json
echo "rejected: the signature of another image, changed bytes"
