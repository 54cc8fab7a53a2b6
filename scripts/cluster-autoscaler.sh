#!/bin/sh
# Builds the cluster-autoscaler, with its kwok provider alone, that a test of requests for nodes runs, once,
# into the user's cache: a quarter of an hour of a core or two. Needs Go, and git for its source; modules come
# from wherever Go is told to fetch them. A second word is another repository with this tag, such as a clone on
# this machine.
set -eu
version=${1:-1.36.1}
source=${2:-https://github.com/kubernetes/autoscaler}
home=${XDG_CACHE_HOME:-$HOME/.cache}/bai-lab/cluster-autoscaler-$version
[ -x "$home/cluster-autoscaler" ] && exit 0
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
git -C "$work" init -q
git -C "$work" fetch -q --depth 1 "$source" "refs/tags/cluster-autoscaler-$version"
git -C "$work" archive FETCH_HEAD cluster-autoscaler | tar x -C "$work"
cd "$work/cluster-autoscaler"
CGO_ENABLED=0 GOFLAGS=-mod=mod go build -trimpath -tags kwok -ldflags '-s -w' -o "$work/built" .
mkdir -p "$home"
mv "$work/built" "$home/cluster-autoscaler"
