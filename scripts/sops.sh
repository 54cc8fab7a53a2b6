#!/bin/sh
# Builds the `sops` and `age-keygen` that tests of secret stores use, once, into the user's cache: some minutes
# of one core. Needs Go; the modules come from wherever Go is told to fetch them.
set -eu
version=${1:-v3.13.2}
home=${XDG_CACHE_HOME:-$HOME/.cache}/bai-lab/sops-${version#v}
[ -x "$home/sops" ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
GOBIN=$work go install "github.com/getsops/sops/v3/cmd/sops@$version"
GOBIN=$work go install filippo.io/age/cmd/age-keygen@v1.3.1
mkdir -p "$home"
mv "$work/age-keygen" "$work/sops" "$home/"
