#!/bin/sh
# Fetches the Keycloak that tests of logins talk to, once, into the user's cache (155 MB): needs Maven, which
# fetches it from wherever it is told to, and Java 17 to run it. `scripts/keycloak.sh start 8081` then has it
# listen at that port of 127.0.0.1 until it is interrupted, with the realm of the tests
# (tests/data/keycloak/lab-realm.json): ada and grace with passwords word-of-ada and word-of-grace, their groups
# vision and admins, and two clients, public and confidential. `scripts/keycloak.sh start 8081 FOLDER` has what it
# knows in files of that folder, where a server before may have left it: its tables, its own realm and that of the
# tests are half of what a start computes.
set -eu
version=26.2.5
sha256=e99e5f8783ea8f1cc04140b7033ea7291ff9898a088f37399b88651d81238f88
here=$(cd "$(dirname "$0")/.." && pwd)
home=${XDG_CACHE_HOME:-$HOME/.cache}/bai-lab/keycloak-$version
artifact=org.keycloak:keycloak-quarkus-dist:$version:tar.gz
if [ ! -x "$home/bin/kc.sh" ]; then
    mkdir -p "$(dirname "$home")"
    work=$(mktemp -d "$home.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    mvn -q -B dependency:copy "-Dartifact=$artifact" "-DoutputDirectory=$work"
    echo "$sha256  $work/keycloak-quarkus-dist-$version.tar.gz" | sha256sum --check --quiet
    tar xzf "$work/keycloak-quarkus-dist-$version.tar.gz" -C "$work"
    mv "$work/keycloak-$version" "$home"
    rm -rf "$work"
    trap - EXIT
fi
[ "${1:-}" = start ] || exit 0
mkdir -p "$home/data/import"
cp "$here/tests/data/keycloak/lab-realm.json" "$home/data/import/"
export JAVA_OPTS_KC_HEAP="-Xms64m -Xmx512m"
# Half of what its start computes is for a long life that it does not have here.
export JAVA_OPTS_APPEND="-XX:TieredStopAtLevel=1 -XX:-UseG1GC -XX:+UseSerialGC"
[ -z "${3:-}" ] || set -- "$1" "$2" "--db-url=jdbc:h2:file:$3/keycloak;NON_KEYWORDS=VALUE;DB_CLOSE_ON_EXIT=FALSE"
exec "$home/bin/kc.sh" start-dev --db=dev-mem --http-host=127.0.0.1 --http-port="${2:-8081}" --import-realm ${3:+"$3"}
