#!/usr/bin/env bash
# Packages the Helm chart with a release's image as the default.
#
# usage: package_chart.sh REGISTRY/REPOSITORY@DIGEST FOLDER
#        Needs helm. Prints the path of the package in FOLDER. The chart's links
#        name $GITHUB_REPOSITORY, if set.
set -euo pipefail
[[ ${1:-} =~ ^([^/]+)/([^@]+)@(sha256:[0-9a-f]{64})$ && -n ${2:-} ]] || {
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$(dirname "${BASH_SOURCE[0]}")/helm/topkd" "$work"
# Replace only the first occurrence of each key, which belongs to `image`.
sed -i -e "0,/^  registry: .*/s//  registry: ${BASH_REMATCH[1]}/" \
  -e "0,/^  repository: .*/s||  repository: ${BASH_REMATCH[2]}|" \
  -e "0,/^  digest: .*/s//  digest: ${BASH_REMATCH[3]}/" \
  "$work/topkd/values.yaml"
sed -i "s|OWNER/REPOSITORY|${GITHUB_REPOSITORY:-OWNER/REPOSITORY}|g" "$work"/topkd/{Chart.yaml,README.md}
helm package --destination "$2" "$work/topkd" | sed 's/.*: //'
