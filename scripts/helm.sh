#!/bin/sh
# Builds the `helm` with which tests and `make manifests` render the chart, once, into the user's cache: some minutes
# of one core. Needs Go; the modules come from wherever Go is told to fetch them.
set -eu
version=${1:-v3.18.4}
home=${XDG_CACHE_HOME:-$HOME/.cache}/bai-lab/helm-${version#v}
[ -x "$home/helm" ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
GOBIN=$work CGO_ENABLED=0 go install -trimpath -ldflags '-s -w' "helm.sh/helm/v3/cmd/helm@$version"
mkdir -p "$home"
mv "$work/helm" "$home/"
