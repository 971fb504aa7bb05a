#!/usr/bin/env bash
# Prints a bill of materials in SPDX 2.3 from dpkg's database. In the image's
# build stage, `packages` prints the named header-only packages, which topkd
# contains. In the image, `document` prints the document with all installed
# packages. The CUDA runtime of a build with TOPK_WITH_CUDA is not included.
# usage: sbom.sh packages NAME...
#        sbom.sh document VERSION REVISION CREATED FILE
#        FILE is the output of `packages`.
set -euo pipefail

# Prints an entry for each named package, or for all packages if none is named.
# SPDX identifiers allow only letters, digits, dots and dashes: other characters
# are replaced in the identifiers, and escaped in the package URLs.
packages() {
  local relationship=$1 url release
  shift
  release=$(. /etc/os-release && echo "$VERSION_ID")
  # shellcheck disable=SC2016  # dpkg-query expands them
  printf -v url '%s' 'pkg:deb/debian/${Package}@${Version}' \
    '?arch=${Architecture}&distro=debian-'"$release"
  dpkg-query -W -f 'PackageName: ${Package}
SPDXID: SPDXRef-${Package}
PackageVersion: ${Version}
PackageSupplier: Organization: Debian
PackageDownloadLocation: NOASSERTION
FilesAnalyzed: false
PackageLicenseConcluded: NOASSERTION
PackageLicenseDeclared: NOASSERTION
PackageCopyrightText: NOASSERTION
ExternalRef: PACKAGE-MANAGER purl '"$url"'
Relationship: SPDXRef-topkd '"$relationship"' SPDXRef-${Package}

' "$@" | sed -E '/^(SPDXID|Relationship):/ s/\+/-plus/g
    /^ExternalRef:/ { s/\+/%2B/g; s/@([^?]*):/@\1%3A/ }'
}

case "${1:-}" in
  packages)
    shift
    packages CONTAINS "$@"
    ;;
  document)
    version=$2 revision=$3 created=$4 built_in=$5
    [[ $created == *T*Z ]] || created=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    cat <<END
SPDXVersion: SPDX-2.3
DataLicense: CC0-1.0
SPDXID: SPDXRef-DOCUMENT
DocumentName: topkd-$version
DocumentNamespace: https://spdx.org/spdxdocs/topkd-$version-$revision-${created//:/}
Creator: Tool: dpkg-query
Created: $created

PackageName: topkd
SPDXID: SPDXRef-topkd
PackageVersion: $version
PackageDownloadLocation: NOASSERTION
FilesAnalyzed: false
PackageLicenseConcluded: Apache-2.0
PackageLicenseDeclared: Apache-2.0
PackageCopyrightText: NOASSERTION
Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-topkd

END
    cat "$built_in"
    packages DEPENDS_ON
    ;;
  *)
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
