#!/usr/bin/env bash
# Builds the examples in build/examples and runs them against a server. Each
# example must print the lines of output.txt. The example `web` is only built.
# Skips languages whose tools are missing, and then exits with status 77. Needs
# the package registries of the languages.
#
# usage: client/examples/run.sh TARGET [LANGUAGE...]    LANGUAGE: a folder here
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tools_of() {
  case $1 in
    go) echo go protoc ;;
    java) echo java mvn ;;
    javascript) echo node npm ;;
    rust) echo cargo protoc ;;
    web) echo npm protoc ;;
    *) echo "example in $1" ;;
  esac
}

# Builds and runs the example in the current folder.
run_example() {  # run_example LANGUAGE TARGET
  case $1 in
    go)
      export GOBIN=$PWD/bin PATH=$PWD/bin:$PATH
      [ -e go.mod ] || go mod init example.com/example
      go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
      go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
      protoc -I ../../../proto ../../../proto/topk/v1/*.proto \
        --go_out=. --go_opt=paths=source_relative \
        --go-grpc_out=. --go-grpc_opt=paths=source_relative
      go mod tidy
      go run . "$2"
      ;;
    java)
      # Maven resets the terminal's colours even without a terminal.
      mvn -q -B compile exec:java -Dexec.args="$2" | sed 's/\x1b\[0m//g'
      ;;
    javascript)
      npm install --silent --no-save @grpc/grpc-js@1 @grpc/proto-loader@0.8 \
        >&2
      node topk.js "$2"
      ;;
    rust) cargo run --quiet -- "http://$2" ;;
    web) npm install --silent >&2 && npm run --silent build >&2 ;;
  esac
}

target=$1
shift
[ $# -gt 0 ] || set -- go java javascript rust web
mkdir -p build/examples
failed='' skipped=''
for language; do
  for tool in $(tools_of "$language"); do
    command -v "$tool" >/dev/null && continue
    echo "$language: skipped, there is no $tool"
    skipped+=" $language"
    continue 2
  done
  cp -r "client/examples/$language" build/examples/
  wanted=client/examples/output.txt
  [ "$language" != web ] || wanted=/dev/null
  if (cd "build/examples/$language" && run_example "$language" "$target") |
    diff - "$wanted" >&2; then
    echo "$language: as expected"
  else
    echo "$language: FAILED"
    failed+=" $language"
  fi
done
[ -z "$failed" ] || exit 1
[ -z "$skipped" ] || exit 77
