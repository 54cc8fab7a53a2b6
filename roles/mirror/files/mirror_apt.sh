#!/bin/sh
# mirror-apt NAME DISTRIBUTION "COMPONENT..." ARCHITECTURE[,...] FOLDER|ADDRESS KEYRING FILTER
# Takes Debian packages from a folder, or copies a source, and publishes them. Says `published` when that changed.
# A source is copied once; `BAI_MIRROR_REFRESH=yes` copies what is new. Versions that were published stay.
set -eu
name=$1 distribution=$2 components=$3 architectures=$4 from=$5 keyring=$6 filter=$7

aptly() { command aptly -config=/etc/bai/aptly.json "$@"; }
signing=-batch
[ "${BAI_MIRROR_SIGNED:-yes}" = yes ] || signing=-skip-signing

published() { aptly publish show "$distribution" "$name" >/dev/null 2>&1; }

listed() { aptly repo show -with-packages "$name" | sed '1,/^Packages:/d'; }

from_folder() {
    aptly repo show "$name" >/dev/null 2>&1 ||
        aptly repo create -distribution="$distribution" -component="${components%% *}" "$name"
    before=$(listed)
    # It says that it adds also what is there already.
    aptly repo add "$name" "$from"
    if ! published; then
        aptly publish repo "$signing" -architectures="$architectures" -distribution="$distribution" "$name" "$name"
        echo published
    elif [ "$(listed)" != "$before" ]; then
        aptly publish update "$signing" "$distribution" "$name"
        echo published
    fi
}

from_source() {
    trust=-ignore-signatures
    [ -z "$keyring" ] || trust=-keyring=$keyring
    if ! aptly mirror show "$name" >/dev/null 2>&1; then
        # shellcheck disable=SC2086  # components are words
        aptly mirror create "$trust" -architectures="$architectures" -filter="$filter" "$name" "$from" "$distribution" $components
    elif published && [ "${BAI_MIRROR_REFRESH:-no}" != yes ]; then
        return
    fi
    aptly mirror update "$trust" "$name"
    snapshot=$name-$(date -u +%Y%m%dT%H%M%SZ)
    aptly snapshot create "$snapshot" from mirror "$name"
    if published; then
        aptly publish switch "$signing" "$distribution" "$name" "$snapshot"
    else
        aptly publish snapshot "$signing" -distribution="$distribution" "$snapshot" "$name"
    fi
    echo published
}

case $from in
/*) from_folder ;;
*) from_source ;;
esac
