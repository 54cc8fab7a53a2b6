#!/bin/sh
# Builds the Gitea that tests of reviews, webhooks and remotes talk to, once, into the user's cache: a quarter
# of an hour of one core. Needs Go and a C compiler; the modules come from wherever Go is told to fetch them.
set -eu
version=${1:-v1.26.0}
home=${XDG_CACHE_HOME:-$HOME/.cache}/bai-lab/gitea-${version#v}
[ -x "$home/gitea" ] && exit 0
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
found=$(cd "$work" && go mod download -json "code.gitea.io/gitea@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
cp -r "$found" "$work/source"
chmod -R u+w "$work/source"
cd "$work/source"
CGO_ENABLED=1 go build -tags 'sqlite sqlite_unlock_notify' -o "$work/gitea" .
mkdir -p "$home/static"
cp -r templates options public "$home/static/"
mv "$work/gitea" "$home/gitea"
