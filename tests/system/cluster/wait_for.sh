# shellcheck shell=bash
# Source this file.

# Polls a command for up to 60 s.
wait_for() {
  for _ in $(seq 120); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.5
  done
  echo "== gave up waiting for: $*" >&2
  return 1
}
