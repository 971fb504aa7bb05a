#!/usr/bin/env bash
# Has the reference implementation of Compose's specification read the compose
# file: unknown keys and wrong values are errors. Not part of tests/run.sh: it
# needs Go 1.24 or newer, and the network the first time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../../deploy/compose"
export COMPOSE_PROFILES=envoy GRAFANA_PASSWORD=secret
exec go run github.com/compose-spec/compose-go/v2/cmd@v2.16.2 compose.yaml
